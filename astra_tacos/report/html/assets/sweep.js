"use strict";
/* The page of a sweep: a table whose filter drives the pictures, and a chosen point that is marked in all of them. */
(() => {
  const delay = 120;

  AT.ready(async () => {
    const model = AT.sweep.open(AT.data);
    const rowOf = new Map(model.column("point").values.map((point, row) => [String(point), row]));
    const everything = Array.from({ length: model.count }, (_, row) => row);
    const state = { rows: everything, selected: -1, timer: null, queue: Promise.resolve(), waiting: 0 };
    const view = AT.sweep.view(() => restore());
    const context = { model, view, select: (row) => choose(row), redraw: (name) => draw([name]) };
    const pictures = { front: AT.sweep.frontPicture(context), heat: AT.sweep.heatPicture(context), lines: AT.sweep.linesPicture(context) };
    /** Draw pictures, one after the other also where the reader is faster; `data-drawn` says of how many points. */
    const draw = (names = Object.keys(pictures)) => {
      delete document.documentElement.dataset.drawn;
      state.waiting += 1;
      state.queue = state.queue.then(async () => {
        for (const name of names) {
          if (state.rows.length || AT.sweep.lacking(model)) await pictures[name].draw(state.rows, state.selected);
          else AT.sweep.blank(name, "No point is left by the filters.");
        }
        state.waiting -= 1;
        if (!state.waiting) document.documentElement.dataset.drawn = String(state.rows.length);
      });
      return state.queue;
    };
    const later = () => {
      delete document.documentElement.dataset.drawn;
      clearTimeout(state.timer);
      state.timer = setTimeout(() => draw(), delay);
    };

    const said = AT.el("span", { role: "status" });
    const clear = AT.el("button", { type: "button", onclick: () => unfilter() }, "Clear the filter");
    document.getElementById("sweep-view").append(said, clear);
    const holder = document.getElementById("sweep-table");
    const table = AT.table(holder, model.columns.map((column) => ({
      title: AT.sweep.title(column, true), saved: AT.sweep.title(column), values: column.values, type: column.type, unit: column.unit, wrap: column.name === "error", format: AT.sweep.cell(column),
    })), { name: AT.sweep.fileName("points"), pageSize: 10, caption: "Points of the sweep", onSelect: (row) => show(row), onFilter: (rows) => filtered(rows) });
    const fields = [...holder.querySelectorAll("thead input")];

    function describe() {
      const whole = AT.data.num_points > model.count ? ` on this page, out of ${AT.format.count(AT.data.num_points)}` : "";
      const [shown, all] = [state.rows.length, model.count].map(AT.format.count);
      if (AT.sweep.lacking(model)) said.textContent = "";
      else said.textContent = shown === all ? `The pictures show ${model.count === 1 ? "the one point" : `all ${all} points`}${whole}. ` : `The pictures show the ${shown} filtered point${shown === "1" ? "" : "s"} of ${all}${whole}. `;
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
      view.set("p", row < 0 ? null : String(model.column("point").at(row)));
      const place = document.getElementById("sweep-point");
      if (row < 0) place.replaceChildren();
      else {
        const known = model.columns.filter((column) => column.at(row) !== null);
        const pairs = known.map((column) => AT.el("div", {}, AT.el("dt", {}, column.label), AT.el("dd", {}, AT.sweep.text(column, column.at(row)))));
        place.replaceChildren(AT.el("div", { class: "sweep-chosen" },
          AT.el("h3", { role: "status" }, `Point ${model.column("point").at(row)}`, AT.el("button", { type: "button", class: "screen-only", onclick: () => choose(-1) }, "Clear the mark")),
          AT.el("dl", { class: "pairs sweep-columns" }, ...pairs)));
      }
      later();
    }

    /** What the address says: filters and the chosen point; the pictures read theirs when they are drawn. */
    function restore() {
      const wanted = new Map(view.all("f."));
      const point = view.get("p");
      fields.forEach((field, i) => { field.value = wanted.get(model.columns[i].name) || ""; });
      table.setFilter(0, fields[0].value);
      const row = rowOf.get(point) ?? -1;
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
