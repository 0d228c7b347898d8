"use strict";
/*
 * The table of a sweep, and what pictures draw of its rows.
 *
 *   AT.sweep.open(data)               -> {columns, column(name), count, axes, ok(row)}; see sweep_data.py
 *   AT.sweep.front(rows, x, y, goals) -> rows that no other beats, from the best x on
 *   AT.sweep.grouped(rows, columns)   -> Map from the text of the columns' values to rows
 *   AT.sweep.standIn(rows, y, how)    -> the row that stands for several
 *   AT.sweep.title(column) .text(column, value)   a column's name with its unit, and a value as a reader wants it
 *
 * A column: {name, label, unit, goal, role, own, type, values, at(row), distinct}: numbers or texts, null for none; `distinct` has the
 * different ones, numbers in order.
 */
AT.sweep = {
  open(data) {
    const columns = data.columns.map((column) => {
      const values = Array.from(column.values, (value) => (Number.isNaN(value) ? null : value));
      const distinct = [...new Set(values)].filter((value) => value !== null);
      if (column.type === "number") distinct.sort((a, b) => a - b);
      return { ...column, values, at: (row) => values[row], distinct };
    });
    const column = (name) => columns.find((entry) => entry.name === name);
    const status = column("status");
    return { columns, column, count: status.values.length, axes: data.axes.map(column), ok: (row) => status.at(row) === "ok" };
  },

  /** Rows that no other row beats in x or y without being beaten in the other; goals: -1 for lower, 1 for higher. */
  front(rows, x, y, [goalX, goalY]) {
    const costX = (row) => -goalX * x.at(row);
    const costY = (row) => -goalY * y.at(row);
    const front = [];
    for (const row of rows.slice().sort((a, b) => costX(a) - costX(b) || costY(a) - costY(b) || a - b)) {
      const last = front[front.length - 1];
      const equal = last !== undefined && costX(row) === costX(last) && costY(row) === costY(last);
      if (last === undefined || equal || costY(row) < costY(last)) front.push(row);
    }
    return front;
  },

  grouped(rows, columns) {
    const groups = new Map();
    for (const row of rows) {
      const place = columns.map((column) => String(column.at(row))).join("\u0000");
      if (!groups.has(place)) groups.set(place, []);
      groups.get(place).push(row);
    }
    return groups;
  },

  /** The best, median or worst row; of a figure without a goal the lowest is the best. */
  standIn(rows, y, how) {
    const sorted = rows.slice().sort((a, b) => (y.goal > 0 ? y.at(b) - y.at(a) : y.at(a) - y.at(b)) || a - b);
    return sorted[{ best: 0, median: (sorted.length - 1) >> 1, worst: sorted.length - 1 }[how]];
  },

  /** The values of a column among some rows, in the column's order. */
  present(rows, column) {
    const found = new Set(rows.map(column.at));
    return column.distinct.filter((value) => found.has(value));
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

  /** A value in a narrow place: four digits, no unit but of times, sizes, shares and dollars, thousands and millions as k and M. */
  brief(column, value) {
    const { unit } = column;
    if (typeof value !== "number" || !Number.isFinite(value) || unit === "bytes") return AT.sweep.text(column, value);
    const four = (number) => String(+number.toPrecision(4));
    if (unit === "share") return `${four(100 * value)}%`;
    const scales = unit === "ns" ? [[1e9, " s"], [1e6, " ms"], [1e3, " µs"], [1, " ns"]] : [[1e9, "G"], [1e6, "M"], [1e4, "k"], [1, ""]];
    const [from, letter] = scales.find(([scale]) => Math.abs(value) >= scale) || scales[3];
    return `${unit === "$" ? "$" : ""}${four(value / (letter === "k" ? 1e3 : from))}${letter}${unit === "s" ? " s" : ""}`;
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

  /** `1 point`, `2 points`. */
  counted: (count, noun) => `${AT.format.count(count)} ${noun}${count === 1 ? "" : "s"}`,

  /** Columns of a table of the page. */
  cells: (columns, rows) => columns.map((column) => ({ title: AT.sweep.title(column, true), saved: AT.sweep.title(column), values: rows ? rows.map(column.at) : column.values,
    type: column.type, unit: column.unit, wrap: column.name === "error", format: AT.sweep.cell(column) })),

  /** The stem of a file that is saved: with the sweep's name in front. */
  fileName: (what) => `${AT.data.name.replace(/[^\w.-]+/g, "_").replace(/^_+|_+$/g, "") || "sweep"}_${what}`,
};
