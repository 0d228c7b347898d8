"use strict";
/* The report of a synthesized collective: what the sections of synthesis.py show. */
AT.ready(async () => {
  const data = AT.data;
  const $ = (id) => document.getElementById(id);
  const device = (d) => (d < data.npus ? `NPU ${d}` : (data.others[d - data.npus] ?? `switch ${d}`));
  const linkName = (link) => `${device(data.links.src[link])} → ${device(data.links.dst[link])}`;
  const shortLink = (link) => `${data.labels[data.links.src[link]]} → ${data.labels[data.links.dst[link]]}`;
  const kindOf = (send) => (data.sends.reduces[send] ? 0 : data.kinds.length - 1);
  const dimension = (link) => (data.links.dimension[link] < 0 ? "" : String(data.links.dimension[link]));
  const stem = data.name.replace(/[^\w.-]+/g, "_") || "network";
  const { time, size, percent, count } = AT.format;

  if (data.sends) AT.synthesis.expand(data);
  const tree = data.sends ? AT.synthesis.trees(data) : null;
  const parts = { drawing: null, timeline: null, table: null };

  // ---- A chunk's tree, in the timeline and in the drawing.
  const kept = { chunk: null };
  function light(chunk) {
    if (!tree) return;
    if (chunk === null) {
      parts.timeline.highlight(null);
      if (parts.drawing) parts.drawing.light(null);
      return;
    }
    const sends = tree.of(chunk);
    parts.timeline.highlight(sends.flatMap((send) => tree.bars(send)));
    if (!parts.drawing) return;
    const { up, down } = data.sends;
    const hops = sends.flatMap((send) => [up[send], ...(down[send] >= 0 ? [down[send]] : [])].map((link) => ({ link, colour: data.kinds[kindOf(send)].colour })));
    parts.drawing.light(hops, AT.synthesis.sources(data, sends, chunk));
  }
  function keep(chunk) {
    kept.chunk = chunk;
    light(chunk);
    if (!tree) return;
    picker.value = chunk === null ? "" : chunk;
    told.textContent = chunk === null ? "" : AT.synthesis.tellChunk(data, tree.of(chunk), chunk);
  }

  const lastChunk = data.collective.chunks - 1;
  const picker = AT.el("input", { type: "number", min: "0", max: String(lastChunk), id: "chunk-number", placeholder: lastChunk ? `0–${lastChunk}` : "0", onchange: () => {
    const asked = picker.value, chunk = Number(asked);
    if (asked === "" && !picker.validity.badInput) { keep(null); return; }
    if (asked !== "" && Number.isInteger(chunk) && chunk >= 0 && chunk <= lastChunk) { keep(chunk); return; }
    keep(null);
    picker.value = asked;
    told.textContent = lastChunk ? `There are chunks 0 to ${lastChunk}.` : "There is only chunk 0.";
  } });
  const told = AT.el("span", { id: "chunk-told", role: "status" });
  if (tree) {
    $("chunk").append(AT.el("p", { class: "picker screen-only" }, AT.el("label", { for: "chunk-number" }, "Light the tree of chunk "), picker, " ",
      AT.el("button", { type: "button", onclick: () => keep(null) }, "None"), " ", told));
  }

  // ---- The network.
  const linkRows = () => [["from", "to", "dimension", "bandwidth_gibps", "latency_ns", "share_of_time_in_use", "binds"], ...Array.from(data.links.src, (src, link) =>
    [device(src), device(data.links.dst[link]), dimension(link), data.links.bandwidth[link], data.links.latency[link], +data.links.busy[link].toFixed(6), binding.has(link) ? "yes" : ""])];
  const binding = new Set(data.binding);
  const describeLink = (link) => `${linkName(link)}: ${percent(data.links.busy[link])} of the time in use, ${data.links.bandwidth[link]} GiB/s, ${time(data.links.latency[link])} latency`
    + `${dimension(link) && `, dimension ${dimension(link)}`}${binding.has(link) ? ", one of the links that the bound is about" : ""}`;
  if (data.picture) {
    parts.drawing = AT.topology($("topology"), {
      picture: data.picture, binding: data.binding, name: `${stem}-network`, rows: linkRows, describe: describeLink,
      alt: `Drawing of ${data.name}: ${count(data.npus)} NPUs, ${count(data.devices - data.npus)} other devices and ${count(data.links.src.length)} links, coloured by the share of time in use.`,
      onNpu: tree ? (npu) => showNpu(npu) : null,
    });
  } else {
    await AT.synthesis.matrix($("matrix"), data, stem);
  }
  AT.table($("dimensions"), AT.synthesis.dimensionColumns(data.dimensions), { name: `${stem}-dimensions`, filter: false, sort: false, caption: "Links by dimension" });
  if (data.links) {
    const list = $("links");
    const columns = [{ title: "from", values: Array.from(data.links.src, device) }, { title: "to", values: Array.from(data.links.dst, device) },
      { title: "dimension", values: Array.from(data.links.dimension, (d) => (d < 0 ? null : d)) },
      { title: "bandwidth (GiB/s)", values: data.links.bandwidth }, { title: "latency (ns)", values: data.links.latency },
      { title: "in use", values: Array.from(data.links.busy, (v) => +v.toFixed(4)), format: (v) => percent(v) }, { title: "bound", values: Array.from(data.links.src, (_, link) => (binding.has(link) ? "binds" : "")) }];
    const details = AT.el("details", {}, AT.el("summary", {}, `All ${count(data.links.src.length)} links, to filter and sort`), AT.el("div", { id: "link-table" }));
    list.append(details);
    AT.table(details.lastChild, columns, { name: `${stem}-links`, pageSize: 25, caption: "Links", onSelect: (link) => parts.drawing && parts.drawing.link(link) });
  }

  // ---- What an NPU held when.
  function showNpu(npu) {
    select.value = npu;
    if (parts.drawing) parts.drawing.npu(npu);
    const held = AT.synthesis.held(data, npu);
    const columns = [
      { title: "chunk", values: held.map((h) => h.chunk) },
      { title: "when", values: held.map((h) => h.time), format: (v) => time(v) },
      { title: "from", values: held.map((h) => (h.from === null || h.from === npu ? "its own" : device(h.from))) },
      { title: "what", values: held.map((h) => h.what) },
    ];
    const first = held.filter((h) => h.from === null).length, made = held.filter((h) => h.from === npu).length;
    said.textContent = `NPU ${npu} begins with ${count(first)} ${data.collective.reduces ? "contributions" : "chunks"} and receives ${count(held.length - first - made)} sends${data.sums ? `; it adds up ${count(made)} sums` : ""}.`;
    AT.table(list, columns, { name: `${stem}-npu-${npu}`, pageSize: 12, caption: `What NPU ${npu} held when`, onSelect: (row) => keep(held[row].chunk) });
  }
  const select = AT.el("select", { id: "npu-number", onchange: () => showNpu(Number(select.value)) }, ...Array.from({ length: data.npus }, (_, npu) => AT.el("option", { value: npu }, `NPU ${npu}`)));
  const said = AT.el("p", { class: "note", role: "status" });
  const list = AT.el("div", { id: "npu-held" });
  if (tree) $("npu").append(AT.el("p", { class: "picker" }, AT.el("label", { for: "npu-number" }, "What was held when by "), select), said, list);

  // ---- Time.
  if (tree) {
    const { bars, sends } = data;
    const rows = Array.from(data.rows, shortLink);
    const say = (bar) => {
      const send = bars.send[bar];
      return `${device(sends.src[send])} → ${data.labels[sends.dst[send]]}, ${sends.reduces[send] ? "reduces" : "copies"} ${AT.synthesis.chunksOf(data, bars.message[bar])}, `
        + `${time(sends.start[send])} to ${time(sends.end[send])}. ${AT.synthesis.tellChunk(data, tree.of(sends.chunk[send]), sends.chunk[send])}`;
    };
    parts.timeline = AT.timeline($("links-over-time"), {
      rows, groups: data.groups, end: { time: data.time, label: `collective time ${time(data.time)}` }, legend: data.kinds, name: `${stem}-timeline`, describe: say,
      bars: { ...bars, colour: Uint8Array.from(bars.send, kindOf) },
      columns: [["chunk", sends.chunk], ["from_npu", sends.src], ["to_npu", sends.dst]].map(([title, values]) => ({ title, values: Array.from(bars.send, (send) => values[send]) })),
      alt: `Links of ${data.name} over time: ${count(bars.row.length)} bars in ${count(rows.length)} rows, ${time(data.time)} in all.`,
      onPoint: (bar) => light(bar === null ? kept.chunk : sends.chunk[bars.send[bar]]),
      onPick: (bar) => keep(bar === null ? null : sends.chunk[bars.send[bar]]),
    });
    showNpu(data.collective.root ?? 0);
    AT.report = { ...parts, keep, showNpu, tree };
  } else {
    await AT.synthesis.heat($("links-over-time"), data, stem);
  }

  await AT.synthesis.curves($("arrival-curves"), data, stem);
  if (data.comparison) await AT.synthesis.bars($("comparison"), data, stem);
});
