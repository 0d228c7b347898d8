"use strict";
/*
 * What somebody types into the filter of a table's column.
 *
 *   AT.filter(text, {type, unit})  ->  (value, shown) => boolean, where shown() is the cell's text; null where the text says nothing
 *   AT.filterHelp({type, unit})    ->  what can be typed, in a sentence or two
 */
Object.assign(AT, {
  _units: {
    ns: { ns: 1, us: 1e3, "µs": 1e3, "μs": 1e3, ms: 1e6, s: 1e9 },
    s: { ns: 1e-9, us: 1e-6, "µs": 1e-6, "μs": 1e-6, ms: 1e-3, s: 1 },
    bytes: Object.fromEntries([["b", 1], ["bytes", 1], ...["k", "m", "g", "t"].flatMap((letter, i) => [[`${letter}ib`, 1024 ** (i + 1)], [`${letter}b`, 1000 ** (i + 1)]])]),
    share: { "%": 0.01 },
    x: { x: 1, "×": 1 },
  },

  _scales(unit) {
    const { ns, s, bytes, share } = AT._units;
    // Tables whose columns name no unit have times, sizes and shares.
    return unit === undefined ? { ...ns, ...bytes, ...share } : AT._units[unit] || { [unit.toLowerCase()]: 1 };
  },

  /** A number as typed, `1,234.5 KiB`, in the column's unit: {value, slack}, slack being what rounding may have taken; else null. */
  _typed(text, unit) {
    const match = text.match(/^([-−]?)\$?(\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d+(?:\.\d*)?|\.\d+|∞|inf(?:inity)?)(e[+-]?\d+)?\s*(\D*)$/);
    if (!match) return null;
    const [, sign, digits, power = "", suffix] = match;
    const factor = suffix ? AT._scales(unit)[suffix.trim()] : 1;
    if (factor === undefined) return null;
    const size = /^[∞i]/.test(digits) ? Infinity : Number(digits.replaceAll(",", "") + power) * factor;
    const decimals = (digits.split(".")[1] || "").length;
    // "12.34 µs" was copied from a text that rounds; a plain number was not.
    const slack = suffix && decimals && !power ? 0.5 * factor * 10 ** -decimals : 0;
    return { value: sign ? -size : size, slack: slack + 1e-9 * (Number.isFinite(size) ? size : 0) };
  },

  /** A test for numbers, or null. */
  _numberFilter(wanted, unit) {
    const range = wanted.match(/^(.*?)\.\.(.*)$/);
    if (range && (range[1].trim() || range[2].trim())) {
      const [low, high] = range.slice(1).map((end, i) => (end.trim() ? AT._typed(end.trim(), unit) : { value: i ? Infinity : -Infinity, slack: 0 }));
      return low && high && ((value) => value >= low.value - low.slack && value <= high.value + high.slack);
    }
    const [, relation, rest] = wanted.match(/^(>=|<=|!=|>|<|=|)\s*(.*)$/);
    const typed = AT._typed(rest, unit);
    if (!typed) return null;
    const { value: than, slack } = typed;
    const same = (value, shown) => value === than || Math.abs(value - than) <= slack || shown().toLowerCase() === rest;
    return {
      ">": (value, shown) => value > than && !same(value, shown), ">=": (value, shown) => value > than || same(value, shown),
      "<": (value, shown) => value < than && !same(value, shown), "<=": (value, shown) => value < than || same(value, shown),
      "!=": (value, shown) => !same(value, shown), "=": same, "": same,
    }[relation];
  },

  _textFilter(wanted) {
    const [, relation, rest] = wanted.match(/^(!=|=|)\s*(.*)$/);
    if (!rest) return null;
    const texts = (value, shown) => [String(value).toLowerCase(), shown().toLowerCase()];
    if (!relation) return (value, shown) => texts(value, shown).some((text) => text.includes(rest));
    return (value, shown) => texts(value, shown).includes(rest) === (relation === "=");
  },

  /** A predicate for what somebody typed into a filter; null where that says nothing. */
  filter(text, { type, unit }) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return () => true;
    const missing = (value) => value === null || value === undefined || Number.isNaN(value);
    const nothing = wanted.match(/^(!=|=|)\s*(none|–)$/);
    if (nothing && nothing[1] === "!=") return (value) => !missing(value);
    const holds = type === "number" ? AT._numberFilter(wanted, unit) : AT._textFilter(wanted);
    if (nothing) return (value, shown) => missing(value) || (holds !== null && holds(value, shown));
    return holds && ((value, shown) => !missing(value) && holds(value, shown));
  },

  /** What can be typed. */
  filterHelp({ type, unit }) {
    if (type !== "number") return "Part of the text; =text or !=text for all of it; none for empty cells";
    const units = { ns: "ns, µs (us), ms, s", s: "ns, µs (us), ms, s", bytes: "B, KiB, MiB, GiB, KB, MB, GB", share: "%; without it 0 to 1" }[unit];
    return `A number, >3, >=3, <3, <=3, !=3, or a range: 1..4, 1.., ..4; none for empty cells${units ? `. Units: ${units}` : ""}`;
  },
});
