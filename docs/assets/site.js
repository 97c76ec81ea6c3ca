// A link to a claim opens it.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const claim = target && target.closest("details.claim");
  if (claim && !claim.open) { claim.open = true; claim.scrollIntoView(); }
}
addEventListener("hashchange", openTarget);
addEventListener("DOMContentLoaded", openTarget);
