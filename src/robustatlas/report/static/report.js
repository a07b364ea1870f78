// @ts-check
"use strict";

(() => {
  /**
   * `certified` is what the error is at most; between both lies what is in doubt.
   * @typedef {{sizes: number[], error: number[], low: number[], high: number[]}} Steps
   * @typedef {Steps & {certified?: Steps, typical?: Steps}} Curve
   * @typedef {{lines: (Curve | null)[], said: string}} CurvePanel
   * @typedef {{edges: number[], lines: ({counts: number[], never: number, clean: number, beyond: number} | null)[]}} SizePanel
   * @typedef {{lines: ({sizes: number[], mean: number[], searched: boolean} | null)[], said: string}} FrontierPanel
   * @typedef {{attack: string, label: string, axis: string, falls: number | null, usual: [number, string] | null, end: number, reach: number, curve: CurvePanel, sizes: SizePanel, frontier: FrontierPanel | null}} Card
   * @typedef {{label: string, axis: string, lines: ({ratio: number[] | null, uar: number[] | null, ownThreat: boolean} | null)[], said: {ratio: string, uar: string}}} RatioPanel
   * @typedef {{runs: string[], short: string[], styles: Look[], about: string, cards: Card[], ratios: RatioPanel[]}} Panels
   */

  /** @type {Panels} */
  const panels = JSON.parse(Page.element("report-data").textContent ?? "");
  const names = panels.short.map(Page.plotText);
  const HEIGHT = 190;
  const looks = () => panels.styles.map(Page.drawnAs);
  /** Accuracy falls, error rises; the reader's choice for all curves. */
  let asError = false;

  /** A number in percent with its interval. @param {number[]} ends */
  const ranged = ([value, low, high]) => `${Page.fixed(value, 1)}% (${Page.fixed(low, 1)} to ${Page.fixed(high, 1)})`;

  /** @param {number[]} values @param {number[]} low @param {number[]} high */
  const saidAt = (values, low, high) => values.map((value, k) => [low[k], high[k], ranged([value, low[k], high[k]])]);

  /** Sizes as people type them. @param {Card} card @param {number[]} sizes */
  const typed = ({ falls }, sizes) => (falls === null ? sizes : sizes.map((size) => falls - size));

  /** The axis of sizes, the least harm on the left. @param {Card} card @param {string} title in lines that fit */
  const sizeAxis = (card, title) => Page.axis({ title, range: typed(card, [0, card.reach]) });

  /**
   * @param {Card} card
   * @param {string} axis in lines that fit
   */
  function curveFigure(card, axis) {
    const { curve: panel } = card;
    const mark = Page.usualMark(card.usual, "", asError);
    const style = looks();
    // Many bands over each other would be one grey.
    const opacity = panel.lines.length > 2 ? 0.07 : 0.14;
    const shown = (/** @type {number[]} */ errors) => (asError ? errors : errors.map((error) => 100 - error));
    const ends = (/** @type {Steps} */ { low, high }) => (asError ? [low, high] : [shown(high), shown(low)]);
    const data = panel.lines.flatMap((curve, i) => {
      if (!curve) return [];
      const { colour, dash, symbol } = style[i];
      const [low, high] = ends(curve);
      const shared = { type: "scatter", mode: "lines", x: typed(card, curve.sizes) };
      return [
        { ...shared, y: high, line: { width: 0, shape: "hv" }, hoverinfo: "skip" },
        { ...shared, y: low, line: { width: 0, shape: "hv" }, fill: "tonexty", fillcolor: Page.faint(colour, opacity), hoverinfo: "skip" },
        { ...shared, y: shown(curve.error), line: { color: colour, dash, width: 2, shape: "hv" },
          mode: "lines+markers", marker: { symbol, color: colour, size: 6, maxdisplayed: 6 },
          customdata: saidAt(shown(curve.error), low, high),
          hovertemplate: `%{x:.4g}: %{customdata[2]}<extra>${names[i]}</extra>` },
        ...(curve.certified ? otherSide(curve, curve.certified, i) : []),
        ...(curve.typical ? [typical(curve.typical, i)] : []),
      ];
    });
    /**
     * The certified line, and the doubt between it and the other one.
     * @param {Steps} found
     * @param {Steps} certified
     * @param {number} i
     */
    function otherSide(found, certified, i) {
      const { colour, dash } = style[i];
      const [low, high] = ends(certified);
      const shared = { type: "scatter", mode: "lines" };
      return [
        { ...shared, x: typed(card, certified.sizes), y: shown(certified.error), line: { color: colour, dash, width: 1, shape: "hv" },
          customdata: saidAt(shown(certified.error), low, high),
          hovertemplate: `%{x:.4g}: certified ${asError ? "at most" : "at least"} %{customdata[2]}<extra>${names[i]}</extra>` },
        { ...shared, x: typed(card, found.sizes), y: shown(found.error), line: { width: 0, shape: "hv" }, fill: "tonexty", fillcolor: Page.faint(colour, 0.22), hoverinfo: "skip" },
      ];
    }
    /** @param {Steps} found @param {number} i */
    function typical(found, i) {
      const [low, high] = ends(found);
      return {
        type: "scatter", mode: "lines", x: typed(card, found.sizes), y: shown(found.error), line: { color: style[i].colour, dash: style[i].dash, width: 1, shape: "hv" },
        customdata: saidAt(shown(found.error), low, high), hovertemplate: `%{x:.4g}: typically %{customdata[2]}<extra>${names[i]}</extra>`,
      };
    }
    return {
      data, said: panel.said,
      layout: Page.layout({
        height: HEIGHT,
        shapes: mark.shapes,
        annotations: mark.annotations,
        xaxis: sizeAxis(card, axis),
        yaxis: Page.axis({ title: asError ? "robust error (%)" : "robust accuracy (%)", range: [0, 102], tickvals: [0, 25, 50, 75, 100] }),
      }),
    };
  }

  /**
   * @param {Card} card
   * @param {string} axis in lines that fit
   */
  function sizeFigure(card, axis) {
    const { sizes: panel } = card;
    const style = looks();
    const middles = panel.edges.slice(1).map((edge, i) => (edge + panel.edges[i]) / 2);
    const single = panel.lines.filter(Boolean).length === 1;
    const data = panel.lines.flatMap((line, i) => (line ? [{
      ...(single ? { type: "bar", marker: { color: style[i].colour }, width: panel.edges[1] * 0.92 }
        : { type: "scatter", mode: "lines", line: { color: style[i].colour, dash: style[i].dash, width: 2, shape: "hvh" } }),
      x: typed(card, middles), y: line.counts, hovertemplate: `near %{x:.3g}: %{y} images<extra>${names[i]}</extra>`,
    }] : []));
    return {
      data, said: panel.lines.flatMap((line, i) => (line ? [`${panels.runs[i]}: ${beside(line)}.`] : [])).join(" "),
      layout: Page.layout({
        height: HEIGHT, bargap: 0,
        xaxis: sizeAxis(card, axis),
        yaxis: Page.axis({ title: "images", rangemode: "tozero" }),
      }),
    };
  }

  /**
   * @param {Card} card
   * @param {FrontierPanel} panel
   * @param {string} axis in lines that fit
   */
  function frontierFigure(card, panel, axis) {
    const style = looks();
    const data = panel.lines.flatMap((line, i) => (line ? [{
      type: "scatter", mode: "lines+markers", x: typed(card, line.sizes), y: line.mean, text: line.mean.map((margin) => Page.fixed(margin, 3)),
      line: { color: style[i].colour, dash: style[i].dash, width: 2 },
      marker: { symbol: `${style[i].symbol}${line.searched ? "" : "-open"}`, size: 6, color: style[i].colour },
      fill: panel.lines.length === 1 ? "tozeroy" : "none", fillcolor: Page.faint(style[i].colour, 0.1),
      hovertemplate: `%{x:.4g}: ${line.searched ? "" : "at most "}%{text}<extra>${names[i]}</extra>`,
    }] : []));
    const bounds = panel.lines.some((line) => line && !line.searched);
    return {
      data, said: panel.said,
      layout: Page.layout({
        height: HEIGHT,
        xaxis: sizeAxis(card, axis),
        yaxis: Page.axis({ title: `margin left (0 to 1)${bounds ? ",<br>upper bound" : ""}`, range: [0, 1.02] }),
      }),
    };
  }

  /** @param {"ratio" | "uar"} which */
  function ratioFigure(which) {
    const style = looks();
    const labels = panels.ratios.map((panel) => Page.plotText(panel.label));
    const spread = names.length > 1 ? 0.5 / (names.length - 1) : 0;
    const data = names.map((name, i) => {
      const found = panels.ratios.flatMap((panel, row) => {
        const values = panel.lines[i]?.[which];
        return values ? [{ own: panel.lines[i]?.ownThreat, row: row + (names.length > 1 ? i * spread - 0.25 : 0), values, label: labels[row] }] : [];
      });
      return {
        type: "scatter", mode: "markers", cliponaxis: false, x: found.map(({ values }) => values[0]), y: found.map(({ row }) => row),
        text: found.map(({ label, values }) => `${label}: ${ranged(values)}`),
        error_x: {
          type: "data", symmetric: false, array: found.map(({ values }) => values[2] - values[0]),
          arrayminus: found.map(({ values }) => values[0] - values[1]), color: style[i].colour, thickness: 1.4, width: 3,
        },
        marker: { color: style[i].colour, symbol: found.map(({ own }) => `${style[i].symbol}${own ? "-open" : ""}`), size: 9 },
        hovertemplate: `%{text}<extra>${name}</extra>`,
      };
    });
    return {
      data, said: panels.ratios.map((panel) => panel.said[which]).join(" "),
      layout: Page.layout({
        height: Math.max(200, (18 + 8 * names.length) * labels.length + 60),
        xaxis: Page.axis({ title: which === "ratio" ? "competitiveness ratio (%)" : "UAR (%)", rangemode: "tozero" }),
        yaxis: Page.axis({ tickvals: labels.map((_, i) => i), ticktext: labels, nticks: undefined, range: [labels.length - 0.5, -0.5] }),
        shapes: [{ type: "line", x0: 100, x1: 100, y0: 0, y1: 1, yref: "paper", line: { color: Page.colour("--line-strong"), width: 1.5, dash: "dot" } }],
      }),
    };
  }

  /**
   * Images that no bar shows.
   * @param {{never: number, clean: number, beyond: number}} line
   */
  function beside({ clean, never, beyond }) {
    return `${clean} wrong from the start, ${beyond ? `${beyond} beyond the last strength, ` : ""}${never} without an adversarial example`;
  }

  /**
   * What no bar shows, of one run; of several the table tells it.
   * @param {SizePanel} panel
   */
  function aside(panel) {
    const [line] = panel.lines;
    return panel.lines.length === 1 && line ? beside(line) : "";
  }

  /**
   * One card for each attack; its figures and its examples are tabs, and each is drawn when it is first looked at.
   * @param {Card} card
   */
  function cardOf(card) {
    const { sizes, frontier } = card;
    const axis = (/** @type {HTMLElement} */ target) => Page.wrap(card.axis, (Page.widthOf(target) - 70) / 5.7);
    /** @type {(figure: (axis: string) => {data: object[], layout: object}) => (target: HTMLElement) => void} */
    const drawing = (figure) => (target) => void Page.draw(target, () => figure(axis(target)));
    /** @type {{name: string, note: string, fill: (target: HTMLElement) => void}[]} */
    const tabs = [{ name: "Curve", note: "", fill: drawing((title) => curveFigure(card, title)) },
      { name: "Sizes", note: aside(sizes), fill: drawing((title) => sizeFigure(card, title)) }];
    if (frontier) tabs.push({ name: "Margin", note: "", fill: drawing((title) => frontierFigure(card, frontier, title)) });
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

  /** What a cell says to readers of screens, said to those who point at it or tap. */
  function answerTaps() {
    const said = Page.make("p", { class: "said small", role: "status", hidden: "" });
    for (const table of document.querySelectorAll(".heat")) {
      const cellAt = (/** @type {Event} */ { target }) => (target instanceof Element ? target.closest(".cell") : null);
      table.addEventListener("pointerover", (event) => {
        const cell = cellAt(event);
        cell?.setAttribute("title", cell.getAttribute("aria-label") ?? "");
      });
      table.addEventListener("click", (event) => {
        const cell = cellAt(event);
        if (!cell) return;
        said.textContent = `${cell.closest("tr")?.querySelector("th")?.textContent ?? ""}, ${cell.getAttribute("aria-label")}`;
        said.hidden = false;
        table.parentElement?.after(said);
      });
    }
  }

  /** A button that turns all curves between accuracy and error. */
  function offerError() {
    const button = Page.element("as-error");
    button.hidden = false;
    button.addEventListener("click", () => {
      asError = !asError;
      button.setAttribute("aria-pressed", String(asError));
      document.body.classList.toggle("as-error", asError);
      Page.redraw();
    });
  }

  const finishLoading = Page.delayLoading();
  Page.startTheme();
  Page.startPrinting(300);
  Page.tellInFiles(() => ({ models: panels.short.map((name, i) => ({ name, look: panels.styles[i] })), about: panels.about }));
  Scrolling.watch();
  answerTaps();
  offerError();
  void Page.unpack("plotly").then(() => {
    panels.cards.forEach(cardOf);
    for (const which of /** @type {("ratio" | "uar")[]} */ (["ratio", "uar"])) {
      const target = /** @type {HTMLElement | null} */ (document.querySelector(`[data-figure=${which}]`));
      if (target) void Page.draw(target, () => ratioFigure(which));
    }
  }).finally(() => setTimeout(finishLoading, 0));
})();
