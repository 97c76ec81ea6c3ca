"use strict";

function isNarrow() {
  return window.matchMedia("(max-width: 900px)").matches;
}

// On a narrow screen, stack the panels, wrap the title, and put the legend below.
function fitNarrow(layout, data) {
  layout.font = Object.assign({ size: 12 }, layout.font);
  const title = layout.title || {};
  const words = lines(title.text, 44);
  const small = lines(((title.subtitle || {}).text || "").replaceAll("<br>", " "), 52);
  layout.title = Object.assign({}, title, {
    text: words.join("<br>"), font: { size: 14 }, pad: { t: 14, l: 14 },
    x: 0, xref: "container", xanchor: "left", y: 1, yref: "container", yanchor: "top",
    subtitle: { text: small.join("<br>"), font: { size: 12 } },
  });
  layout.margin = { l: 56, r: 12, t: words.length ? 52 + 18 * words.length + 16 * small.length : 28 };
  const legendTitle = Object.assign({}, (layout.legend || {}).title, { side: "top" });
  layout.legend = Object.assign({}, layout.legend, {
    orientation: "h", x: 0, xanchor: "left", y: 0, yanchor: "bottom", yref: "container", title: legendTitle,
  });
  const panels = Object.keys(layout)
    .filter((key) => /^xaxis\d*$/.test(key) && (layout[key].domain || layout[key].anchor))
    .filter((key) => data.some((trace) => (trace.xaxis || "x") === "x" + key.slice(5))) // a last row may have gaps
    .map((key) => ({ x: layout[key], y: layout["yaxis" + (layout[key].anchor || key.slice(4)).slice(1)] }));
  const whole = panels.every((panel) => panel.x.domain && panel.y && panel.y.domain);
  const number = Math.max(1, whole ? panels.length : 1);
  const shown = layout.showlegend !== false;
  const legend = shown ? Math.max(70, 40 + 20 * (legendRows(data) + (legendTitle.text ? 1 : 0))) : 20;
  if (number > 1) {
    const names = (layout.annotations || []).map((note) => [note, panels.find((panel) => isAbove(note, panel))]);
    const gap = 90 / (290 * number); // room between two panels for the ticks and title of one and the name of the next
    const size = (1 - gap * (number - 1)) / number;
    panels.sort((one, other) => other.y.domain[1] - one.y.domain[1] || one.x.domain[0] - other.x.domain[0]);
    const titles = ["x", "y"].map((axis) => (panels.map((panel) => panel[axis]).find(titled) || {}).title || {});
    panels.forEach((panel, place) => {
      const top = 1 - place * (size + gap);
      Object.assign(panel.x, { domain: [0, 1] }, titled(panel.x) ? {} : { showticklabels: true, title: titles[0] });
      Object.assign(panel.y, { domain: [top - size, top] }, titled(panel.y) ? {} : { showticklabels: true, title: titles[1] });
    });
    for (const [note, panel] of names) {
      if (panel) {
        Object.assign(note, { x: 0.5, xanchor: "center", y: panel.y.domain[1], yanchor: "bottom", font: { size: 12 } });
      }
    }
    layout.height = 290 * number + layout.margin.t + legend;
  } else {
    layout.height = Math.max(310, (layout.height || 0) - 190) + layout.margin.t + legend;
  }
  layout.margin.b = 40 + legend;
}

// An axis with a title of its own keeps it, and its numbers; the others share those of a neighbour on a wide screen.
function titled(axis) {
  return Boolean(axis.title && axis.title.text);
}

function isAbove(note, panel) {
  const middle = (panel.x.domain[0] + panel.x.domain[1]) / 2;
  return Math.abs(note.x - middle) < 0.02 && Math.abs(note.y - panel.y.domain[1]) < 0.02;
}

// The legend has columns as wide as its longest name.
function legendRows(data) {
  const names = data.filter((trace) => trace.showlegend !== false).map((trace) => trace.name || "");
  const longest = Math.max(0, ...names.map((name) => name.length));
  return Math.ceil(names.length / Math.max(1, Math.floor((0.85 * window.innerWidth) / (45 + 7 * longest))));
}

function lines(text, width) {
  return (text || "").split("<br>").filter(Boolean).flatMap((line) => broken(line, width));
}

function broken(line, width) {
  const parts = [""];
  for (const word of line.split(" ")) {
    const longer = (parts[parts.length - 1] + " " + word).trim();
    if (longer.length > width && parts[parts.length - 1]) {
      parts.push(word);
    } else {
      parts[parts.length - 1] = longer;
    }
  }
  return parts;
}
