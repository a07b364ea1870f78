// @ts-check
"use strict";

/** What both pages share: the colour theme, and plotly figures that follow it. */
const Page = (() => {
  /** @typedef {{data: object[], layout: Record<string, any>}} Figure */

  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross"];

  /** @type {Map<HTMLElement, () => Figure>} */
  const drawn = new Map();

  /** @param {string} id */
  function element(id) {
    const found = document.getElementById(id);
    if (!found) throw new Error(`the page has no element #${id}`);
    return found;
  }

  /**
   * A colour of the style sheet as the browser resolves it in the current theme.
   * @param {string} name custom property, for example "--accent"
   */
  function colour(name) {
    const probe = document.createElement("span");
    probe.style.color = `var(${name})`;
    probe.hidden = true;
    document.body.append(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
  }

  /** The line colours of up to five things in one plot; dash and symbol tell them apart without colour. */
  function series() {
    return [1, 2, 3, 4, 5].map((n, i) => ({
      colour: colour(`--series-${n}`), dash: DASHES[i], symbol: SYMBOLS[i],
    }));
  }

  /**
   * Text that plotly shows as it is; plotly reads a little HTML in every label.
   * @param {string} text
   */
  function plotText(text) {
    return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  }

  /**
   * A number with four significant digits, such as a strength: 0.16799999999999998 is "0.168".
   * @param {number} value
   */
  function number(value) {
    return String(Math.abs(value) >= 1000 ? Math.round(value) : Number(value.toPrecision(4)));
  }

  /**
   * A number of things: "1 attack", "2 attacks".
   * @param {number} count
   * @param {string} noun
   */
  function counted(count, noun) {
    return `${count} ${noun}${count === 1 ? "" : "s"}`;
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
      drawn.forEach((_, target) => /** @type {any} */ (globalThis).Plotly?.purge(target));
      redraw();
    };
    addEventListener("beforeprint", () => {
      theme = root.dataset.theme;
      root.dataset.theme = "light";
      redrawAt(width);
    });
    addEventListener("afterprint", () => {
      if (theme) root.dataset.theme = theme;
      else delete root.dataset.theme;
      redrawAt(0);
    });
  }

  /**
   * Draw the figure that `make` describes, and again whenever the theme changes.
   * @param {HTMLElement} target
   * @param {() => Figure} make
   */
  function draw(target, make) {
    drawn.set(target, make);
    const plotly = /** @type {any} */ (globalThis).Plotly;
    const figure = make();
    if (printed) figure.layout.width = printed;
    const settings = { responsive: true, displaylogo: false, displayModeBar: false, scrollZoom: false };
    return plotly.react(target, figure.data, figure.layout, settings);
  }

  function redraw() {
    drawn.forEach((make, target) => {
      if (target.isConnected) draw(target, make);
      else drawn.delete(target);
    });
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

  return { element, colour, series, plotText, number, counted, axis, layout, draw, widthOf, startTheme, startPrinting };
})();
