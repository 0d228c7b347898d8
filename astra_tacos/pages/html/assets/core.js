"use strict";
/*
 * AT: what the scripts of report pages share.
 *
 *   AT.data                     the page's data, decoded: objects and lists as in Python, NumPy arrays as typed arrays
 *                               (of two dimensions: an Array of typed rows)
 *   AT.ready(draw)              have `draw()` called once the data and Plotly are there; in the order of the calls
 *   AT.el(tag, attributes, ...children)   an element; children are nodes or text, `on...` attributes are listeners
 *   AT.svg(tag, attributes, ...children)  the same for SVG
 *   AT.format.time(ns) .size(bytes) .number(value, digits) .percent(share) .count(n)
 *   AT.unit(last)               {scale, unit} of a time axis
 *   AT.fit(element, draw)       have `draw(width)` called now and whenever the width of an element changes, also for print
 *   AT.colours                  Paul Tol's `bright`, and names for what is drawn everywhere
 *   AT.ramp(share)              a colour for a share of 0 to 1; AT.rampStops for Plotly's `colorscale`; AT.between(colours, share) of other colours
 *   figure.js: AT.chart, AT.figure, AT.download, AT.csv;  table.js: AT.table; table_filter.js: AT.filter;  timeline.js: AT.timeline
 *
 * The document's root element gets `data-ready` once everything is drawn.
 */
const AT = {
  data: null,
  _draws: [],

  /** Have a function called when the data are there. */
  ready(draw) {
    AT._draws.push(draw);
  },

  /** Inflate the data and the plotting library, then draw. Called once, by the page. */
  async boot() {
    const notice = document.getElementById("at-notice");
    if (typeof DecompressionStream === "undefined") {
      notice.textContent = "This browser is too old for the pictures of this page: it needs DecompressionStream "
        + "(Chrome or Edge 80, Firefox 113, Safari 16.4, or later).";
      return;
    }
    try {
      const [data, library] = await Promise.all([AT._inflate("at-data"), AT._inflate("at-plotly")]);
      AT.data = AT.decode(data);
      const script = document.createElement("script");
      script.textContent = new TextDecoder().decode(library);
      document.head.append(script);
      for (const draw of AT._draws) await draw();
      notice.remove();
      document.documentElement.dataset.ready = "true";
    } catch (error) {
      notice.textContent = `The pictures could not be drawn: ${error.message}`;
      throw error;
    }
  },

  async _inflate(id) {
    const element = document.getElementById(id);
    const text = atob(element.textContent);
    element.remove();
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).arrayBuffer();
  },

  /** What `encode` of encoding.py packed. */
  decode(buffer) {
    const length = new DataView(buffer).getUint32(0, true);
    const begin = Math.ceil((4 + length) / 8) * 8;
    const kinds = { u1: Uint8Array, i1: Int8Array, u2: Uint16Array, i2: Int16Array, u4: Uint32Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };
    const array = ([kind, offset, rows, columns]) => {
      const Kind = kinds[kind];
      if (columns === undefined) return new Kind(buffer, begin + offset, rows);
      return Array.from({ length: rows }, (_, row) => new Kind(buffer, begin + offset + row * columns * Kind.BYTES_PER_ELEMENT, columns));
    };
    const text = new TextDecoder().decode(new Uint8Array(buffer, 4, length));
    return JSON.parse(text, (_, value) => (value !== null && typeof value === "object" && "$array" in value ? array(value.$array) : value));
  },

  /** An HTML element. */
  el(tag, attributes = {}, ...children) {
    return AT._dress(document.createElement(tag), attributes, children);
  },

  /** An SVG element. */
  svg(tag, attributes = {}, ...children) {
    return AT._dress(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  },

  _dress(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  },

  /** Have `draw(width)` called now, and whenever the width of an element changes; for print, with the width of a sheet. */
  fit(element, draw) {
    let drawn = 0;
    const at = (width) => { if (width && width !== drawn) draw((drawn = width)); };
    const now = () => at(Math.floor(element.clientWidth));
    now();
    let onPaper = false; // the observer may hear of the sheet's width after that was seen to
    new ResizeObserver(() => { if (!onPaper) now(); }).observe(element);
    window.addEventListener("beforeprint", () => {
      onPaper = true;
      at(Math.min(AT.printWidth, Math.floor(element.clientWidth) || AT.printWidth));
    });
    window.addEventListener("afterprint", () => {
      onPaper = false;
      now();
    });
  },

  /** Pixels across a sheet of A4, within its margins. */
  printWidth: 680,

  /** Unit of a time axis up to some ns, as style.time_unit has it: {scale, unit}, ns in one and its name. */
  unit(last) {
    const [scale, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]].find(([length]) => last >= 2 * length) ?? [1, "ns"];
    return { scale, unit };
  },

  format: {
    /** `940 ns`, `12.34 µs`, `5.60 ms`, as units.format_time has it; with more digits if times so close to each other are told apart. */
    time(ns, apart = Infinity) {
      if (!Number.isFinite(ns)) return "–";
      const [scale, unit] = Math.abs(ns) < 1e4 ? [1, "ns"] : Math.abs(ns) < 1e7 ? [1e3, "µs"] : Math.abs(ns) < 1e10 ? [1e6, "ms"] : [1e9, "s"];
      const digits = Math.ceil(1 - Math.log10(apart / scale));
      return `${AT.format.number(ns / scale, Math.min(9, Math.max(unit === "ns" ? 0 : 2, digits)))} ${unit}`;
    },
    /** How many times as long one time is as another: the quotient of what is printed for both, as `ratio_text` of units.py. */
    ratio(ns, otherNs, digits = 2) {
      const printed = AT.format.shown(ns) / AT.format.shown(otherNs);
      for (let count = digits; count >= 0; count--) {
        const text = AT.format.number(printed, count);
        if (text === AT.format.number(ns / otherNs, count)) return text;
      }
      return AT.format.number(printed, digits);
    },
    /** The time that `time` prints for a time, in ns. */
    shown(ns) {
      const [scale, digits] = ns < 1e4 ? [1, 0] : ns < 1e7 ? [1e3, 2] : ns < 1e10 ? [1e6, 2] : [1e9, 2];
      return Number((ns / scale).toFixed(digits)) * scale;
    },
    /** `64 MiB`, `1.50 KiB`. */
    size(bytes) {
      const units = ["B", "KiB", "MiB", "GiB", "TiB"];
      let value = bytes, unit = 0;
      while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
      return `${Number.isInteger(value) ? value : value.toFixed(2)} ${units[unit]}`;
    },
    /** `1,234.50`: with that many digits after the point. */
    number(value, digits = 2) {
      return Number.isFinite(value) ? value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }) : "–";
    },
    /** `87.4%`. */
    percent(share, digits = 1) {
      return Number.isFinite(share) ? `${(100 * share).toFixed(digits)}%` : "–";
    },
    /** `1,234`. */
    count(value) {
      return Number.isFinite(value) ? value.toLocaleString("en-US") : "–";
    },
  },

  colours: {
    accent: "#4477aa", bound: "#222222", mark: "#aa3377", quiet: "#9aa5b1",
    bright: ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb"],
  },

  rampStops: ["#ffffe5", "#fff7bc", "#fee391", "#fec44f", "#fb9a29", "#ec7014", "#cc4c02", "#993404", "#662506"].map((colour, i) => [i / 8, colour]),

  /** A colour of Tol's YlOrBr for a share of 0 to 1. */
  ramp(share) {
    return AT.between(AT.rampStops.map(([, colour]) => colour), share);
  },

  /** A colour for a share of 0 to 1 of the way along some colours. */
  between(colours, share) {
    const place = Math.min(Math.max(share || 0, 0), 1) * (colours.length - 1);
    const low = Math.min(Math.floor(place), colours.length - 2);
    const channel = (colour, i) => parseInt(colours[colour].slice(1 + 2 * i, 3 + 2 * i), 16);
    const mix = [0, 1, 2].map((i) => Math.round(channel(low, i) + (place - low) * (channel(low + 1, i) - channel(low, i))));
    return `rgb(${mix.join(",")})`;
  },
};
