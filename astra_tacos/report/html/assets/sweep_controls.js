"use strict";
/*
 * What the reader of a sweep chooses: kept in one place, and in the address of the page so that a view can be shared.
 *
 *   AT.sweep.view(changed)          -> {get(key, otherwise), set(key, value), all(prefix)}: choices by short names, as
 *                                      `#front.x=cost&p=17`; `changed()` is called when somebody opens another address of the page
 *   AT.sweep.choice(label, options, value, pick)  -> a labelled select; options [[value, text], ...]
 *   AT.sweep.title(column) .text(column, value)   a column's name with unit, and a value as a reader wants it
 */
Object.assign(AT.sweep, {
  /** Choices, kept in the address. */
  view(changed) {
    const read = () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
    let chosen = read();
    const write = () => {
      const text = chosen.toString();
      if (text || location.hash.includes("=")) history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
    };
    window.addEventListener("hashchange", () => {
      if (location.hash.includes("=")) {
        chosen = read();
        changed();
      } else write(); // a link to a section: the choices stay in the address
    });
    return {
      get: (key, otherwise = null) => (chosen.has(key) ? chosen.get(key) : otherwise),
      set: (key, value) => {
        if (value === null || value === "") chosen.delete(key);
        else chosen.set(key, value);
        write();
      },
      all: (prefix) => [...chosen.entries()].filter(([key]) => key.startsWith(prefix)).map(([key, value]) => [key.slice(prefix.length), value]),
    };
  },

  /** A select with its label. */
  choice(label, options, value, pick) {
    const select = AT.el("select", { onchange: () => pick(select.value) },
      ...options.map(([entry, text]) => AT.el("option", { value: entry, selected: entry === value }, text)));
    return AT.el("label", { class: "sweep-choice" }, AT.el("span", {}, label), select);
  },

  /** Put controls into an element; the one that had the focus keeps it. */
  place(element, controls) {
    const focused = [...element.querySelectorAll("select")].indexOf(document.activeElement);
    const label = focused >= 0 ? document.activeElement.parentElement.textContent : null;
    element.replaceChildren(...controls);
    if (focused < 0) return;
    const same = [...element.querySelectorAll("select")];
    const name = (select) => select.parentElement.firstChild.textContent;
    (same.find((select) => label.startsWith(name(select))) || same[focused])?.focus();
  },

  /** A column's name with its unit; over cells that have theirs, sizes and shares, without. */
  title({ label, unit }, cells = false) {
    const shown = cells ? { bytes: "", share: "", "": "" } : { bytes: "bytes", share: "0 to 1", "": "" };
    const text = unit in shown ? shown[unit] : unit;
    return text ? `${label} (${text})` : label;
  },

  /** A value as a reader wants it, unit included. */
  text({ unit }, value) {
    if (value === null || value === undefined) return "–";
    if (typeof value !== "number") return `${value} ${unit}`.trim();
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    if (unit === "ns") return AT.format.time(value);
    if (unit === "bytes") return AT.format.size(value);
    if (unit === "share") return AT.format.percent(value);
    const plain = Math.abs(value) >= 1e5 || Number.isInteger(value) ? AT.format.number(value, 0) : AT.sweep.digits(value, 4);
    return unit === "$" ? `$${plain}` : unit === "x" ? `${plain}×` : unit ? `${plain} ${unit}` : plain;
  },

  /** A number to so many significant digits, thousands apart. */
  digits: (value, most) => (Number.isFinite(value) ? (+value.toPrecision(most)).toLocaleString("en-US", { maximumFractionDigits: 12 }) : String(value)),

  /** How a table writes the values of a column, whose unit is in its heading. */
  cell(column) {
    if (column.type !== "number") return null;
    if (column.unit === "bytes") return AT.format.size;
    if (column.unit === "share") return (value) => AT.format.percent(value, 2);
    return (value) => (Number.isInteger(value) ? AT.format.count(value) : AT.sweep.digits(value, 6));
  },

  /** A value in a narrow place: four digits, or fewer where the last are 0, no unit but of times and sizes, thousands and millions as k and M. */
  brief(column, value, zeros = false) {
    const four = (number) => (zeros ? number.toPrecision(4) : `${+number.toPrecision(4)}`);
    const { unit } = column;
    if (typeof value !== "number" || !Number.isFinite(value) || unit === "bytes") return AT.sweep.text(column, value);
    if (unit === "share") return `${four(100 * value)}%`;
    const scales = unit === "ns" ? [[1e9, " s"], [1e6, " ms"], [1e3, " µs"], [1, " ns"]] : [[1e9, "G"], [1e6, "M"], [1e4, "k"], [1, ""]];
    const [from, letter] = scales.find(([scale]) => Math.abs(value) >= scale) || scales[3];
    const digits = `${four(value / (letter === "k" ? 1e3 : from))}${letter}`;
    return unit === "$" ? `$${digits}` : digits;
  },

  /** Whether values reach so far that powers tell more than distances. */
  isWide: (low, high) => low > 0 && high / low >= 20,

  /** An axis of a picture for a column: logarithmic where values reach far, sizes by powers of two, texts by name. */
  axis(column, values, linear = false) {
    const numbers = values.filter((value) => typeof value === "number" && Number.isFinite(value));
    const units = ["ns", "bytes", "share"].includes(column.unit); // those are told by the ticks
    const title = { text: AT.plain(units ? column.label : AT.sweep.title(column)), standoff: 14 };
    if (column.type !== "number") return { title, type: "category", categoryorder: "array", categoryarray: [...new Set(values)] };
    const [low, high] = numbers.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [Infinity, -Infinity]);
    const type = !linear && AT.sweep.isWide(low, high) ? "log" : "linear";
    const ticks = AT.sweep.ticks(linear ? Math.min(0, low) : low, high, column.unit === "bytes" ? 2 : 10, type);
    return { title, type, tickvals: ticks, ticktext: ticks.map((tick) => AT.sweep.brief(column, tick)), rangemode: linear ? "tozero" : "normal" };
  },

  /** Round places on an axis: about six to ten. */
  ticks(low, high, base, type) {
    if (!(high > low)) return [low];
    const ticks = [];
    if (type === "log" && base === 2) {
      const [first, last] = [Math.ceil(Math.log2(low) - 1e-9), Math.floor(Math.log2(high) + 1e-9)];
      const step = Math.max(1, Math.ceil((last - first) / 9));
      for (let power = first; power <= last; power += step) ticks.push(2 ** power);
      return ticks;
    }
    if (type === "log") {
      const decades = Math.log10(high / low);
      const digits = decades > 5 ? [1] : decades > 2.5 ? [1, 3] : [1, 2, 5];
      for (let power = Math.floor(Math.log10(low)) - 1; power <= Math.log10(high) + 1; power += 1) ticks.push(...digits.map((digit) => Number(`${digit}e${power}`)));
      return ticks;
    }
    const rough = (high - low) / 6;
    const unit = base === 2 ? 2 ** Math.floor(Math.log2(rough)) : 10 ** Math.floor(Math.log10(rough));
    const step = base === 2 ? unit : unit * [1, 2, 5, 10].find((factor) => factor * unit >= rough);
    for (let i = Math.floor(low / step); i * step <= high + step; i += 1) ticks.push(+(i * step).toPrecision(12));
    return ticks;
  },
});
