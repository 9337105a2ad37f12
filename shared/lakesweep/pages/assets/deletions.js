"use strict";
// The chart of a run or a plan: bytes that go, by partition and kind.
(function () {
  var L = lakesweep, element = document.getElementById("bars"), rows = L.data.bars, kinds = L.data.kinds;
  var COLOURS = ["current", "expired", "snapshots", "tags", "changelogs", "branches", "consumer", "orphan", "other"];
  if (!element) return;
  if (rows.length === 0) {
    element.append(L.h("p", { class: "muted" }, "Nothing goes."));
    return;
  }
  function colour(place) { return COLOURS[Math.min(place, COLOURS.length - 1)]; }
  var unit = L.charts.inUnit(rows.map(function (row) {
    return Object.values(row[1]).reduce(function (total, each) { return total + each[0]; }, 0);
  }));
  var bars = rows.flatMap(function (row, place) {
    return kinds.map(function (kind, order) {
      var found = row[1][kind];
      return found && {
        row: place, kind: kind, order: order, value: unit.of(found[0]),
        tip: [row[0], kind.replace(/_/g, " ") + ": " + L.bytes(found[0]), L.counted(found[1], "object")]
      };
    }).filter(Boolean);
  });
  element.style.height = 60 + 26 * rows.length + "px";
  L.chart(element, L.charts.bars(bars, rows.map(function (row, place) { return { row: place, label: L.visible(row[0]) }; }), kinds,
    kinds.map(function (kind, place) { return "var(--" + colour(place) + ")"; }), unit.name));
  kinds.forEach(function (kind, place) {
    document.getElementById("legend").append(L.h("li", {}, L.h("span", { class: "key fill-" + colour(place), "aria-hidden": "true" }), L.visible(kind).replace(/_/g, " ")));
  });
})();
