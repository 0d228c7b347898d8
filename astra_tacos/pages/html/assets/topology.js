"use strict";
/*
 * AT.topology(element, {picture, binding, name, alt, rows, describe, onNpu, onLink})
 *     ->  {light(hops, holders), npu(number or null), link(number or null)}
 *
 * A drawing of a network. Each link is drawn in the half of its curve that begins at its sender, so that both directions show.
 *   picture   what topology_picture.py describes: layout {positions, sender_half, receiver_half, size, spacing}, src, dst, values, shades, marks, failed_colour
 *   binding   links to mark
 *   describe  link => text for the line under the picture
 *   onNpu     a device was picked (NPUs only);  onLink  link or null: pointed at
 *   light     hops: [{link, colour}, ...] drawn as arrows over the network; holders: NPUs to fill; null puts everything back
 */
Object.assign(AT, {
  /** The outline of a mark around a place: corners of a regular polygon, the first at an angle. */
  _mark(shape, x, y, r) {
    const [corners, turn, reach] = { square: [4, 0.125, 1.13], diamond: [4, 0, 1.13], triangle: [3, -0.25, 1.2], hexagon: [6, 0.25, 1.05] }[shape];
    const at = (i) => 2 * Math.PI * (turn + i / corners);
    return `M${Array.from({ length: corners }, (_, i) => `${(x + reach * r * Math.cos(at(i))).toFixed(1)} ${(y + reach * r * Math.sin(at(i))).toFixed(1)}`).join("L")}z`;
  },

  topology(element, { picture, binding = [], name, alt, rows, describe, onNpu = null, onLink = null }) {
    const svg = AT.svg("svg", { xmlns: "http://www.w3.org/2000/svg", role: "img", "aria-label": alt });
    const box = AT.el("div", { class: "drawing-box" }, svg);
    const live = AT.el("p", { class: "live", "aria-live": "polite" }, "");
    const state = { width: 0, hops: null, holders: new Set(), npu: null, link: null, over: null };
    const marked = new Set(binding);
    const { layout: { positions, sender_half: begins, receiver_half: finishes, size, spacing }, src, dst, values, shades, marks } = picture;
    const npus = marks[0].devices.length, devices = positions.length, count = values.length;
    const place = { x: new Float64Array(devices), y: new Float64Array(devices), radius: 6, height: 0 };

    function scale(width) {
      const edge = 26;
      const most = Math.min(width, 540);
      const factor = Math.min((width - 2 * edge) / Math.max(size[0], 1e-9), (most - 2 * edge) / Math.max(size[1], 1e-9));
      place.height = Math.max(90, factor * size[1] + 2 * edge);
      place.at = ([x, y]) => [width / 2 + factor * (x - 0.5), place.height / 2 - factor * (y - 0.5)];
      positions.forEach((position, d) => { [place.x[d], place.y[d]] = place.at(position); });
      place.radius = Math.min(15, Math.max(2.2, 0.34 * factor * spacing));
    }

    /** The two halves of a link, three points each, from sender to receiver: half arcs at two borders, or one curve. */
    const halves = (link) => {
      const [s, d] = [src[link], dst[link]];
      const [leave, middle] = [place.at(begins[link].slice(0, 2)), place.at(begins[link].slice(2))];
      const [enter, other] = [place.at(finishes[link].slice(0, 2)), place.at(finishes[link].slice(2))];
      return [[[place.x[s], place.y[s]], leave, middle], [other, enter, [place.x[d], place.y[d]]]];
    };
    const mix = (a, b, t) => [a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1])];
    const pointOf = ([a, c, b], t) => mix(mix(a, c, t), mix(c, b, t), t);
    const text = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;
    const pathOf = ([a, c, b]) => `M${text(a)}Q${text(c)} ${text(b)}`;
    const half = (link) => pathOf(halves(link)[0]);
    const whole = (link, shift = 0) => {
      const [[a, leave, middle], [other, enter, b]] = halves(link);
      const length = Math.hypot(b[0] - a[0], b[1] - a[1]) || 1;
      const [nx, ny] = [(-(b[1] - a[1]) / length) * shift, ((b[0] - a[0]) / length) * shift];
      const [first, second] = [[a, leave, middle], [other, enter, b]].map((half) => half.map(([x, y]) => [x + nx, y + ny]));
      const isOne = Math.hypot(middle[0] - other[0], middle[1] - other[1]) < 0.1;
      return { d: pathOf(first) + (isOne ? `Q${text(second[1])} ${text(second[2])}` : pathOf(second)), end: second };
    };

    function drawLinks(faded) {
      const levels = 16;
      const widest = Math.min(5, Math.max(1.6, place.radius * 0.7));
      const thinnest = Math.max(0.8, widest / 3);
      const paths = Array.from({ length: levels + 1 }, () => []);
      for (let link = 0; link < count; link += 1) paths[values[link] > 0 ? 1 + Math.min(levels - 1, Math.floor(values[link] * levels)) : 0].push(half(link));
      const parts = [];
      if (marked.size) parts.push(AT.svg("path", { d: binding.map(half).join(""), fill: "none", stroke: AT.colours.mark, "stroke-width": widest + 4, opacity: faded ? 0.15 : 0.55, class: "binding" }));
      paths.forEach((shapes, level) => {
        if (!shapes.length) return;
        const share = level / levels;
        const look = level ? { stroke: AT.between(shades.colours, share), "stroke-width": thinnest + (widest - thinnest) * share } : { stroke: "#9aa5b1", "stroke-width": 0.8, "stroke-dasharray": "3 3" };
        parts.push(AT.svg("path", { d: shapes.join(""), fill: "none", opacity: faded ? 0.18 : 1, ...look }));
      });
      const failed = Array.from({ length: src.length - count }, (_, at) => half(count + at));
      if (failed.length) parts.push(AT.svg("path", { d: failed.join(""), fill: "none", stroke: picture.failed_colour, "stroke-width": 1.6, "stroke-dasharray": "4 2", opacity: faded ? 0.18 : 1, class: "failed" }));
      return parts;
    }

    function drawHops(hops) {
      const byColour = new Map();
      const heads = new Map();
      for (const { link, colour } of hops) {
        const { d, end } = whole(link, 2.4);
        if (!byColour.has(colour)) { byColour.set(colour, []); heads.set(colour, []); }
        byColour.get(colour).push(d);
        const tip = pointOf(end, 0.24), before = pointOf(end, 0.08);
        const length = Math.hypot(tip[0] - before[0], tip[1] - before[1]) || 1;
        const [ux, uy] = [(tip[0] - before[0]) / length, (tip[1] - before[1]) / length];
        const size = Math.min(8, Math.max(5, place.radius * 0.8));
        const foot = [tip[0] - ux * size, tip[1] - uy * size];
        heads.get(colour).push(`M${text(tip)}L${text([foot[0] - uy * size * 0.5, foot[1] + ux * size * 0.5])}L${text([foot[0] + uy * size * 0.5, foot[1] - ux * size * 0.5])}z`);
      }
      return [...byColour].flatMap(([colour, shapes]) => [
        AT.svg("path", { d: shapes.join(""), fill: "none", stroke: colour, "stroke-width": 2, class: "tree" }),
        AT.svg("path", { d: heads.get(colour).join(""), fill: colour }),
      ]);
    }

    function drawDevices(faded) {
      const parts = [];
      const r = place.radius;
      for (const { shape: kind, fill, edge, devices: own } of marks) for (const d of own) {
        const picked = d === state.npu, holds = state.holders.has(d);
        const look = { fill: picked ? "#22384f" : holds ? "#ddaa33" : fill, stroke: picked ? "#22384f" : edge, "stroke-width": picked ? 2.5 : 1.2, opacity: faded && !picked && !holds && d >= npus ? 0.5 : 1 };
        const [x, y] = [place.x[d], place.y[d]];
        const shape = kind === "circle" ? AT.svg("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r, ...look }) : AT.svg("path", { d: AT._mark(kind, x, y, r), ...look });
        shape.setAttribute("data-device", d);
        parts.push(shape);
        if (d < npus && r >= 8) {
          parts.push(AT.svg("text", { x: place.x[d].toFixed(1), y: (place.y[d] + r * 0.32).toFixed(1), "text-anchor": "middle", "font-size": Math.min(11, r * 0.95), "font-family": AT._timelineFont, fill: picked ? "#fff" : "#1f2933", "pointer-events": "none" }, String(d)));
        }
      }
      return parts;
    }

    function draw() {
      if (!state.width) return;
      scale(state.width);
      svg.setAttribute("width", state.width);
      svg.setAttribute("height", place.height);
      svg.setAttribute("viewBox", `0 0 ${state.width} ${place.height}`);
      const faded = state.hops !== null;
      const chosen = [state.link, state.over].filter((link) => link !== null).map((link) => AT.svg("path", { d: whole(link, 0).d, fill: "none", stroke: "#000", "stroke-width": 3, opacity: 0.75, class: "chosen" }));
      svg.replaceChildren(AT.svg("rect", { width: "100%", height: "100%", fill: "#fff" }), ...drawLinks(faded), ...chosen, ...(faded ? drawHops(state.hops) : []), ...drawDevices(faded));
    }

    function under(event) {
      const frame = svg.getBoundingClientRect();
      const [px, py] = [event.clientX - frame.left, event.clientY - frame.top];
      const reach = Math.max(place.radius + 3, 9);
      let npu = null, away = reach;
      for (let d = 0; d < npus; d += 1) {
        const distance = Math.hypot(place.x[d] - px, place.y[d] - py);
        if (distance <= away) [npu, away] = [d, distance];
      }
      if (npu !== null) return { npu, link: null };
      let link = null;
      away = 7;
      for (let i = 0; i < count; i += 1) {
        const curve = halves(i)[0];
        for (const t of [0.24, 0.4, 0.56, 0.72, 0.88]) {
          const [x, y] = pointOf(curve, t);
          const distance = Math.hypot(x - px, y - py);
          if (distance < away) [link, away] = [i, distance];
        }
      }
      return { npu: null, link };
    }

    svg.addEventListener("pointermove", (event) => {
      const { npu, link } = under(event);
      svg.style.cursor = npu !== null ? "pointer" : "default";
      if (npu !== null) live.textContent = `NPU ${npu}`;
      else live.textContent = link !== null ? describe(link) : "";
      if (link === state.over) return;
      state.over = link;
      draw();
      if (onLink) onLink(link);
    });
    svg.addEventListener("pointerleave", () => { state.over = null; draw(); });
    svg.addEventListener("click", (event) => {
      const { npu } = under(event);
      if (npu !== null && onNpu) onNpu(npu);
    });

    const key = AT.el("span", { class: "key" }, AT.el("span", {}, `${shades.title}: ${shades.labels[0]} `, AT.el("i", { class: "ramp", style: `background:linear-gradient(to right,${shades.colours.join(",")})` }), shades.labels[shades.labels.length - 1]),
      ...(marks.length > 1 ? [AT.el("span", {}, marks.map(({ text: said }) => said).join("; "))] : []),
      ...(src.length > count ? [AT.el("span", {}, AT.el("i", { style: `background:${picture.failed_colour}` }), "failed links")] : []),
      ...(marked.size ? [AT.el("span", {}, AT.el("i", { style: `background:${AT.colours.mark};opacity:.55` }), "the bound's links")] : []));
    const frame = AT.figure(element, { name, alt, rows, key, svg: () => new XMLSerializer().serializeToString(svg) });
    frame.body.append(box, live);
    AT.fit(box, (width) => { state.width = width; draw(); });
    return {
      light(hops, holders = []) { state.hops = hops; state.holders = new Set(holders); draw(); },
      npu(number) { state.npu = number; draw(); },
      link(number) { state.link = number; draw(); },
    };
  },
});
