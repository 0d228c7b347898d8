"use strict";
/* The page of a sweep: a table whose filter drives the pictures, and a chosen point that is marked in all of them. */
(() => {
  const delay = 120;
  const wide = 600;

  AT.ready(async () => {
    const model = AT.sweep.open(AT.data);
    const point = model.column("point");
    const rowOf = new Map(point.values.map((number, row) => [String(number), row]));
    const everything = point.values.map((_, row) => row);
    const state = { rows: everything, selected: -1, timer: null, queue: Promise.resolve(), waiting: 0 };
    const view = AT.sweep.view(() => restore());
    const charts = {};
    const lacking = !everything.some(model.ok) ? "No point has a result: there is nothing to draw." : model.count === 1 ? "A single point makes no picture." : null;

    /** Draw pictures, one after the other also where the reader is faster; `data-drawn` says of how many points. */
    function draw(names = Object.keys(AT.sweep.pictures)) {
      delete document.documentElement.dataset.drawn;
      state.waiting += 1;
      state.queue = state.queue.then(async () => {
        for (const name of names) await picture(name);
        state.waiting -= 1;
        if (!state.waiting) document.documentElement.dataset.drawn = String(state.rows.length);
      });
      return state.queue;
    }

    async function picture(name) {
      const element = document.getElementById(`${name}-chart`);
      const width = element.parentElement.clientWidth;
      const panel = { ...AT.sweep.panel(view, name, () => draw([name])), select: choose, width };
      const made = lacking || (state.rows.length ? AT.sweep.pictures[name](model, state.rows, panel, state.selected) : "No point is left by the filters.");
      if (lacking || state.rows.length) panel.show();
      const isDrawn = typeof made !== "string";
      for (const id of [`${name}-chart`, `${name}-list`]) document.getElementById(id)?.toggleAttribute("hidden", !isDrawn);
      document.getElementById(`${name}-scope`).textContent = isDrawn ? made.scope : made;
      if (!isDrawn) return;
      const alt = `${made.title}. ${made.scope}`;
      const lines = made.title.replace(new RegExp(`(.{1,${Math.floor(width / 8)}})(\\s|$)`, "g"), "$1\n").trim().split("\n").map(AT.plain);
      const beside = width < wide ? { legend: { orientation: "h", x: 0, y: -0.35, yanchor: "top" } } : { legend: { x: 1.02, xanchor: "left", y: 1, yanchor: "top" } };
      const layout = { title: { text: lines.join("<br>"), font: { size: 14 }, x: 0, xref: "container", xanchor: "left", y: 1, yref: "container", yanchor: "top", automargin: true, pad: { l: 4, t: 10 + 26 * (lines.length - 1), b: 12 } }, hovermode: "closest", ...beside, ...made.layout };
      if (!charts[name]) {
        charts[name] = await AT.chart(element, made.traces, layout, { name: AT.sweep.fileName(name), alt, rows: () => [charts[name].made.header, ...charts[name].made.records] });
        charts[name].plot.on("plotly_click", ({ points: [{ customdata }] }) => Number.isInteger(customdata) && choose(customdata));
      }
      charts[name].made = made;
      await charts[name].update(made.traces, layout);
      charts[name].plot.setAttribute("aria-label", alt);
      element.setAttribute("aria-label", alt);
    }

    function later() {
      delete document.documentElement.dataset.drawn;
      clearTimeout(state.timer);
      state.timer = setTimeout(() => draw(), delay);
    }

    const said = AT.el("span", { role: "status" });
    const clear = AT.el("button", { type: "button", onclick: () => unfilter() }, "Clear the filter");
    document.getElementById("sweep-view").append(said, clear);
    const holder = document.getElementById("sweep-table");
    const table = AT.table(holder, AT.sweep.cells(model.columns), { name: AT.sweep.fileName("points"), pageSize: 10, caption: "Points of the sweep", onSelect: (row) => show(row), onFilter: (rows) => filtered(rows) });
    const fields = [...holder.querySelectorAll("thead input")];

    function describe() {
      const [shown, all] = [state.rows.length, model.count];
      if (lacking) said.textContent = "";
      else said.textContent = shown === all ? `The pictures show all ${AT.sweep.counted(all, "point")}. ` : `The pictures show the ${AT.sweep.counted(shown, "filtered point")} of ${AT.format.count(all)}. `;
      for (const title of table.unclear()) said.append(AT.el("strong", {}, `The filter of ${title} is not understood: it filters nothing. `));
      clear.hidden = !fields.some((field) => field.value.trim());
    }

    function filtered(rows) {
      state.rows = rows.slice().sort((a, b) => a - b);
      fields.forEach((field, i) => view.set(`f.${model.columns[i].name}`, field.value.trim()));
      describe();
      later();
    }

    function unfilter() {
      fields.forEach((field) => { field.value = ""; });
      table.setFilter(0, "");
    }

    /** Mark a point, chosen in the table, a picture or a list. */
    function choose(row) {
      table.select(row);
    }

    function show(row) {
      state.selected = row;
      view.set("p", row < 0 ? null : String(point.at(row)));
      const place = document.getElementById("sweep-point");
      if (row < 0) place.replaceChildren();
      else {
        const known = model.columns.filter((column) => column.at(row) !== null);
        const pairs = known.map((column) => AT.el("div", {}, AT.el("dt", {}, column.label), AT.el("dd", {}, AT.sweep.text(column, column.at(row)))));
        place.replaceChildren(AT.el("div", { class: "sweep-chosen" },
          AT.el("h3", { role: "status" }, `Point ${point.at(row)}`, AT.el("button", { type: "button", class: "screen-only", onclick: () => choose(-1) }, "Clear the mark")),
          AT.el("dl", { class: "pairs sweep-columns" }, ...pairs)));
      }
      later();
    }

    /** What the address says: filters and the chosen point; the pictures read theirs when they are drawn. */
    function restore() {
      const wanted = new Map(view.all("f."));
      fields.forEach((field, i) => { field.value = wanted.get(model.columns[i].name) || ""; });
      table.setFilter(0, fields[0].value);
      const row = rowOf.get(view.get("p")) ?? -1;
      if (row !== state.selected) choose(row);
    }

    for (const button of document.querySelectorAll("button[data-point]")) {
      const row = rowOf.get(button.dataset.point);
      button.disabled = row === undefined;
      button.addEventListener("click", () => {
        choose(row);
        document.getElementById("points").scrollIntoView({ block: "start" });
      });
    }
    for (const element of document.querySelectorAll(".sweep-static")) AT.paged(element, 10);
    describe();
    if (view.all("").length) restore();
    clearTimeout(state.timer);
    await draw();
  });
})();
