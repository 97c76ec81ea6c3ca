"use strict";
(function () {
  const look = JSON.parse(document.getElementById("look").textContent);
  const form = document.getElementById("filters");
  const claims = Array.from(document.querySelectorAll(".claim"));
  const narrow = () => window.matchMedia("(max-width: 720px)").matches;

  // On a narrow screen panels stand one below the other, the title is broken into lines and the legend lies below.
  function fitNarrow(layout) {
    layout.font = Object.assign({ size: 12 }, layout.font);
    const words = ((layout.title || {}).text || "").split("<br>").flatMap((line) => broken(line, 40));
    layout.title = Object.assign({}, layout.title, { text: words.join("<br>"), font: { size: 14 }, y: 1, yref: "container", yanchor: "top", pad: { t: 14 } });
    layout.margin = Object.assign({ l: 56, r: 12, b: 56 }, { t: words.join("") ? 52 + 18 * words.length : 28 });
    layout.legend = Object.assign({}, layout.legend, { orientation: "h", x: 0, xanchor: "left", y: 0, yanchor: "bottom", yref: "container" });
    const panels = Object.keys(layout)
      .filter((key) => /^xaxis\d*$/.test(key) && (layout[key].domain || layout[key].anchor))
      .map((key) => ({ x: layout[key], y: layout["yaxis" + (layout[key].anchor || key.slice(4)).slice(1)] }));
    const whole = panels.every((panel) => panel.x.domain && panel.y && panel.y.domain);
    const number = Math.max(1, whole ? panels.length : 1);
    const legend = 70;
    if (number > 1) {
      const names = (layout.annotations || []).map((note) => [note, panels.find((panel) => isAbove(note, panel))]);
      const size = (1 - 0.1 * (number - 1)) / number; // a tenth between two panels, for the title and ticks
      panels.sort((one, other) => other.y.domain[1] - one.y.domain[1] || one.x.domain[0] - other.x.domain[0]);
      const titles = ["x", "y"].map((axis) => (panels.map((panel) => panel[axis].title).find((title) => title && title.text) || {}));
      panels.forEach((panel, place) => {
        const top = 1 - place * (size + 0.1);
        Object.assign(panel.x, { domain: [0, 1], showticklabels: true, title: titles[0] });
        Object.assign(panel.y, { domain: [top - size, top], showticklabels: true, title: titles[1] });
      });
      for (const [note, panel] of names) {
        if (panel) {
          Object.assign(note, { x: 0.5, xanchor: "center", y: panel.y.domain[1], yanchor: "bottom" });
        }
      }
      layout.height = 260 * number + layout.margin.t + legend;
    } else {
      layout.height = 380 + layout.margin.t;
    }
    layout.margin.b = 40 + legend;
  }

  function isAbove(note, panel) {
    const middle = (panel.x.domain[0] + panel.x.domain[1]) / 2;
    return Math.abs(note.x - middle) < 0.02 && Math.abs(note.y - panel.y.domain[1]) < 0.02;
  }

  function broken(line, width) {
    const lines = [""];
    for (const word of line.split(" ")) {
      const longer = (lines[lines.length - 1] + " " + word).trim();
      if (longer.length > width && lines[lines.length - 1]) {
        lines.push(word);
      } else {
        lines[lines.length - 1] = longer;
      }
    }
    return lines;
  }

  // Figures are drawn when their card is opened: a hundred at once would take seconds.
  function draw(card) {
    for (const place of card.querySelectorAll(".figure:not([data-drawn])")) {
      const figure = JSON.parse(document.getElementById(place.dataset.figure).textContent);
      const layout = Object.assign({}, figure.layout, { template: look.template, autosize: true });
      delete layout.width;
      if (narrow()) {
        fitNarrow(layout);
      }
      place.dataset.drawn = "yes";
      Plotly.newPlot(place, figure.data, layout, Object.assign({}, look.config, narrow() ? { displayModeBar: false } : {}));
    }
  }

  for (const card of claims) {
    card.addEventListener("toggle", () => card.open && draw(card));
  }

  function filter() {
    const wanted = new FormData(form);
    const words = String(wanted.get("text") || "").toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const card of claims) {
      const matches =
        (!wanted.get("status") || card.dataset.status === wanted.get("status")) &&
        (!wanted.get("expected") || card.dataset.expected === wanted.get("expected")) &&
        (!wanted.get("paper") || card.dataset.paper === wanted.get("paper")) &&
        (!wanted.get("surprises") || card.dataset.surprise === "yes") &&
        words.every((word) => card.dataset.text.includes(word));
      card.hidden = !matches;
      shown += matches ? 1 : 0;
    }
    for (const paper of document.querySelectorAll(".paper")) {
      paper.hidden = !paper.querySelector(".claim:not([hidden])");
    }
    document.getElementById("nothing").hidden = shown > 0;
    form.elements.shown.value = shown + " of " + claims.length + " shown";
  }

  // A link to a claim opens it, whatever the filters say.
  function follow() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.classList.contains("claim")) {
      if (target.hidden) {
        form.reset();
        filter();
      }
      target.open = true;
      draw(target);
      target.scrollIntoView();
    }
  }

  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", follow);
  filter();
  follow();
})();
