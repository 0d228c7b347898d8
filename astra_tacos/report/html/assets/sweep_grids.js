"use strict";
/* More pictures of a sweep, as sweep_pictures.js has them: the heat map of two columns, and lines. */
Object.assign(AT.sweep, {
  bins: 20,

  /** A column of many numbers as one of ranges of equal width, or of equal ratio where they reach far. */
  binned(column) {
    const numbers = column.values.filter((value) => Number.isFinite(value));
    const [low, high] = numbers.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [Infinity, -Infinity]);
    const wide = AT.sweep.isWide(low, high);
    const edge = (i) => (wide ? low * (high / low) ** (i / AT.sweep.bins) : low + (i * (high - low)) / AT.sweep.bins);
    const names = Array.from({ length: AT.sweep.bins }, (_, i) => `${AT.sweep.brief(column, edge(i))} to ${AT.sweep.brief(column, edge(i + 1))}`);
    const place = (value) => (wide ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low)) * AT.sweep.bins;
    const values = column.values.map((value) => (Number.isFinite(value) ? names[Math.min(AT.sweep.bins - 1, Math.floor(place(value)))] : null));
    return { ...column, label: `${column.label} in ${AT.sweep.bins} ranges`, type: "text", unit: "", values, at: (row) => values[row], distinct: [...new Set(names)] };
  },

  /** A figure over two columns. */
  heatPicture(context) {
    const { model, view, select, redraw } = context;
    const chart = document.getElementById("heat-chart");
    const charts = {};
    const few = AT.sweep.groupings(model, AT.sweep.mostDistinct).filter((column) => column.name !== "status");
    const sides = model.columns.map((column) => {
      if (few.includes(column)) return column;
      return column.type === "number" && column.role !== "result" && !column.distinct && column.name !== "point" ? AT.sweep.binned(column) : null;
    }).filter(Boolean);
    const side = (name) => sides.find((column) => column.name === name);
    const figures = model.columns.filter((column) => column.type === "number" && column.name !== "point");
    const axes = model.axes.map(side).filter((column) => column && column.distinct.length > 1);
    // The two longest axes, in their own order; what is to be done only where there is nothing else.
    const longest = [...axes].sort((p, q) => (p.role === "task") - (q.role === "task") || q.distinct.length - p.distinct.length);
    const order = [...axes.filter((column) => longest.slice(0, 2).includes(column)), ...longest.slice(2)].map(({ name }) => name);
    const words = (goal) => (goal ? [["best", "the best"], ["median", "the median"], ["worst", "the worst"]] : [["best", "the smallest"], ["median", "the median"], ["worst", "the largest"]]);

    function controls(narrow, x, y, value, how) {
      AT.sweep.place(document.getElementById("heat-controls"), [
        AT.sweep.columnChoice(context, "heat", "x", "across", sides, x), AT.sweep.columnChoice(context, "heat", "y", "up", sides.filter((column) => column !== x), y),
        AT.sweep.columnChoice(context, "heat", "value", "colour", figures, value),
        AT.sweep.choice("of points in a cell", words(value.goal), how, (entry) => {
          view.set("heat.how", entry);
          redraw("heat");
        }), ...narrow.controls]);
    }

    /** Numbers for the colours, and the scale beside them. */
    function colours(entries, value, narrow) {
      const finite = entries.filter(Number.isFinite);
      const [low, high] = finite.reduce(([least, most], entry) => [Math.min(least, entry), Math.max(most, entry)], [Infinity, -Infinity]);
      const type = AT.sweep.isWide(low, high) ? "log" : "linear";
      const of = (entry) => (entry === null ? null : type === "log" ? Math.log10(entry) : entry);
      const ticks = finite.length ? AT.sweep.ticks(low, high, value.unit === "bytes" ? 2 : 10, type).filter((tick) => tick >= low - 1e-9 * Math.abs(low) && tick <= high * (1 + 1e-9)) : [];
      const most = narrow ? 4 : 12;
      const thinned = ticks.filter((_, i) => i % Math.ceil(ticks.length / most) === 0);
      const shown = thinned.length > 1 ? thinned : [...new Set([low, high])].filter(Number.isFinite);
      const beside = narrow ? { orientation: "h", yref: "container", y: 0, yanchor: "bottom", thickness: 12, len: 1 } : { thickness: 14, len: 1 };
      return { of, ramp: { colorscale: "Cividis", reversescale: value.goal < 0, colorbar: { ...beside, outlinewidth: 0, tickvals: shown.map(of), ticktext: shown.map((tick) => AT.sweep.brief(value, tick)),
        title: { text: narrow ? "" : AT.plain(value.label), side: "right", font: { size: 12 } } } } };
    }

    /** An axis with a place for each value, the names thinned to so many. */
    function scale(column, values, most) {
      const step = Math.ceil(values.length / most);
      const shown = values.map((_, i) => i).filter((i) => i % step === 0);
      const name = (value) => { const text = AT.sweep.brief(column, value); return text.length > 28 ? `${text.slice(0, 27)}…` : text; };
      const { title } = AT.sweep.axis(column, []);
      return { title, tickvals: shown, ticktext: shown.map((i) => AT.plain(name(values[i]))), range: [-0.5, values.length - 0.5], showgrid: false, type: "linear" };
    }

    /** The numbers in the cells, with the same number of digits, white on dark and black on bright ones. */
    function written({ cells }, number, value, of) {
      const found = cells.flatMap((line, j) => line.flatMap((cell, i) => (Number.isFinite(number(cell) ?? NaN) ? [{ i, j, at: number(cell) }] : [])));
      const texts = found.map(({ at }) => AT.sweep.brief(value, at));
      const whole = texts.every((text) => !text.includes("."));
      const [low, high] = found.map(({ at }) => of(at)).reduce(([least, most], at) => [Math.min(least, at), Math.max(most, at)], [Infinity, -Infinity]);
      // Cividis grows evenly in lightness; white and black stand out alike at a luminance of 0.18, which is at 0.47 of it.
      const bright = (at) => (high > low ? (of(at) - low) / (high - low) : 0.5) > 0.47;
      return [["#000", true], ["#fff", false]].map(([color, holds]) => {
        const mine = found.map((entry, k) => ({ ...entry, text: whole ? texts[k] : AT.sweep.brief(value, entry.at, true) })).filter(({ at }) => (value.goal < 0 ? !bright(at) : bright(at)) === holds);
        return { type: "scatter", mode: "text", name: "numbers", x: mine.map(({ i }) => i), y: mine.map(({ j }) => j), text: mine.map(({ text }) => text), textfont: { color, size: 12 }, hoverinfo: "skip", showlegend: false };
      }).filter((trace) => trace.x.length);
    }

    /** Marks where there is no number to colour. */
    function marks({ cells }, x, y) {
      const kinds = [
        ["failed", (cell) => cell.count === 0 && cell.failed > 0, { symbol: "x", size: 10, color: "#cc3311" }],
        ["no value", (cell) => cell.count === 0 && cell.failed === 0 && cell.first >= 0, { symbol: "line-ew-open", size: 10, color: "#52606d" }],
        ["no point", (cell) => cell.first < 0, { symbol: "circle", size: 3, color: "#b8c4ce" }],
      ];
      return kinds.map(([name, holds, marker]) => {
        const found = cells.flatMap((line, j) => line.flatMap((cell, i) => (holds(cell) ? [[i, j, cell]] : [])));
        return { type: "scatter", mode: "markers", name, x: found.map(([i]) => i), y: found.map(([, j]) => j), customdata: found.map(([, , cell]) => cell.first), marker,
          text: found.map(([, , cell]) => (cell.failed ? `${AT.format.count(cell.failed)} failed` : name)), hovertemplate: "%{text}<extra></extra>" };
      }).filter((trace) => trace.x.length);
    }

    return { async draw(rows, selected) {
      const lacking = AT.sweep.lacking(model);
      if (lacking) return AT.sweep.leaveOut("heat", lacking);
      if (order.length < 2 || !figures.length) return AT.sweep.leaveOut("heat", `A heat map needs two axes of a few different values; this sweep has ${order.length ? `one, ${side(order[0]).label}` : "none"}.`);
      const x = AT.sweep.chosen(context, "heat", "x", sides, order);
      const others = sides.filter((column) => column !== x);
      const y = AT.sweep.chosen(context, "heat", "y", others, order);
      const sized = [x, y].some((column) => column.role === "task");
      const value = AT.sweep.chosen(context, "heat", "value", figures, sized ? ["efficiency", "bus_bandwidth_gbps", "speed_up", "time_ns"] : ["time_ns", "efficiency"]) || figures[0];
      const how = view.get("heat.how", "best");
      const narrow = AT.sweep.narrowed(context, "heat", rows, AT.sweep.tasks(model).filter((column) => column !== x && column !== y), "all", () => null);
      controls(narrow, x, y, value, how);
      const grid = AT.sweep.cells(model, narrow.rows, x, y, value, how, value.goal);
      const wide = chart.clientWidth || 800;
      const number = (cell) => (cell.row < 0 ? null : value.at(cell.row));
      const { of, ramp } = colours(grid.cells.flat().map(number), value, wide < 600);
      const readable = wide / Math.max(1, grid.xs.length) >= 76 && grid.ys.length <= 30;
      const title = `${(words(value.goal).find(([name]) => name === how)?.[1] ?? "the best").replace("the", "The")} ${value.label} by ${x.label} and ${y.label}`;
      const around = marks(grid, x, y);
      const layout = AT.sweep.layout(chart, [title, ...narrow.said].join(", "), around.map(({ name }) => name), {
        xaxis: scale(x, grid.xs, wide < 600 ? 6 : 16), yaxis: scale(y, grid.ys, 24), height: Math.min(800, Math.max(230, 90 + 34 * grid.ys.length)) + (wide < 600 ? 60 : 0), margin: wide < 600 ? { b: 120 } : {} });
      const map = { type: "heatmap", x: grid.xs.map((_, i) => i), y: grid.ys.map((_, j) => j), z: grid.cells.map((line) => line.map((cell) => of(number(cell)))), xgap: 1, ygap: 1, hoverongaps: false, ...ramp,
        customdata: grid.cells.map((line) => line.map((cell) => cell.row)),         hovertext: grid.cells.map((line) => line.map((cell) => (cell.row < 0 ? "" : `${AT.sweep.hover(model, cell.row, [value, x, y])}<br>of ${AT.format.count(cell.count)} points here${cell.failed ? `, ${AT.format.count(cell.failed)} failed` : ""}`))),
        hovertemplate: "%{hovertext}<extra></extra>" };
      const [i, j] = selected >= 0 ? [grid.xs.indexOf(x.at(selected)), grid.ys.indexOf(y.at(selected))] : [-1, -1];
      if (i >= 0 && j >= 0 && narrow.rows.includes(selected)) layout.shapes = [{ type: "rect", x0: i - 0.5, x1: i + 0.5, y0: j - 0.5, y1: j + 0.5, line: { color: AT.sweep.mark, width: 4 } }];
      const cells = grid.cells.flat();
      const missing = selected >= 0 && !(i >= 0 && j >= 0 && narrow.rows.includes(selected)) ? AT.sweep.absent(model, selected) : "";
      const some = cells.filter((cell) => cell.count && cell.failed).length;
      const scope = `${AT.format.count(cells.filter((cell) => cell.count).length)} of ${AT.sweep.counted(cells.length, "cell")} ${cells.filter((cell) => cell.count).length === 1 ? "has" : "have"} a value, of ${AT.sweep.counted(narrow.rows.length, "point")}.`
        + (value.goal ? " Brighter is better." : "") + (some ? ` In ${AT.format.count(some)} of them other points failed.` : "") + missing;
      document.getElementById("heat-scope").textContent = scope;
      await AT.sweep.show(charts, chart, [map, ...around, ...(readable ? written(grid, number, value, of) : [])], layout, { name: "heat_map", alt: `Heat map: ${title}. ${scope}`, select,
        rows: () => [[x, y, value].map(AT.sweep.title).concat(["points", "failed", "point"]), ...grid.cells.flatMap((line, up) => line.map((cell, across) => [grid.xs[across], grid.ys[up], number(cell), cell.count, cell.failed, cell.row < 0 ? null : model.column("point").at(cell.row)]))] });
    } };
  },

  /** A figure against another, one line for each value of a column. */
  linesPicture(context) {
    const { model, select } = context;
    const chart = document.getElementById("lines-chart");
    const charts = {};
    const axes = model.axes.map(model.column).filter((column) => column && column.distinct && column.distinct.length > 1);
    const across = model.columns.filter((column) => column.name !== "point" && column.role !== "result" && column.values.some((value) => value !== null) && (!column.distinct || column.distinct.length > 1));
    const figures = model.columns.filter((column) => column.type === "number" && column.role === "result" && column.name !== "point");

    function traces(lines, bounds, y, many) {
      const drawn = lines.map(({ name, points, column }, i) => [AT.sweep.style(column, name, i), name, points, column]).map(([{ color, symbol }, name, points, column]) => ({ type: "scatter", mode: many ? "lines" : "lines+markers", name: AT.plain(column ? AT.sweep.text(column, name) : y.label), x: points.map((point) => point.at), y: points.map(({ row }) => y.at(row)),
        customdata: points.map(({ row }) => row), line: { color, width: 2 }, marker: { size: 7, symbol },
        text: points.map(({ row, count }) => `${AT.sweep.hover(model, row, [y])}${count > 1 ? `<br>the best of ${AT.format.count(count)} points` : ""}`), hovertemplate: "%{text}<extra></extra>" }));
      if (bounds.length) {
        drawn.push({ type: "scatter", mode: "lines", name: "bound", x: bounds.map(({ at }) => at), y: bounds.map((point) => point.y), line: { color: "#222", dash: "dash", width: 1.5 }, hovertemplate: `bound: %{y:.5~g}<extra></extra>` });
      }
      return drawn;
    }

    return { async draw(rows, selected) {
      const lacking = AT.sweep.lacking(model);
      if (lacking) return AT.sweep.leaveOut("lines", lacking);
      if (!figures.length || !(axes.length > 1 || axes.some(({ type }) => type === "number"))) {
        return AT.sweep.leaveOut("lines", `Lines need an axis of numbers, or two axes; this sweep has ${axes.length ? `one of names, ${axes[0].label}` : "none that varies"}.`);
      }
      const numeric = axes.filter((column) => column.type === "number").sort((a, b) => b.distinct.length - a.distinct.length).map(({ name }) => name);
      const x = AT.sweep.chosen(context, "lines", "x", across, ["size_bytes", ...numeric, ...axes.map(({ name }) => name)]);
      const y = AT.sweep.chosen(context, "lines", "y", figures, x.name === "size_bytes" ? ["bus_bandwidth_gbps", "speed_up", "time_ns"] : ["time_ns"]) || figures[0];
      const groupings = AT.sweep.groupings(model, AT.sweep.mostDistinct).filter((column) => column !== x && column.name !== "status");
      const texts = axes.filter((column) => column.type === "text");
      const by = groupings.length ? AT.sweep.chosen(context, "lines", "by", groupings, ["synthesizer", ...texts.map(({ name }) => name), ...axes.map(({ name }) => name)].filter((name) => name !== x.name)) : null;
      const others = [...new Set([...AT.sweep.tasks(model), ...axes])].filter((column) => column !== x && column !== by);
      const narrow = AT.sweep.narrowed(context, "lines", rows, others, y.goal ? "best of all" : "highest of all", (column) => (column.role === "task" || column.name === "network" ? null : "*"));
      AT.sweep.place(document.getElementById("lines-controls"), [AT.sweep.columnChoice(context, "lines", "x", "across", across, x), AT.sweep.columnChoice(context, "lines", "y", "up", figures, y),
        AT.sweep.columnChoice(context, "lines", "by", "a line for each", groupings, by, "none"), ...narrow.controls]);
      const goal = y.goal || 1;
      const made = AT.sweep.lines(model, narrow.rows, x, y, by, goal);
      // Texts are escaped for Plotly's category axis; numbers stay as they are.
      const at = (value) => (typeof value === "number" ? value : AT.plain(value));
      let lines = made.lines.map((line) => ({ ...line, column: by, points: line.points.map((point) => ({ ...point, at: at(point.x) })) }));
      const total = lines.length;
      if (total > AT.sweep.mostLines) {
        const last = (line) => y.at(line.points[line.points.length - 1].row);
        const kept = new Set([...lines].sort((a, b) => goal * (last(b) - last(a))).slice(0, AT.sweep.mostLines));
        lines = lines.filter((line) => kept.has(line));
      }
      const placed = lines.reduce((sum, line) => sum + line.points.length, 0);
      if (!placed) return AT.sweep.blank("lines", "No point that the filters leave has both figures.");
      const drawn = traces(lines, made.bounds.map((point) => ({ ...point, at: at(point.x) })), y, placed > AT.sweep.mostDots);
      const marked = narrow.rows.includes(selected) && AT.sweep.usable(model, selected, x, y);
      const names = drawn.map(({ name }) => name);
      if (marked) drawn.push({ ...AT.sweep.ring(model, selected, x, y), x: [at(x.at(selected))] });
      const heights = drawn.flatMap((trace) => trace.y);
      const layout = AT.sweep.layout(chart, [`${AT.sweep.opening(y)} against ${x.label}${by ? ` by ${by.label}` : ""}`, ...narrow.said].join(", "), names, { xaxis: AT.sweep.axis(x, made.xs.map(at)),
        yaxis: AT.sweep.axis(y, heights, y.goal > 0), height: 360 });
      const scope = `${AT.sweep.counted(placed, "place")} on ${AT.sweep.counted(lines.length, "line")}, of ${AT.sweep.counted(narrow.rows.length, "point")}; ${y.goal ? "the best" : "the highest"} point of each place.`
        + (total > lines.length ? ` The ${lines.length} best lines of ${AT.format.count(total)} are drawn; the CSV has all.` : "") + (made.bounds.length ? " Dashed: what the lower bound on the time allows, the best of a place." : "")
        + (selected >= 0 && !marked ? AT.sweep.absent(model, selected) : "");
      document.getElementById("lines-scope").textContent = scope;
      await AT.sweep.show(charts, chart, drawn, layout, { name: "lines", alt: `Lines of ${y.label} against ${x.label}. ${scope}`, select,
        rows: () => [[by ? AT.sweep.title(by) : "line", AT.sweep.title(x), AT.sweep.title(y), "points", "point"], ...made.lines.flatMap(({ name, points }) => points.map((point) => [name, point.x, y.at(point.row), point.count, model.column("point").at(point.row)])),
          ...made.bounds.map((point) => ["bound", point.x, point.y, null, null])] });
    } };
  },
});
