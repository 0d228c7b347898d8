"use strict";
/*
 * RUN: what the parts of a run's report share, and the timeline of its ranks.
 *
 *   RUN.called(when)              "Before", "After", or "" of a replay alone
 *   RUN.bars(data)                bars of all rows and replays, rows of the replays one after another
 *   RUN.drawTimeline()            the timeline, and what is picked in it
 */
const RUN = {
  IDLE: 4,

  /** What a replay is called in a heading. */
  called(when) {
    return when === "run" ? "" : when[0].toUpperCase() + when.slice(1);
  },

  /** Bars as arrays: the row, when, the state, and the nodes (entries of `nodes`, -1 for none) that compute and communicate. */
  bars({ labels, nodes, replays }) {
    const count = replays.reduce((sum, { state }) => sum + state.reduce((seen, one) => seen + (one !== RUN.IDLE), 0), 0);
    const bars = { row: new Uint32Array(count), start: new Float64Array(count), end: new Float64Array(count), colour: new Uint8Array(count), compute: new Int32Array(count), communication: new Int32Array(count), rowFirst: [0] };
    let bar = 0;
    replays.forEach(({ first, duration, state, compute, communication }, which) => {
      for (let place = 0; place < labels.length; place += 1) {
        let time = 0;
        for (let i = first[place]; i < first[place + 1]; i += 1) {
          const start = time;
          time += duration[i];
          if (state[i] === RUN.IDLE) continue;
          bars.row[bar] = which * labels.length + place;
          [bars.start[bar], bars.end[bar], bars.colour[bar]] = [start, time, state[i]];
          bars.compute[bar] = compute[i] < 0 ? -1 : nodes.first[place] + compute[i];
          bars.communication[bar] = communication[i] < 0 ? -1 : nodes.first[place] + communication[i];
          bar += 1;
        }
        bars.rowFirst.push(bar);
      }
    });
    return bars;
  },

  /** `all-reduce 6 MiB in group 3`, `send 2 MiB`, and the node's name and id. */
  describeNode(node, which) {
    const { nodes, texts, replays } = AT.data.timeline;
    const kinds = ["compute", "collective", "send", "receive", "memory access", "node"];
    let what = nodes.pattern[node] >= 0 ? AT.data.patterns[nodes.pattern[node]] : kinds[nodes.kind[node]];
    if (nodes.size[node] >= 0) what += ` ${AT.format.size(nodes.size[node])}`;
    if (nodes.pattern[node] >= 0) what += texts[nodes.group[node]] ? ` in group ${texts[nodes.group[node]]}` : " of all ranks";
    const algorithm = texts[replays[which].algorithm[node]];
    if (algorithm) what += ` by ${algorithm.split("/").pop()}`;
    const name = texts[nodes.name[node]];
    return `${what} (${name ? `${name}, ` : ""}node ${nodes.id[node]})`;
  },

  /** The first and last bar of a node in its row; null if it has none. */
  extent(bars, row, node) {
    let [from, to] = [-1, -1];
    for (let bar = bars.rowFirst[row]; bar < bars.rowFirst[row + 1]; bar += 1) {
      if (bars.compute[bar] !== node && bars.communication[bar] !== node) continue;
      if (from < 0) from = bar;
      to = bar;
    }
    return from < 0 ? null : { from, to, start: bars.start[from], end: bars.end[to] };
  },

  /** Draw the ranks. */
  drawTimeline() {
    const { timeline, whens, states, ends } = AT.data;
    const { labels } = timeline;
    const bars = RUN.bars(timeline);
    const rows = whens.flatMap(() => labels.map((label) => (/[-,]/.test(label) ? label : `rank ${label}`)));
    const ranksOf = (row) => (rows[row].startsWith("rank") ? rows[row] : `ranks ${rows[row]}`);
    const whichOf = (bar) => Math.floor(bars.row[bar] / labels.length);
    const nodesOf = (bar) => [bars.compute[bar], bars.communication[bar]].filter((node) => node >= 0);

    const describe = (bar) => {
      const when = RUN.called(whens[whichOf(bar)]);
      const found = nodesOf(bar).map((node) => RUN.describeNode(node, whichOf(bar))).join(" and ");
      return `${when ? `${when}, ` : ""}${ranksOf(bars.row[bar])}: ${states[bars.colour[bar]].label}, ${AT.format.time(bars.start[bar])} to ${AT.format.time(bars.end[bar])} `
        + `(${AT.format.time(bars.end[bar] - bars.start[bar])})${found ? `: ${found}` : ""}`;
    };
    const text = (read) => new Proxy([], { get: (_, bar) => read(Number(bar)) });
    const named = (node, which) => (node < 0 ? "" : RUN.describeNode(node, which));
    const picked = document.getElementById("picked");

    function pick(bar) {
      if (bar === null) {
        shown.highlight(null);
        picked.replaceChildren();
        return;
      }
      const nodes = nodesOf(bar);
      shown.highlight(RUN.alike(bars, nodes));
      picked.replaceChildren(...nodes.map((node) => RUN.nodeCard(bars, node, bars.row[bar] % labels.length)));
    }

    const shown = AT.timeline(document.getElementById("timeline"), {
      rows, groups: whens.length > 1 ? whens.map((when) => ({ label: RUN.called(when), rows: labels.length })) : [],
      bars, legend: states.slice(0, RUN.IDLE), mix: true,
      describe, onPick: pick, name: "ranks", height: Math.min(620, Math.max(200, 70 + 24 * rows.length)),
      alt: `What each of ${AT.format.count(labels.length)} ranks or groups of ranks does over time${whens.length > 1 ? `, before (until ${AT.format.time(ends[0])}) and after (until ${AT.format.time(ends[1])})` : ""}.`,
      columns: [{ title: "compute", values: text((bar) => named(bars.compute[bar], whichOf(bar))) }, { title: "communication", values: text((bar) => named(bars.communication[bar], whichOf(bar))) }],
    });
    RUN.timeline = shown;
  },

  /** Bars of the same nodes on all ranks and in all replays: of one name, pattern, size and group, or else of the node itself. */
  alike(bars, chosen) {
    const { nodes } = AT.data.timeline;
    const key = (node) => (nodes.name[node] && nodes.name[node] >= 0 && AT.data.timeline.texts[nodes.name[node]]
      ? [nodes.name[node], nodes.kind[node], nodes.pattern[node], nodes.size[node], nodes.pattern[node] >= 0 ? nodes.group[node] : ""].join() : `#${node}`);
    const wanted = new Set(chosen.map(key));
    const keys = Array.from({ length: nodes.kind.length }, (_, node) => wanted.has(key(node)));
    const found = [];
    for (let bar = 0; bar < bars.row.length; bar += 1) {
      if ((bars.compute[bar] >= 0 && keys[bars.compute[bar]]) || (bars.communication[bar] >= 0 && keys[bars.communication[bar]])) found.push(bar);
    }
    return found;
  },

  /** What a picked node is, and how long it takes in each replay. */
  nodeCard(bars, node, place) {
    const { whens, timeline } = AT.data;
    const lines = whens.map((when, which) => {
      const extent = RUN.extent(bars, which * timeline.labels.length + place, node);
      const span = extent ? `${AT.format.time(extent.start)} to ${AT.format.time(extent.end)}, ${AT.format.time(extent.end - extent.start)}` : "not seen";
      return AT.el("span", { class: "more" }, `${RUN.called(when) ? `${RUN.called(when)}: ` : ""}${span}: ${RUN.describeNode(node, which)}`);
    });
    return AT.el("div", { class: "fact" }, AT.el("span", { class: "label" }, `Picked on rank ${timeline.labels[place]}; the same nodes are lit on all ranks`), ...lines);
  },
};
