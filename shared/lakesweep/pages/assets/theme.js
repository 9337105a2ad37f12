"use strict";
// Before the page is drawn, so that it does not flash in the other theme.
(function () {
  try {
    var kept = localStorage.getItem("lakesweep-theme");
    if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  } catch (error) { /* no storage here: the system's theme counts */ }
})();
