"use strict";
(function () {
  const look = JSON.parse(document.getElementById("look").textContent);
  const form = document.getElementById("filters");
  const claims = Array.from(document.querySelectorAll(".claim"));
  const groups = Array.from(document.querySelectorAll(".group"));
  const stories = Array.from(document.querySelectorAll(".story"));
  // Whatever else speaks about a claim: errata, findings and figures. A correction shares the card of what it corrects.
  const mentions = Array.from(document.querySelectorAll("[data-claim]"), (place) => ({
    place,
    card: document.getElementById(place.dataset.claim).closest(".claim"),
    text: place.matches(".drawing") ? "" : place.textContent.toLowerCase() + " " + place.dataset.claim,
  }));
  const openAtFirst = new Map(groups.map((group) => [group, group.open]));

  // A figure is drawn when it comes into view: drawing a hundred at once takes seconds.
  const figures = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        figures.unobserve(entry.target);
        draw(entry.target);
      }
    }
  }, { rootMargin: "300px" });
  document.querySelectorAll(".figure").forEach((place) => figures.observe(place));

  function draw(place) {
    const figure = JSON.parse(document.getElementById(place.dataset.figure).textContent);
    const layout = Object.assign({}, figure.layout, { template: look.template, autosize: true });
    delete layout.width;
    if (isNarrow()) {
      fitNarrow(layout, figure.data);
    }
    place.dataset.drawn = "yes";
    Plotly.newPlot(place, figure.data, layout, Object.assign({}, look.config, isNarrow() ? { displayModeBar: false } : {}));
  }

  // A number is meant as a whole: "theorem 4" is not theorem 14, nor any theorem with 0.45 in its text.
  function has(text, word) {
    return /^\d+$/.test(word) ? new RegExp("(^|[^\\d.,])" + word + "(?![\\d]|[.,]\\d)").test(text) : text.includes(word);
  }

  // Show what matches, in every section, and open the groups it is in. Without a filter, everything is as it was at first.
  function filter() {
    const wanted = new FormData(form);
    const words = String(wanted.get("text") || "").toLowerCase().split(/\s+/).filter(Boolean);
    const hasWords = (text) => words.every((word) => has(text, word));
    const aboutClaims = ["status", "whose", "erratum", "surprises"].some((name) => wanted.get(name));
    const active = aboutClaims || Boolean(wanted.get("paper")) || words.length > 0;
    const chosen = (card) =>
      (!wanted.get("status") || card.dataset.status === wanted.get("status")) &&
      (!wanted.get("whose") || card.dataset.whose === wanted.get("whose")) &&
      (!wanted.get("erratum") || card.dataset.erratum === "yes") &&
      (!wanted.get("paper") || card.dataset.paper === wanted.get("paper")) &&
      (!wanted.get("surprises") || card.dataset.surprise === "yes");
    for (const card of claims) {
      card.hidden = !(chosen(card) && hasWords(card.dataset.text));
    }
    for (const { place, card, text } of mentions) {
      place.hidden = !(chosen(card) && hasWords(text || card.dataset.text));
    }
    for (const story of stories) {
      const ofPaper = !wanted.get("paper") || story.dataset.paper === wanted.get("paper");
      story.hidden = aboutClaims || !ofPaper || !hasWords(story.textContent.toLowerCase());
    }
    for (const group of groups) {
      const found = group.id === "glossary"
        ? !active || (words.length > 0 && hasWords(group.textContent.toLowerCase()))
        : group.querySelector(":is(.claim, [data-claim]):not([hidden])") !== null;
      group.hidden = !found;
      group.open = active ? found : openAtFirst.get(group);
    }
    for (const section of document.querySelectorAll("main > section")) {
      section.hidden = !section.querySelector(":is(.group, .story):not([hidden])");
    }
    const shown = claims.filter((card) => !card.hidden).length;
    document.getElementById("nothing").hidden = document.querySelector("main > section:not([hidden])") !== null;
    form.elements.shown.value = shown + " of " + claims.length + " shown";
  }

  // A link opens what it leads to and everything around it, even if the filters hide it.
  function follow() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target || !target.closest("main")) {
      return;
    }
    if (target.closest("[hidden]")) {
      form.reset();
      filter();
    }
    for (let around = target.closest("details"); around; around = around.parentElement.closest("details")) {
      around.open = true;
    }
    target.scrollIntoView();
  }

  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", follow);
  // A second click on the same link changes no address, and must open what was closed since.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.getAttribute("href") === location.hash) {
      follow();
    }
  });
  // Paper shows no arrows to click on: print what is in the groups, except for the figures.
  window.addEventListener("beforeprint", () => groups.forEach((group) => { group.open = true; }));
  window.addEventListener("afterprint", filter);
  filter();
  follow();
})();
