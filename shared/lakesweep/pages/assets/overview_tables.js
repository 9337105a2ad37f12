"use strict";
// The tables of the overview as objects again, and what is shown of one of them.
lakesweep.tables = (function () {
  var L = lakesweep, data = L.data, h = L.h;
  var place = document.querySelector(".place").textContent;
  var families = new Map(data.families);

  var DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

  // Points of `width` numbers from a text of compact.py. Each number is the difference to that of the point before.
  function undo(text, width) {
    var last = new Array(width).fill(0), points = [], point = [], value = 0, weight = 1;
    for (var i = 0; i < text.length; i += 1) {
      if (text[i] === ".") {
        point.push(null);
      } else {
        var digit = DIGITS.indexOf(text[i]);
        value += (digit % 32) * weight;
        weight *= 32;
        if (digit >= 32) continue;
        var step = Math.floor(value / 2);
        point.push(last[point.length] += value % 2 ? -step : step);
        value = 0;
        weight = 1;
      }
      if (point.length === width) { points.push(point); point = []; }
    }
    return points;
  }

  function read(row, number) {
    var table = { number: number };
    data.fields.forEach(function (field, at) { table[field] = row[at]; });
    if (table.table === null) table.table = place.replace(/\/+$/, "") + "/" + table.name;
    var reasons = [];
    for (var i = 0; i < table.reasons.length; i += 3) {
      var reason = data.reasons[table.reasons[i]];
      reasons.push({ reason: reason[0], family: reason[1], says: reason[2], count: table.reasons[i + 1], bytes: table.reasons[i + 2] });
    }
    table.reasons = reasons;
    table.findings = table.findings.map(function (found) {
      return {
        code: data.texts[found[0]], isAct: found[1] === 1, says: data.texts[found[2]],
        command: found[3] === null ? null : data.texts[found[3]].split("\u0001").join(table.table)
      };
    });
    return table;
  }

  function growthOf(table) {
    return undo(table.growth, 4).map(function (point) {
      return { snapshot: point[0], t: point[1], rows: point[2], bytes: point[3] === null ? null : point[3] * table.unit };
    });
  }

  function spansOf(table) {
    return undo(table.spans, 4).map(function (point, at) {
      var name = table.spanNames[at];
      return {
        kind: data.kinds[point[0]], snapshot: point[1], t: point[2],
        until: point[3] === null ? null : point[2] + point[3], name: name === undefined ? String(point[1]) : name
      };
    });
  }

  var all = data.tables.map(read);

  function inWords(code) {
    var text = L.visible(code).replace(/_/g, " ");
    return text.charAt(0).toUpperCase() + text.slice(1);
  }

  function badge(isAct, text) {
    return h("span", { class: "badge " + (isAct ? "act" : "look") }, text || (isAct ? "act" : "look"));
  }

  // Bytes of the findings' sums, by family, the largest first.
  function byFamily(reasons) {
    var sums = new Map();
    reasons.forEach(function (each) {
      if (each.reason !== "missing" && each.bytes > 0) sums.set(each.family, (sums.get(each.family) || 0) + each.bytes);
    });
    return data.families.filter(function (family) { return sums.has(family[0]); }).map(function (family) {
      return { family: family[0], label: families.get(family[0]), bytes: sums.get(family[0]) };
    });
  }

  function ranOf(found) {
    if (!found) return "none known";
    return L.ago(found[0]) + (found[1] ? ", " + L.visible(found[1]).replace(/_/g, " ") : "");
  }

  function both(count, size) {
    return count === null ? "unknown" : L.count(count) + ", " + L.bytes(size);
  }

  function facts(table) {
    var pairs = [
      ["Objects", L.count(table.objects) + ", " + L.bytes(table.bytes)],
      ["Rows", L.count(table.rows)],
      ["Live files", both(table.liveFiles, table.liveBytes)],
      ["Small files", both(table.smallFiles, table.smallBytes)],
      ["Old versions", table.noncurrentCount === null ? null : both(table.noncurrentCount, table.noncurrentBytes)],
      ["Deleted rows", table.deletedShare === null ? null : (table.deletedShare * 100).toFixed(1) + " %"],
      ["Level 0", table.level0Files === null ? null : L.counted(table.level0Files, "file") + (table.level0Since === null ? "" : ", since " + L.span(table.level0Since))],
      ["Snapshots", L.count(table.snapshots)],
      ["Newest commit", L.ago(table.latest)],
      ["Oldest root", L.ago(table.oldest)],
      ["Tags", L.count(table.tags)],
      ["Branches", table.branches.length === 0 ? "none" : table.branches.map(L.visible).join(", ")],
      ["Kind", (table.keyed ? "primary key" : "append") + (table.partitioned ? ", partitioned" : "")],
      ["Storage", L.usd(table.usd) + " a month"],
      ["Passes free", L.bytes(table.savingBytes) + ", " + L.usd(table.savingUsd) + " a month"],
      ["Last pass", ranOf(table.lastPass)],
      ["Last scan", ranOf(table.lastScan)],
      ["Measured", L.ago(table.measured) + (table.remembered ? ", remembered from an earlier overview" : "")]
    ];
    return h("dl", { class: "facts" }, pairs.map(function (pair) {
      return pair[1] === null ? null : [h("dt", {}, pair[0]), h("dd", {}, pair[1])];
    }));
  }

  function findingItem(found, before) {
    return h("li", {}, before, before ? h("br") : null, badge(found.isAct), " ", L.visible(found.says), found.command === null ? null : L.command(found.command));
  }

  function reasons(table) {
    var parts = byFamily(table.reasons), bar = h("div", { class: "bar", "aria-hidden": "true" });
    parts.forEach(function (part) {
      var piece = h("span", { class: "fill-" + part.family });
      piece.style.flexGrow = String(part.bytes / Math.max(1, table.bytes));
      bar.append(piece);
    });
    return [bar, L.plainTable("Bytes by reason of this table", ["Why", { number: "Objects" }, { number: "Bytes" }],
      table.reasons.map(function (each) {
        return [
          [h("span", { class: "key fill-" + each.family, "aria-hidden": "true" }), L.visible(each.reason).replace(/_/g, " "), h("span", { class: "says" }, each.says)],
          { number: L.count(each.count) }, { number: L.bytes(each.bytes) }
        ];
      }))];
  }

  function growthPart(table, later) {
    var points = growthOf(table), key = points.some(function (each) { return each.bytes !== null; }) ? "bytes" : "rows";
    var known = points.filter(function (each) { return each[key] !== null; });
    if (known.length === 0) return h("p", { class: "muted" }, "Its growth is not known.");
    var unit = key === "bytes" ? lakesweep.charts.inUnit(known.map(function (each) { return each.bytes; }))
      : { name: "rows", of: function (value) { return value; } };
    var values = known.map(function (each) {
      return {
        t: each.t, value: unit.of(each[key]),
        tip: ["Snapshot " + each.snapshot, L.time(each.t), key === "bytes" ? L.bytes(each.bytes) : null, each.rows === null ? null : L.count(each.rows) + " rows"].filter(Boolean)
      };
    });
    var says = (key === "bytes" ? "Bytes of data files" : "Rows") + " after each of " + L.counted(known.length, "snapshot");
    var element = h("div", { class: "chart low growth", role: "img", "aria-label": says + ", from " + values[0].tip[2] + " to " + values[values.length - 1].tip[2] });
    later.push(function () { L.chart(element, lakesweep.charts.growth(values, unit.name)); });
    return h("figure", {}, h("figcaption", { class: "muted" }, says), element,
      L.figures("Growth as a table", function () {
        return L.plainTable("Growth of this table", ["Snapshot", "Committed", { number: "Rows" }, { number: "Bytes" }],
          points.map(function (each) { return [String(each.snapshot), L.time(each.t), { number: L.count(each.rows) }, { number: L.bytes(each.bytes) }]; }));
      }));
  }

  var LANES = 24;

  function timelinePart(table, later) {
    var spans = spansOf(table);
    if (spans.length === 0) return h("p", { class: "muted" }, "It has no snapshot, tag or branch that is known.");
    var now = data.now, from = Math.min.apply(null, spans.map(function (each) { return each.t; }));
    var known = spans.map(function (each) { return Math.max(each.t, each.until === null ? each.t : each.until); });
    var until = Math.max(now, Math.min(Math.max.apply(null, known), now + (now - from) * 0.35 + 60000));
    var lanes = new Map(), left = 0;
    var drawn = spans.filter(function (each) {
      var isOne = each.kind === "snapshot" || each.kind === "changelog";
      each.lane = isOne ? each.kind : each.kind + " " + each.name;
      if (!lanes.has(each.lane)) {
        if (lanes.size >= LANES) { left += 1; return false; }
        lanes.set(each.lane, isOne ? each.kind + "s" : L.visible(each.kind + " " + each.name));
      }
      return true;
    });
    var values = drawn.map(function (each) {
      var end = each.until === null ? (each.kind === "snapshot" || each.kind === "changelog" ? each.t : until) : Math.max(each.t, Math.min(each.until, until));
      return {
        kind: each.kind, lane: each.lane, t: each.t, end: end,
        tip: [each.kind + " " + each.name, "snapshot " + each.snapshot + ", committed " + L.time(each.t), each.until === null ? "no end is known" : "may expire from " + L.time(each.until)]
      };
    });
    var says = "Timeline of " + L.counted(spans.length, "root") + (left ? ", " + L.count(left) + " of them only in the table below" : "");
    var element = h("div", { class: "chart timeline", role: "img", "aria-label": says + "; the table below has them all" });
    element.style.height = 46 + 24 * lanes.size + "px";
    later.push(function () {
      L.chart(element, lakesweep.charts.timeline(values, Array.from(lanes, function (lane) { return { lane: lane[0], label: lane[1] }; }), from, now, until));
    });
    return h("figure", {}, h("figcaption", { class: "muted" }, says + ". The dashed line is the time of the overview."), element,
      L.figures("The timeline as a table", function () {
        return L.plainTable("Snapshots, tags, branches and consumers of this table", ["Root", "Committed", "May expire from", { number: "Snapshot" }],
          spans.map(function (each) {
            return [[each.kind + " ", L.bdi(each.name)], L.time(each.t), each.until === null ? "unknown, or never" : L.time(each.until), { number: String(each.snapshot) }];
          }));
      }));
  }

  function pins(table) {
    return L.plainTable("What keeps old files of this table", ["Pin", { number: "Snapshot" }, { number: "Would be freed" }],
      table.pins.map(function (pin) { return [[pin[0] + " ", L.bdi(pin[1])], { number: String(pin[2]) }, { number: pin[3] === null ? "not measured" : L.bytes(pin[3]) }]; }));
  }

  function receipts(table) {
    return L.plainTable("What runs over this table cost and freed", ["Month", { number: "Runs" }, { number: "Requests" }, { number: "Cost" }, { number: "Freed" }, { number: "Saves a month" }],
      table.receipts.map(function (each) {
        return [h("span", { class: "nowrap" }, each[0]), { number: L.count(each[1]) }, { number: L.count(each[2]) }, { number: L.usd(each[3]) }, { number: L.bytes(each[4]) }, { number: L.usd(each[5]) }];
      }));
  }

  // The details of a table, and what draws its charts once they are in the page.
  function detail(table) {
    var later = [];
    function part(title, content, isWide) { return h("section", { class: isWide ? "wide" : null, "aria-label": title }, h("h3", {}, title), content); }
    var parts = h("div", { class: "detail-parts" },
      h("p", { class: "full-name wide" }, L.bdi(table.table)),
      table.problem === null ? null : h("p", { class: "wide act-text" }, "It could not be read: " + L.visible(table.problem)),
      table.findings.length === 0 ? null : part("Findings", h("ul", { class: "finding-list" }, table.findings.map(function (found) { return findingItem(found); })), true),
      table.problem !== null ? null : [
        part("Facts", facts(table)),
        part("Why bytes are there", reasons(table)),
        part("Growth", growthPart(table, later)),
        part("Timeline", timelinePart(table, later)),
        table.pins.length === 0 ? null : part("What keeps old files", pins(table)),
        (table.receipts || []).length === 0 ? null : part("What maintenance cost and freed", receipts(table), true)
      ]);
    return { element: parts, draw: function () { later.forEach(function (draw) { draw(); }); } };
  }

  function spark(table) {
    var points = growthOf(table), key = points.some(function (each) { return each.bytes !== null; }) ? "bytes" : "rows";
    var known = points.filter(function (each) { return each[key] !== null; });
    if (known.length < 2) return h("small", {}, "unknown");
    var first = known[0], last = known[known.length - 1], width = Math.max(1, last.t - first.t);
    var values = known.map(function (each) { return each[key]; }), top = Math.max.apply(null, values.concat(1));
    var low = Math.min.apply(null, values), range = Math.max(1, top - low);
    var path = known.map(function (each, at) {
      return (at ? "L" : "M") + (((each.t - first.t) / width) * 92 + 2).toFixed(1) + " " + (19 - ((each[key] - low) / range) * 16).toFixed(1);
    }).join("");
    var picture = L.svg("svg", { class: "spark", width: 96, height: 22, viewBox: "0 0 96 22", "aria-hidden": "true" });
    picture.append(L.svg("path", { d: path }));
    var show = key === "bytes" ? L.bytes : L.count;
    return [picture, h("span", { class: "unseen" }, "from " + show(first[key]) + " to " + show(last[key]))];
  }

  return { all: all, growthOf: growthOf, detail: detail, spark: spark, badge: badge, inWords: inWords, byFamily: byFamily, findingItem: findingItem };
})();
