"use strict";
/*
 * What the reader of a sweep chooses: kept in one place, and in the address of the page so that a view can be shared.
 *
 *   AT.sweep.view(changed)          -> {get(key, otherwise), set(key, value), all(prefix), take()}: choices by short names, as
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
      take: () => {
        chosen = new URLSearchParams();
        write();
      },
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

  /** A column's name with its unit. */
  title({ label, unit }) {
    const shown = { bytes: "bytes", share: "0 to 1", "": "" };
    const text = unit in shown ? shown[unit] : unit;
    return text ? `${label} (${text})` : label;
  },

  /** A value as a reader wants it, unit included. */
  text({ unit }, value) {
    if (value === null || value === undefined) return "–";
    if (typeof value !== "number") return String(value);
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    if (unit === "ns") return AT.format.time(value);
    if (unit === "bytes") return AT.format.size(value);
    if (unit === "share") return AT.format.percent(value);
    const plain = Math.abs(value) >= 1e5 || Number.isInteger(value) ? AT.format.number(value, 0) : String(+value.toPrecision(4));
    return unit.startsWith("$") ? `$${plain}${unit.slice(1)}` : unit === "x" ? `${plain}×` : unit ? `${plain} ${unit}` : plain;
  },

  /** A value in a narrow place: no unit but of times and sizes, thousands and millions as k and M. */
  brief(column, value) {
    const { unit } = column;
    if (typeof value !== "number" || ["ns", "bytes", "share"].includes(unit)) return AT.sweep.text(column, value);
    const [scale, letter] = Math.abs(value) >= 1e9 ? [1e9, "G"] : Math.abs(value) >= 1e6 ? [1e6, "M"] : Math.abs(value) >= 1e4 ? [1e3, "k"] : [1, ""];
    return `${unit.startsWith("$") ? "$" : ""}${+(value / scale).toPrecision(4)}${letter}`;
  },

  /** An axis of a picture for a column: logarithmic where values span much, sizes by powers of two, texts by name. */
  axis(column, values) {
    const numbers = values.filter((value) => typeof value === "number" && Number.isFinite(value));
    const title = { text: AT.sweep.title(column) };
    if (column.type !== "number") return { title, type: "category", categoryorder: "array", categoryarray: [...new Set(values)] };
    const [low, high] = numbers.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [Infinity, -Infinity]);
    const type = low > 0 && high / low >= 20 ? "log" : "linear";
    if (column.unit !== "ns" && column.unit !== "bytes") return { title, type, ...(type === "log" ? { dtick: high / low > 1e3 ? 1 : "D2" } : {}) };
    const ticks = AT.sweep.ticks(low, high, column.unit === "bytes" ? 2 : 10, type);
    return { title: { text: column.label }, type, tickvals: ticks, ticktext: ticks.map((tick) => AT.sweep.tickText(column, tick)), minor: {} };
  },

  tickText(column, tick) {
    return AT.sweep.text(column, tick).replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " ");
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
      for (let power = Math.floor(Math.log10(low)) - 1; power <= Math.log10(high) + 1; power += 1) ticks.push(...digits.map((digit) => digit * 10 ** power));
      return ticks;
    }
    const rough = (high - low) / 6;
    const unit = base === 2 ? 2 ** Math.floor(Math.log2(rough)) : 10 ** Math.floor(Math.log10(rough));
    const step = base === 2 ? unit : unit * [1, 2, 5, 10].find((factor) => factor * unit >= rough);
    for (let tick = Math.floor(low / step) * step; tick <= high + step; tick += step) ticks.push(tick);
    return ticks;
  },
});
