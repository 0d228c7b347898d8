"use strict";
/*
 * Pictures with their controls.
 *
 *   AT.chart(element, traces, layout, {name, alt, rows, height})  ->  Promise of {plot, update(traces, layout)}
 *       A Plotly picture that follows the width of the page. `name`: stem of the downloaded files. `alt`: what there is to see, in a
 *       sentence. `rows`: () => [[header, ...], [value, ...], ...], the figures behind it (all of them: the table on the page is cut
 *       short and says so, the CSV is not).
 *   AT.figure(element, {name, alt, rows, svg, controls, key})     ->  {body, tools, refresh()}
 *       The frame alone, for what is drawn by hand. `svg`: () => text of the picture as an SVG file, or a Promise of it.
 *       `controls`: elements to put beside the buttons. `refresh()` after the rows have changed.
 *   AT.download(name, type, content)   have the browser save a text or a Blob
 *   AT.csv(rows)                       CSV text
 *   AT.plain(text)                     text that Plotly takes for text: it reads <b>, <br> and <a href> in whatever it writes
 */
Object.assign(AT, {
  mostRows: 200,

  /** Have the browser save a file. */
  download(name, type, content) {
    const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
    const link = AT.el("a", { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  },

  /** Rows of values as CSV. */
  csv(rows) {
    const cell = (value) => {
      const text = value === null || value === undefined ? "" : String(value);
      return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
  },

  /** Text that Plotly takes for text. */
  plain: (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;"),

  /** The frame of a picture: downloads, text alternative, the figures as a table. */
  figure(element, { name, alt, rows, svg, controls = [], key = null }) {
    const save = {
      SVG: async () => AT.download(`${name}.svg`, "image/svg+xml", await svg()),
      PNG: async () => AT.download(`${name}.png`, "image/png", await AT._png(await svg())),
      CSV: () => AT.download(`${name}.csv`, "text/csv", AT.csv(rows())),
    };
    const buttons = Object.entries(save).map(([kind, act]) =>
      AT.el("button", { type: "button", onclick: act, "aria-label": `Download ${name} as ${kind}`, "data-save": kind }, kind));
    const tools = AT.el("div", { class: "figure-tools" }, ...(key ? [key] : []), ...controls, ...buttons);
    const body = AT.el("div", { class: "plot" });
    const table = AT.el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Figures of ${name}` });
    const details = AT.el("details", { ontoggle: () => details.open && AT._fill(table, rows()) }, AT.el("summary", {}, "The figures as a table"), table);
    element.replaceChildren(tools, body, details);
    element.classList.add("figure");
    if (alt) element.setAttribute("aria-label", alt);
    element.setAttribute("role", "group");
    return { body, tools, refresh: () => details.open && AT._fill(table, rows()) };
  },

  _fill(table, [header, ...rows]) {
    const shown = rows.slice(0, AT.mostRows);
    const text = (value) => (value === null || value === undefined ? "" : typeof value === "number" && !Number.isInteger(value) ? String(+value.toPrecision(6)) : String(value));
    const line = (values, tag) => AT.el("tr", {}, ...values.map((value) =>
      AT.el(tag, { class: typeof value === "number" ? "number" : null, scope: tag === "th" ? "col" : null }, text(value))));
    const parts = [AT.el("table", {}, AT.el("thead", {}, line(header, "th")), AT.el("tbody", {}, ...shown.map((row) => line(row, "td"))))];
    if (shown.length < rows.length) {
      parts.push(AT.el("p", { class: "note" }, `${AT.format.count(rows.length - shown.length)} more rows are left out here; the CSV has all ${AT.format.count(rows.length)}.`));
    }
    table.replaceChildren(...parts);
  },

  /** SVG text as a PNG of twice its size. */
  async _png(text) {
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = AT.el("canvas", { width: 2 * image.width, height: 2 * image.height });
    const context = canvas.getContext("2d");
    context.fillStyle = "#fff";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  },

  _houseLayout: {
    font: { family: 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif', size: 13, color: "#1f2933" },
    paper_bgcolor: "#fff", plot_bgcolor: "#fff", margin: { l: 64, r: 20, t: 24, b: 52 }, colorway: ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb"],
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" }, hoverlabel: { bgcolor: "#fff", bordercolor: "#9aa5b1", font: { color: "#1f2933" } },
  },
  _axis: { gridcolor: "#e6ebef", linecolor: "#9aa5b1", zeroline: false, automargin: true, ticks: "outside", tickcolor: "#9aa5b1" },

  _laidOut(layout, height) {
    const axes = Object.fromEntries([...new Set(["xaxis", "yaxis", ...Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name))])].map((name) => [name, { ...AT._axis, ...layout[name] }]));
    const touch = window.matchMedia("(pointer: coarse)").matches;
    return { ...AT._houseLayout, height: height || 380, autosize: true, dragmode: touch ? false : "zoom", ...layout, ...axes, margin: { ...AT._houseLayout.margin, ...layout.margin } };
  },

  /** A Plotly picture. */
  async chart(element, traces, layout, { name, alt, rows, height, controls, key }) {
    const svg = async () => {
      const { width, height: tall } = plot.getBoundingClientRect();
      const url = await Plotly.toImage(plot, { format: "svg", width: Math.max(Math.round(width), 720), height: Math.round(tall) });
      return decodeURIComponent(url.slice(url.indexOf(",") + 1));
    };
    const frame = AT.figure(element, { name, alt, rows, svg, controls, key });
    const plot = AT.el("div", { role: "img", "aria-label": alt });
    frame.body.append(plot);
    const config = { responsive: true, displayModeBar: false, displaylogo: false, scrollZoom: false };
    await Plotly.newPlot(plot, traces, AT._laidOut(layout, height), config);
    const forPrint = (width) => Plotly.relayout(plot, width ? { width, autosize: false } : { width: null, autosize: true });
    window.addEventListener("beforeprint", () => forPrint(Math.min(AT.printWidth, plot.clientWidth || AT.printWidth)));
    window.addEventListener("afterprint", () => forPrint(null));
    return {
      plot,
      update: async (newTraces, newLayout = layout) => {
        await Plotly.react(plot, newTraces, AT._laidOut(newLayout, height), config);
        frame.refresh();
      },
    };
  },
});
