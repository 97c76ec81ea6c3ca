"use strict";
(function () {
  const look = JSON.parse(document.getElementById("look").textContent);
  const form = document.getElementById("filters");
  const claims = Array.from(document.querySelectorAll(".claim"));

  // A figure is drawn when its card is opened or its story scrolled to: drawing a hundred at once takes seconds.
  function draw(card) {
    for (const place of card.querySelectorAll(".figure:not([data-drawn])")) {
      const figure = JSON.parse(document.getElementById(place.dataset.figure).textContent);
      const layout = Object.assign({}, figure.layout, { template: look.template, autosize: true });
      delete layout.width;
      if (isNarrow()) {
        fitNarrow(layout, figure.data);
      }
      place.dataset.drawn = "yes";
      Plotly.newPlot(place, figure.data, layout, Object.assign({}, look.config, isNarrow() ? { displayModeBar: false } : {}));
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
        (!wanted.get("whose") || card.dataset.whose === wanted.get("whose")) &&
        (!wanted.get("erratum") || card.dataset.erratum === "yes") &&
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

  // A link to a claim, or to its correction, opens its card, even if the filters hide it.
  function follow() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const card = target && target.closest(".claim");
    if (card) {
      if (card.hidden) {
        form.reset();
        filter();
      }
      card.open = true;
      draw(card);
      target.scrollIntoView();
    }
  }

  const pictures = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        draw(entry.target);
        pictures.unobserve(entry.target);
      }
    }
  }, { rootMargin: "300px" });
  document.querySelectorAll(".picture").forEach((picture) => pictures.observe(picture));

  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", follow);
  filter();
  follow();
})();
