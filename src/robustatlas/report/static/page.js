// @ts-check
"use strict";

/** What both pages share: the colour theme, and plotly figures that follow it. */
const Page = (() => {
  /**
   * How a model is drawn, in every figure alike: chosen by its hash when the page is written.
   * `said` is a figure in words, with its values.
   * @typedef {{colour: string, onDark: string, dasharray: string, dash: string, symbol: string, mark: string}} Look
   * @typedef {{data: object[], layout: Record<string, any>, said?: string}} Figure
   */

  /** @type {Map<HTMLElement, () => Figure>} */
  const drawn = new Map();

  /** @param {string} id */
  function element(id) {
    const found = document.getElementById(id);
    if (!found) throw new Error(`the page has no element #${id}`);
    return found;
  }

  /** @type {Map<string, string>} colours by theme and name: asking for one makes the browser restyle the page */
  const colours = new Map();

  /**
   * A colour of the style sheet as the browser resolves it in the current theme.
   * @param {string} name custom property, for example "--accent"
   */
  function colour(name) {
    const key = `${isDark()} ${name}`;
    const known = colours.get(key);
    if (known !== undefined) return known;
    const probe = document.createElement("span");
    probe.style.color = `var(${name})`;
    probe.hidden = true;
    document.body.append(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    colours.set(key, value);
    return value;
  }

  /**
   * A look in the current theme.
   * @param {Look} look
   */
  function drawnAs({ colour, onDark, dash, symbol }) {
    return { colour: isDark() ? onDark : colour, dash, symbol };
  }

  /**
   * A colour that lets others through.
   * @param {string} colour #rrggbb
   * @param {number} opacity
   */
  function faint(colour, opacity) {
    return `${colour}${Math.round(255 * opacity).toString(16).padStart(2, "0")}`;
  }

  /**
   * Text that plotly shows as it is; plotly reads a little HTML in every label.
   * @param {string} text
   */
  function plotText(text) {
    return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  }

  /**
   * Parts of a line in lines of so many letters; what a part's markup takes does not count.
   * @param {{letters: number, markup: string}[]} parts
   * @param {number} most
   */
  function inLines(parts, most) {
    const lines = [{ letters: 0, markup: /** @type {string[]} */ ([]) }];
    for (const { letters, markup } of parts) {
      if (lines[0].letters > 0 && lines[0].letters + letters > most) lines.unshift({ letters: 0, markup: [] });
      lines[0].letters += letters + 1;
      lines[0].markup.push(markup);
    }
    return lines.reverse().map(({ markup }) => markup.join(" ")).filter(Boolean);
  }

  /**
   * Words in lines that fit their place in a plot.
   * @param {string} text
   * @param {number} most letters of a line
   */
  function wrap(text, most) {
    return inLines(text.split(" ").map((word) => ({ letters: word.length, markup: plotText(word) })), most).join("<br>");
  }

  /**
   * A number with four significant digits, such as a strength: 0.16799999999999998 is "0.168".
   * @param {number} value
   */
  function number(value) {
    return String(Math.abs(value) >= 1000 ? Math.round(value) : precise(value, 4));
  }

  /** Digits behind the last one that is shown: enough to see whether a number lies in the middle of two that can be. */
  const BEHIND = 20;

  /**
   * A number with so many decimals. In the middle of two it becomes the even one, as on every other page: the browser itself
   * takes the larger one.
   * @param {number} value
   * @param {number} digits
   */
  function fixed(value, digits) {
    return even(value.toFixed(digits), value.toFixed(digits + BEHIND));
  }

  /**
   * A number rounded to so many significant digits, likewise.
   * @param {number} value
   * @param {number} digits
   */
  function precise(value, digits) {
    const [rounded, exponent] = value.toExponential(digits - 1).split("e");
    return Number(`${even(rounded, value.toExponential(digits - 1 + BEHIND).split("e")[0])}e${exponent}`);
  }

  /** @param {string} rounded @param {string} exact with more digits */
  function even(rounded, exact) {
    const middle = exact.endsWith(`5${"0".repeat(BEHIND - 1)}`) && "13579".includes(rounded.at(-1) ?? "");
    return middle ? exact.slice(0, -BEHIND).replace(/\.$/, "") : rounded;
  }

  /**
   * A number of things: "1 attack", "2 attacks".
   * @param {number} count
   * @param {string} noun
   */
  function counted(count, noun) {
    return `${count} ${count === 1 ? noun : `${noun}s`.replace(/ys$/, "ies")}`;
  }

  /**
   * @param {string} tag
   * @param {Record<string, string>} [attributes]
   * @param {(Node | string)[]} children
   */
  function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  /**
   * A line sample with its marker.
   * @param {Look} look
   */
  function swatch({ colour, onDark, dasharray, mark }) {
    const vector = (/** @type {string} */ tag, /** @type {Record<string, string>} */ attributes) => {
      const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
      return node;
    };
    const style = `stroke: light-dark(${colour}, ${onDark}); color: light-dark(${colour}, ${onDark}); stroke-dasharray: ${dasharray || "none"}`;
    const frame = vector("svg", { class: "swatch", viewBox: "0 0 26 12", "aria-hidden": "true", style });
    frame.append(vector("path", { d: "M0 6h26" }), vector("path", { d: mark, class: "dot" }));
    return frame;
  }

  /**
   * @param {string} name
   * @param {string} type
   * @param {string} text
   */
  function download(name, type, text) {
    const address = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
    make("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  /**
   * The text of an element of the page, which may be compressed; the element goes.
   * @param {string} id
   */
  async function textOf(id) {
    const holder = element(id);
    const text = holder.textContent ?? "";
    holder.remove();
    if (holder.getAttribute("type") !== "application/gzip") return text;
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  /**
   * Run the compressed script that an element of the page holds.
   * @param {string} id
   */
  async function unpack(id) {
    const script = document.createElement("script");
    script.textContent = await textOf(id);
    document.head.append(script);
    script.remove();
  }

  /** @param {Record<string, any>} [options] */
  function axis(options = {}) {
    const { title, ...rest } = options;
    return {
      gridcolor: colour("--line"), linecolor: colour("--line-strong"), zerolinecolor: colour("--line"),
      tickfont: { size: 11 }, automargin: true, ticks: "", showline: true, zeroline: false, nticks: 6,
      title: title ? { text: title, font: { size: 12 }, standoff: 8 } : undefined,
      ...rest,
    };
  }

  /**
   * The line at the strength that papers give, with its name; none where there is none.
   * @param {[number, string] | null} usual
   * @param {string} suffix of the axes
   * @param {boolean} rises whether the curves leave the upper end of the line free
   */
  function usualMark(usual, suffix = "", rises = false) {
    if (!usual) return { shapes: [], annotations: [] };
    const at = { xref: `x${suffix}`, yref: `y${suffix} domain` };
    return {
      shapes: [{ ...at, type: "line", x0: usual[0], x1: usual[0], y0: 0, y1: 1, line: { color: colour("--line-strong"), width: 1, dash: "dot" } }],
      annotations: [{ ...at, x: usual[0], y: Number(rises), text: usual[1], showarrow: false, xanchor: "left", yanchor: rises ? "top" : "bottom", font: { size: 11 } }],
    };
  }

  /** @param {Record<string, any>} options */
  function layout(options) {
    return {
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("--text-soft") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
      margin: { l: 52, r: 12, t: 12, b: 44 }, hoverlabel: { font: { family: getComputedStyle(document.body).fontFamily } },
      hovermode: "closest", dragmode: false,
      ...options,
    };
  }

  /** Width of the figures on paper while the page is printed; 0 on the screen. */
  let printed = 0;

  /**
   * Room for a figure in pixels.
   * @param {HTMLElement} target
   */
  function widthOf(target) {
    return printed || target.clientWidth || 700;
  }

  /**
   * Paper is light, and narrower than a screen: figures are drawn anew for it, and anew for the screen afterwards.
   * @param {number} width of the figures on paper, in pixels
   */
  function startPrinting(width) {
    const root = document.documentElement;
    /** @type {string | undefined} */
    let theme;
    const redrawAt = (/** @type {number} */ now) => {
      printed = now;
      redraw();
    };
    /** @type {HTMLDetailsElement[]} those that are opened for paper only */
    let opened = [];
    addEventListener("beforeprint", () => {
      opened = [.../** @type {NodeListOf<HTMLDetailsElement>} */ (document.querySelectorAll("details.printed:not([open])"))];
      for (const details of opened) details.open = true;
      theme = root.dataset.theme;
      root.dataset.theme = "light";
      redrawAt(width);
    });
    addEventListener("afterprint", () => {
      if (theme) root.dataset.theme = theme;
      else delete root.dataset.theme;
      redrawAt(0);
      for (const details of opened) details.open = false;
    });
  }

  /** @type {Map<HTMLElement, number>} figures and the width that they are drawn for */
  const widths = new Map();
  /** @type {number | undefined} */
  let fitting;

  /** Figures follow the width of their place, once it has stopped changing. */
  const places = new ResizeObserver(() => {
    clearTimeout(fitting);
    fitting = setTimeout(() => drawn.forEach((describe, target) => {
      if (target.clientWidth > 0 && widths.get(target) !== widthOf(target)) draw(target, describe);
    }), 60);
  });

  /**
   * Draw the figure that `describe` gives, and again whenever the theme or the width of its place changes.
   * @param {HTMLElement} target
   * @param {() => Figure} describe
   */
  function draw(target, describe) {
    if (!drawn.has(target)) {
      offer(target);
      places.observe(target);
    }
    drawn.set(target, describe);
    const { data, layout, said } = describe();
    if (said) name(target, said);
    layout.width = widthOf(target);
    widths.set(target, layout.width);
    const settings = { displaylogo: false, displayModeBar: false, scrollZoom: false };
    return /** @type {any} */ (globalThis).Plotly.react(target, data, layout, settings);
  }

  /** @type {WeakMap<HTMLElement, string>} what a figure is called before its values are told */
  const titles = new WeakMap();

  /**
   * Tell those who do not see a figure what it shows.
   * @param {HTMLElement} target
   * @param {string} said
   */
  function name(target, said) {
    const title = titles.get(target) ?? target.getAttribute("aria-label") ?? target.closest("figure")?.querySelector("h2, h3")?.textContent ?? "";
    titles.set(target, title);
    if (!target.hasAttribute("role")) target.setAttribute("role", "img");
    target.setAttribute("aria-label", `${title}. ${said}`);
  }

  /** @type {() => {models: {name: string, look: Look}[], about: string}} */
  let told = () => ({ models: [], about: "" });

  /**
   * What figures in files say besides their titles: the models of the page with their looks, and one line.
   * @param {typeof told} tell
   */
  function tellInFiles(tell) {
    told = tell;
  }

  /** Signs for markers, and for lines of so many strokes, where a figure in a file has only text. @type {Record<string, string>} */
  const SIGNS = { circle: "●", square: "■", diamond: "◆", "triangle-up": "▲", x: "✖", "triangle-down": "▼" };
  const SAMPLES = ["━━", "╍╍", "━╍", "━┅"];

  /**
   * A figure as it stands alone: light whatever the theme, with its title, a legend, and what it is of.
   * @param {HTMLElement} target
   * @param {string} title
   * @returns {Figure}
   */
  function onPaper(target, title) {
    const root = document.documentElement;
    const theme = root.dataset.theme;
    root.dataset.theme = "light";
    const { data, layout } = drawn.get(target)?.() ?? { data: [], layout: {} };
    const { models, about } = told();
    const [width, background] = [target.clientWidth, colour("--surface")];
    const legend = models.map(({ name, look }) => ({
      letters: name.length + 6, markup: `<span style="color:${drawnAs(look).colour}">${SAMPLES[look.dash.split(",").length >> 1]}${SIGNS[look.symbol]}</span> ${plotText(name)} `,
    }));
    const lines = [...inLines(legend, width / 6.5), ...wrap(about, width / 6).split("<br>")].filter(Boolean);
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    const room = 34 + 18 * lines.length;
    return {
      data,
      layout: {
        ...layout, width, height: layout.height + room, paper_bgcolor: background, margin: { ...layout.margin, t: layout.margin.t + room },
        title: {
          text: [`<b>${plotText(title)}</b>`, ...lines.map((line) => `<span style="font-size:11px">${line}</span>`)].join("<br>"),
          font: { size: 14 }, x: 12 / width, xanchor: "left", xref: "container", y: 1 - 14 / (layout.height + room), yanchor: "top", yref: "container",
        },
      },
    };
  }

  /**
   * Buttons that take a figure away as a file, in its caption.
   * @param {HTMLElement} target
   */
  function offer(target) {
    const caption = target.closest("figure")?.querySelector("figcaption");
    if (!caption || caption.querySelector(".take")) return;
    const title = caption.querySelector("h2, h3, b")?.textContent ?? "figure";
    const buttons = ["svg", "png"].map((format) => {
      const button = make("button", { type: "button", "aria-label": `Save ${title} as ${format.toUpperCase()}` }, format.toUpperCase());
      button.addEventListener("click", () => {
        const shown = /** @type {HTMLElement} */ (caption.parentElement?.querySelector(".plot:not([hidden])") ?? target);
        const figure = onPaper(shown, title);
        const { width, height } = figure.layout;
        void /** @type {any} */ (globalThis).Plotly.downloadImage(figure, { format, filename: title, scale: 2, width, height });
      });
      return button;
    });
    caption.append(make("span", { class: "take" }, ...buttons));
  }

  function redraw() {
    drawn.forEach((describe, target) => {
      if (target.isConnected) draw(target, describe);
      else {
        drawn.delete(target);
        places.unobserve(target);
      }
    });
  }

  /**
   * Let the page count as loaded only once the function that this returns is called, when its figures are drawn: whoever
   * prints or photographs a page waits for that. Until then the page holds a frame whose document is not at its end.
   */
  function delayLoading() {
    const unfinished = /** @type {HTMLIFrameElement} */ (make("iframe", { hidden: "", title: "" }));
    document.body.append(unfinished);
    unfinished.contentDocument?.open();
    return () => unfinished.remove();
  }

  /** The reader's choice of theme outlives the page where the browser lets files store anything. */
  const memory = {
    read: () => {
      try {
        return localStorage.getItem("robustatlas-theme");
      } catch {
        return null;
      }
    },
    /** @param {string} theme */
    write: (theme) => {
      try {
        localStorage.setItem("robustatlas-theme", theme);
      } catch {
        // A page without storage starts in the system's theme next time.
      }
    },
  };

  function isDark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  function startTheme() {
    const chosen = memory.read();
    if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
    const button = element("theme");
    const label = () => {
      button.textContent = isDark() ? "Light" : "Dark";
      button.setAttribute("aria-label", isDark() ? "Switch to the light theme" : "Switch to the dark theme");
    };
    label();
    button.addEventListener("click", () => {
      const theme = isDark() ? "light" : "dark";
      document.documentElement.dataset.theme = theme;
      memory.write(theme);
      label();
      redraw();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      label();
      redraw();
    });
  }

  return {
    element, make, swatch, download, textOf, unpack, colour, drawnAs, faint, plotText, wrap, number, fixed, precise, counted, axis, usualMark, layout, draw, redraw, tellInFiles, delayLoading, onPaper, widthOf, startTheme, startPrinting,
  };
})();
