"use strict";
/* Parts of the synthesis report that know of no other part. */
AT.synthesis = {
  /** Add the columns that follow from others: ends of sends, when chunks are of use, where sends go, messages, intervals of links. */
  expand({ sends, channels, bars, messages, rows, hold, delay }) {
    const count = sends.chunk.length, number = messages.class.length;
    if (!messages.first) messages.first = Uint32Array.from({ length: number + 1 }, (_, message) => message);
    sends.message = new Uint32Array(count);
    for (let message = 0; message < number; message += 1) sends.message.fill(message, messages.first[message], messages.first[message + 1]);
    bars.send = Uint32Array.from(bars.message, (message) => messages.first[message]);
    const of = (column) => Int32Array.from(sends.channel, (channel) => column[channel]);
    Object.assign(sends, { src: of(channels.src), dst: of(channels.dst), up: of(channels.up), down: of(channels.down) });
    sends.end = Float64Array.from({ length: count }, (_, send) => sends.start[send] + sends.took[send]);
    sends.done = sends.end.map((end, send) => end + (sends.reduces[send] ? messages.reduction[messages.class[sends.message[send]]] : 0));
    bars.start = new Float64Array(bars.send.length);
    bars.end = new Float64Array(bars.send.length);
    bars.send.forEach((send, bar) => {
      const link = rows[bars.row[bar]], which = messages.class[bars.message[bar]];
      bars.start[bar] = hold && link === sends.down[send] ? sends.end[send] - delay[which][link] : sends.start[send];
      bars.end[bar] = hold ? bars.start[bar] + hold[which][link] : sends.end[send];
    });
  },

  /** Numbers of items by the number of the group that each is in: group => its items, ascending. */
  grouped(group, groups) {
    const first = new Uint32Array(groups + 1);
    for (const g of group) first[g + 1] += 1;
    for (let g = 0; g < groups; g += 1) first[g + 1] += first[g];
    const next = first.slice(), order = new Uint32Array(group.length);
    group.forEach((g, item) => { order[next[g]] = item; next[g] += 1; });
    return (g) => Array.from(order.subarray(first[g], first[g + 1]));
  },

  /** Trees of chunks: {of(chunk): its sends by time, bars(send): its bars}. */
  trees({ sends, bars, messages, collective }) {
    const byChunk = AT.synthesis.grouped(sends.chunk, collective.chunks), byMessage = AT.synthesis.grouped(bars.message, messages.class.length);
    const { start } = sends;
    return { of: (chunk) => byChunk(chunk).sort((a, b) => start[a] - start[b] || a - b), bars: (send) => byMessage(sends.message[send]) };
  },

  /** The chunks of a message in words: `chunk 3`, `chunks 3 and 4`, `chunks 3, 4 and 6 more`. */
  chunksOf({ sends, messages }, message) {
    const all = [...new Set(sends.chunk.slice(messages.first[message], messages.first[message + 1]))].sort((a, b) => a - b);
    if (all.length === 1) return `chunk ${all[0]}`;
    return `chunks ${all[0]}${all.length === 2 ? "" : `, ${all[1]}`} and ${all.length === 2 ? all[1] : `${AT.format.count(all.length - 2)} more`}`;
  },

  /** A value in words: whose contribution it is, or the sum of how many. */
  valueText({ sums }, value) {
    if (sums.npu[value] >= 0) return `contribution of NPU ${sums.npu[value]}`;
    if (sums.total[sums.chunk[value]] === value) return "the whole sum";
    return `sum of ${AT.format.count(sums.contributors[value])} contributions`;
  },

  /** Where the tree begins: NPUs that send a copy of the chunk without having got one, or, where all is summed up, the NPU with the sum. */
  sources({ sends }, ofChunk) {
    const copied = new Set(ofChunk.filter((send) => !sends.reduces[send]).map((send) => sends.dst[send]));
    const copying = ofChunk.filter((send) => !sends.reduces[send]).map((send) => sends.src[send]).filter((npu) => !copied.has(npu));
    if (copying.length) return [...new Set(copying)];
    const passed = new Set(ofChunk.map((send) => sends.src[send]));
    return [...new Set(ofChunk.map((send) => sends.dst[send]))].filter((npu) => !passed.has(npu));
  },

  tellChunk({ sends, chunks, sums }, ofChunk, chunk) {
    if (!ofChunk.length) return `Chunk ${chunk} is never sent.`;
    const reduces = ofChunk.filter((send) => sends.reduces[send]).length;
    const kinds = reduces && reduces < ofChunk.length ? ` (${AT.format.count(reduces)} add, ${AT.format.count(ofChunk.length - reduces)} copy)` : "";
    let done = ofChunk.reduce((last, send) => Math.max(last, sends.done[send]), 0);
    if (sums) sums.made.value.forEach((value, at) => { if (sums.chunk[value] === chunk) done = Math.max(done, sums.made.end[at]); });
    return `Chunk ${chunk}, ${AT.format.size(chunks.bytes[chunk])}: ${AT.format.count(ofChunk.length)} sends${kinds}, ${AT.format.time(sends.start[ofChunk[0]])} to ${AT.format.time(done)}.`;
  },

  /** What an NPU held when: [{chunk, time, from, what}, ...] by time; `from` is null for what it had at first, itself for sums that it made. */
  held(data, npu) {
    const { sends, chunks, collective, sums } = data;
    const member = !chunks.members || chunks.members.includes(npu);
    const held = [];
    for (let chunk = 0; chunk < collective.chunks && member; chunk += 1) {
      if (collective.reduces) held.push({ chunk, time: 0, from: null, what: "its contribution" });
      else if (chunks.owner[chunk] === npu) held.push({ chunk, time: 0, from: null, what: "from the start" });
    }
    const got = [];
    sends.dst.forEach((dst, send) => { if (dst === npu) got.push(send); });
    got.sort((a, b) => sends.done[a] - sends.done[b] || a - b);
    for (const send of got) held.push({ chunk: sends.chunk[send], time: sends.done[send], from: sends.src[send], what: sums ? AT.synthesis.valueText(data, sums.value[send]) : sends.reduces[send] ? "added to its own" : "copy" });
    if (!sums) return held;
    sums.made.npu.forEach((maker, at) => {
      const value = sums.made.value[at];
      if (maker === npu) held.push({ chunk: sums.chunk[value], time: sums.made.end[at], from: npu, what: `adds up ${AT.synthesis.valueText(data, value)}` });
    });
    return held.sort((a, b) => a.time - b.time);
  },

  dimensionColumns(rows) {
    const column = (title, of, format) => ({ title, values: rows.map(of), format });
    return [column("dimension", (r) => r.name), column("links", (r) => r.links),
      { title: "bandwidth (GiB/s)", type: "text", values: rows.map((r) => (r.slowest === r.fastest ? String(r.slowest) : `${r.slowest} to ${r.fastest}`)) },
      column("in use: least", (r) => r.least, (v) => AT.format.percent(v)), column("mean", (r) => r.mean, (v) => AT.format.percent(v)), column("most", (r) => r.most, (v) => AT.format.percent(v))];
  },

  async matrix(element, { matrix, name }, stem) {
    const { labels, links, shares } = matrix;
    const shown = labels.map((label) => (/^\d/.test(label) ? `NPU ${label}` : label));
    const rows = () => [["from", "to", "links", "share_of_time_in_use"], ...labels.flatMap((_, a) => labels.flatMap((__, b) => (links[a][b] ? [[shown[a], shown[b], links[a][b], shares[a][b]]] : [])))];
    await AT.chart(element, [{ type: "heatmap", x: shown, y: shown, z: shares, zmin: 0, zmax: 1, colorscale: AT.rampStops, hoverongaps: false, xgap: 0.5, ygap: 0.5,
      colorbar: { title: { text: "in use" }, tickformat: ".0%", thickness: 14 }, hovertemplate: "%{y} to %{x}<br>%{z:.1%} of the time in use<extra></extra>" }],
    { xaxis: { title: { text: "to" }, showgrid: false, nticks: 9 }, yaxis: { title: { text: "from" }, autorange: "reversed", showgrid: false, nticks: 9 }, margin: { t: 12 } },
    { name: `${stem}-links-between-groups`, alt: `Mean share of time in use of the links between groups of NPUs of ${name}.`, rows, height: 560 });
  },

  async heat(element, { heat, time, name }, stem) {
    const { scale, unit } = AT.unit(time);
    const width = time / heat.bins;
    const middles = Array.from({ length: heat.bins }, (_, bin) => ((bin + 0.5) * width) / scale);
    const rows = () => [["links", "number_of_links", "from_ns", "to_ns", "share_of_time_in_use"], ...heat.labels.flatMap((label, row) => middles.map((_, bin) => [label, heat.links[row], bin * width, (bin + 1) * width, +heat.shares[row][bin].toFixed(4)]))];
    await AT.chart(element, [{ type: "heatmap", x: middles, y: heat.labels.map((_, row) => row), z: heat.shares, zmin: 0, zmax: 1, colorscale: AT.rampStops, customdata: heat.labels.map((label) => middles.map(() => label)),
      colorbar: { title: { text: "in use" }, tickformat: ".0%", thickness: 14 }, hovertemplate: "%{customdata}<br>%{x:.2f} " + unit + ": %{z:.1%} in use<extra></extra>" }],
    { xaxis: { title: { text: `time (${unit})` }, showgrid: false }, yaxis: { autorange: "reversed", showgrid: false, tickvals: AT.synthesis.some(heat.labels.length, 14), ticktext: AT.synthesis.some(heat.labels.length, 14).map((row) => heat.labels[row].replace("dimension ", "dim. ")), tickfont: { size: 11 } }, margin: { t: 12 } },
    { name: `${stem}-links-over-time`, alt: `Share of time in use of the links of ${name}, by group of links and time.`, rows, height: 560 });
  },

  /** At most so many numbers from 0 on, evenly. */
  some(length, most) {
    const step = Math.max(1, Math.ceil(length / most));
    return Array.from({ length: Math.ceil(length / step) }, (_, i) => i * step);
  },

  async curves(element, { arrivals, time, bound }, stem) {
    const { scale, unit } = AT.unit(time);
    const looks = { fastest: { color: "#228833", dash: "dot" }, median: { color: "#4477aa" }, slowest: { color: "#ee6677", dash: "dash" } };
    const trace = ({ time: at, share }, name, line) => ({ x: Array.from(at, (t) => t / scale), y: share, name, mode: "lines", line: { shape: "hv", width: 2, ...line }, hovertemplate: `%{x:.2f} ${unit}: %{y:.1%}<extra>${name}</extra>` });
    const traces = [trace(arrivals.together, `all ${AT.format.count(arrivals.needy)} together`, { color: "#c3ccd4", width: 6 }),
      ...arrivals.curves.map((curve) => trace(curve, `${curve.label}: NPU ${curve.npu}`, looks[curve.label]))];
    const rows = () => [["npu", "time_ns", "share_of_chunks"], ...[...arrivals.curves.map((c) => [`${c.label}: ${c.npu}`, c]), ["all", arrivals.together]].flatMap(([label, c]) => Array.from(c.time, (t, i) => [label, t, c.share[i]]))];
    const line = (at, text, colour, side) => [{ type: "line", x0: at / scale, x1: at / scale, y0: 0, y1: 1, yref: "paper", line: { color: colour, width: 1.5, dash: "dash" } },
      { x: at / scale, y: 0.02, yref: "paper", text, showarrow: false, xanchor: side, yanchor: "bottom", font: { size: 12, color: colour }, bgcolor: "rgba(255,255,255,.8)" }];
    const marks = bound === null ? [] : [line(bound, "bound (any algorithm)", "#222222", "right")];
    await AT.chart(element, traces, { xaxis: { title: { text: `time (${unit})` }, rangemode: "tozero" }, yaxis: { title: { text: "share of its chunks" }, tickformat: ".0%", range: [0, 1.03] }, shapes: marks.map((m) => m[0]), annotations: marks.map((m) => m[1]) },
      { name: `${stem}-arrivals`, rows, alt: `Share of chunks held over time. The first NPU has everything after ${AT.format.time(arrivals.finish[0])}, the last after ${AT.format.time(arrivals.finish[1])}.` });
  },

  async bars(element, { comparison }, stem) {
    const { names, times, chunks, bus, sends, bound } = comparison;
    const { scale, unit } = AT.unit(Math.max(...times));
    const time = times[0]; // of this schedule
    const order = names.map((_, i) => i).sort((a, b) => times[a] - times[b]);
    const shown = order.map((i) => AT.plain(names[i]));
    const rows = () => [["algorithm", "time_ns", "times_as_long", "bus_bandwidth_gbps", "chunks_per_npu", "sends"], ...order.map((i) => [names[i], times[i], times[i] / time, bus[i], chunks[i], sends[i]])];
    const label = (i) => `${AT.format.time(times[i])}${i ? `, ${AT.format.ratio(times[i], time)}×` : ""}`;
    await AT.chart(element, [{ type: "bar", orientation: "h", y: shown, x: order.map((i) => times[i] / scale), marker: { color: order.map((i) => (i ? "#9db8d2" : "#4477aa")) }, text: order.map(label), textposition: "outside", cliponaxis: false,
      customdata: order.map((i) => [bus[i], chunks[i]]), hovertemplate: "%{y}: %{text}<br>bus bandwidth %{customdata[0]:.1f} GB/s, %{customdata[1]} chunks per NPU<extra></extra>" }],
    { xaxis: { title: { text: `time (${unit})` }, range: [0, (Math.max(...times) / scale) * (element.clientWidth < 560 ? 1.6 : 1.35)] }, yaxis: { autorange: "reversed", ticks: "", showgrid: false }, margin: { t: 30 }, bargap: 0.28,
      shapes: bound === null ? [] : [{ type: "line", x0: bound / scale, x1: bound / scale, y0: 0, y1: 1, yref: "paper", line: { color: "#222222", width: 1.5, dash: "dash" } }],
      annotations: bound === null ? [] : [{ x: bound / scale, y: 1, yref: "paper", text: `bound (any algorithm): ${AT.format.time(bound)}`, showarrow: false, yanchor: "bottom", font: { size: 12 } }] },
    { name: `${stem}-algorithms`, rows, height: 110 + 38 * names.length, alt: `Time of ${names.length} algorithms, the shortest first: ${order.map((i) => `${names[i]} ${AT.format.time(times[i])}`).join(", ")}.${bound === null ? "" : ` Bound of any algorithm: ${AT.format.time(bound)}.`}` });
  },
};
