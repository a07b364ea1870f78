// @ts-check
"use strict";

(() => {
  /**
   * @typedef {{sizes: number[], error: number[], low: number[], high: number[]}} Curve
   * @typedef {{end: number, lines: (Curve | null)[]}} CurvePanel
   * @typedef {{edges: number[], lines: ({counts: number[], never: number, clean: number} | null)[]}} SizePanel
   * @typedef {{lines: ({sizes: number[], mean: number[], searched: boolean} | null)[]}} FrontierPanel
   * @typedef {{attack: string, label: string, axis: string, curve: CurvePanel, sizes: SizePanel, frontier: FrontierPanel | null}} Card
   * @typedef {{label: string, axis: string, lines: ({ratio: number[] | null, uar: number[] | null, ownSet: boolean} | null)[]}} RatioPanel
   * @typedef {{runs: string[], short: string[], about: string, cards: Card[], ratios: RatioPanel[]}} Panels
   */

  /** @type {Panels} */
  const panels = JSON.parse(Page.element("report-data").textContent ?? "");
  const names = panels.short.map(Page.plotText);
  const HEIGHT = 220;
  /** Accuracy falls, error rises; the reader's choice for all curves. */
  let asError = false;

  /**
   * @param {string} colour as the browser gives it, rgb(...)
   * @param {number} opacity
   */
  const faint = (colour, opacity) => colour.replace("rgb(", "rgba(").replace(")", `, ${opacity})`);

  /**
   * @param {CurvePanel} panel
   * @param {string} axis in lines that fit
   */
  function curveFigure(panel, axis) {
    const style = Page.series();
    // Many bands over each other would be one grey.
    const opacity = panel.lines.length > 2 ? 0.07 : 0.14;
    const shown = (/** @type {number[]} */ errors) => (asError ? errors : errors.map((error) => 100 - error));
    const data = panel.lines.flatMap((curve, i) => {
      if (!curve) return [];
      const { colour, dash } = style[i];
      const [low, high] = asError ? [curve.low, curve.high] : [shown(curve.high), shown(curve.low)];
      const line = { sizes: curve.sizes, shown: shown(curve.error), low, high };
      const shared = { type: "scatter", mode: "lines", x: line.sizes };
      return [
        { ...shared, y: line.high, line: { width: 0, shape: "hv" }, hoverinfo: "skip" },
        { ...shared, y: line.low, line: { width: 0, shape: "hv" }, fill: "tonexty", fillcolor: faint(colour, opacity), hoverinfo: "skip" },
        { ...shared, y: line.shown, line: { color: colour, dash, width: 2, shape: "hv" },
          customdata: line.low.map((low, k) => [low, line.high[k]]),
          hovertemplate: `%{x:.4g}: %{y:.1f}% (%{customdata[0]:.1f} to %{customdata[1]:.1f})<extra>${names[i]}</extra>` },
      ];
    });
    return {
      data,
      layout: Page.layout({
        height: HEIGHT,
        xaxis: Page.axis({ title: axis, range: [0, panel.end * 1.02] }),
        yaxis: Page.axis({ title: asError ? "robust error (%)" : "robust accuracy (%)", range: [0, 102], tickvals: [0, 25, 50, 75, 100] }),
      }),
    };
  }

  /**
   * @param {SizePanel} panel
   * @param {string} axis in lines that fit
   */
  function sizeFigure(panel, axis) {
    const style = Page.series();
    const middles = panel.edges.slice(1).map((edge, i) => (edge + panel.edges[i]) / 2);
    const single = panel.lines.filter(Boolean).length === 1;
    const data = panel.lines.flatMap((line, i) => (line ? [{
      ...(single ? { type: "bar", marker: { color: style[i].colour }, width: panel.edges[1] * 0.92 }
        : { type: "scatter", mode: "lines", line: { color: style[i].colour, dash: style[i].dash, width: 2, shape: "hvh" } }),
      x: middles, y: line.counts, hovertemplate: `near %{x:.3g}: %{y} images<extra>${names[i]}</extra>`,
    }] : []));
    return {
      data,
      layout: Page.layout({
        height: HEIGHT, bargap: 0,
        xaxis: Page.axis({ title: axis, range: [0, panel.edges[panel.edges.length - 1]] }),
        yaxis: Page.axis({ title: "images", rangemode: "tozero" }),
      }),
    };
  }

  /**
   * @param {FrontierPanel} panel
   * @param {string} axis in lines that fit
   */
  function frontierFigure(panel, axis) {
    const style = Page.series();
    const data = panel.lines.flatMap((line, i) => (line ? [{
      type: "scatter", mode: "lines+markers", x: line.sizes, y: line.mean,
      line: { color: style[i].colour, dash: style[i].dash, width: 2 },
      marker: { symbol: `${style[i].symbol}${line.searched ? "" : "-open"}`, size: 6, color: style[i].colour },
      fill: panel.lines.length === 1 ? "tozeroy" : "none", fillcolor: faint(style[i].colour, 0.1),
      hovertemplate: `%{x:.4g}: ${line.searched ? "" : "at most "}%{y:.3f}<extra>${names[i]}</extra>`,
    }] : []));
    const bounds = panel.lines.some((line) => line && !line.searched);
    return {
      data,
      layout: Page.layout({
        height: HEIGHT,
        xaxis: Page.axis({ title: axis, rangemode: "tozero" }),
        yaxis: Page.axis({ title: `margin left (0 to 1)${bounds ? ", upper bound" : ""}`, range: [0, 1.02] }),
      }),
    };
  }

  /** @param {"ratio" | "uar"} which */
  function ratioFigure(which) {
    const style = Page.series();
    const labels = panels.ratios.map((panel) => Page.plotText(panel.label));
    const spread = names.length > 1 ? 0.5 / (names.length - 1) : 0;
    const data = names.map((name, i) => {
      const found = panels.ratios.flatMap((panel, row) => {
        const values = panel.lines[i]?.[which];
        return values ? [{ own: panel.lines[i]?.ownSet, row: row + (names.length > 1 ? i * spread - 0.25 : 0), values, label: labels[row] }] : [];
      });
      return {
        type: "scatter", mode: "markers", cliponaxis: false, x: found.map(({ values }) => values[0]), y: found.map(({ row }) => row),
        text: found.map(({ label, values }) => `${label}: ${values[0].toFixed(1)}% (${values[1].toFixed(1)} to ${values[2].toFixed(1)})`),
        error_x: {
          type: "data", symmetric: false, array: found.map(({ values }) => values[2] - values[0]),
          arrayminus: found.map(({ values }) => values[0] - values[1]), color: style[i].colour, thickness: 1.4, width: 3,
        },
        marker: { color: style[i].colour, symbol: found.map(({ own }) => `${style[i].symbol}${own ? "-open" : ""}`), size: 9 },
        hovertemplate: `%{text}<extra>${name}</extra>`,
      };
    });
    return {
      data,
      layout: Page.layout({
        height: Math.max(220, (22 + 10 * names.length) * labels.length + 70),
        xaxis: Page.axis({ title: which === "ratio" ? "competitiveness ratio (%)" : "UAR (%)", rangemode: "tozero" }),
        yaxis: Page.axis({ tickvals: labels.map((_, i) => i), ticktext: labels, nticks: undefined, range: [labels.length - 0.5, -0.5] }),
        shapes: [{ type: "line", x0: 100, x1: 100, y0: 0, y1: 1, yref: "paper", line: { color: Page.colour("--line-strong"), width: 1.5, dash: "dot" } }],
      }),
    };
  }

  /**
   * Images that no bar shows; of several runs the table tells them.
   * @param {SizePanel} panel
   */
  function aside(panel) {
    const [line] = panel.lines;
    return panel.lines.length === 1 && line ? `${line.clean} wrong from the start, ${line.never} without an adversarial example` : "";
  }

  /**
   * One card for each attack; its figures and its examples are tabs, and each is drawn when it is first looked at.
   * @param {Card} card
   */
  function cardOf(card) {
    const { curve, sizes, frontier } = card;
    const axis = (/** @type {HTMLElement} */ target) => Page.wrap(card.axis, (Page.widthOf(target) - 70) / 5.7);
    /** @type {(figure: (axis: string) => {data: object[], layout: object}) => (target: HTMLElement) => void} */
    const drawing = (figure) => (target) => void Page.draw(target, () => figure(axis(target)));
    /** @type {{name: string, note: string, fill: (target: HTMLElement) => void}[]} */
    const tabs = [{ name: "Curve", note: "", fill: drawing((title) => curveFigure(curve, title)) },
      { name: "Sizes", note: aside(sizes), fill: drawing((title) => sizeFigure(sizes, title)) }];
    if (frontier) tabs.push({ name: "Margin", note: "", fill: drawing((title) => frontierFigure(frontier, title)) });
    const kept = [...document.querySelectorAll("template[data-examples]")].filter((found) => found.getAttribute("data-examples") === card.attack);
    if (kept.length > 0) {
      tabs.push({ name: "Examples", note: "From the smallest found to the largest", fill: (target) => {
        target.classList.remove("plot");
        target.append(...kept.map((found) => /** @type {HTMLTemplateElement} */ (found).content.cloneNode(true)));
      } });
    }
    const title = Page.make("h3", {}, card.label);
    const list = Page.make("div", { class: "tabs", role: "tablist", "aria-label": card.label });
    const bodies = tabs.map((tab, i) => Page.make("div", {
      role: "tabpanel", id: `${card.attack}-${i}`, class: "plot", "aria-label": `${card.label}: ${tab.name}`, tabindex: "0", hidden: "",
    }));
    const note = Page.make("p", { class: "aside" });
    const buttons = tabs.map((tab, i) => Page.make("button", { type: "button", role: "tab", "aria-controls": `${card.attack}-${i}` }, tab.name));
    /** @type {Set<number>} */
    const filled = new Set();
    const show = (/** @type {number} */ chosen) => {
      buttons.forEach((button, i) => {
        button.setAttribute("aria-selected", String(i === chosen));
        button.tabIndex = i === chosen ? 0 : -1;
        bodies[i].hidden = i !== chosen;
      });
      note.textContent = tabs[chosen].note;
      if (!filled.has(chosen)) tabs[chosen].fill(bodies[chosen]);
      filled.add(chosen);
    };
    buttons.forEach((button, i) => {
      button.addEventListener("click", () => show(i));
      button.addEventListener("keydown", ({ key }) => {
        const step = key === "ArrowRight" ? 1 : key === "ArrowLeft" ? -1 : 0;
        if (step === 0) return;
        const next = (i + step + buttons.length) % buttons.length;
        show(next);
        buttons[next].focus();
      });
    });
    list.append(...buttons);
    Page.element("cards").append(Page.make("figure", { class: "card", "data-attack": card.attack }, Page.make("figcaption", {}, title), list, ...bodies, note));
    show(0);
  }

  /** What a cell says when it is pointed at, said to those who tap. */
  function answerTaps() {
    const said = Page.make("p", { class: "said small", role: "status", hidden: "" });
    for (const table of document.querySelectorAll(".heat")) {
      table.addEventListener("click", ({ target }) => {
        const cell = target instanceof Element ? target.closest("[title]") : null;
        if (!cell) return;
        said.textContent = `${cell.closest("tr")?.querySelector("th")?.textContent ?? ""}, ${cell.getAttribute("title")}`;
        said.hidden = false;
        table.parentElement?.after(said);
      });
    }
  }

  /** A button that turns all curves between accuracy and error. */
  function offerError() {
    const button = Page.make("button", { type: "button", id: "as-error", "aria-pressed": "false" }, "Show error, which rises");
    button.addEventListener("click", () => {
      asError = !asError;
      button.setAttribute("aria-pressed", String(asError));
      Page.redraw();
    });
    Page.element("cards").before(button);
  }

  Page.startTheme();
  Page.startPrinting(300);
  Page.tellInFiles(() => ({ models: panels.short.map((name, place) => ({ name, place })), about: panels.about }));
  answerTaps();
  void Page.unpack("plotly").then(() => {
    panels.cards.forEach(cardOf);
    offerError();
    for (const which of /** @type {("ratio" | "uar")[]} */ (["ratio", "uar"])) {
      const target = /** @type {HTMLElement | null} */ (document.querySelector(`[data-figure=${which}]`));
      if (target) void Page.draw(target, () => ratioFigure(which));
    }
  });
})();
