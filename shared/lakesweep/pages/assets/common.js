"use strict";
// What all pages share: the data, figures as text, elements, charts, the theme. Text reaches the page as text nodes only.
var lakesweep = (function () {
  var data = JSON.parse(document.getElementById("data").textContent);
  var UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

  // --- figures, by the rules of figures.py ---

  function power(size) {
    var found = 0;
    for (var rest = size; rest >= 1024 && found < UNITS.length - 1; rest /= 1024) found += 1;
    return found;
  }

  function bytes(size) {
    if (size === null || size === undefined) return "unknown";
    var unit = power(size);
    return unit === 0 ? size + " B" : (size / Math.pow(1024, unit)).toFixed(1) + " " + UNITS[unit];
  }

  function count(number) {
    if (number === null || number === undefined) return "unknown";
    return String(number).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
  }

  function counted(number, what) {
    return count(number) + " " + what + (number === 1 ? "" : "s");
  }

  function usd(amount) {
    if (amount === null || amount === undefined) return "unknown";
    if (amount > 0 && amount < 0.01) return "< $0.01";
    var digits = amount >= 1000 ? 0 : 2;
    return "$" + amount.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  }

  function time(ms) {
    if (ms === null || ms === undefined) return "unknown";
    var date = new Date(ms);
    return isNaN(date) ? ms + " ms" : date.toISOString().slice(0, 16).replace("T", " ") + " UTC";
  }

  function span(seconds) {
    var sizes = [[86400, " d"], [3600, " h"], [60, " min"], [1, " s"]];
    for (var size of sizes) if (Math.abs(seconds) >= size[0]) return Math.floor(seconds / size[0]) + size[1];
    return "0 s";
  }

  function ago(seconds) {
    if (seconds === null || seconds === undefined) return "unknown";
    return seconds < 60 ? "just now" : span(seconds) + " ago";
  }

  // Control characters and marks that turn the direction of text become escapes, as at a terminal.
  function visible(text) {
    return String(text).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, function (found) {
      var code = found.codePointAt(0);
      return code < 256 ? "\\x" + code.toString(16).padStart(2, "0")
        : code < 65536 ? "\\u" + code.toString(16).padStart(4, "0") : "\\U" + code.toString(16).padStart(8, "0");
    });
  }

  // --- elements ---

  function h(tag, attributes) {
    var element = document.createElement(tag);
    for (var name in attributes || {}) {
      var value = attributes[name];
      if (value === null || value === undefined || value === false) continue;
      if (name.slice(0, 2) === "on") element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value === true ? "" : value);
    }
    for (var i = 2; i < arguments.length; i += 1) add(element, arguments[i]);
    return element;
  }

  function add(element, child) {
    if (child === null || child === undefined || child === false) return;
    if (Array.isArray(child)) child.forEach(function (each) { add(element, each); });
    else element.append(child instanceof Node ? child : String(child));
  }

  function bdi(text) {
    return h("bdi", {}, visible(text));
  }

  function svg(tag, attributes) {
    var element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (var name in attributes) element.setAttribute(name, attributes[name]);
    return element;
  }

  // A small table. A cell is text, a node, or {number: text}.
  function plainTable(caption, head, rows) {
    function cell(tag, value, extra) {
      var isNumber = value !== null && typeof value === "object" && "number" in value;
      return h(tag, Object.assign({ class: isNumber ? "number" : null }, extra), isNumber ? value.number : value);
    }
    return h("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" },
      h("table", { class: "plain" }, h("caption", { class: "unseen" }, caption),
        h("thead", {}, h("tr", {}, head.map(function (each) { return cell("th", each, { scope: "col" }); }))),
        h("tbody", {}, rows.map(function (row) {
          return h("tr", {}, row.map(function (value, place) {
            return place === 0 ? cell("th", value, { scope: "row" }) : cell("td", value);
          }));
        }))));
  }

  // The figures of a chart as a table, made when somebody opens it.
  function figures(summary, table) {
    var place = h("div", {});
    var details = h("details", { class: "figures" }, h("summary", {}, summary), place);
    lazily(details, place, table);
    return details;
  }

  function lazily(details, place, make) {
    details.addEventListener("toggle", function () {
      if (details.open && !place.firstChild) add(place, make());
    });
  }

  function say(text) {
    document.getElementById("said").textContent = text;
  }

  function command(text) {
    var code = h("code", {}, visible(text));
    var button = h("button", { class: "copy", type: "button", "aria-label": "Copy the command" }, "Copy");
    button.addEventListener("click", function () {
      copy(code).then(function (done) {
        button.textContent = done ? "Copied" : "Selected";
        say(done ? "The command is copied." : "The command is selected.");
        setTimeout(function () { button.textContent = "Copy"; }, 2000);
      });
    });
    return h("div", { class: "command" }, code, button);
  }

  function copy(element) {
    var range = document.createRange();
    range.selectNodeContents(element);
    var selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    if (navigator.clipboard && navigator.clipboard.writeText) {
      return navigator.clipboard.writeText(element.textContent).then(function () { return true; }, older);
    }
    return Promise.resolve(older());
    function older() {
      try { return document.execCommand("copy"); } catch (error) { return false; }
    }
  }

  // --- charts: Vega draws SVG whose colours are the variables of the style, so each theme and the printer has its own ---

  var FONT = "system-ui, -apple-system, Segoe UI, Roboto, Noto Sans, DejaVu Sans, sans-serif";
  var CONFIG = {
    background: null,
    axis: {
      domainColor: "var(--axis)", tickColor: "var(--axis)", gridColor: "var(--line)",
      labelColor: "var(--muted)", labelFont: FONT, labelFontSize: 11.5, labelPadding: 6, tickSize: 4,
      titleColor: "var(--muted)", titleFont: FONT, titleFontSize: 11.5, titleFontWeight: "normal"
    },
    text: { font: FONT, fontSize: 12, fill: "var(--text)" },
    style: { "guide-label": { font: FONT }, "guide-title": { font: FONT } }
  };
  var views = new Map();

  // Draws `make(width)`, a specification of Vega without width, in an element, and again when its width changes.
  // The element says what it shows, and the figures stand beside it: its parts say nothing to a screen reader.
  function chart(element, specification, onClick) {
    (specification.marks || []).concat(specification.axes || []).forEach(function (part) { part.aria = false; });
    var view = new lakesweepVega.View(lakesweepVega.parse(specification, CONFIG, { ast: true }), {
      expr: lakesweepVega.interpreter, renderer: "svg", logLevel: 1
    });
    view.width(Math.max(120, element.clientWidth)).height(element.clientHeight);
    view.tooltip(tip);
    if (onClick) view.addEventListener("click", function (event, item) { if (item && item.datum) onClick(item.datum); });
    view.initialize(element).run();
    views.set(element, view);
    widths.observe(element);
    return view;
  }

  var widths = new ResizeObserver(function (entries) {
    entries.forEach(function (entry) {
      var view = views.get(entry.target), width = Math.max(120, Math.floor(entry.contentRect.width));
      var height = Math.floor(entry.contentRect.height);
      if (view && entry.contentRect.width > 0 && (view.width() !== width || view.height() !== height)) {
        view.width(width).height(height).run();
      }
    });
  });

  function forget(parent) {
    views.forEach(function (view, element) {
      if (!parent.contains(element)) return;
      widths.unobserve(element);
      view.finalize();
      views.delete(element);
    });
  }

  // What a mark says: `tip` of its datum, the first line a name.
  function tip(handler, event, item, value) {
    var box = document.getElementById("tip");
    box.hidden = !(value && value.tip);
    if (box.hidden) return;
    box.replaceChildren(h("b", {}, bdi(value.tip[0])));
    value.tip.slice(1).forEach(function (line) { box.append(h("span", {}, visible(line))); });
    var right = event.clientX + 14, below = event.clientY + 14;
    if (right + box.offsetWidth > innerWidth - 8) right = Math.max(8, event.clientX - box.offsetWidth - 14);
    if (below + box.offsetHeight > innerHeight - 8) below = Math.max(8, event.clientY - box.offsetHeight - 14);
    box.style.left = right + "px";
    box.style.top = below + "px";
  }

  // --- the theme ---

  var button = document.getElementById("theme"), prefers = matchMedia("(prefers-color-scheme: dark)");

  function isDark() {
    var stated = document.documentElement.dataset.theme;
    return stated ? stated === "dark" : prefers.matches;
  }

  function showTheme() {
    button.setAttribute("aria-pressed", String(isDark()));
  }

  button.addEventListener("click", function () {
    var theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try { localStorage.setItem("lakesweep-theme", theme); } catch (error) { /* it lasts as long as the page */ }
    showTheme();
  });
  prefers.addEventListener("change", showTheme);
  showTheme();

  // --- the printer gets all that is folded away, except tables that nobody opened ---

  var opened = [];

  function unfold(isPrinting) {
    if (!isPrinting) {
      opened.splice(0).forEach(function (each) { each.open = false; });
      return;
    }
    document.querySelectorAll("details:not(.figures):not([open])").forEach(function (each) {
      each.open = true;
      each.dispatchEvent(new Event("toggle"));
      opened.push(each);
    });
    document.dispatchEvent(new Event("lakesweep-print"));
  }

  addEventListener("beforeprint", function () { unfold(true); });
  addEventListener("afterprint", function () { unfold(false); });

  return {
    data: data, bytes: bytes, count: count, counted: counted, usd: usd, time: time, span: span, ago: ago, power: power,
    units: UNITS, visible: visible, h: h, add: add, bdi: bdi, svg: svg, plainTable: plainTable, figures: figures,
    lazily: lazily, command: command, say: say, chart: chart, forget: forget, views: views
  };
})();
