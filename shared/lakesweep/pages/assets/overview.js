"use strict";
// The overview: findings, the treemap, receipts, and the list of tables, which sorts, filters and opens.
(function () {
  var L = lakesweep, T = L.tables, h = L.h, all = T.all;
  var FIRST_ROWS = 500, TREEMAP_TABLES = 120, FIRST_FINDINGS = 20;

  // --- the list of tables ---

  function sum(table, isAct) {
    return table.findings.filter(function (found) { return found.isAct === isAct; }).length;
  }

  function nameCell(table) {
    var cut = table.name.lastIndexOf("/") + 1, folder = table.name.slice(0, cut), name = table.name.slice(cut);
    var label = h("span", { class: "short" }, h("bdi", {}, folder ? h("i", {}, L.visible(folder)) : null, L.visible(name || table.name)));
    var button = h("button", { type: "button", "aria-expanded": "false", onclick: function () { toggle(table); } }, label);
    return [button, table.problem === null ? null : h("span", { class: "problem" }, "could not be read")];
  }

  function ranCell(table) {
    if (table.problem !== null) return "";
    return table.lastPass ? [L.ago(table.lastPass[0]), h("small", {}, L.visible(table.lastPass[1] || "").replace(/_/g, " "))] : "none known";
  }

  function findingsCell(table) {
    var act = sum(table, true), look = sum(table, false);
    if (!act && !look) return h("span", { class: "badge plain-badge" }, table.problem === null ? "none" : "unknown");
    return [act ? T.badge(true, act + " act") : null, act && look ? " " : null, look ? T.badge(false, look + " look") : null];
  }

  function known(show) {
    return function (table) { return table.problem === null ? show(table) : "unknown"; };
  }

  function figure(key) {
    return function (table) { return table.problem === null ? table[key] : null; };
  }

  var COLUMNS = [
    { key: "rank", title: "#", says: "Urgency", kind: "rank middle-only", first: "ascending", value: function (table) { return table.number; }, cell: function (table) { return String(table.number + 1); } },
    { key: "name", title: "Table", kind: "name", first: "ascending", value: function (table) { return table.name; }, cell: nameCell },
    { key: "bytes", title: "Stored", kind: "number", value: figure("bytes"), cell: known(function (table) { return L.bytes(table.bytes); }) },
    { key: "growth", title: "Growth", kind: "wide-only", value: grown, cell: known(T.spark) },
    { key: "usd", title: "Cost a month", kind: "number wide-only", value: figure("usd"), cell: known(function (table) { return L.usd(table.usd); }) },
    { key: "saving", title: "Passes free", kind: "number middle-only", value: figure("savingBytes"), cell: known(function (table) { return [L.bytes(table.savingBytes), h("small", {}, L.usd(table.savingUsd) + " a month")]; }) },
    { key: "oldest", title: "Snapshots", kind: "number middle-only", value: figure("snapshots"), cell: known(function (table) { return [L.count(table.snapshots), h("small", {}, "oldest " + (table.oldest === null ? "unknown" : L.span(Math.max(0, table.oldest))))]; }) },
    { key: "small", title: "Small files", kind: "number wide-only", value: figure("smallFiles"), cell: known(function (table) { return L.count(table.smallFiles); }) },
    { key: "pass", title: "Last pass", kind: "wide-only", value: function (table) { return table.lastPass ? table.lastPass[0] : null; }, cell: ranCell },
    { key: "findings", title: "Findings", kind: "", value: function (table) { return sum(table, true) * 1000 + sum(table, false); }, cell: findingsCell }
  ];

  // How much a table has grown over its snapshots, in bytes.
  function grown(table) {
    if (table.problem !== null) return null;
    var sizes = T.growthOf(table).map(function (each) { return each.bytes; }).filter(function (size) { return size !== null; });
    return sizes.length ? sizes[sizes.length - 1] - sizes[0] : null;
  }

  var list = document.getElementById("tables"), body = list.tBodies[0], more = document.getElementById("more");
  var sorted = { column: COLUMNS[0], isDown: false }, limit = FIRST_ROWS, rows = new Map();

  function rowOf(table) {
    if (rows.has(table)) return rows.get(table);
    var row = h("tr", { class: "row" }, COLUMNS.map(function (column) {
      return h(column.key === "name" ? "th" : "td", { class: column.kind || null, scope: column.key === "name" ? "row" : null }, column.cell(table));
    }));
    var entry = { row: row, button: row.querySelector(".name button"), detail: null };
    rows.set(table, entry);
    return entry;
  }

  function toggle(table, mustOpen) {
    var entry = rowOf(table);
    if (entry.detail !== null) {
      if (mustOpen) return entry;
      L.forget(entry.detail);
      entry.detail.remove();
      entry.detail = null;
    } else {
      var made = T.detail(table);
      entry.detail = h("tr", { class: "detail", id: "table-" + table.number }, h("td", { colspan: COLUMNS.length }, made.element));
      entry.row.after(entry.detail);
      made.draw();
    }
    entry.button.setAttribute("aria-expanded", String(entry.detail !== null));
    if (entry.detail) entry.button.setAttribute("aria-controls", entry.detail.id);
    else entry.button.removeAttribute("aria-controls");
    return entry;
  }

  // Opens a table from elsewhere in the page, whatever the filters are.
  function open(table) {
    if (!isShown(table)) clear();
    if (!rowOf(table).row.isConnected) { limit = Infinity; fill(); }
    var entry = toggle(table, true);
    entry.row.scrollIntoView({ block: "start" });
    entry.button.focus({ preventScroll: true });
  }

  function compare(one, other) {
    var a = sorted.column.value(one), b = sorted.column.value(other);
    if (a === b) return one.number - other.number;
    if (a === null) return 1;
    if (b === null) return -1;
    var order = typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
    return sorted.isDown ? -order : order;
  }

  // --- filters ---

  var search = document.getElementById("search"), byFinding = document.getElementById("by-finding");
  var byReason = document.getElementById("by-reason"), sort = document.getElementById("sort");

  function isShown(table) {
    var words = search.value.toLowerCase().split(/\s+/).filter(Boolean), finding = byFinding.value, reason = byReason.value;
    if (words.length && !words.every(function (word) { return table.text.includes(word); })) return false;
    if (reason && !table.reasons.some(function (each) { return each.reason === reason && each.count > 0; })) return false;
    if (!finding) return true;
    if (finding === "none") return table.findings.length === 0 && table.problem === null;
    if (finding === "some") return table.findings.length > 0;
    if (finding === "failed") return table.problem !== null;
    if (finding === "act" || finding === "look") return table.findings.some(function (each) { return each.isAct === (finding === "act"); });
    return table.findings.some(function (each) { return "code " + each.code === finding; });
  }

  function fill() {
    var matching = all.filter(isShown).sort(compare), shown = matching.slice(0, limit), parts = [];
    shown.forEach(function (table) {
      var entry = rowOf(table);
      parts.push(entry.row);
      if (entry.detail) parts.push(entry.detail);
    });
    if (shown.length === 0) parts.push(h("tr", {}, h("td", { colspan: COLUMNS.length, class: "muted" }, "No table matches the filters.")));
    body.replaceChildren.apply(body, parts);
    more.hidden = shown.length === matching.length;
    more.textContent = "Show all " + L.count(matching.length) + " tables";
    var stored = matching.reduce(function (total, table) { return total + table.bytes; }, 0);
    document.getElementById("shown").textContent = (matching.length === all.length ? L.counted(all.length, "table") : L.count(matching.length) + " of " + L.counted(all.length, "table")) + ", " + L.bytes(stored);
  }

  function sortBy(column, isDown) {
    sorted = { column: column, isDown: isDown };
    COLUMNS.forEach(function (each) {
      var isSorted = each === column;
      if (isSorted) each.head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      else each.head.removeAttribute("aria-sort");
      each.head.querySelector(".arrow").textContent = isSorted ? (isDown ? "\u2193" : "\u2191") : "";
    });
    sort.value = column.key;
    fill();
  }

  function clear() {
    search.value = ""; byFinding.value = ""; byReason.value = "";
    fill();
  }

  function options(select, entries) {
    entries.forEach(function (entry) { select.append(h("option", { value: entry[0] }, entry[1])); });
  }

  all.forEach(function (table) {
    table.text = [table.name, table.table].concat(table.findings.map(function (each) { return each.code.replace(/_/g, " ") + " " + each.says; })).join("\n").toLowerCase();
  });
  COLUMNS.forEach(function (column) {
    var button = h("button", { type: "button" }, column.says ? [h("span", { "aria-hidden": "true" }, column.title), h("span", { class: "unseen" }, column.says)] : column.title, h("span", { class: "arrow", "aria-hidden": "true" }));
    button.addEventListener("click", function () {
      sortBy(column, sorted.column === column ? !sorted.isDown : column.first !== "ascending");
    });
    column.head = h("th", { class: column.kind || null, scope: "col" }, button);
    list.tHead.rows[0].append(column.head);
  });
  options(sort, COLUMNS.map(function (column) { return [column.key, column.says || column.title]; }));
  sort.addEventListener("change", function () {
    var column = COLUMNS.find(function (each) { return each.key === sort.value; });
    sortBy(column, column.first !== "ascending");
  });
  var codes = Array.from(new Set(all.flatMap(function (table) { return table.findings.map(function (each) { return each.code; }); })));
  options(byFinding, [["", "Any"], ["some", "With findings"], ["act", "To act on"], ["look", "To look at"], ["none", "Without findings"], ["failed", "Could not be read"]]
    .concat(codes.sort().map(function (code) { return ["code " + code, T.inWords(code)]; })));
  options(byReason, [["", "Anything"]].concat(L.data.reasons.map(function (reason) { return [reason[0], T.inWords(reason[0])]; })));
  search.addEventListener("input", fill);
  byFinding.addEventListener("change", fill);
  byReason.addEventListener("change", fill);
  document.getElementById("filters").addEventListener("submit", function (event) { event.preventDefault(); });
  document.getElementById("clear").addEventListener("click", function () { clear(); search.focus(); });
  more.addEventListener("click", function () { limit = Infinity; fill(); });
  sortBy(COLUMNS[0], false);

  // --- findings, by their code ---

  function link(table) {
    return h("button", { class: "link", type: "button", onclick: function () { open(table); } }, L.bdi(table.name));
  }

  function findings() {
    var place = document.getElementById("findings"), groups = new Map();
    all.forEach(function (table) {
      table.findings.forEach(function (found) {
        var key = (found.isAct ? "a" : "l") + found.code;
        if (!groups.has(key)) groups.set(key, { isAct: found.isAct, code: found.code, items: [] });
        groups.get(key).items.push({ table: table, found: found });
      });
    });
    var failed = all.filter(function (table) { return table.problem !== null && table.findings.length === 0; });
    if (failed.length) {
      groups.set("problem", {
        isAct: true, code: "could_not_be_read",
        items: failed.map(function (table) { return { table: table, found: { isAct: true, says: table.problem, command: null } }; })
      });
    }
    if (groups.size === 0) { place.append(h("p", {}, "Nothing: no table has a finding.")); return; }
    Array.from(groups.values()).sort(function (one, other) {
      return other.isAct - one.isAct || other.items.length - one.items.length;
    }).forEach(function (group) {
      var inside = h("div", {}), tables = new Set(group.items.map(function (item) { return item.table; })).size;
      var details = h("details", {}, h("summary", {}, T.badge(group.isAct),
        h("b", {}, T.inWords(group.code) + " (" + L.counted(tables, "table") + ")"), h("span", { class: "says" }, L.visible(group.items[0].found.says))), inside);
      L.lazily(details, inside, function () {
        var items = h("ul", { class: "finding-list" });
        function show(some) { some.forEach(function (item) { items.append(T.findingItem(item.found, link(item.table))); }); }
        show(group.items.slice(0, FIRST_FINDINGS));
        var rest = group.items.slice(FIRST_FINDINGS);
        if (rest.length === 0) return items;
        var button = h("button", { class: "quiet", type: "button" }, "Show all " + L.count(group.items.length));
        function showRest() { if (rest.length) { show(rest.splice(0)); button.remove(); } }
        button.addEventListener("click", showRest);
        document.addEventListener("lakesweep-print", showRest);
        return [items, button];
      });
      place.append(details);
    });
  }

  // --- the treemap ---

  function treemap() {
    var element = document.getElementById("treemap");
    var ranked = all.filter(function (table) { return table.problem === null && table.bytes > 0; }).sort(function (one, other) { return other.bytes - one.bytes; });
    if (ranked.length === 0) {
      element.replaceChildren(h("p", { class: "muted" }, "No bytes."));
      document.getElementById("treemap-figures").hidden = true;
      return;
    }
    var drawn = ranked.slice(0, TREEMAP_TABLES), rest = ranked.slice(TREEMAP_TABLES);
    var entries = drawn.map(function (table) { return { table: table.number, name: table.name, bytes: table.bytes, parts: T.byFamily(table.reasons) }; });
    if (rest.length) {
      entries.push({
        table: -1, name: L.counted(rest.length, "smaller table"), bytes: rest.reduce(function (total, table) { return total + table.bytes; }, 0),
        parts: T.byFamily(rest.flatMap(function (table) { return table.reasons; }))
      });
    }
    var leaves = entries.flatMap(function (entry) {
      return entry.parts.map(function (part) {
        return {
          table: entry.table, family: part.family, bytes: part.bytes,
          tip: [entry.name, part.label + ": " + L.bytes(part.bytes), "of " + L.bytes(entry.bytes)]
        };
      });
    });
    var groups = entries.map(function (entry) {
      return { table: entry.table, name: L.visible(entry.name), short: L.visible(entry.name.slice(entry.name.lastIndexOf("/") + 1)), size: L.bytes(entry.bytes) };
    });
    L.chart(element, L.charts.treemap(groups, leaves, L.data.families.map(function (family) { return family[0]; })), function (datum) {
      if (datum.table >= 0) open(all[datum.table]);
    });
    var used = L.data.families.filter(function (family) { return leaves.some(function (leaf) { return leaf.family === family[0]; }); });
    var details = document.getElementById("treemap-figures");
    L.lazily(details, details.querySelector("div"), function () {
      return L.plainTable("Bytes by table and reason", ["Table"].concat(used.map(function (family) { return { number: family[1] }; })),
        entries.map(function (entry) {
          return [L.bdi(entry.name)].concat(used.map(function (family) {
            var part = entry.parts.find(function (each) { return each.family === family[0]; });
            return { number: part ? L.bytes(part.bytes) : "-" };
          }));
        }));
    });
  }

  function receipts() {
    var element = document.getElementById("receipts"), months = L.data.receipts;
    if (!element) return;
    var unit = L.charts.inUnit(months.map(function (month) { return month[1]; }));
    L.chart(element, L.charts.columns(months.map(function (month) {
      return { label: month[0], value: unit.of(month[1]), tip: [month[0], "freed " + L.bytes(month[1]), "saves " + L.usd(month[3]) + " a month", "cost " + L.usd(month[2])] };
    }), unit.name));
  }

  findings();
  treemap();
  receipts();
})();
