"use strict";
/*
 * AT.timeline(element, {rows, groups, bars, end, legend, unit, describe, onPoint, onPick, name, alt, columns, height})
 *     ->  {highlight(bars), select(bar), zoom({t0, t1, r0, r1}), reset(), setBars(bars), shown()}
 *
 * Bars over time that are zoomed with the pointer or the keyboard. Where more than AT.mostBars are in view, their density is drawn
 * instead (share of time in use by row and time), and the line under the picture says which of the two it is.
 *   rows       [label, ...] from top to bottom
 *   groups     [{label, rows: number of rows}, ...] in the same order; optional
 *   bars       {row, start, end, colour}: arrays, typed or not; `colour` an index into `legend` (optional)
 *   end        {time, label} of what comes after the last bar: the axis goes up to it, and a line marks it; optional
 *   legend     [{label, colour}, ...]
 *   unit       "ns" (the default), or another name for plain numbers
 *   describe   bar => text for the line under the picture (aria-live)
 *   onPoint    bar or null: what the pointer is over, or the keyboard moved to
 *   onPick     bar or null: clicked, or Enter; null on Escape or a click beside bars
 *   columns    [{title, values}, ...]: more columns for the CSV
 *   mix        draw too many bars as the mixture of their colours, where these say more than that a row is in use
 *   highlight  an iterable of bars, or null: those are lit, all others fade
 *   shown()    {kind: "bars" or "heat", count, view, selected}
 */
Object.assign(AT, {
  timeline(element, { rows, groups = [], bars, end = null, legend = [{ label: "", colour: "#4477aa" }], unit = "ns", describe = null, onPoint = null, onPick = null,
    name = "timeline", alt = "", columns = [], height = null, mix = false }) {
    const colours = legend.map(({ colour }) => colour);
    const tall = height || Math.min(560, Math.max(180, 60 + 16 * rows.length));
    const svg = AT.svg("svg", { xmlns: "http://www.w3.org/2000/svg", tabindex: "0", role: "application", "aria-roledescription": "timeline", "aria-label": `${alt} Arrow keys move between bars, plus and minus zoom, 0 shows all, Enter picks, Escape clears.` });
    const holder = AT.el("div", { class: "timeline-box" }, svg);
    const drawer = AT._timelineView(svg, { rows, groups, colours, unit, height: tall, mix, end });
    const state = { model: null, view: null, chosen: null, selected: -1, pointed: -1, shown: null, width: 0, drag: null, touches: new Map() };

    const inputs = (given) => ({ ...given, colour: given.colour || new Uint8Array(given.row.length) });
    function setBars(given) {
      const model = AT._timelineModel(given, rows.length);
      state.model = Object.assign(model, { colour: inputs(given).colour, last: Math.max(model.last, end ? end.time : 0) });
      state.view = whole();
      Object.assign(state, { chosen: null, selected: -1, pointed: -1 });
      later();
    }
    const whole = () => ({ t0: 0, t1: state.model.last || 1, r0: 0, r1: rows.length });

    // What is said.
    const live = AT.el("p", { class: "live", "aria-live": "polite" });
    const says = AT.el("p", { class: "note", "data-role": "shows" });
    const time = (value) => (unit === "ns" ? AT.format.time(value) : `${AT.format.number(value)} ${unit}`);
    const text = (bar) => (describe ? describe(bar) : `${rows[state.model.row[bar]]}: ${time(state.model.start[bar])} to ${time(state.model.end[bar])}`);

    function tell() {
      const { kind, count } = state.shown;
      const { t0, t1, r0, r1 } = state.view;
      const at = (value) => (unit === "ns" ? AT.format.time(value, t1 - t0) : time(value));
      const range = `${at(t0)} to ${at(t1)}, ${AT.format.count(Math.min(rows.length, Math.ceil(r1)) - Math.max(0, Math.floor(r0)))} of ${AT.format.count(rows.length)} rows`;
      says.textContent = kind === "bars" ? `Every bar is drawn: ${AT.format.count(count)} in view (${range}).`
        : `${mix ? "Colours are mixed by their shares of time" : "Share of time in use by row and time"}: the ${AT.format.count(count)} bars in view (${range}) are too many to draw. Zoom in to see each.`;
    }

    // Drawing, at most once per frame.
    let waiting = false;
    function later() {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; draw(); });
    }
    function draw() {
      if (!state.width) return;
      drawer.resize(state.width);
      state.shown = drawer.draw(state.view, state.model, state.chosen, state.selected);
      svg.dataset.shows = state.shown.kind;
      heatKey.hidden = mix || state.shown.kind !== "heat";
      barKey.hidden = !heatKey.hidden;
      tell();
    }

    // Moving the view.
    function look(view) {
      const { last } = state.model;
      const full = last || 1;
      const span = Math.min(full, Math.max(view.t1 - view.t0, full / 1e6));
      const lines = Math.min(rows.length, Math.max(view.r1 - view.r0, Math.min(rows.length, 3)));
      const t0 = Math.min(Math.max(view.t0, 0), full - span), r0 = Math.min(Math.max(view.r0, 0), rows.length - lines);
      state.view = { t0, t1: t0 + span, r0, r1: r0 + lines };
      later();
    }
    function zoom(factor, about = null, ofRows = false) {
      const { t0, t1, r0, r1 } = state.view;
      if (ofRows) {
        const row = about ? about.row : state.selected >= 0 ? state.model.row[state.selected] + 0.5 : (r0 + r1) / 2;
        look({ t0, t1, r0: row - (row - r0) * factor, r1: row + (r1 - row) * factor });
        return;
      }
      const chosen = state.selected >= 0 ? (state.model.start[state.selected] + state.model.end[state.selected]) / 2 : null;
      const middle = about ? about.time : chosen !== null && chosen >= t0 && chosen <= t1 ? chosen : (t0 + t1) / 2;
      look({ t0: middle - (middle - t0) * factor, t1: middle + (t1 - middle) * factor, r0, r1 });
    }
    function pan(shareOfTime, shareOfRows) {
      const { t0, t1, r0, r1 } = state.view;
      const [dt, dr] = [shareOfTime * (t1 - t0), shareOfRows * (r1 - r0)];
      look({ t0: t0 + dt, t1: t1 + dt, r0: r0 + dr, r1: r1 + dr });
    }
    function bring(bar) {
      const { model, view } = state;
      const { t0, t1, r0, r1 } = view;
      const [span, lines] = [t1 - t0, r1 - r0];
      const next = { ...view };
      if (model.start[bar] < t0 || model.end[bar] > t1) Object.assign(next, { t0: (model.start[bar] + model.end[bar] - span) / 2, t1: (model.start[bar] + model.end[bar] + span) / 2 });
      if (model.row[bar] < r0 || model.row[bar] + 1 > r1) Object.assign(next, { r0: model.row[bar] + 0.5 - lines / 2, r1: model.row[bar] + 0.5 + lines / 2 });
      look(next);
    }

    // Pointing and picking.
    function point(bar) {
      if (bar === state.pointed) return;
      state.pointed = bar;
      live.textContent = bar >= 0 ? text(bar) : "";
      if (onPoint) onPoint(bar >= 0 ? bar : null);
    }
    function select(bar) {
      state.selected = bar;
      if (bar >= 0) bring(bar);
      later();
    }
    function pick(bar) {
      select(bar);
      if (bar >= 0) live.textContent = text(bar);
      if (onPick) onPick(bar >= 0 ? bar : null);
    }
    function where(event) {
      const frame = svg.getBoundingClientRect();
      const [px, py] = [event.clientX - frame.left, event.clientY - frame.top];
      const inside = px >= drawer.box.left && px <= drawer.box.left + drawer.box.width && py >= drawer.box.top && py <= drawer.box.top + drawer.box.height;
      return { px, py, inside, time: drawer.timeAt(state.view, px), row: drawer.rowAt(state.view, py) };
    }
    function under(place) {
      if (!place.inside) return -1;
      return state.model.at(Math.floor(place.row), place.time, (3 * (state.view.t1 - state.view.t0)) / drawer.box.width);
    }

    AT._timelineInput(svg, holder, { state, where, under, point, pick, select, zoom, pan, look, drawer, reset: () => look(whole()), say: (line) => { live.textContent = line; } });

    const button = (label, title, act) => AT.el("button", { type: "button", title, "aria-label": `${name}: ${title}`, onclick: act }, label);
    const controls = [button("+", "zoom in", () => zoom(0.5)), button("−", "zoom out", () => zoom(2)), button("↕+", "taller rows", () => zoom(0.5, null, true)),
      button("↕−", "lower rows", () => zoom(2, null, true)), button("All", "show all", () => look(whole()))];
    const barKey = AT.el("span", { class: "key" }, ...legend.filter(({ label }) => label).map(({ label, colour }) => AT.el("span", {}, AT.el("i", { style: `background:${colour}` }), label)));
    const ramp = `background:linear-gradient(to right,${AT.rampStops.map(([, colour]) => colour).join(",")})`;
    const heatKey = AT.el("span", { class: "key", hidden: true }, AT.el("span", {}, "idle ", AT.el("i", { class: "ramp", style: ramp }), "in use all the time"));
    const key = AT.el("span", { class: "key" }, barKey, heatKey);

    const csv = () => {
      const { model } = state;
      const header = ["row", `start_${unit}`, `end_${unit}`, ...(legend.length > 1 ? ["kind"] : []), ...columns.map(({ title }) => title)];
      return [header, ...Array.from({ length: model.count }, (_, bar) => [rows[model.row[bar]], model.start[bar], model.end[bar],
        ...(legend.length > 1 ? [legend[model.colour[bar]].label] : []), ...columns.map(({ values }) => values[bar])])];
    };
    const frame = AT.figure(element, { name, alt, rows: csv, controls, key, svg: () => new XMLSerializer().serializeToString(svg) });
    const help = AT.el("p", { class: "help" }, "Drag to move; the wheel zooms once the picture has the focus (with Shift: the rows). Keys: ");
    for (const [keys, what] of [["← → ↑ ↓", "next bar"], ["Shift + arrows", "move"], ["+ −", "zoom"], ["0", "all"], ["Enter", "pick"], ["Esc", "clear"]]) help.append(AT.el("kbd", {}, keys), ` ${what} `);
    frame.body.append(holder, live, says, help);

    setBars(bars);
    AT.fit(holder, (width) => { state.width = width; draw(); });

    return {
      highlight: (chosen) => { state.chosen = chosen === null ? null : [...chosen]; later(); },
      select, reset: () => look(whole()), setBars, zoom: look,
      shown: () => ({ ...state.shown, view: state.view, selected: state.selected, highlighted: state.chosen }),
    };
  },

  /** Pointer, wheel and keyboard of a timeline. */
  _timelineInput(svg, holder, { state, where, under, point, pick, select, zoom, pan, look, drawer, reset, say }) {
    const pinch = () => {
      const [a, b] = [...state.touches.values()];
      return { distance: Math.max(20, Math.abs(a.px - b.px)), time: drawer.timeAt(state.view, (a.px + b.px) / 2) };
    };
    svg.addEventListener("pointerdown", (event) => {
      const place = where(event);
      state.touches.set(event.pointerId, place);
      state.drag = { place, view: state.view, moved: false, pinch: state.touches.size === 2 ? pinch() : null };
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      const place = where(event);
      if (!state.drag) { point(under(place)); return; }
      state.touches.set(event.pointerId, place);
      const { view, pinch: begun } = state.drag;
      if (begun && state.touches.size === 2) {
        state.drag.moved = true;
        const factor = begun.distance / pinch().distance;
        look({ ...view, t0: begun.time - (begun.time - view.t0) * factor, t1: begun.time + (view.t1 - begun.time) * factor });
        return;
      }
      const [dx, dy] = [place.px - state.drag.place.px, place.py - state.drag.place.py];
      if (!state.drag.moved && Math.hypot(dx, dy) < 5) return;
      state.drag.moved = true;
      holder.classList.add("dragging");
      const dt = (-dx / drawer.box.width) * (view.t1 - view.t0), dr = (-dy / drawer.box.height) * (view.r1 - view.r0);
      look({ t0: view.t0 + dt, t1: view.t1 + dt, r0: view.r0 + dr, r1: view.r1 + dr });
    });
    const release = (event) => {
      state.touches.delete(event.pointerId);
      holder.classList.remove("dragging");
      if (!state.drag || state.touches.size) return;
      const { moved } = state.drag;
      state.drag = null;
      if (!moved && event.type === "pointerup") {
        const bar = under(where(event));
        point(bar);
        pick(bar);
      }
    };
    svg.addEventListener("pointerup", release);
    svg.addEventListener("pointercancel", release);
    svg.addEventListener("pointerleave", () => state.drag || point(state.selected));
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== svg) { say("Click the picture, or hold Ctrl, to zoom with the wheel."); return; }
      event.preventDefault();
      const turned = event.deltaY || event.deltaX;
      zoom(Math.exp(Math.sign(turned) * Math.min(Math.abs(turned), 200) * 0.003), where(event), event.shiftKey);
    }, { passive: false });

    const step = (along, across) => {
      const { model, view, selected } = state;
      let bar;
      if (selected < 0) bar = model.nearest(Math.max(0, Math.floor(view.r0)), view.t0, 1);
      else if (along) bar = model.beside(selected, along);
      else bar = model.nearest(model.row[selected] + across, (model.start[selected] + model.end[selected]) / 2, across);
      if (bar < 0) return;
      select(bar);
      point(bar);
    };
    const keys = {
      ArrowLeft: (shift) => (shift ? pan(-0.25, 0) : step(-1, 0)), ArrowRight: (shift) => (shift ? pan(0.25, 0) : step(1, 0)),
      ArrowUp: (shift) => (shift ? pan(0, -0.25) : step(0, -1)), ArrowDown: (shift) => (shift ? pan(0, 0.25) : step(0, 1)),
      "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), _: () => zoom(2), 0: reset,
      Enter: () => pick(state.selected), Escape: () => { point(-1); pick(-1); },
    };
    svg.addEventListener("keydown", (event) => {
      if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key](event.shiftKey);
    });
  },
});
