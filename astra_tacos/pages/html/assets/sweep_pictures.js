"use strict";
/*
 * The pictures of a sweep: AT.sweep.pictures.NAME(model, rows, panel, selected) is a text that says why there is none, or
 *
 *   {title, scope, traces, layout, header, records}    what Plotly draws, and the figures behind it as rows of values
 *
 * Points carry their row as `customdata`, so that a click chooses it.
 */
Object.assign(AT.sweep, {
  mark: "#aa3377",
  mostPlaces: 200,

  isWide: (numbers) => numbers.length > 0 && Math.min(...numbers) > 0 && Math.max(...numbers) >= AT.data.log_from * Math.min(...numbers),

  /** Times are drawn in seconds, for which Plotly has prefixes. */
  drawn: (column, value) => (value === null ? null : column.unit === "ns" ? value * 1e-9 : column.type === "number" ? value : AT.plain(value)),

  _ticks: { ns: { tickformat: "~s", ticksuffix: "s" }, s: { tickformat: "~s", ticksuffix: "s" }, share: { tickformat: "~%" }, $: { tickformat: "~s", tickprefix: "$" } },

  /** The name of what is drawn, with its unit unless the ticks have it. */
  heading: (column) => AT.plain(["ns", "s", "bytes", "share", "$"].includes(column.unit) ? column.label : AT.sweep.title(column)),

  /** An axis for some values of a column; logarithmic where they reach far. */
  axis(column, values, fromZero = false) {
    const title = { text: AT.sweep.heading(column), standoff: 14 };
    const distinct = column.distinct.filter((value) => values.has(value));
    if (column.type !== "number") return { title, type: "category", categoryorder: "array", categoryarray: distinct.map(AT.plain) };
    const [low, high] = [distinct[0], distinct[distinct.length - 1]];
    const log = !fromZero && AT.sweep.isWide(distinct);
    const kind = log ? { title, type: "log" } : { title, rangemode: fromZero || distinct.length === 1 ? "tozero" : "normal" };
    if (!log && column.unit !== "bytes") return { ...kind, ...AT.sweep._ticks[column.unit] };
    const decades = log ? Array.from({ length: Math.ceil(Math.log10(high / low)) + 2 }, (_, i) => Math.floor(Math.log10(low)) + i) : [];
    const ticks = column.unit === "bytes" ? distinct.filter((_, i) => i % Math.ceil(distinct.length / 8) === 0)
      : decades.flatMap((power) => (high > 1000 * low ? [1] : [1, 2, 5]).map((digit) => Number(`${digit}e${power}`)));
    return { ...kind, tickvals: ticks.map((tick) => AT.sweep.drawn(column, tick)), ticktext: ticks.map((tick) => AT.sweep.brief(column, tick)) };
  },

  /** Colour and symbol of a value of a column, the same in figures; of points that are one series without a column. */
  style(column, value) {
    const [color, symbol] = column ? column.looks[column.distinct.indexOf(value)] : AT.data.look;
    return { color, symbol };
  },

  /** Columns whose values are told apart by their looks. */
  series: (model) => model.columns.filter(({ name, distinct, looks }) => distinct.length > 1 && looks.length && !["error", "point", "status"].includes(name)),

  /** Whether a row has a result and finite numbers in these columns. */
  usable: (model, row, ...columns) => model.ok(row) && columns.every((column) => (column.type === "number" ? Number.isFinite(column.at(row)) : column.at(row) !== null)),

  /** What is said of a point: the columns of the picture, then what sets it apart. */
  hover(model, row, columns) {
    const said = [...new Set([...columns, ...model.axes])].filter((column) => column.at(row) !== null);
    return [`<b>point ${model.column("point").at(row)}</b>`, ...said.map((column) => AT.plain(`${column.label}: ${AT.sweep.text(column, column.at(row))}`))].join("<br>");
  },

  /** Points of rows, as Plotly takes them. */
  points: (model, rows, x, y, more = {}) => ({ type: "scatter", mode: "markers", x: rows.map((row) => AT.sweep.drawn(x, x.at(row))), y: rows.map((row) => AT.sweep.drawn(y, y.at(row))), customdata: rows,
    text: rows.map((row) => AT.sweep.hover(model, row, [x, y])), hovertemplate: "%{text}<extra></extra>", ...more }),

  /** A ring around the chosen point, if it is among these rows. */
  ring: (model, rows, selected, x, y) => (rows.includes(selected) ? [AT.sweep.points(model, [selected], x, y,
    { name: `point ${model.column("point").at(selected)}`, showlegend: false, hoverinfo: "skip", hovertemplate: null, marker: { size: 16, symbol: "circle-open", color: AT.sweep.mark, line: { width: 3 } } })] : []),

  /** Columns by which points are told apart. */
  groupings: (model, most) => model.columns.filter(({ name, distinct }) => distinct.length > 1 && distinct.length <= most && !["error", "point", "status"].includes(name)),

  tasks: (model, ...without) => model.columns.filter((column) => column.role === "task" && !without.includes(column)),

  figures: (model) => model.columns.filter(({ name, type, values }) => type === "number" && name !== "point" && values.some(Number.isFinite)),

  /** What comes first in a heading; names that a sweep file gives are left as they are. */
  opening: ({ label, own }) => (own ? label : label[0].toUpperCase() + label.slice(1)),

  pictures: {
    /** Points of two figures, and those that no other beats. */
    front(model, rows, panel, selected) {
      const figures = AT.sweep.figures(model);
      const rivals = ["cost", "total_bandwidth_gbps", "num_sends"].filter((name) => model.column(name)?.distinct.length > 1);
      if (!rivals.length || figures.length < 2) return "A front needs a time and another figure to set against it, cost, bandwidth or sends; none varies in this sweep.";
      const goals = [["-1", "lower is better"], ["1", "higher is better"]];
      const x = panel.column("x", "across", figures, rivals);
      const goalX = panel.pick("x.goal", "across is", goals, String(x.goal || -1));
      const y = panel.column("y", "up", figures.filter((column) => column !== x), ["time_ns"]);
      const goalY = panel.pick("y.goal", "up is", goals, String(y.goal || -1));
      const by = panel.column("by", "colours", AT.sweep.series(model), ["synthesizer", ...model.axes.filter(({ role }) => role !== "task").map(({ name }) => name)], "none");
      const { rows: mine, said } = panel.task(rows, AT.sweep.tasks(model, x, y));
      const usable = mine.filter((row) => AT.sweep.usable(model, row, x, y));
      if (!usable.length) return "No point that the filters leave has both figures.";
      const front = AT.sweep.front(usable, x, y, [Number(goalX), Number(goalY)]);
      const on = new Set(front);
      const traces = (by ? AT.sweep.present(usable, by) : [null]).map((value) => AT.sweep.points(model, by ? usable.filter((row) => by.at(row) === value) : usable, x, y,
        { name: by ? AT.plain(AT.sweep.text(by, value)) : "points", marker: { size: 7, opacity: 0.75, ...AT.sweep.style(by, value) } }));
      traces.push(AT.sweep.points(model, front, x, y, { name: "Pareto front", mode: "lines+markers", line: { shape: "hv", color: "#222", width: 1.8 }, marker: { size: 8, color: "#222", symbol: "diamond-open" } }));
      const left = mine.length - usable.length;
      const shown = [...new Set([x, y, ...model.axes, model.column("point")])];
      AT.table(document.getElementById("front-table"), AT.sweep.cells(shown, front),
        { name: AT.sweep.fileName("pareto_front"), filter: false, pageSize: 10, caption: "Points on the Pareto front", onSelect: (at) => panel.select(front[at]) });
      return { title: [`${AT.sweep.opening(y)} against ${x.label}`, ...said].join(", "),
        scope: `${AT.format.count(front.length)} of ${AT.sweep.counted(usable.length, "point")} ${front.length === 1 ? "is" : "are"} on the front${said.length ? ` (${said.join(", ")})` : ""}.`
          + (left ? ` ${AT.sweep.counted(left, "point")} without both figures ${left === 1 ? "is" : "are"} left out.` : ""),
        traces: [...traces, ...AT.sweep.ring(model, usable, selected, x, y)],
        layout: { xaxis: AT.sweep.axis(x, new Set(usable.map(x.at))), yaxis: AT.sweep.axis(y, new Set(usable.map(y.at))), height: 460 },
        header: [...shown.map((column) => AT.sweep.title(column)), "on the front"], records: usable.map((row) => [...shown.map((column) => column.at(row)), on.has(row) ? "yes" : "no"]) };
    },

    /** A figure over two columns. */
    heat(model, rows, panel, selected) {
      const sides = AT.sweep.groupings(model, AT.sweep.mostPlaces);
      // The two longest axes, in their own order; what is to be done only where there is nothing else.
      const axes = model.axes.filter((column) => sides.includes(column));
      const longest = [...axes].sort((p, q) => (p.role === "task") - (q.role === "task") || q.distinct.length - p.distinct.length);
      const order = [...axes.filter((column) => longest.slice(0, 2).includes(column)), ...longest.slice(2)].map(({ name }) => name);
      const figures = AT.sweep.figures(model);
      if (order.length < 2 || !figures.length) return `A heat map needs two axes of at most ${AT.sweep.mostPlaces} values; this sweep has ${order.length ? `one, ${axes[0].label}` : "none"}.`;
      const x = panel.column("x", "across", sides, order);
      const y = panel.column("y", "up", sides.filter((column) => column !== x), order);
      const value = panel.column("value", "colour", figures, [x, y].some(({ role }) => role === "task") ? ["efficiency", "bus_bandwidth_gbps", "speed_up", "time_ns"] : ["time_ns", "efficiency"]);
      const words = value.goal ? [["best", "the best"], ["median", "the median"], ["worst", "the worst"]] : [["best", "the smallest"], ["median", "the median"], ["worst", "the largest"]];
      const how = panel.pick("how", "of points in a cell", words);
      const { rows: mine, said } = panel.task(rows, AT.sweep.tasks(model, x, y));
      const [xs, ys] = [x, y].map((column) => AT.sweep.present(mine, column));
      const cells = [...AT.sweep.grouped(mine.filter((row) => x.at(row) !== null && y.at(row) !== null), [x, y]).values()].map((here) => {
        const usable = here.filter((row) => AT.sweep.usable(model, row, value));
        return { here, count: usable.length, failed: here.filter((row) => !model.ok(row)).length, row: usable.length ? AT.sweep.standIn(usable, value, how) : null, i: xs.indexOf(x.at(here[0])), j: ys.indexOf(y.at(here[0])) };
      });
      const filled = cells.filter(({ row }) => row !== null);
      const numbers = filled.map(({ row }) => value.at(row));
      const colour = AT.sweep.isWide(numbers) ? Math.log10 : (number) => number;
      const grid = (of, none = null) => {
        const lines = ys.map(() => xs.map(() => none));
        for (const cell of filled) lines[cell.j][cell.i] = of(cell);
        return lines;
      };
      const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
      const narrow = panel.width < 600;
      const middle = narrow ? [] : [AT.sweep.isWide(numbers) ? Math.sqrt(low * high) : (low + high) / 2];
      const ends = low < high ? [low, ...middle, high] : numbers.slice(0, 1);
      const bar = narrow ? { orientation: "h", y: -0.3, yanchor: "top", len: 0.7, ticklabeloverflow: "allow" } : { title: { text: AT.sweep.heading(value), side: "right" } };
      const side = (column, values, most) => {
        const shown = values.map((_, i) => i).filter((i) => i % Math.ceil(values.length / most) === 0);
        return { title: { text: AT.sweep.heading(column), standoff: 14 }, type: "linear", range: [-0.5, values.length - 0.5], showgrid: false, tickvals: shown, ticktext: shown.map((i) => AT.plain(AT.sweep.brief(column, values[i]))) };
      };
      const readable = panel.width / Math.max(1, xs.length) >= 76 && ys.length <= 30;
      const map = { type: "heatmap", x: xs.map((_, i) => i), y: ys.map((_, j) => j), z: grid(({ row }) => colour(value.at(row))), customdata: grid(({ row }) => row), xgap: 1, ygap: 1, hoverongaps: false,
        colorscale: AT.data.cells.map((colour, i) => [i / (AT.data.cells.length - 1), colour]), reversescale: value.goal > 0, colorbar: { ...bar, thickness: 14, outlinewidth: 0, tickvals: ends.map(colour), ticktext: ends.map((entry) => AT.sweep.brief(value, entry)) },
        text: grid(({ row }) => AT.sweep.brief(value, value.at(row)), ""), texttemplate: readable ? "%{text}" : "", textfont: { size: 12, color: "#000" },
        hovertext: grid(({ row, count, failed }) => `${AT.sweep.hover(model, row, [value, x, y])}<br>of ${AT.sweep.counted(count, "point")} here${failed ? `, ${AT.format.count(failed)} failed` : ""}`), hovertemplate: "%{hovertext}<extra></extra>" };
      const empty = cells.filter(({ row }) => row === null);
      const none = { type: "scatter", mode: "markers", name: "no value", x: empty.map(({ i }) => i), y: empty.map(({ j }) => j), customdata: empty.map(({ here }) => here[0]), marker: { symbol: "x", size: 10, color: "#cc3311" },
        text: empty.map(({ here, failed }) => (failed ? AT.plain(`${AT.format.count(failed)} failed: ${model.column("status").at(here[0])}`) : "no value")), hovertemplate: "%{text}<extra></extra>" };
      const marked = cells.find(({ here }) => here.includes(selected));
      return { title: [`${AT.sweep.opening({ label: words.find(([name]) => name === how)[1] })} ${value.label} by ${x.label} and ${y.label}`, ...said].join(", "),
        scope: `${AT.format.count(filled.length)} of ${AT.sweep.counted(xs.length * ys.length, "cell")} ${filled.length === 1 ? "has" : "have"} a value, of ${AT.sweep.counted(mine.length, "point")}.`
          + (value.goal ? " Brighter is better." : "") + (empty.length ? " A cross marks points without a value: a click shows the reason." : ""),
        traces: empty.length ? [map, none] : [map],
        layout: { xaxis: side(x, xs, narrow ? 4 : 16), yaxis: side(y, ys, 24), height: Math.min(900, Math.max(320, 170 + 34 * ys.length)) + (narrow ? 120 : 0), showlegend: false,
          shapes: marked ? [{ type: "rect", x0: marked.i - 0.5, x1: marked.i + 0.5, y0: marked.j - 0.5, y1: marked.j + 0.5, line: { color: AT.sweep.mark, width: 4 } }] : [] },
        header: [...[x, y, value].map((column) => AT.sweep.title(column)), "points", "failed", "point"],
        records: cells.map(({ here, row, count, failed }) => [x.at(here[0]), y.at(here[0]), row === null ? null : value.at(row), count, failed, row === null ? null : model.column("point").at(row)]) };
    },

    /** A figure against another column, one line for each value of a third. */
    lines(model, rows, panel, selected) {
      const axes = model.axes.filter(({ distinct }) => distinct.length > 1);
      const across = model.columns.filter(({ name, role, distinct }) => name !== "point" && role !== "result" && distinct.length > 1);
      const figures = AT.sweep.figures(model).filter(({ role }) => role === "result");
      if (!figures.length || !(axes.length > 1 || axes.some(({ type }) => type === "number"))) return `Lines need an axis of numbers, or two axes; this sweep has ${axes.length ? `one of names, ${axes[0].label}` : "none that varies"}.`;
      const rank = ({ type, role }) => (type === "number") + (type === "number" && role !== "draw");
      const sizes = across.filter(({ name }) => name === "size_bytes");
      const longest = [...new Set([...sizes, ...axes])].sort((a, b) => rank(b) - rank(a) || b.distinct.length - a.distinct.length);
      const x = panel.column("x", "across", across, longest.map(({ name }) => name));
      const y = panel.column("y", "up", figures, x.name === "size_bytes" ? ["bus_bandwidth_gbps", "speed_up", "time_ns"] : ["time_ns"]);
      const texts = axes.filter(({ type }) => type === "text");
      const by = panel.column("by", "a line for each", AT.sweep.series(model).filter((column) => column !== x), ["synthesizer", ...[...texts, ...axes].map(({ name }) => name)], "none");
      const apart = [...AT.sweep.tasks(model, x, by), ...axes.filter((column) => column.name === "network" && ![x, by].includes(column))];
      const { rows: mine, said } = panel.task(rows, apart);
      const usable = mine.filter((row) => AT.sweep.usable(model, row, x, y) && x.at(row) !== null && (!by || by.at(row) !== null));
      if (!usable.length) return "No point that the filters leave has both figures.";
      const xs = AT.sweep.present(usable, x);
      const order = new Map(xs.map((at, i) => [at, i]));
      const places = (some) => [...AT.sweep.grouped(some, [x]).values()].sort((a, b) => order.get(x.at(a[0])) - order.get(x.at(b[0])));
      const best = (some) => places(some).map((here) => ({ row: AT.sweep.standIn(here, y, "best"), count: here.length }));
      const lines = (by ? AT.sweep.present(usable, by) : [null]).map((name) => ({ name, own: best(by ? usable.filter((row) => by.at(row) === name) : usable) }));
      const traces = lines.map(({ name, own }) => {
        const { color, symbol } = AT.sweep.style(by, name);
        return AT.sweep.points(model, own.map(({ row }) => row), x, y, { name: AT.plain(by ? AT.sweep.text(by, name) : y.label), mode: "lines+markers", line: { color, width: 2 }, marker: { size: 7, symbol, color },
          text: own.map(({ row, count }) => `${AT.sweep.hover(model, row, [y])}${count > 1 ? `<br>the best of ${AT.sweep.counted(count, "point")}` : ""}`) });
      });
      const limit = AT.sweep.limit(model, y);
      const bounds = !limit ? [] : places(usable).map((here) => [x.at(here[0]), here.map(limit).filter(Number.isFinite)]).filter(([, found]) => found.length)
        .map(([at, found]) => [at, found.reduce((a, b) => (y.goal > 0 ? Math.max(a, b) : Math.min(a, b)))]);
      if (bounds.length) traces.push({ type: "scatter", mode: "lines", name: "bound", x: bounds.map(([at]) => AT.sweep.drawn(x, at)), y: bounds.map(([, bound]) => AT.sweep.drawn(y, bound)), line: { color: "#222", dash: "dash", width: 1.5 }, text: bounds.map(([, bound]) => `bound: ${AT.sweep.text(y, bound)}`), hovertemplate: "%{text}<extra></extra>" });
      const over = axes.filter((column) => ![x, by].includes(column) && AT.sweep.present(usable, column).length > 1).map(({ label }) => label);
      const drawn = lines.reduce((sum, { own }) => sum + own.length, 0);
      return { title: [`${AT.sweep.opening(y)} against ${x.label}${by ? ` by ${by.label}` : ""}`, ...said, ...(over.length ? [`${y.goal ? "best" : "lowest"} over ${over.join(", ")}`] : [])].join(", "),
        scope: `${AT.sweep.counted(drawn, "place")} on ${AT.sweep.counted(lines.length, "line")}, of ${AT.sweep.counted(mine.length, "point")}; ${y.goal ? "the best" : "the lowest"} point of each place.`
          + (bounds.length ? " Dashed: what the lower bound on the time allows, the best of a place." : ""),
        traces: [...traces, ...AT.sweep.ring(model, usable, selected, x, y)],
        layout: { xaxis: AT.sweep.axis(x, new Set(xs)), yaxis: AT.sweep.axis(y, new Set(lines.flatMap(({ own }) => own.map(({ row }) => y.at(row)))), y.goal > 0), height: 440 },
        header: [by ? AT.sweep.title(by) : "line", AT.sweep.title(x), AT.sweep.title(y), "points", "point"],
        records: [...lines.flatMap(({ name, own }) => own.map(({ row, count }) => [name, x.at(row), y.at(row), count, model.column("point").at(row)])), ...bounds.map(([at, bound]) => ["bound", at, bound, null, null])] };
    },
  },

  /** What a figure would be if the bound on the time were met: a function of a row, or null where there is no such thing. */
  limit(model, y) {
    const [bound, efficiency] = [model.column("bound_ns"), model.column("efficiency")];
    if (y.name === "time_ns" && bound) return bound.at;
    if (["bus_bandwidth_gbps", "algorithm_bandwidth_gbps"].includes(y.name) && efficiency) return (row) => y.at(row) / efficiency.at(row);
    return null;
  },
});
