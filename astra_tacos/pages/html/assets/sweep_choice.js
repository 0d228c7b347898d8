"use strict";
/*
 * What the reader of a sweep chooses: kept in one place, and in the address of the page so that a view can be shared.
 *
 *   AT.sweep.view(changed)     -> {get(key), set(key, value), all(prefix)}: choices by short names, as `#front.x=cost&p=17`;
 *                                 `changed()` is called when somebody opens another address of the page
 *   AT.sweep.panel(view, name, redraw)  -> the selects of one picture: `pick`, `column` and `task` add one and say what is chosen
 */
Object.assign(AT.sweep, {
  view(changed) {
    const read = () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
    let chosen = read();
    const write = () => {
      const text = chosen.toString();
      if (text || location.hash.includes("=")) history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
    };
    window.addEventListener("hashchange", () => {
      if (location.hash.includes("=")) {
        chosen = read();
        changed();
      } else write(); // a link to a section: the choices stay in the address
    });
    return {
      get: (key) => chosen.get(key),
      set: (key, value) => {
        if (value === null || value === "") chosen.delete(key);
        else chosen.set(key, value);
        write();
      },
      all: (prefix) => [...chosen.entries()].filter(([key]) => key.startsWith(prefix)).map(([key, value]) => [key.slice(prefix.length), value]),
    };
  },

  panel(view, name, redraw) {
    const selects = [];
    /** One of [[value, text], ...]: what was chosen, else `otherwise`, else the first. */
    const pick = (key, label, options, otherwise) => {
      const known = (value) => options.some(([entry]) => entry === value);
      const wanted = view.get(`${name}.${key}`);
      const value = known(wanted) ? wanted : known(otherwise) ? otherwise : options[0][0];
      const select = AT.el("select", { name: `${name}.${key}`, onchange: () => {
        view.set(select.name, select.value);
        redraw();
      } }, ...options.map(([entry, text]) => AT.el("option", { value: entry, selected: entry === value }, text)));
      selects.push(AT.el("label", { class: "sweep-choice" }, AT.el("span", {}, label), select));
      return value;
    };
    return {
      pick,
      /** One of some columns, by default the first of those preferred that is there; with `none`, null is a choice. */
      column(key, label, columns, preferred, none = null) {
        const options = [...columns.map((column) => [column.name, column.label]), ...(none ? [["-", none]] : [])];
        const name = pick(key, label, options, preferred.find((entry) => columns.some((column) => column.name === entry)) ?? (none ? "-" : undefined));
        return columns.find((column) => column.name === name) || null;
      },
      /** Rows with one value of each column, by default the largest number or first text, and that in words. */
      task(rows, columns) {
        const said = [];
        for (const column of columns) {
          const present = AT.sweep.present(rows, column);
          if (present.length < 2) continue;
          const options = [...present.map((value) => [String(value), AT.sweep.text(column, value)]), ["*", "all"]];
          const text = pick(`of.${column.name}`, column.label, options, String(column.type === "number" ? present[present.length - 1] : present[0]));
          if (text !== "*") rows = rows.filter((row) => String(column.at(row)) === text);
          said.push(text === "*" ? `all values of ${column.label}` : `${column.label} ${options.find(([value]) => value === text)[1]}`);
        }
        return { rows, said };
      },
      /** Put the selects on the page; the one that had the focus keeps it. */
      show() {
        const focused = document.activeElement.name;
        const place = document.getElementById(`${name}-controls`);
        place.replaceChildren(...selects);
        if (focused) place.querySelector(`[name="${CSS.escape(focused)}"]`)?.focus();
      },
    };
  },
});
