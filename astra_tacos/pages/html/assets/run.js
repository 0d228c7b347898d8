"use strict";
/* The report of a training run: pictures and tables from `AT.data` (pages/html/run.py), in the order of the page. */
Object.assign(RUN, {
  quiet: "#9aa5b1",
  plain: { exponentformat: "none", separatethousands: true },

  /** Figures over one axis, a picture for each replay above the other. */
  stacked(axis, traces, layout) {
    const { whens } = AT.data;
    const gap = 0.09, tall = (1 - gap * (whens.length - 1)) / whens.length;
    const axes = Object.fromEntries(whens.map((_, which) => {
      const top = 1 - which * (tall + gap);
      return [`yaxis${which ? which + 1 : ""}`, { ...RUN.plain, ...layout.yaxis, domain: [Math.max(0, top - tall), top], anchor: "x" }];
    }));
    const annotations = whens.length < 2 ? [] : whens.map((when, which) => ({ text: `<b>${RUN.called(when)}</b>`, xref: "paper", yref: "paper", x: 1, y: 1 - which * (tall + gap), xanchor: "right", yanchor: "bottom", showarrow: false }));
    return [
      whens.flatMap((_, which) => traces(which).map((trace) => ({ ...trace, yaxis: which ? `y${which + 1}` : "y", showlegend: which === 0 }))),
      { ...layout, ...axes, annotations, xaxis: { ...RUN.plain, ...axis, anchor: whens.length > 1 ? `y${whens.length}` : "y" }, legend: { orientation: "h", x: 0, y: 1.05, yanchor: "bottom", traceorder: "normal" }, margin: { t: 64 } },
    ];
  },

  /** Ranks in each state over time. */
  async drawOverTime() {
    const { over_time: { edges, shares }, states, whens, num_ranks: ranks } = AT.data;
    const { scale, unit } = AT.unit(edges[edges.length - 1]);
    const middles = Array.from({ length: edges.length - 1 }, (_, i) => (edges[i] + edges[i + 1]) / 2 / scale);
    const most = Math.max(...shares.map((share) => middles.reduce((top, _, i) => Math.max(top, share.reduce((sum, one) => sum + one[i], 0)), 0)));
    const traces = (which) => states.map(({ label: state, colour }, number) => ({
      x: middles, y: shares[which][number], name: state, legendgroup: state, stackgroup: `s${which}`, mode: "lines", line: { width: 0, shape: "hvh" }, fillcolor: colour,
      hovertemplate: `%{y:.1f} ranks: ${state}<extra></extra>`,
    }));
    const layout = { yaxis: { title: { text: "ranks" }, range: [0, most], fixedrange: true }, hovermode: "x unified" };
    const [all, laidOut] = RUN.stacked({ title: { text: `time (${unit})` }, range: [0, edges[edges.length - 1] / scale], hoverformat: ".2f" }, traces, layout);
    const rows = () => [
      ["time_ns", ...whens.flatMap((when) => states.map(({ label: state }) => `${when === "run" ? "" : `${when}: `}${state}`))],
      ...middles.map((middle, i) => [middle * scale, ...shares.flatMap((share) => share.map((one) => +one[i].toPrecision(6)))]),
    ];
    const computing = shares.map((share) => share[0].reduce((sum, one, i) => sum + one + share[1][i], 0) / (middles.length * ranks));
    const said = computing.map((share, which) => `${AT.format.percent(share, 0)} ${whens[which] === "run" ? "" : whens[which]}`.trim()).join(", ");
    await AT.chart(document.getElementById("over-time"), all, laidOut, { name: "ranks-over-time", alt: `Ranks that compute, communicate or wait, over time. On average over this time, ${said} of the ranks compute.`, rows, height: whens.length > 1 ? 520 : 340 });
  },

  /** Time of each rank in each state. */
  async drawRankBars() {
    const { ranks: { labels, spent, block }, states, whens } = AT.data;
    const totals = spent.map((rows) => labels.map((_, i) => rows.reduce((sum, row) => sum + row[i], 0)));
    const most = Math.max(...totals.flat(), 1);
    const { scale, unit } = AT.unit(most);
    const traces = (which) => states.map(({ label: state, colour }, number) => ({
      type: "bar", x: labels, y: Array.from(spent[which][number], (time) => time / scale), name: state, legendgroup: state, marker: { color: colour },
      hovertemplate: `rank %{x}: %{y:,.2f} ${unit} ${state}<extra></extra>`,
    }));
    const layout = { barmode: "stack", bargap: labels.length > 40 ? 0.05 : 0.2, yaxis: { title: { text: unit }, range: [0, (most / scale) * 1.03] } };
    const element = document.getElementById("rank-bars");
    const ticks = Math.max(4, Math.floor(element.clientWidth / 30));
    const [all, laidOut] = RUN.stacked({ title: { text: block > 1 ? `blocks of ${block} ranks` : "rank", standoff: 10 }, type: "category", tickangle: labels.length > 24 || ticks < labels.length ? -90 : 0, nticks: ticks }, traces, layout);
    const rows = () => [
      [block > 1 ? "ranks" : "rank", ...whens.flatMap((when) => states.map(({ label: state }) => `${when === "run" ? "" : `${when}: `}${state}, ns`))],
      ...labels.map((label, i) => [label, ...spent.flatMap((one) => one.map((row) => Math.round(row[i])))]),
    ];
    const longest = totals.map((total, which) => `${RUN.called(whens[which])} ${AT.format.time(Math.min(...total))} to ${AT.format.time(Math.max(...total))}`.trim()).join(", ");
    await AT.chart(element, all, laidOut, { name: "time-of-ranks", alt: `Time of each rank by what it does, until it has finished: ${longest}.`, rows, height: whens.length > 1 ? 520 : 340 });
  },

  /** Time in each collective, before and after. */
  async drawCaseBars() {
    const { cases: { labels, columns: { before_ns: before, after_ns: after } }, whens } = AT.data;
    const most = 20;
    const times = whens.length > 1 && before ? [before, after] : [after];
    const order = labels.map((_, i) => i).sort((a, b) => Math.max(...times.map((time) => time[b] || 0)) - Math.max(...times.map((time) => time[a] || 0)));
    const shown = order.slice(0, most);
    const element = document.getElementById("case-bars");
    if (!shown.length) {
      element.replaceChildren(AT.el("p", { class: "note" }, "The run has no collectives."));
      return;
    }
    const { scale, unit } = AT.unit(Math.max(...shown.flatMap((i) => times.map((time) => time[i] || 0)), 1));
    const colours = times.length > 1 ? [RUN.quiet, AT.colours.accent] : [AT.colours.accent];
    const name = (i) => AT.plain(labels[i]).replace(", ", "<br>");
    const traces = times.map((time, which) => ({
      type: "bar", orientation: "h", y: shown.map((i) => i), x: shown.map((i) => (time[i] || 0) / scale), name: whens[times.length > 1 ? which : whens.length - 1], marker: { color: colours[which] },
      text: shown.map((i) => AT.format.time(time[i] === null ? NaN : time[i])), textposition: "auto", insidetextfont: { color: which || times.length < 2 ? "#fff" : "#1f2933" }, customdata: shown.map((i) => AT.plain(labels[i])), hovertemplate: `%{customdata}: %{text}<extra>%{fullData.name}</extra>`,
    }));
    const place = (i) => shown.indexOf(i);
    traces.forEach((trace) => { trace.y = trace.y.map(place); });
    const layout = { barmode: "group", xaxis: { ...RUN.plain, title: { text: `longest on a rank (${unit})` }, rangemode: "tozero" }, yaxis: { autorange: "reversed", tickvals: shown.map(place), ticktext: shown.map(name), ticks: "" }, showlegend: times.length > 1, margin: { t: 40 } };
    const rows = () => [["collective", ...times.map((_, which) => `${times.length > 1 ? whens[which] : "time"}_ns`)], ...order.map((i) => [labels[i], ...times.map((time) => time[i])])];
    const first = shown[0];
    const alt = `Time in each of ${AT.format.count(labels.length)} distinct collectives. The longest, ${labels[first]}: ${times.map((time) => AT.format.time(time[first] === null ? NaN : time[first])).join(" before, ")}${times.length > 1 ? " after" : ""}.`;
    await AT.chart(element, traces, layout, { name: "time-of-collectives", alt, rows, height: 100 + 46 * shown.length });
    if (labels.length > most) element.append(AT.el("p", { class: "note" }, `The ${most} longest of ${AT.format.count(labels.length)}; the table and the CSV have all.`));
  },

  /** All distinct collectives. */
  drawCaseTable() {
    const { cases: { columns, exact, kind } } = AT.data;
    const time = (value) => AT.format.count(value);
    const titles = {
      collective: { title: "Collective" }, size_bytes: { title: "Size", format: AT.format.size }, members: { title: "Members" }, groups: { title: "Groups" },
      count: { title: kind === "plan" ? "Count" : "Nodes" }, algorithm: { title: "Algorithm" }, predicted_ns: { title: "Predicted ns", format: (value, row) => `${time(value)}${exact[row] ? "" : " ~"}` },
      bound_ns: { title: "Bound ns", format: time }, before_ns: { title: "Before ns", format: time }, after_ns: { title: kind === "plan" ? "After ns" : "Longest on a rank ns", format: time },
      share: { title: "Share", format: (value) => AT.format.percent(value) }, note: { title: "Note", wrap: true },
    };
    const shown = Object.keys(titles).filter((key) => columns[key] && (key !== "note" || columns.note.some(Boolean)));
    AT.table(document.getElementById("case-table"), shown.map((key) => ({ ...titles[key], values: columns[key], type: ["collective", "algorithm", "note"].includes(key) ? "text" : "number" })),
      { name: "collectives", pageSize: 25, caption: "Distinct collectives of the run" });
  },

  /** Busy shares from source to destination, before and after. */
  async drawMatrices() {
    const { links: { matrices, labels, block_size: size, routed }, whens } = AT.data;
    const values = matrices.flatMap(({ mean }) => mean.flatMap((row) => Array.from(row).filter(Number.isFinite)));
    const top = Math.max(...values, 0.01);
    const element = document.getElementById("link-matrices");
    const holders = matrices.map(() => AT.el("div", { style: matrices.length > 1 ? null : "max-width: 46rem" }));
    element.append(...holders.map((holder, which) => AT.el("div", {}, ...(matrices.length > 1 ? [AT.el("h3", {}, RUN.called(whens[which]))] : []), holder)));
    for (const [which, { mean, most, links }] of matrices.entries()) {
      const holder = holders[which], ticks = Math.max(4, Math.floor(holder.clientWidth / 26));
      const custom = mean.map((row, i) => Array.from(row, (_, j) => [links[i][j], most[i][j]]));
      const share = (field) => `%{${field}:.1%}`;
      const hover = size > 1 || labels.some((label) => label.startsWith("switches "))
        ? `%{y} → %{x}: ${share("z")} on average,<br>%{customdata[0]} links, the busiest ${share("customdata[1]")}<extra></extra>` : `%{y} → %{x}: ${share("z")} of the run<extra></extra>`;
      const trace = { type: "heatmap", x: labels, y: labels, z: mean.map((row) => Array.from(row)), customdata: custom, zmin: 0, zmax: top, colorscale: AT.rampStops, hovertemplate: hover, hoverongaps: false, xgap: labels.length < 40 ? 1 : 0, ygap: labels.length < 40 ? 1 : 0, colorbar: { orientation: "h", x: 0.5, y: 1.02, yanchor: "bottom", len: 1, title: { text: "busy, of the run", side: "top" }, tickformat: top < 0.05 ? ".1%" : ".0%", thickness: 10, nticks: 6 } };
      const layout = { xaxis: { title: { text: "to" }, type: "category", automargin: false, tickangle: labels.length > 10 ? -90 : 0, showgrid: false, nticks: ticks }, yaxis: { title: { text: "from", standoff: 10 }, type: "category", autorange: "reversed", showgrid: false, nticks: 14 }, margin: { t: 70, r: 8, b: labels.length > 10 ? 96 : 56 }, plot_bgcolor: "#f4f6f8" };
      const rows = () => [["from", "to", "links", "mean_share", "largest_share"], ...mean.flatMap((row, i) => Array.from(row).flatMap((value, j) => (links[i][j] ? [[labels[i], labels[j], links[i][j], value, most[i][j]]] : [])))];
      let busiest = [0, 0];
      most.forEach((row, i) => row.forEach((value, j) => { if (value > (most[busiest[0]][busiest[1]] || 0)) busiest = [i, j]; }));
      const alt = `${routed ? "Load" : "Use"} of links from source to destination${matrices.length > 1 ? `, ${whens[which]}` : ""}. The busiest, from ${labels[busiest[0]]} to ${labels[busiest[1]]}: ${AT.format.percent(most[busiest[0]][busiest[1]] || 0)} of the run.`;
      await AT.chart(holder, [trace], layout, { name: `links-${whens[which]}`, alt, rows, height: 480 });
    }
  },

  /** Shares of links in order, by dimension. */
  async drawCurves() {
    const { links: { dimensions }, whens } = AT.data;
    const traces = dimensions.flatMap(({ name, curves }, number) => curves.map((curve, which) => ({
      x: Array.from(curve, (_, i) => (curve.length > 1 ? i / (curve.length - 1) : 0)), y: curve, mode: "lines", name: curves.length > 1 ? `${name}, ${whens[which]}` : name,
      line: { color: AT.colours.bright[number % AT.colours.bright.length], width: 2.4, dash: curves.length > 1 && which === 0 ? "dot" : "solid" }, hovertemplate: "%{x:.0%} of the links are busy for %{y:.1%} or more<extra>%{fullData.name}</extra>",
    })));
    const top = Math.max(...dimensions.flatMap(({ most }) => most), 0.01);
    const layout = { xaxis: { title: { text: "links, the busiest first" }, tickformat: ".0%", range: [0, 1] }, yaxis: { title: { text: "busy, of the run" }, tickformat: top < 0.05 ? ".1%" : ".0%", range: [0, 1.08 * top] }, margin: { t: 20 + 22 * Math.ceil(traces.length / 2) } };
    const rows = () => [["dimension", "run", "share_of_links", "busy_share"], ...dimensions.flatMap(({ name, curves }) => curves.flatMap((curve, which) => Array.from(curve, (value, i) => [name, whens[which], curve.length > 1 ? i / (curve.length - 1) : 0, value])))];
    const means = dimensions.map(({ name, mean }) => `${name} ${mean.map((one) => AT.format.percent(one)).join(" then ")}`).join("; ");
    await AT.chart(document.getElementById("link-curves"), traces, layout, { name: "link-use", alt: `How busy the links of each dimension are, from the busiest to the idlest. On average: ${means}.`, rows, height: 360 });
  },

  /** Figures of dimensions, and the busiest links. */
  drawLinkTables() {
    const { links: { dimensions, busiest }, whens } = AT.data;
    const when = (which) => (whens.length > 1 ? ` ${whens[which]}` : "");
    const each = (make) => whens.flatMap((_, which) => make(which));
    AT.table(document.getElementById("link-dimensions"), [
      { title: "Dimension", values: dimensions.map(({ name }) => name) }, { title: "Links", values: dimensions.map(({ links }) => links) },
      ...each((which) => [{ title: `Bytes${when(which)}`, values: dimensions.map(({ bytes }) => bytes[which]), format: AT.format.size }, { title: `Busy${when(which)}, mean`, values: dimensions.map(({ mean }) => mean[which]), format: (value) => AT.format.percent(value) }, { title: `Busiest${when(which)}`, values: dimensions.map(({ most }) => most[which]), format: (value) => AT.format.percent(value) }]),
    ], { name: "dimensions", filter: false, caption: "Use of links by dimension" });
    AT.table(document.getElementById("link-table"), [
      { title: "Link", values: busiest.link, type: "text" }, ...(busiest.dimension.some((number) => number >= 0) ? [{ title: "Dimension", values: busiest.dimension }] : []),
      ...each((which) => [{ title: `Bytes${when(which)}`, values: busiest.bytes[which], format: AT.format.size }, { title: `Busy${when(which)}`, values: busiest.share[which], format: (value) => AT.format.percent(value) }]),
    ], { name: "links", pageSize: 10, caption: "The busiest links" });
  },
});

AT.ready(async () => {
  await RUN.drawOverTime();
  RUN.drawTimeline();
  await RUN.drawRankBars();
  await RUN.drawCaseBars();
  RUN.drawCaseTable();
  if (!AT.data.links) return;
  await RUN.drawMatrices();
  await RUN.drawCurves();
  RUN.drawLinkTables();
});
