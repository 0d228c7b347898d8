"use strict";
/*
 * The points of a sweep and what its pictures are made of: functions of arrays, without a look at the page.
 *
 *   AT.sweep.open(data)                       -> {columns, column(name), count, axes, ok}; see encode_column in sweep_encoding.py
 *   AT.sweep.front(model, rows, x, y, goals)  -> rows that no other beats, from the best x on
 *   AT.sweep.cells(model, rows, x, y, value, how, goal)  -> what a heat map shows
 *   AT.sweep.lines(model, rows, x, y, by, goal)          -> what a picture of lines shows
 *
 * A column: {name, label, unit, goal, role, type, at(row), values, distinct}. `at` gives a number, a text, or null for no value;
 * `distinct` the different values in order, at most `mostDistinct` of them, else null.
 */
AT.sweep = {
  mostDistinct: 200,

  /** Columns that answer for rows, out of the page's data. */
  open(data) {
    const columns = data.columns.map((packed) => AT.sweep._column(packed, data.count));
    const byName = new Map(columns.map((column) => [column.name, column]));
    const status = byName.get("status");
    const ok = new Uint8Array(data.count);
    for (let row = 0; row < data.count; row += 1) ok[row] = status.at(row) === "ok" ? 1 : 0;
    return { columns, column: (name) => byName.get(name), count: data.count, axes: data.axes, ok };
  },

  _column({ values, codes, numbers, steps, planes, exponents, ...described }, count) {
    const list = new Array(count);
    if (codes) {
      for (let row = 0; row < count; row += 1) list[row] = codes[row] < values.length ? values[codes[row]] : null;
    } else if (steps) {
      steps.reduce((sum, step, row) => (list[row] = sum + step), 0);
    } else {
      const full = numbers || AT.sweep._decimals(planes, exponents);
      for (let row = 0; row < count; row += 1) list[row] = Number.isNaN(full[row]) ? null : full[row];
    }
    const found = new Set();
    for (let row = 0; row < count && found.size <= AT.sweep.mostDistinct; row += 1) if (list[row] !== null) found.add(list[row]);
    const distinct = found.size > AT.sweep.mostDistinct ? null : [...found];
    if (distinct && described.type === "number") distinct.sort((a, b) => a - b);
    return { ...described, values: list, at: (row) => list[row], distinct };
  },

  _decimals([low, middle, high], exponents) {
    const powers = Array.from({ length: 121 }, (_, power) => Number(`1e${power}`));
    return Float64Array.from(exponents, (exponent, row) => {
      if (exponent === -128) return NaN;
      const mantissa = low[row] + 256 * middle[row] + 65536 * high[row] - 8388608;
      if (exponent === 127) return mantissa * Infinity;
      return exponent < 0 ? mantissa / powers[-exponent] : mantissa * powers[exponent];
    });
  },

  /** Whether a row has a result and finite numbers in these columns. */
  usable(model, row, ...columns) {
    return model.ok[row] === 1 && columns.every((column) => column.type !== "number" || Number.isFinite(column.at(row)));
  },

  /** Rows that no other row beats in x or y without being beaten in the other; goals: -1 for lower, 1 for higher. */
  front(model, rows, x, y, [goalX, goalY]) {
    const valid = rows.filter((row) => AT.sweep.usable(model, row, x, y));
    const costX = (row) => -goalX * x.at(row);
    const costY = (row) => -goalY * y.at(row);
    valid.sort((a, b) => costX(a) - costX(b) || costY(a) - costY(b) || a - b);
    const front = [];
    let least = Infinity;
    let last = -1;
    for (const row of valid) {
      const equal = last >= 0 && costX(row) === costX(last) && costY(row) === costY(last);
      if (!equal && costY(row) >= least) continue;
      front.push(row);
      least = costY(row);
      last = row;
    }
    return front;
  },

  /** The row that stands for several: how is "best", "median" or "worst". Rows of one value: the first. */
  standIn(rows, value, how, goal) {
    const sorted = rows.slice().sort((a, b) => (goal > 0 ? value.at(b) - value.at(a) : value.at(a) - value.at(b)) || a - b);
    return how === "best" ? sorted[0] : how === "worst" ? sorted[sorted.length - 1] : sorted[(sorted.length - 1) >> 1];
  },

  /** By value of x and of y the row that stands for the cell; the number of its points, and of those that failed. */
  cells(model, rows, x, y, value, how, goal) {
    const xs = AT.sweep.present(rows, x);
    const ys = AT.sweep.present(rows, y);
    const placeX = new Map(xs.map((entry, i) => [entry, i]));
    const placeY = new Map(ys.map((entry, i) => [entry, i]));
    const grid = ys.map(() => xs.map(() => ({ rows: [], failed: 0, first: -1 })));
    for (const row of rows) {
      const [i, j] = [placeX.get(x.at(row)), placeY.get(y.at(row))];
      if (i === undefined || j === undefined) continue;
      const cell = grid[j][i];
      if (cell.first < 0) cell.first = row;
      if (AT.sweep.usable(model, row, value)) cell.rows.push(row);
      else if (model.ok[row] === 0) cell.failed += 1;
    }
    const cells = grid.map((line) => line.map((cell) => ({
      count: cell.rows.length, failed: cell.failed, first: cell.first,
      row: cell.rows.length ? AT.sweep.standIn(cell.rows, value, how, goal) : -1,
    })));
    return { xs, ys, cells };
  },

  /** The values of a column among some rows, in the column's order. */
  present(rows, column) {
    const found = new Set();
    for (const row of rows) if (column.at(row) !== null) found.add(column.at(row));
    if (column.distinct) return column.distinct.filter((value) => found.has(value));
    return column.type === "number" ? [...found].sort((a, b) => a - b) : [...found];
  },

  /** One line for each value of `by`: points {x, row}, the best row of each x; and the best bound of each x, where there is one. */
  lines(model, rows, x, y, by, goal) {
    const usable = rows.filter((row) => AT.sweep.usable(model, row, x, y) && x.at(row) !== null && (!by || by.at(row) !== null));
    const bound = AT.sweep._bound(model, y);
    const names = by ? AT.sweep.present(usable, by) : [null];
    const xs = AT.sweep.present(usable, x);
    const better = (a, b) => (goal > 0 ? a > b : a < b);
    const best = new Map(names.map((name) => [name, new Map()]));
    const bounds = new Map();
    for (const row of usable) {
      const line = best.get(by ? by.at(row) : null);
      const seen = line.get(x.at(row));
      if (!seen) line.set(x.at(row), { row, count: 1 });
      else {
        seen.count += 1;
        if (better(y.at(row), y.at(seen.row))) seen.row = row;
      }
      const limit = bound ? bound(row) : null;
      if (limit !== null && (!bounds.has(x.at(row)) || better(limit, bounds.get(x.at(row))))) bounds.set(x.at(row), limit);
    }
    const lines = names.map((name) => ({ name, points: xs.filter((at) => best.get(name).has(at)).map((at) => ({ x: at, ...best.get(name).get(at) })) }));
    return { xs, lines, bounds: xs.filter((at) => bounds.has(at)).map((at) => ({ x: at, y: bounds.get(at) })) };
  },

  /** What y would be if the bound were met: a function of a row, or null where there is no such thing. */
  _bound(model, y) {
    const finite = (value) => (Number.isFinite(value) ? value : null);
    const bound = model.column("bound_ns");
    const efficiency = model.column("efficiency");
    if (y.name === "time_ns" && bound) return (row) => finite(bound.at(row));
    if ((y.name === "bus_bandwidth_gbps" || y.name === "algorithm_bandwidth_gbps") && efficiency) {
      return (row) => finite(efficiency.at(row) ? y.at(row) / efficiency.at(row) : null);
    }
    return null;
  },
};
