"use strict";
/*
 * AT._timelineView(svg, options): draws a view of a timeline into an SVG element; all looks are attributes, so that it can be saved.
 */
Object.assign(AT, {
  mostBars: 3000,
  _timelineFont: 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif',

  /** Round times inside a range, and their labels: [[time, text], ...]. */
  _ticks(t0, t1, most, unit) {
    const span = t1 - t0;
    const power = 10 ** Math.floor(Math.log10(span / Math.max(1, most)));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => span / s <= most) || 10 * power;
    const [scale, name] = unit !== "ns" ? [1, unit] : t1 < 1e4 ? [1, "ns"] : t1 < 1e7 ? [1e3, "µs"] : t1 < 1e10 ? [1e6, "ms"] : [1e9, "s"];
    const digits = Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9));
    const ticks = [];
    for (let k = Math.ceil(t0 / step); k * step <= t1 + 1e-9 * span; k += 1) ticks.push([k * step, AT.format.number((k * step) / scale, digits)]);
    return { ticks, name };
  },

  _timelineView(svg, { rows, groups, colours, unit, height, mix = false, end = null }) {
    const foot = 40, strip = groups.length ? 22 : 0;
    const longest = rows.reduce((most, text) => Math.max(most, text.length), 1);
    const head = end ? 22 : 6;
    const box = { left: 0, top: head, width: 0, height: height - foot - head };

    function resize(width) {
      box.left = strip + Math.min(longest * 6.4 + 14, width < 560 ? 82 : 190);
      box.width = Math.max(40, width - box.left - 12);
      svg.setAttribute("width", width);
      svg.setAttribute("height", height);
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    }

    const x = (view, time) => box.left + ((time - view.t0) / (view.t1 - view.t0)) * box.width;
    const y = (view, row) => box.top + ((row - view.r0) / (view.r1 - view.r0)) * box.height;
    const clipped = (view, time) => Math.min(Math.max(x(view, time), box.left), box.left + box.width);

    function label(text, attributes) {
      return AT.svg("text", { "font-family": AT._timelineFont, "font-size": 11, fill: "#52606d", ...attributes }, text);
    }

    /** A group's label, and what can stand for it where it does not fit: `dimension 0: Ring 8`, `dim. 0: Ring 8`, `dim. 0`, `0`. */
    function shorter(text) {
      const brief = text.replace(/^dimension /, "dim. ");
      const number = brief.split(":")[0];
      return [text, brief, number, number.replace("dim. ", "")];
    }

    const edges = groups.length ? groups.map((_, i) => groups.slice(0, i).reduce((sum, group) => sum + group.rows, 0)) : [0];

    function gutter(view) {
      const parts = [];
      const tall = box.height / (view.r1 - view.r0);
      const step = Math.max(1, Math.ceil(12 / tall));
      const room = Math.floor((box.left - strip - 12) / 6);
      for (let r = Math.ceil(view.r0 - 0.5); r < Math.min(rows.length, view.r1); r += 1) {
        if (r < 0) continue;
        const edge = edges.filter((first) => first <= r).pop(), after = edges.find((first) => first > r);
        const place = y(view, r + 0.5);
        if ((r - edge) % step || place < box.top + 4 || place > box.top + box.height - 3) continue;
        if (after !== undefined && step > 1 && y(view, after) - place < 6) continue; // too near to the first one of the next group
        const text = rows[r].length > room ? `${rows[r].slice(0, room - 1)}…` : rows[r];
        parts.push(label(text, { x: box.left - 7, y: place + 3.8, "text-anchor": "end" }));
      }
      let first = 0;
      groups.forEach((group, i) => {
        const top = Math.max(box.top, y(view, first)), bottom = Math.min(box.top + box.height, y(view, first + group.rows));
        first += group.rows;
        if (bottom - top < 1) return;
        const whole = AT.svg("title", {}, group.label);
        parts.push(AT.svg("rect", { x: 1, y: top, width: strip - 4, height: Math.max(0, bottom - top - 1), rx: 3, fill: i % 2 ? "#e4e9ee" : "#d6e0ea" }, whole));
        const fits = Math.floor((bottom - top - 6) / 6.2);
        const text = shorter(group.label).find((form) => form.length <= fits);
        if (text) parts.push(label(text, { "pointer-events": "none", transform: `translate(${strip / 2 + 2} ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle", fill: "#1f2933" }));
        if (bottom < box.top + box.height - 1) parts.push(AT.svg("line", { x1: box.left, x2: box.left + box.width, y1: bottom, y2: bottom, stroke: "#9aa5b1", "stroke-width": 1 }));
      });
      return parts;
    }

    function axis(view) {
      const base = box.top + box.height;
      const { ticks, name } = AT._ticks(view.t0, view.t1, Math.max(2, Math.floor(box.width / 85)), unit);
      const parts = [AT.svg("rect", { x: box.left, y: box.top, width: box.width, height: box.height, fill: "none", stroke: "#9aa5b1" })];
      for (const [time, text] of ticks) {
        parts.push(AT.svg("line", { x1: x(view, time), x2: x(view, time), y1: base, y2: base + 4, stroke: "#9aa5b1" }));
        parts.push(label(text, { x: x(view, time), y: base + 16, "text-anchor": "middle" }));
      }
      parts.push(label(`time (${name})`, { x: box.left + box.width / 2, y: base + 32, "text-anchor": "middle", fill: "#1f2933" }));
      return parts;
    }

    function endMark(view) {
      if (!end || end.time < view.t0 || end.time > view.t1) return [];
      const at = x(view, end.time), isRight = at > box.left + box.width / 2;
      return [AT.svg("line", { x1: at, x2: at, y1: box.top - 5, y2: box.top + box.height, stroke: "#222222", "stroke-width": 1.5, "stroke-dasharray": "5 3", class: "end" }),
        label(end.label, { x: at, y: box.top - 8, "text-anchor": isRight ? "end" : "start", fill: "#1f2933" })];
    }

    /** One path per colour, so that thousands of bars are a few elements. */
    function bars(view, model, faded) {
      const paths = colours.map(() => []);
      const tall = box.height / (view.r1 - view.r0);
      const gap = tall > 6 ? 1 : 0;
      let seen = 0;
      model.visit(view, (bar) => {
        seen += 1;
        paths[model.colour[bar]].push(shape(view, model, bar, tall, gap));
      });
      const narrow = seen / (view.r1 - view.r0) > box.width / 6; // outlines would be all that is seen
      return paths.map((shapes, i) => shapes.length && AT.svg("path", { d: shapes.join(""), fill: colours[i], opacity: faded ? 0.18 : 1, stroke: narrow ? "none" : "#fff", "stroke-width": tall > 6 ? 0.7 : 0.25 })).filter(Boolean);
    }

    function shape(view, model, bar, tall, gap, least = 0.8) {
      const low = clipped(view, model.start[bar]), high = clipped(view, model.end[bar]);
      const top = Math.max(box.top, y(view, model.row[bar]) + gap / 2), bottom = Math.min(box.top + box.height, y(view, model.row[bar]) + tall - gap / 2);
      if (bottom <= top) return "";
      return `M${low.toFixed(2)} ${top.toFixed(2)}h${Math.max(least, high - low).toFixed(2)}v${Math.max(0.5, bottom - top).toFixed(2)}H${low.toFixed(2)}z`;
    }

    /** The picture of a view is kept until the view changes: lighting bars changes only how strong it is. */
    const last = { of: null, model: null, url: null };
    function heat(view, model, faded) {
      const whole = { ...view, r0: Math.floor(view.r0), r1: Math.ceil(view.r1) };
      const of = JSON.stringify([view, box]);
      if (last.of !== of || last.model !== model) Object.assign(last, { of, model, url: heatImage(view, whole, model) });
      return [AT.svg("svg", { x: box.left, y: box.top, width: box.width, height: box.height, viewBox: `0 0 ${box.width} ${box.height}`, overflow: "hidden" },
        AT.svg("image", { href: last.url, x: 0, y: y(view, whole.r0) - box.top, width: box.width, height: y(view, whole.r1) - y(view, whole.r0), preserveAspectRatio: "none", style: "image-rendering: pixelated", opacity: faded ? 0.3 : 1 }))];
    }

    function heatImage(view, whole, model) {
      const columns = Math.max(1, Math.round(box.width / 2));
      const lines = Math.max(1, Math.min(Math.ceil(view.r1) - Math.floor(view.r0), Math.floor(box.height / 2)));
      const cells = mix ? null : model.heat(whole, lines, columns);
      const canvas = AT.el("canvas", { width: columns, height: lines });
      const context = canvas.getContext("2d");
      const image = context.createImageData(columns, lines);
      const palette = Array.from({ length: 256 }, (_, i) => AT.ramp(i / 255).match(/\d+/g).map(Number));
      if (mix) image.data.set(AT._mixed(model, whole, lines, columns, colours));
      else cells.forEach((share, i) => {
        const [r, g, b] = share > 0 ? palette[Math.round(255 * share)] : [255, 255, 255];
        image.data.set([r, g, b, 255], 4 * i);
      });
      context.putImageData(image, 0, 0);
      return canvas.toDataURL();
    }

    /** Bars that are lit, over all others; at least a few pixels each. */
    function lit(view, model, chosen, colourOf) {
      const tall = box.height / (view.r1 - view.r0);
      const paths = new Map();
      for (const bar of chosen) {
        if (model.end[bar] < view.t0 || model.start[bar] > view.t1) continue;
        const thick = Math.max(tall, 3);
        const fill = colourOf(bar);
        if (!paths.has(fill)) paths.set(fill, []);
        paths.get(fill).push(shape(view, model, bar, thick, 0, 2.5));
      }
      return [...paths].map(([fill, shapes]) => AT.svg("path", { d: shapes.join(""), fill, stroke: "#1f2933", "stroke-width": 0.6, class: "lit" }));
    }

    function outline(view, model, bar) {
      const tall = box.height / (view.r1 - view.r0);
      return AT.svg("path", { d: shape(view, model, bar, Math.max(tall, 4), 0, 4), fill: "none", stroke: "#000", "stroke-width": 2.2, class: "selected" });
    }

    return {
      box, resize,
      timeAt: (view, px) => view.t0 + ((px - box.left) / box.width) * (view.t1 - view.t0),
      rowAt: (view, py) => view.r0 + ((py - box.top) / box.height) * (view.r1 - view.r0),

      /** Draw; returns what it shows: {kind: "bars" | "heat", count}. */
      draw(view, model, chosen, selected) {
        const count = model.countIn(view);
        const kind = count <= AT.mostBars ? "bars" : "heat";
        const faded = chosen !== null;
        const content = kind === "bars" ? bars(view, model, faded) : heat(view, model, faded);
        const over = [...(chosen ? lit(view, model, chosen, (bar) => colours[model.colour[bar]]) : []), ...(selected >= 0 ? [outline(view, model, selected)] : [])];
        svg.replaceChildren(AT.svg("rect", { width: "100%", height: "100%", fill: "#fff" }), ...content, ...over, ...gutter(view), ...axis(view), ...endMark(view));
        return { kind, count };
      },
    };
  },
});
