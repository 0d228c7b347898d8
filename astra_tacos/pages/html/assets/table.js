"use strict";
/*
 * AT.table(element, columns, {name, filter, sort, pageSize, onSelect, onFilter, caption})  ->  {rows(), unclear(), setFilter(column, text), select(row)}
 *
 * A table that is filtered, sorted and paged.
 *   columns    [{title, saved, values, type, unit, format, wrap}]: `values` an array (typed or not; null where there is none), `type` "number" or
 *              "text" (found out where not given), `saved` the title in the CSV, `unit` "ns", "bytes", "share" ... for what may be
 *              typed into the filter, `format` value => text for the page (the CSV has the values), `wrap` for long texts
 *   filter     a field per column (table_filter.js); one that is not understood is marked and filters nothing, which the line below says
 *   sort       header buttons sort, ascending first; empty values last
 *   onSelect   (row) => ...: rows take the focus, Enter or a click selects; `row` is an index into `values`
 *   onFilter   (rows) => ...: called with the indices that are left, in order, whenever the filter or the sorting changes
 *   AT.paged(element, pageSize)   turns pages of a table that is in the page's markup
 *   rows()     the indices that are left, in order; unclear(): titles of columns whose filter is not understood
 */
Object.assign(AT, {
  /** For the line below a table: says where the table goes on to the right. */
  goesOn(scroll) {
    const note = AT.el("span", { class: "screen-only" });
    const look = () => { note.textContent = scroll.scrollLeft + scroll.clientWidth < scroll.scrollWidth - 2 ? "more columns →" : ""; };
    scroll.addEventListener("scroll", look);
    const observer = new ResizeObserver(look);
    for (const element of [scroll, scroll.firstChild]) observer.observe(element);
    return note;
  },

  /** Turn pages of a table that is in the page's markup; paper has all rows. */
  paged(element, pageSize) {
    const rows = [...element.querySelectorAll("tbody tr")];
    const status = AT.el("span", { class: "count", role: "status" });
    let first = 0;
    const turn = (by) => {
      first += by;
      rows.forEach((row, i) => row.classList.toggle("paper-only", i < first || i >= first + pageSize));
      status.textContent = `${first + 1}–${Math.min(first + pageSize, rows.length)} of ${rows.length}`;
      back.disabled = first === 0;
      next.disabled = first + pageSize >= rows.length;
    };
    const back = AT.el("button", { type: "button", onclick: () => turn(-pageSize) }, "‹ Previous");
    const next = AT.el("button", { type: "button", onclick: () => turn(pageSize) }, "Next ›");
    element.append(AT.el("div", { class: "table-foot screen-only" }, status, AT.goesOn(element.querySelector(".scroll")), ...(rows.length > pageSize ? [back, next] : [])));
    turn(0);
  },

  /** A table of columns. */
  table(element, columns, { name = "table", filter = true, sort = true, pageSize = 50, onSelect = null, onFilter = null, caption = null } = {}) {
    const count = columns.length ? columns[0].values.length : 0;
    const types = columns.map(({ type, values }) => type || (Array.prototype.every.call(values, (v) => v === null || typeof v === "number") ? "number" : "text"));
    const missing = (value) => value === null || value === undefined || (typeof value === "number" && Number.isNaN(value));
    const shown = (column, row) => {
      const { values, format } = columns[column];
      const value = values[row];
      if (missing(value)) return "–";
      return format ? format(value, row) : typeof value === "number" ? (Number.isInteger(value) ? AT.format.count(value) : String(+value.toPrecision(6))) : String(value);
    };
    const state = { order: Array.from({ length: count }, (_, row) => row), page: 0, column: null, down: false, selected: null, unclear: [] };
    const status = AT.el("span", { class: "count", role: "status", "aria-live": "polite" });
    const body = AT.el("tbody");

    const inputs = columns.map(({ title }, column) => AT.el("input", {
      type: "text", "aria-label": `Filter by ${title}`, placeholder: "filter", "data-column": column,
      title: AT.filterHelp({ type: types[column], unit: columns[column].unit }),
      oninput: () => refilter(),
    }));
    const heads = columns.map(({ title }, column) => AT.el("th", { scope: "col", class: types[column] === "number" ? "number" : null, "aria-sort": "none" },
      sort ? AT.el("button", { type: "button", onclick: () => resort(column) }, title) : title));
    const head = AT.el("thead", {}, AT.el("tr", {}, ...heads));
    if (filter) head.append(AT.el("tr", { class: "filters" }, ...inputs.map((input) => AT.el("th", {}, input))));

    function refilter() {
      state.unclear = [];
      const tests = inputs.map((input, column) => {
        const test = AT.filter(input.value, { type: types[column], unit: columns[column].unit });
        if (!test) state.unclear.push(columns[column].title);
        input.setAttribute("aria-invalid", String(test === null));
        return test || (() => true);
      });
      const active = tests.map((_, column) => column).filter((column) => inputs[column].value.trim());
      state.order = [];
      for (let row = 0; row < count; row += 1) {
        if (active.every((column) => tests[column](columns[column].values[row], () => shown(column, row)))) state.order.push(row);
      }
      state.page = 0;
      arrange();
    }

    function arrange() {
      const { column, down } = state;
      if (column !== null) {
        const { values } = columns[column];
        const sign = down ? -1 : 1;
        const compare = types[column] === "number" ? (a, b) => a - b : (a, b) => String(a).localeCompare(String(b), "en", { numeric: true });
        state.order.sort((a, b) => {
          if (missing(values[a]) || missing(values[b])) return missing(values[a]) - missing(values[b]) || a - b;
          return sign * compare(values[a], values[b]) || a - b;
        });
      }
      draw();
      if (onFilter) onFilter(state.order.slice());
    }

    function resort(column) {
      const [was, down] = [state.column, state.down];
      state.column = was === column && down ? null : column;
      state.down = was === column && !down;
      heads.forEach((th, i) => th.setAttribute("aria-sort", i !== state.column ? "none" : state.down ? "descending" : "ascending"));
      heads.forEach((th, i) => sort && (th.firstChild.textContent = columns[i].title + (i !== state.column ? "" : state.down ? " ▼" : " ▲")));
      if (state.column === null) refilter(); else arrange();
    }

    function select(row) {
      state.selected = row;
      const place = state.order.indexOf(row);
      if (place >= 0) state.page = Math.floor(place / pageSize);
      draw();
      if (onSelect) onSelect(row);
    }

    function line(row) {
      const cells = columns.map(({ wrap }, column) => AT.el("td", { class: types[column] === "number" ? "number" : wrap ? "wrap" : null }, shown(column, row)));
      if (!onSelect) return AT.el("tr", { "data-row": row }, ...cells);
      return AT.el("tr", {
        "data-row": row, tabindex: "0", "aria-selected": String(row === state.selected), onclick: () => select(row),
        onkeydown: (event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          select(row);
          body.querySelector(`tr[data-row="${row}"]`)?.focus();
        },
      }, ...cells);
    }

    const turn = (by) => { state.page += by; draw(); };
    const back = AT.el("button", { type: "button", onclick: () => turn(-1), "aria-label": `${name}: previous page` }, "‹ Previous");
    const next = AT.el("button", { type: "button", onclick: () => turn(1), "aria-label": `${name}: next page` }, "Next ›");
    const save = AT.el("button", { type: "button", "data-save": "CSV", "aria-label": `Download ${name} as CSV`, onclick: () => AT.download(`${name}.csv`, "text/csv", AT.csv([
      columns.map(({ title, saved = title }) => saved), ...state.order.map((row) => columns.map(({ values }) => values[row]))])) }, "CSV");

    function draw() {
      const { order } = state;
      const first = state.page * pageSize;
      const visible = order.slice(first, first + pageSize);
      body.replaceChildren(...visible.map(line));
      const range = visible.length ? `${AT.format.count(first + 1)}–${AT.format.count(first + visible.length)} of ${AT.format.count(order.length)}` : "no rows";
      status.textContent = range + (order.length < count ? ` (${AT.format.count(count)} without the filter)` : "") + state.unclear.map((title) => `; the filter of ${title} is not understood`).join("");
      back.disabled = state.page === 0;
      next.disabled = first + pageSize >= order.length;
      back.hidden = next.hidden = count <= pageSize;
    }

    const table = AT.el("table", {}, ...(caption ? [AT.el("caption", { class: "hidden" }, caption)] : []), head, body);
    element.classList.add("table");
    const scroll = AT.el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption || name }, table);
    element.replaceChildren(scroll, AT.el("div", { class: "table-foot" }, status, AT.goesOn(scroll), back, next, save));
    draw();
    return {
      rows: () => state.order.slice(),
      unclear: () => state.unclear,
      setFilter: (column, text) => { inputs[column].value = text; refilter(); },
      select,
    };
  },
});
