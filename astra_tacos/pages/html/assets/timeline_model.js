"use strict";
/*
 * AT._timelineModel(bars, numRows): bars in an order in which what is seen of them is found quickly.
 */
Object.assign(AT, {
  _timelineModel(bars, numRows) {
    const { row, start, end } = bars;
    const count = row.length;
    const first = new Uint32Array(numRows + 1);
    for (let i = 0; i < count; i += 1) first[row[i] + 1] += 1;
    for (let r = 0; r < numRows; r += 1) first[r + 1] += first[r];
    const order = Uint32Array.from({ length: count }, (_, i) => i);
    const before = (a, b) => row[a] - row[b] || start[a] - start[b] || a - b;
    if (order.some((_, i) => i > 0 && before(i - 1, i) > 0)) order.sort(before);
    const place = new Uint32Array(count);
    order.forEach((bar, i) => { place[bar] = i; });
    const longest = new Float64Array(numRows);
    let last = 0;
    for (let i = 0; i < count; i += 1) {
      longest[row[i]] = Math.max(longest[row[i]], end[i] - start[i]);
      last = Math.max(last, end[i]);
    }

    /** First place in a row whose bar starts at `time` or later. */
    function from(r, time) {
      let low = first[r], high = first[r + 1];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (start[order[middle]] < time) low = middle + 1; else high = middle;
      }
      return low;
    }

    /** Call `visit(bar)` for each bar of the rows and times; stops when it returns false. */
    function visit(view, each) {
      for (let r = Math.max(0, Math.floor(view.r0)); r < Math.min(numRows, Math.ceil(view.r1)); r += 1) {
        for (let i = from(r, view.t0 - longest[r]); i < first[r + 1]; i += 1) {
          const bar = order[i];
          if (start[bar] > view.t1) break;
          if (end[bar] >= view.t0 && each(bar) === false) return;
        }
      }
    }

    return {
      count, last, row, start, end, visit,

      /** Bars in a view: how many. */
      countIn(view) {
        let seen = 0;
        visit(view, () => { seen += 1; });
        return seen;
      },

      /** The bar of a row at a time, or the nearest within a tolerance; -1 if there is none. */
      at(r, time, tolerance) {
        if (r < 0 || r >= numRows) return -1;
        let found = -1, away = tolerance;
        visit({ r0: r, r1: r + 1, t0: time - tolerance, t1: time + tolerance }, (bar) => {
          const distance = Math.max(start[bar] - time, time - end[bar], 0);
          if (distance < away || (distance === away && found < 0) || (distance === 0 && start[bar] > (found < 0 ? -1 : start[found]))) [found, away] = [bar, distance];
        });
        return found;
      },

      /** The bar beside one in its row; -1 at the end. */
      beside(bar, by) {
        const i = place[bar] + by;
        return i >= first[row[bar]] && i < first[row[bar] + 1] ? order[i] : -1;
      },

      /** The bar nearest to a time in the next row that has any, upwards (-1) or downwards (1); -1 if there is none. */
      nearest(r, time, by) {
        for (let other = r; other >= 0 && other < numRows; other += by) {
          if (first[other] === first[other + 1]) { if (by === 0) return -1; continue; }
          const i = from(other, time);
          const near = [i - 1, i].filter((p) => p >= first[other] && p < first[other + 1]).map((p) => order[p]);
          const distance = (bar) => Math.max(start[bar] - time, time - end[bar], 0);
          return near.sort((a, b) => distance(a) - distance(b))[0];
        }
        return -1;
      },

      /** Shares of time in use: Float32Array[rows * columns] over a view, rows of the cells covering equally many rows of bars. */
      heat(view, rows, columns) {
        const cells = new Float32Array(rows * columns);
        const width = (view.t1 - view.t0) / columns, tall = (view.r1 - view.r0) / rows;
        visit(view, (bar) => {
          const low = Math.max(start[bar], view.t0), high = Math.min(end[bar], view.t1);
          const line = Math.min(rows - 1, Math.max(0, Math.floor((row[bar] - view.r0) / tall)));
          const begin = Math.floor((low - view.t0) / width), stop = Math.min(columns - 1, Math.floor((high - view.t0) / width));
          for (let c = begin; c <= stop; c += 1) {
            const share = (Math.min(high, view.t0 + (c + 1) * width) - Math.max(low, view.t0 + c * width)) / width;
            cells[line * columns + c] += share;
          }
        });
        const perCell = new Float32Array(rows);
        for (let r = Math.max(0, Math.floor(view.r0)); r < Math.min(numRows, Math.ceil(view.r1)); r += 1) perCell[Math.min(rows - 1, Math.max(0, Math.floor((r - view.r0) / tall)))] += 1;
        for (let line = 0; line < rows; line += 1) for (let c = 0; c < columns; c += 1) cells[line * columns + c] = Math.min(1, cells[line * columns + c] / Math.max(1, perCell[line]));
        return cells;
      },
    };
  },

  /** RGBA of a view's cells (see `heat`), colours mixed by the time that they take, white for no bar. */
  _mixed(model, view, rows, columns, colours) {
    const channels = colours.map((colour) => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16)));
    const sums = new Float32Array(4 * rows * columns);
    const width = (view.t1 - view.t0) / columns, tall = (view.r1 - view.r0) / rows;
    model.visit(view, (bar) => {
      const low = Math.max(model.start[bar], view.t0), high = Math.min(model.end[bar], view.t1);
      const line = Math.min(rows - 1, Math.max(0, Math.floor((model.row[bar] - view.r0) / tall)));
      const begin = Math.floor((low - view.t0) / width), stop = Math.min(columns - 1, Math.floor((high - view.t0) / width));
      const [r, g, b] = channels[model.colour[bar]];
      for (let c = begin; c <= stop; c += 1) {
        const share = (Math.min(high, view.t0 + (c + 1) * width) - Math.max(low, view.t0 + c * width)) / width;
        const cell = 4 * (line * columns + c);
        sums[cell] += share * r;
        sums[cell + 1] += share * g;
        sums[cell + 2] += share * b;
        sums[cell + 3] += share;
      }
    });
    const pixels = new Uint8ClampedArray(sums.length);
    for (let cell = 0; cell < sums.length; cell += 4) {
      const covered = sums[cell + 3], most = Math.max(covered, Math.max(1, Math.round(tall)));
      for (let i = 0; i < 3; i += 1) pixels[cell + i] = (sums[cell + i] + 255 * (most - covered)) / most;
      pixels[cell + 3] = 255;
    }
    return pixels;
  },
});
