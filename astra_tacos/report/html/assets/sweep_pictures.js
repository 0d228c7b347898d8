"use strict";
/*
 * The pictures of a sweep. Each is made of a context {model, view, select(row), redraw()} and has
 *
 *   draw(rows, selected)     over the rows that the table's filter leaves, with one of them marked; a Promise
 *
 * and finds its elements by its name: NAME-controls, NAME-scope, NAME-chart.
 */
Object.assign(AT.sweep, {
  mostDots: 3000,
  mostLines: 12,
  mark: "#aa3377",

  /** Pixels that a text takes in Plotly's pictures. */
  textWidth(text, size) {
    const context = (AT.sweep._canvas ||= AT.el("canvas").getContext("2d"));
    context.font = `${size}px ${AT._houseLayout.font.family}`;
    return context.measureText(text).width;
  },

  /** A column at the beginning of a heading; the names that a sweep file gives are left as they are. */
  opening: ({ label, own }) => (own ? label : label[0].toUpperCase() + label.slice(1)),

  /** `1 point`, `2 points`. */
  counted: (count, noun) => `${AT.format.count(count)} ${noun}${count === 1 ? "" : "s"}`,

  /** The stem of a file that is saved: with the sweep's name in front. */
  fileName: (what) => `${AT.data.name.replace(/[^\w.-]+/g, "_").replace(/^_+|_+$/g, "") || "sweep"}_${what}`,

  /** Why a sweep has no pictures at all, or null. */
  lacking(model) {
    if (!model.ok.includes(1)) return "No point has a result: there is nothing to draw.";
    return model.count === 1 ? "A single point makes no picture." : null;
  },

  /** In place of a picture: why there is none. */
  blank(name, why) {
    AT.sweep._shown(name, false);
    document.getElementById(`${name}-scope`).textContent = why;
  },

  /** The same where no choice would help. */
  leaveOut(name, why) {
    AT.sweep.blank(name, why);
    document.getElementById(`${name}-controls`).replaceChildren();
  },

  _shown(name, shown) {
    for (const id of [`${name}-chart`, `${name}-list`]) document.getElementById(id)?.toggleAttribute("hidden", !shown);
  },

  /** Colour and symbol of the i-th value of a column: synthesizers have their own, as in figures. */
  style(column, value, i) {
    const symbols = ["circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down", "star", "pentagon", "hexagon"];
    const named = column && ["synthesizer", "made_by"].includes(column.name);
    const [color, symbol] = named ? AT.data.styles[value] || ["#666666", symbols[symbols.length - 1 - (i % 4)]] : [AT.colours.muted[i % 10], symbols[i % 10]];
    return { color, symbol };
  },

  /** A heading of a picture, in lines that fit it. */
  heading(text, width) {
    const most = Math.max(200, width - 12);
    const lines = [""];
    for (const word of text.split(" ")) {
      if (AT.sweep.textWidth(lines[lines.length - 1] + word, 14) > most) lines.push("");
      lines[lines.length - 1] += `${word} `;
    }
    return { text: lines.map((line) => AT.plain(line.trim())).join("<br>"), lines: lines.length };
  },

  /** The layout that pictures share: the heading, under it the key of these names, which takes as many lines as it needs. */
  layout(element, heading, names, { height, margin, ...layout }) {
    const width = element.clientWidth || 800;
    const { text, lines } = AT.sweep.heading(heading, width);
    const entries = names.map((name) => AT.sweep.textWidth(String(name), 13) + 47);
    const columns = Math.max(1, Math.floor((width - 90) / Math.max(1, ...entries)));
    const keys = !names.length ? 0 : entries.reduce((sum, entry) => sum + entry, 0) < width - 90 ? 1 : Math.ceil(names.length / columns);
    const begin = 19 * lines + 12;
    const top = begin + 20 * keys + 10;
    return { title: { text, font: { size: 14 }, x: 0, xref: "container", xanchor: "left", y: 1, yref: "container", yanchor: "top", pad: { t: 8 + 9 * (lines - 1), l: 4 } },
      hovermode: "closest", showlegend: keys > 0, height: height + top, legend: { orientation: "h", x: 0, yref: "container", y: 1 - begin / (height + top), yanchor: "top" }, ...layout, margin: { t: top, r: 16, ...margin } };
  },

  /**
   * Controls and rows of a picture that shows one value at a time of some columns: "*" for all. Without a choice, or where the filter
   * leaves nothing of what was chosen, `automatic(column)` says "*" or null: then it is the largest number, or the first text.
   */
  narrowed({ view, redraw }, name, rows, columns, all, automatic) {
    const [controls, said, over] = [[], [], []];
    for (const column of columns) {
      const present = column.distinct ? AT.sweep.present(rows, column) : [];
      if (present.length < 2) continue;
      const chosen = view.get(`${name}.of.${column.name}`, automatic(column));
      const found = present.find((value) => String(value) === chosen);
      const value = chosen === "*" ? null : found ?? (column.type === "number" ? present[present.length - 1] : present[0]);
      const options = [["*", all], ...present.map((entry) => [String(entry), AT.sweep.text(column, entry)])];
      controls.push(AT.sweep.choice(column.label, options, value === null ? "*" : String(value), (entry) => {
        view.set(`${name}.of.${column.name}`, entry);
        redraw(name);
      }));
      if (value === null) {
        if (all !== "all") over.push(column);
        continue;
      }
      rows = rows.filter((row) => column.at(row) === value);
      said.push(`${column.label} ${AT.sweep.text(column, value)}`);
    }
    const mixed = over.filter((column) => AT.sweep.present(rows, column).length > 1);
    if (mixed.some(({ name: entry }) => entry === "network")) said.push(`${all} networks`);
    const rest = mixed.filter(({ name: entry }) => entry !== "network").map(({ label }) => label);
    if (rest.length) said.push(`${all.split(" ")[0]} over ${rest.join(", ")}`);
    return { rows, controls, said };
  },

  /** A select for one of the picture's columns. */
  columnChoice({ view, redraw }, name, key, label, columns, value, none = null) {
    const options = [...(none ? [["-", none]] : []), ...columns.map((column) => [column.name, column.label])];
    return AT.sweep.choice(label, options, value ? value.name : "-", (entry) => {
      view.set(`${name}.${key}`, entry);
      redraw(name);
    });
  },

  /** The column that somebody chose among some, else the first of those preferred, else none. */
  chosen({ view }, name, key, columns, preferred) {
    const wanted = view.get(`${name}.${key}`);
    if (wanted === "-") return null;
    return [wanted, ...preferred].map((entry) => columns.find((column) => column.name === entry)).find(Boolean) || null;
  },

  /** Draw into a chart, made at the first time. */
  async show(charts, element, traces, layout, { name, alt, rows, select }) {
    AT.sweep._shown(element.id.replace("-chart", ""), true);
    if (!charts.current) {
      charts.current = await AT.chart(element, traces, layout, { name: AT.sweep.fileName(name), alt, rows: () => charts.rows() });
      charts.current.plot.on("plotly_click", ({ points }) => {
        const row = points[0].customdata;
        if (Number.isInteger(row) && row >= 0) select(row);
      });
    }
    charts.rows = rows;
    await charts.current.update(traces, layout);
    charts.current.plot.setAttribute("aria-label", alt);
    element.setAttribute("aria-label", alt);
  },

  /** Columns by which points may be coloured or told apart. */
  groupings: (model, most) => model.columns.filter((column) => column.distinct && column.distinct.length > 1 && column.distinct.length <= most && !["error", "point"].includes(column.name)),

  tasks: (model) => model.columns.filter((column) => column.role === "task"),

  /** Points that do not drown each other: dots, or from `mostDots` on counts by place. */
  cloud(model, rows, x, y, by, layout) {
    const at = (column) => rows.map((row) => column.at(row));
    if (rows.length > AT.sweep.mostDots) return [AT.sweep._counts(at(x), at(y), layout)];
    const groups = by ? AT.sweep.present(rows, by) : [null];
    return groups.map((value, i) => {
      const mine = by ? rows.filter((row) => by.at(row) === value) : rows;
      return { type: "scatter", mode: "markers", name: by ? AT.plain(AT.sweep.text(by, value)) : "points", x: mine.map(x.at), y: mine.map(y.at), customdata: mine,
        marker: { size: 7, opacity: 0.75, ...AT.sweep.style(by, value, i) },
        text: mine.map((row) => AT.sweep.hover(model, row, [x, y])), hovertemplate: "%{text}<extra></extra>" };
    });
  },

  _counts(xs, ys, { xaxis, yaxis }) {
    const scale = (values, type, bins) => {
      const of = type === "log" ? Math.log10 : (value) => value;
      const [low, high] = values.reduce(([least, most], value) => [Math.min(least, of(value)), Math.max(most, of(value))], [Infinity, -Infinity]);
      const step = (high - low || 1) / bins;
      const edges = Array.from({ length: bins + 1 }, (_, i) => (type === "log" ? 10 ** (low + i * step) : low + i * step));
      return { edges, place: (value) => Math.min(bins - 1, Math.floor((of(value) - low) / step)) };
    };
    const [across, up] = [scale(xs, xaxis.type, 90), scale(ys, yaxis.type, 50)];
    const z = Array.from({ length: 50 }, () => new Array(90).fill(null));
    xs.forEach((value, i) => { z[up.place(ys[i])][across.place(value)] += 1; });
    return { type: "heatmap", name: "points", x: across.edges, y: up.edges, z, colorscale: [[0, "#dbe5ee"], [0.2, "#9db9d3"], [1, "#33638f"]], showscale: false,
      hovertemplate: "%{z:,} points around here<extra></extra>" };
  },

  /** What is said of a point: the columns of the picture, then what sets it apart. */
  hover(model, row, columns) {
    const said = [...new Set([...columns, ...model.axes.map(model.column)])].filter((column) => column && column.at(row) !== null);
    return [`<b>point ${model.column("point").at(row)}</b>`, ...said.map((column) => AT.plain(`${column.label}: ${AT.sweep.text(column, column.at(row))}`))].join("<br>");
  },

  /** What is said where the chosen point is not in a picture. */
  absent: (model, row) => ` Point ${model.column("point").at(row)}, which is marked, is not among them.`,

  /** A ring around the chosen point. */
  ring(model, row, x, y) {
    return { type: "scatter", mode: "markers", name: `point ${model.column("point").at(row)}`, x: [x.at(row)], y: [y.at(row)], customdata: [row], hoverinfo: "skip", showlegend: false,
      marker: { size: 16, symbol: "circle-open", color: AT.sweep.mark, line: { width: 3 } } };
  },

  /** The Pareto front of two figures. */
  frontPicture(context) {
    const { model, view, select, redraw } = context;
    const [chart, table] = [document.getElementById("front-chart"), document.getElementById("front-table")];
    const charts = {};
    const figures = model.columns.filter((column) => column.type === "number" && column.name !== "point");
    const axes = model.axes.filter((name) => model.column(name)?.role !== "task");
    const rivals = figures.filter((column) => ["cost", "total_bandwidth_gbps", "num_sends"].includes(column.name) && (!column.distinct || column.distinct.length > 1))
      .sort((a, b) => (a.name === "num_sends") - (b.name === "num_sends") || (b.name === "cost") - (a.name === "cost"));
    const goal = (key, column) => Number(view.get(`front.${key}.goal`, String(column.goal || -1)));

    function controls(narrow, x, y, by) {
      const goals = [["-1", "lower is better"], ["1", "higher is better"]];
      const direction = (key, label, column) => AT.sweep.choice(label, goals, String(goal(key, column)), (value) => {
        view.set(`front.${key}.goal`, value);
        redraw("front");
      });
      AT.sweep.place(document.getElementById("front-controls"), [
        AT.sweep.columnChoice(context, "front", "x", "across", figures.filter((column) => column !== y), x), direction("x", "across is", x),
        AT.sweep.columnChoice(context, "front", "y", "up", figures, y), direction("y", "up is", y),
        AT.sweep.columnChoice(context, "front", "by", "colours", AT.sweep.groupings(model, 10), by, "none"), ...narrow.controls]);
    }

    function list(front, columns) {
      const shown = [...new Set([...columns, ...model.axes.map(model.column), model.column("point")])].filter(Boolean);
      AT.table(table, shown.map((column) => ({ title: AT.sweep.title(column, true), saved: AT.sweep.title(column), values: front.map(column.at), type: column.type, format: AT.sweep.cell(column) })),
        { name: AT.sweep.fileName("pareto_front"), filter: false, pageSize: 10, caption: "Points on the Pareto front", onSelect: (at) => select(front[at]) });
    }

    return { async draw(rows, selected) {
      const lacking = AT.sweep.lacking(model);
      if (lacking) return AT.sweep.leaveOut("front", lacking);
      const y = AT.sweep.chosen(context, "front", "y", figures, ["time_ns"]);
      const x = AT.sweep.chosen(context, "front", "x", figures.filter((column) => column !== y), rivals.map(({ name }) => name));
      if (!x || !y) return AT.sweep.leaveOut("front", "A front needs a time and another figure to set against it, cost, bandwidth or sends; none varies in this sweep.");
      const groupings = AT.sweep.groupings(model, 10);
      const by = AT.sweep.chosen(context, "front", "by", groupings, ["synthesizer", ...axes.filter((name) => model.column(name).type === "text"), ...axes]);
      const narrow = AT.sweep.narrowed(context, "front", rows, AT.sweep.tasks(model).filter((column) => column !== x && column !== y), "all", () => null);
      controls(narrow, x, y, by);
      const usable = narrow.rows.filter((row) => AT.sweep.usable(model, row, x, y));
      if (!usable.length) return AT.sweep.blank("front", "No point that the filters leave has both figures.");
      const front = AT.sweep.front(model, usable, x, y, [goal("x", x), goal("y", y)]);
      const on = new Set(front);
      const names = [...(by && usable.length <= AT.sweep.mostDots ? AT.sweep.present(usable, by) : ["points"]), "Pareto front"];
      const layout = AT.sweep.layout(chart, [`${AT.sweep.opening(y)} against ${x.label}`, ...narrow.said].join(", "), names, {
        xaxis: AT.sweep.axis(x, usable.map(x.at)), yaxis: AT.sweep.axis(y, usable.map(y.at)), height: 380 });
      const line = { type: "scatter", mode: "lines+markers", name: "Pareto front", x: front.map(x.at), y: front.map(y.at), customdata: front, line: { shape: "hv", color: "#222", width: 1.8 },
        marker: { size: 8, color: "#222", symbol: "diamond" }, text: front.map((row) => AT.sweep.hover(model, row, [x, y])), hovertemplate: "%{text}<extra>on the front</extra>" };
      const traces = [...AT.sweep.cloud(model, usable, x, y, by, layout), line];
      if (usable.includes(selected)) traces.push(AT.sweep.ring(model, selected, x, y));
      const counted = usable.length > AT.sweep.mostDots ? `; more than ${AT.format.count(AT.sweep.mostDots)}, therefore shades count those around a place` : "";
      const scope = `${AT.format.count(front.length)} of ${AT.sweep.counted(usable.length, "point")} ${front.length === 1 ? "is" : "are"} on the front${narrow.said.length ? ` (${narrow.said.join(", ")})` : ""}${counted}.`
        + (usable.length < narrow.rows.length ? ` ${AT.sweep.counted(narrow.rows.length - usable.length, "point")} without both figures ${narrow.rows.length - usable.length === 1 ? "is" : "are"} left out.` : "")
        + (selected >= 0 && !usable.includes(selected) ? AT.sweep.absent(model, selected) : "");
      document.getElementById("front-scope").textContent = scope;
      const shown = [...new Set([x, y, ...model.axes.map(model.column)])].filter(Boolean);
      await AT.sweep.show(charts, chart, traces, layout, { name: "pareto_front_all", alt: `Scatter plot of ${y.label} against ${x.label}. ${scope}`, select,
        rows: () => [["point", ...shown.map(AT.sweep.title), "on the front"], ...usable.map((row) => [model.column("point").at(row), ...shown.map((column) => column.at(row)), on.has(row) ? "yes" : "no"])] });
      list(front, [x, y]);
    } };
  },
});
