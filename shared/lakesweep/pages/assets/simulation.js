"use strict";
// The curve of a simulation: bytes by the age that is kept, and a mark for each policy.
(function () {
  var L = lakesweep, element = document.getElementById("curve"), curve = L.data.curve;
  var details = document.getElementById("curve-figures");
  if (curve.length === 0) {
    element.append(L.h("p", { class: "muted" }, "There is no snapshot."));
    details.hidden = true;
    return;
  }
  var marks = L.data.cases.filter(function (each) { return each[1] !== null; });
  var oldest = Math.max.apply(null, curve.map(function (each) { return each[0]; }).concat(marks.map(function (each) { return each[1]; })));
  var units = [["days", 86400000], ["hours", 3600000], ["minutes", 60000], ["seconds", 1000]];
  var age = units.find(function (each) { return oldest >= 2 * each[1]; }) || units[3];
  var unit = L.charts.inUnit(curve.map(function (each) { return each[1]; }).concat(L.data.cases.map(function (each) { return each[2]; })));
  var points = curve.map(function (each) {
    return { x: each[0] / age[1], value: unit.of(each[1]), tip: ["Kept for " + L.span(each[0] / 1000), L.bytes(each[1]), L.counted(each[2], "snapshot")] };
  });
  // The curve is a step function, and goes on beyond its last point.
  points.push(Object.assign({}, points[points.length - 1], { x: (oldest * 1.04) / age[1] }));
  var cases = marks.map(function (each) {
    return { x: each[1] / age[1], value: unit.of(each[2]), name: L.visible(each[0]), tip: [each[0], "keeps " + L.bytes(each[2]), L.counted(each[3], "snapshot") + ", back to " + L.span(each[1] / 1000)] };
  });
  L.chart(element, L.charts.curve(points, cases, age[0], unit.name));
  L.lazily(details, details.querySelector("div"), function () {
    return L.plainTable("Bytes by the age that is kept", ["Age", { number: "Snapshots" }, { number: "Bytes" }], curve.map(function (each) {
      return [L.span(each[0] / 1000), { number: L.count(each[2]) }, { number: L.bytes(each[1]) }];
    }));
  });
})();
