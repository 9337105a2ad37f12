"use strict";
// Specifications of the charts, for Vega. Names in them are text: no expression contains one.
lakesweep.charts = (function () {
  var L = lakesweep;

  function scaleOf(families) {
    return {
      name: "colour", type: "ordinal", domain: families,
      range: families.map(function (family) { return "var(--" + family + ")"; })
    };
  }

  // leaves: {table, name, family, bytes, tip}; groups: {table, name, bytes}. `table` is the number of a table.
  function treemap(groups, leaves, families) {
    var nodes = [{ id: "all", parent: null }].concat(
      groups.map(function (each) { return Object.assign({ id: "t" + each.table, parent: "all" }, each); }),
      leaves.map(function (each, place) { return Object.assign({ id: "l" + place, parent: "t" + each.table }, each); }));
    return {
      $schema: "https://vega.github.io/schema/vega/v6.json", padding: 0, autosize: "none",
      data: [
        {
          name: "tree", values: nodes,
          transform: [
            { type: "stratify", key: "id", parentKey: "parent" },
            {
              type: "treemap", field: "bytes", sort: { field: "value", order: "descending" }, round: true,
              method: "squarify", ratio: 1.6, paddingInner: 1, paddingOuter: 1,
              size: [{ signal: "width" }, { signal: "height" }]
            }
          ]
        },
        { name: "groups", source: "tree", transform: [{ type: "filter", expr: "datum.parent === 'all'" }] },
        { name: "leaves", source: "tree", transform: [{ type: "filter", expr: "datum.tip" }] }
      ],
      scales: [scaleOf(families)],
      marks: [
        {
          type: "rect", name: "leaves-marks", from: { data: "leaves" },
          encode: {
            enter: {
              fill: { scale: "colour", field: "family" }, tooltip: { signal: "datum" }, cursor: { signal: "datum.table < 0 ? 'default' : 'pointer'" }
            },
            update: {
              x: { field: "x0" }, y: { field: "y0" }, x2: { field: "x1" }, y2: { field: "y1" }, fillOpacity: { value: 1 }
            },
            hover: { fillOpacity: { value: 0.75 } }
          }
        },
        {
          type: "text", name: "labels", from: { data: "groups" }, interactive: false,
          encode: {
            enter: {
              fill: { value: "var(--ink)" }, fontSize: { value: 11.5 }, baseline: { value: "top" },
              fontWeight: { value: 500 }
            },
            update: {
              text: { signal: "datum.x1 - datum.x0 - 12 > 6.6 * length(datum.name) ? datum.name : datum.short" },
              x: { field: "x0", offset: 6 }, y: { field: "y0", offset: 6 },
              limit: { signal: "max(0, datum.x1 - datum.x0 - 12)" },
              opacity: { signal: "datum.x1 - datum.x0 > 56 && datum.y1 - datum.y0 > 22 ? 1 : 0" }
            }
          }
        },
        {
          type: "text", name: "sizes", from: { data: "groups" }, interactive: false,
          encode: {
            enter: {
              text: { field: "size" }, fill: { value: "var(--ink)" }, fontSize: { value: 11 }, baseline: { value: "top" }
            },
            update: {
              x: { field: "x0", offset: 6 }, y: { field: "y0", offset: 21 },
              limit: { signal: "max(0, datum.x1 - datum.x0 - 12)" },
              opacity: { signal: "datum.x1 - datum.x0 > 56 && datum.y1 - datum.y0 > 40 ? 1 : 0" }
            }
          }
        }
      ]
    };
  }

  // points: {t, value, tip}, already in the unit of `title`.
  function growth(points, title) {
    return {
      $schema: "https://vega.github.io/schema/vega/v6.json", padding: 4, autosize: { type: "fit", contains: "padding" },
      data: [{ name: "points", values: points }],
      scales: [
        { name: "x", type: "utc", domain: { data: "points", field: "t" }, range: "width" },
        { name: "y", type: "linear", domain: { data: "points", field: "value" }, range: "height", nice: true, zero: true }
      ],
      axes: [
        { orient: "bottom", scale: "x", labelOverlap: true, tickCount: { signal: "max(2, floor(width / 90))" } },
        { orient: "left", scale: "y", title: title, grid: true, domain: false, ticks: false, tickCount: 4 }
      ],
      marks: [
        {
          type: "area", from: { data: "points" },
          encode: {
            enter: { fill: { value: "var(--current)" }, fillOpacity: { value: 0.16 }, interpolate: { value: "step-after" } },
            update: { x: { scale: "x", field: "t" }, y: { scale: "y", field: "value" }, y2: { scale: "y", value: 0 } }
          }
        },
        {
          type: "line", from: { data: "points" },
          encode: {
            enter: { stroke: { value: "var(--current)" }, strokeWidth: { value: 2 }, interpolate: { value: "step-after" } },
            update: { x: { scale: "x", field: "t" }, y: { scale: "y", field: "value" } }
          }
        },
        {
          type: "symbol", name: "points-marks", from: { data: "points" },
          encode: {
            enter: { fill: { value: "var(--current)" }, size: { value: 24 }, tooltip: { signal: "datum" } },
            update: { x: { scale: "x", field: "t" }, y: { scale: "y", field: "value" } }
          }
        }
      ]
    };
  }

  var KINDS = { snapshot: "snapshots", changelog: "changelogs", tag: "tags", branch: "branches", consumer: "consumer" };
  var SHAPES = { snapshot: "circle", changelog: "square", tag: "diamond", branch: "triangle-up", consumer: "cross" };

  // spans: {kind, lane, t, end, tip}; lanes: {lane, label}. `now` is a time.
  function timeline(spans, lanes, from, now, until) {
    var kinds = Object.keys(KINDS);
    function scaled(name, type, range) { return { name: name, type: type, domain: kinds, range: range }; }
    return {
      $schema: "https://vega.github.io/schema/vega/v6.json", padding: 4, autosize: { type: "fit", contains: "padding" },
      data: [{ name: "spans", values: spans }, { name: "lanes", values: lanes }],
      scales: [
        { name: "x", type: "utc", domain: [from, until], range: "width" },
        { name: "y", type: "band", domain: { data: "lanes", field: "lane" }, range: "height" },
        { name: "label", type: "ordinal", domain: { data: "lanes", field: "lane" }, range: { data: "lanes", field: "label" } },
        scaled("colour", "ordinal", kinds.map(function (kind) { return "var(--" + KINDS[kind] + ")"; })),
        scaled("shape", "ordinal", kinds.map(function (kind) { return SHAPES[kind]; }))
      ],
      axes: [
        { orient: "bottom", scale: "x", grid: true, labelOverlap: true, tickCount: { signal: "max(2, floor(width / 90))" } },
        {
          orient: "left", scale: "y", domain: false, ticks: false, labelLimit: 150,
          encode: { labels: { update: { text: { signal: "scale('label', datum.value)" } } } }
        }
      ],
      marks: [
        {
          type: "rule",
          encode: {
            enter: { stroke: { value: "var(--strong-line)" }, strokeDash: { value: [3, 3] } },
            update: { x: { scale: "x", value: now }, y: { value: 0 }, y2: { signal: "height" } }
          }
        },
        {
          type: "rule", from: { data: "spans" },
          encode: {
            enter: { stroke: { scale: "colour", field: "kind" }, strokeWidth: { value: 3 }, strokeOpacity: { value: 0.35 } },
            update: {
              x: { scale: "x", field: "t" }, x2: { scale: "x", field: "end" },
              y: { scale: "y", field: "lane", band: 0.5 }, y2: { scale: "y", field: "lane", band: 0.5 }
            }
          }
        },
        {
          type: "symbol", name: "spans-marks", from: { data: "spans" },
          encode: {
            enter: {
              fill: { scale: "colour", field: "kind" }, shape: { scale: "shape", field: "kind" }, size: { value: 52 },
              stroke: { value: "var(--page)" }, strokeWidth: { value: 1 }, tooltip: { signal: "datum" }
            },
            update: { x: { scale: "x", field: "t" }, y: { scale: "y", field: "lane", band: 0.5 } }
          }
        }
      ]
    };
  }

  // bars: {label, family, value, tip}. Upright, one for each label.
  function columns(bars, title) {
    return {
      $schema: "https://vega.github.io/schema/vega/v6.json", padding: 4, autosize: { type: "fit", contains: "padding" },
      data: [{ name: "bars", values: bars }],
      scales: [
        { name: "x", type: "band", domain: { data: "bars", field: "label" }, range: "width", padding: 0.35 },
        { name: "y", type: "linear", domain: { data: "bars", field: "value" }, range: "height", nice: true, zero: true }
      ],
      axes: [
        { orient: "bottom", scale: "x", ticks: false, labelOverlap: true },
        { orient: "left", scale: "y", title: title, grid: true, domain: false, ticks: false, tickCount: 4 }
      ],
      marks: [{
        type: "rect", name: "bars-marks", from: { data: "bars" },
        encode: {
          enter: { fill: { value: "var(--current)" }, cornerRadiusTopLeft: { value: 3 }, cornerRadiusTopRight: { value: 3 }, tooltip: { signal: "datum" } },
          update: {
            x: { scale: "x", field: "label" }, width: { scale: "x", band: 1, },
            y: { scale: "y", field: "value" }, y2: { scale: "y", value: 0 }, fillOpacity: { value: 1 }
          },
          hover: { fillOpacity: { value: 0.75 } }
        }
      }]
    };
  }

  // bars: {row, kind, value, tip}, stacked; rows: {row, label}. `colours` has a variable for each kind.
  function bars(values, rows, kinds, colours, title) {
    return {
      $schema: "https://vega.github.io/schema/vega/v6.json", padding: 4, autosize: { type: "fit", contains: "padding" },
      data: [
        {
          name: "bars", values: values,
          transform: [{ type: "stack", groupby: ["row"], field: "value", sort: { field: "order" } }]
        },
        { name: "rows", values: rows }
      ],
      scales: [
        { name: "x", type: "linear", domain: { data: "bars", field: "y1" }, range: "width", nice: true, zero: true },
        { name: "y", type: "band", domain: { data: "rows", field: "row" }, range: "height", padding: 0.3 },
        { name: "label", type: "ordinal", domain: { data: "rows", field: "row" }, range: { data: "rows", field: "label" } },
        { name: "colour", type: "ordinal", domain: kinds, range: colours }
      ],
      axes: [
        { orient: "bottom", scale: "x", title: title, grid: true, domain: false, ticks: false, tickCount: { signal: "max(2, floor(width / 110))" } },
        {
          orient: "left", scale: "y", domain: false, ticks: false, labelLimit: { signal: "max(90, width / 3)" },
          encode: { labels: { update: { text: { signal: "scale('label', datum.value)" } } } }
        }
      ],
      marks: [{
        type: "rect", name: "bars-marks", from: { data: "bars" },
        encode: {
          enter: { fill: { scale: "colour", field: "kind" }, tooltip: { signal: "datum" } },
          update: {
            x: { scale: "x", field: "y0" }, x2: { scale: "x", field: "y1" },
            y: { scale: "y", field: "row" }, height: { scale: "y", band: 1 }, fillOpacity: { value: 1 }
          },
          hover: { fillOpacity: { value: 0.75 } }
        }
      }]
    };
  }

  // points and cases: {x, value, tip}; a case has a name, too.
  function curve(points, cases, age, title) {
    return {
      $schema: "https://vega.github.io/schema/vega/v6.json", padding: 4, autosize: { type: "fit", contains: "padding" },
      data: [{ name: "points", values: points }, { name: "cases", values: cases }],
      scales: [
        { name: "x", type: "linear", domain: { data: "points", field: "x" }, range: "width", zero: true },
        {
          name: "y", type: "linear", range: "height", nice: true, zero: true,
          domain: { fields: [{ data: "points", field: "value" }, { data: "cases", field: "value" }] }
        }
      ],
      axes: [
        { orient: "bottom", scale: "x", title: "age that is kept, in " + age, tickCount: { signal: "max(2, floor(width / 90))" } },
        { orient: "left", scale: "y", title: title, grid: true, domain: false, ticks: false, tickCount: 5 }
      ],
      marks: [
        {
          type: "area", from: { data: "points" },
          encode: {
            enter: { fill: { value: "var(--current)" }, fillOpacity: { value: 0.16 }, interpolate: { value: "step-after" } },
            update: { x: { scale: "x", field: "x" }, y: { scale: "y", field: "value" }, y2: { scale: "y", value: 0 } }
          }
        },
        {
          type: "line", name: "curve-marks", from: { data: "points" },
          encode: {
            enter: { stroke: { value: "var(--current)" }, strokeWidth: { value: 2 }, interpolate: { value: "step-after" } },
            update: { x: { scale: "x", field: "x" }, y: { scale: "y", field: "value" } }
          }
        },
        {
          type: "symbol", name: "points-marks", from: { data: "points" },
          encode: {
            enter: { fill: { value: "var(--current)" }, size: { value: 26 }, tooltip: { signal: "datum" } },
            update: { x: { scale: "x", field: "x" }, y: { scale: "y", field: "value" } }
          }
        },
        {
          type: "symbol", name: "cases-marks", from: { data: "cases" },
          encode: {
            enter: {
              fill: { value: "var(--expired)" }, stroke: { value: "var(--surface)" }, strokeWidth: { value: 1.5 },
              shape: { value: "diamond" }, size: { value: 150 }, tooltip: { signal: "datum" }
            },
            update: { x: { scale: "x", field: "x" }, y: { scale: "y", field: "value" } }
          }
        },
        {
          type: "text", from: { data: "cases" }, interactive: false,
          encode: {
            enter: { text: { field: "name" }, fontSize: { value: 11.5 }, limit: { value: 190 }, baseline: { value: "middle" } },
            update: {
              x: { scale: "x", field: "x", offset: { signal: "scale('x', datum.x) > width / 2 ? -10 : 10" } },
              y: { scale: "y", field: "value", offset: 13 },
              align: { signal: "scale('x', datum.x) > width / 2 ? 'right' : 'left'" }
            }
          }
        }
      ]
    };
  }

  // Values in one unit, and its name, so that an axis has round numbers of it.
  function inUnit(sizes) {
    var known = sizes.filter(function (size) { return size !== null; });
    var power = L.power(Math.max.apply(null, known.concat(0)));
    return { name: L.units[power], of: function (size) { return size === null ? null : size / Math.pow(1024, power); } };
  }

  return { treemap: treemap, growth: growth, timeline: timeline, columns: columns, bars: bars, curve: curve, inUnit: inUnit };
})();
