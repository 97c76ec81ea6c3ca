"use strict";

// The page's own parts for Dash, and what happens in the browser only: address, light and dark, width.
(function () {
  const h = React.createElement;
  const NARROW = "(max-width: 560px)";
  const PAUSE = 110; // milliseconds between two values of a slider that is being dragged
  const TYPING = 450; // milliseconds after the last key

  function rounded(value, spec) {
    if (spec.kind === "whole") return Math.round(value);
    return Number(value.toPrecision(spec.digits));
  }

  function valueAt(place, spec) { // place from 0 to 1000
    const share = place / 1000;
    const value = spec.log ? spec.low * Math.pow(spec.high / spec.low, share) : spec.low + (spec.high - spec.low) * share;
    return Math.min(spec.high, Math.max(spec.low, rounded(value, spec)));
  }

  function placeOf(value, spec) {
    const share = spec.log ? Math.log(value / spec.low) / Math.log(spec.high / spec.low)
      : (value - spec.low) / (spec.high - spec.low);
    return Math.round(1000 * share);
  }

  function shown(value) {
    return Number(value).toLocaleString("en", { maximumSignificantDigits: 4 });
  }

  // One step of the keyboard: a hundredth of the range, and at least the next whole number.
  function stepped(value, spec, steps) {
    const next = valueAt(Math.min(1000, Math.max(0, placeOf(value, spec) + 10 * steps)), spec);
    if (spec.kind === "whole" && next === value) {
      return Math.min(spec.high, Math.max(spec.low, value + Math.sign(steps)));
    }
    return next;
  }

  const KEYS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 };

  function useSent(value, setProps, pause) {
    const [now, setNow] = React.useState(value);
    const timer = React.useRef(null);
    const waiting = React.useRef(null);
    React.useEffect(() => { if (timer.current === null) setNow(value); }, [JSON.stringify(value)]);
    React.useEffect(() => () => clearTimeout(timer.current), []);
    function send(next) {
      setNow(next);
      waiting.current = { value: next };
      if (pause === TYPING) clearTimeout(timer.current);
      if (timer.current === null || pause === TYPING) {
        const fire = () => {
          timer.current = null;
          if (waiting.current) {
            const last = waiting.current.value;
            waiting.current = null;
            if (pause !== TYPING) timer.current = setTimeout(fire, pause);
            setProps({ value: last });
          }
        };
        if (pause === TYPING) timer.current = setTimeout(fire, pause);
        else fire();
      }
    }
    return [now, send];
  }

  // η_Y with a real index.
  function worded(label) {
    const parts = label.split(/(?<=[^\x00-\x7F])_([A-Za-z])/);
    return parts.map((part, k) => (k % 2 ? h("sub", { key: k }, part) : part));
  }

  function Range(spec, id, now, send, vertical, name) {
    return h("input", {
      id, type: "range", min: 0, max: 1000, step: 1, value: placeOf(now, spec), className: vertical ? "upright" : "",
      name: spec.name, "aria-label": name, "aria-valuetext": shown(now) + (spec.unit ? " " + spec.unit : ""),
      onChange: (event) => send(valueAt(Number(event.target.value), spec)),
      onKeyDown: (event) => {
        const steps = KEYS[event.key];
        const end = event.key === "Home" ? spec.low : event.key === "End" ? spec.high : null;
        if (steps === undefined && end === null) return;
        event.preventDefault();
        send(end === null ? stepped(now, spec, steps) : end);
      },
    });
  }

  function Slider(props) {
    const spec = props.spec;
    const typed = spec.kind === "text";
    const [now, send] = useSent(props.value, props.setProps, typed ? TYPING : PAUSE);
    const id = "control-" + spec.name;
    const help = spec.says ? h("small", { id: id + "-help" }, worded(spec.says)) : null;
    if (spec.kind === "bars") {
      const one = Object.assign({}, spec, { kind: "number", digits: 2 });
      const total = now.reduce((sum, value) => sum + value, 0) || 1;
      return h("fieldset", { className: "control bars", id }, h("legend", null, spec.label), help,
        h("div", { className: "upright-row" }, spec.names.map((name, k) => h("label", { key: name },
          h("output", null, spec.shares ? Math.round(100 * now[k] / total) + " %" : shown(now[k])),
          Range(one, id + "-" + k, now[k], (value) => send(now.map((old, j) => (j === k ? value : old))), true, name),
          h("span", null, name)))));
    }
    let field;
    if (spec.kind === "number" || spec.kind === "whole") {
      return h("div", { className: "control slider" },
        h("label", { htmlFor: id }, h("span", null, worded(spec.label)),
          h("output", { htmlFor: id }, shown(now) + (spec.unit && spec.unit.length < 9 ? " " + spec.unit : ""))),
        Range(spec, id, now, send, false, spec.label), help);
    }
    if (spec.kind === "choice") {
      field = h("select", { id, name: spec.name, value: now, onChange: (event) => send(event.target.value) },
        spec.options.map(([value, words]) => h("option", { key: value, value }, words)));
    } else if (spec.kind === "flag") {
      field = h("input", { id, name: spec.name, type: "checkbox", checked: !!now, onChange: (event) => send(event.target.checked) });
    } else if (spec.rows > 1) {
      field = h("textarea", { id, name: spec.name, rows: spec.rows, value: now, spellCheck: false, onChange: (event) => send(event.target.value) });
    } else {
      field = h("input", { id, name: spec.name, type: "text", value: now, spellCheck: false, autoComplete: "off",
        onChange: (event) => send(event.target.value),
        onKeyDown: (event) => { if (event.key === "Enter") event.preventDefault(); } });
    }
    return h("div", { className: "control " + spec.kind }, h("label", { htmlFor: id }, spec.label), field, help);
  }

  function element(tree, key) {
    const [tag, attributes, text, children] = tree;
    return h(tag, Object.assign({ key }, attributes), text || null, children.map(element));
  }

  function Formula(props) {
    return props.tree ? element(props.tree, 0) : h("code", null, props.latex);
  }

  function Copy(props) {
    const [said, say] = React.useState("");
    const copy = () => navigator.clipboard.writeText(props.text)
      .then(() => say("Copied."), () => say("The browser refused; the lines are below."));
    return h("p", { className: "copy" },
      h("button", { type: "button", id: props.id, onClick: copy }, props.label), h("span", { role: "status" }, said));
  }

  window.foretrain_explore = { Slider, Formula, Copy };

  // Light and dark: as the system says, unless the switch was used.
  const THEMES = ["system", "light", "dark"];
  function stored() {
    try { return localStorage.getItem("foretrain-theme") || "system"; } catch (error) { return "system"; }
  }
  function isDark() {
    const chosen = stored();
    return chosen === "dark" || (chosen === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  }
  function paint() {
    document.documentElement.dataset.theme = isDark() ? "dark" : "light";
    const button = document.getElementById("theme");
    if (button) button.textContent = { system: "Light/dark: system", light: "Light", dark: "Dark" }[stored()];
  }
  paint();

  const tab = Math.random().toString(36).slice(2);
  function screen() {
    return { dark: isDark(), narrow: matchMedia(NARROW).matches, tab };
  }
  function tell() {
    paint();
    if (window.dash_clientside && dash_clientside.set_props) dash_clientside.set_props("screen", { data: screen() });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
  matchMedia(NARROW).addEventListener("change", tell);

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    explore: {
      screen: function (clicks) {
        if (clicks) {
          const next = THEMES[(THEMES.indexOf(stored()) + 1) % THEMES.length];
          try { localStorage.setItem("foretrain-theme", next); } catch (error) { /* then it lasts as long as the page */ }
        }
        paint();
        return screen();
      },
      computed: function (key) {
        if (key) dash_clientside.set_props("worked", { data: key });
        return "";
      },
      remember: function (address) {
        if (!address) return "";
        const wanted = address.path + (address.query ? "?" + address.query : "");
        const here = location.pathname === "/" ? address.path : location.pathname;
        if (here === address.path && location.pathname + location.search !== wanted) {
          history.replaceState(history.state, "", wanted);
        }
        document.title = address.title + " · foretrain explorer";
        for (const link of document.querySelectorAll("header nav a")) {
          const own = new URL(link.href).pathname === address.path;
          if (!own) {
            link.removeAttribute("aria-current");
          } else if (!link.hasAttribute("aria-current")) {
            link.setAttribute("aria-current", "page");
            link.parentElement.scrollLeft = link.offsetLeft - 40;
          }
        }
        return "";
      },
    },
  });
})();
