// @ts-check
"use strict";

(() => {
  /**
   * @typedef {{sizes: number[], error: number[], low: number[], high: number[]}} Curve
   * @typedef {{label: string, axis: string, end: number, lines: (Curve | null)[]}} CurvePanel
   * @typedef {{label: string, axis: string, edges: number[], lines: ({counts: number[], never: number, clean: number} | null)[]}} SizePanel
   * @typedef {{label: string, axis: string, lines: ({sizes: number[], mean: number[]} | null)[]}} FrontierPanel
   * @typedef {{label: string, axis: string, lines: ({ratio: number[] | null, uar: number[] | null} | null)[]}} RatioPanel
   * @typedef {{runs: string[], curves: CurvePanel[], sizes: SizePanel[], frontiers: FrontierPanel[], ratios: RatioPanel[]}} Panels
   */

  /** @type {Panels} */
  const panels = JSON.parse(Page.element("report-data").textContent ?? "");
  const names = panels.runs.map(Page.plotText);
  const HEIGHT = 250;

  /**
   * @param {string} colour as the browser gives it, rgb(...)
   * @param {number} opacity
   */
  const faint = (colour, opacity) => colour.replace("rgb(", "rgba(").replace(")", `, ${opacity})`);

  /** @param {CurvePanel} panel */
  function curveFigure(panel) {
    const style = Page.series();
    const data = panel.lines.flatMap((line, i) => {
      if (!line) return [];
      const { colour, dash } = style[i];
      const shared = { type: "scatter", mode: "lines", x: line.sizes };
      return [
        { ...shared, y: line.high, line: { width: 0, shape: "hv" }, hoverinfo: "skip" },
        { ...shared, y: line.low, line: { width: 0, shape: "hv" }, fill: "tonexty", fillcolor: faint(colour, 0.14), hoverinfo: "skip" },
        { ...shared, y: line.error, line: { color: colour, dash, width: 2, shape: "hv" },
          customdata: line.low.map((low, k) => [low, line.high[k]]),
          hovertemplate: `%{x:.4g}: %{y:.1f}% (%{customdata[0]:.1f} to %{customdata[1]:.1f})<extra>${names[i]}</extra>` },
      ];
    });
    return {
      data,
      layout: Page.layout({
        height: HEIGHT,
        xaxis: Page.axis({ title: Page.plotText(panel.axis), range: [0, panel.end * 1.02] }),
        yaxis: Page.axis({ title: "misclassified (%)", range: [0, 102], tickvals: [0, 25, 50, 75, 100] }),
      }),
    };
  }

  /** @param {SizePanel} panel */
  function sizeFigure(panel) {
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
        xaxis: Page.axis({ title: Page.plotText(panel.axis), range: [0, panel.edges[panel.edges.length - 1]] }),
        yaxis: Page.axis({ title: "images", rangemode: "tozero" }),
      }),
    };
  }

  /** @param {FrontierPanel} panel */
  function frontierFigure(panel) {
    const style = Page.series();
    const data = panel.lines.flatMap((line, i) => (line ? [{
      type: "scatter", mode: "lines+markers", x: line.sizes, y: line.mean,
      line: { color: style[i].colour, dash: style[i].dash, width: 2 }, marker: { symbol: style[i].symbol, size: 6, color: style[i].colour },
      fill: panel.lines.length === 1 ? "tozeroy" : "none", fillcolor: faint(style[i].colour, 0.1),
      hovertemplate: `%{x:.4g}: %{y:.3f}<extra>${names[i]}</extra>`,
    }] : []));
    return {
      data,
      layout: Page.layout({
        height: HEIGHT,
        xaxis: Page.axis({ title: Page.plotText(panel.axis), rangemode: "tozero" }),
        yaxis: Page.axis({ title: "margin left (0 to 1)", range: [0, 1.02] }),
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
        return values ? [{ row: row + (names.length > 1 ? i * spread - 0.25 : 0), values, label: labels[row] }] : [];
      });
      return {
        type: "scatter", mode: "markers", x: found.map(({ values }) => values[0]), y: found.map(({ row }) => row),
        text: found.map(({ label, values }) => `${label}: ${values[0].toFixed(1)}% (${values[1].toFixed(1)} to ${values[2].toFixed(1)})`),
        error_x: {
          type: "data", symmetric: false, array: found.map(({ values }) => values[2] - values[0]),
          arrayminus: found.map(({ values }) => values[0] - values[1]), color: style[i].colour, thickness: 1.4, width: 3,
        },
        marker: { color: style[i].colour, symbol: style[i].symbol, size: 9 }, hovertemplate: `%{text}<extra>${name}</extra>`,
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
    return line ? `${line.clean} wrong from the start, ${line.never} without an adversarial example` : "";
  }

  /**
   * One figure for each panel, in the page's element for them.
   * @template {{label: string}} P
   * @param {string} name
   * @param {P[]} list
   * @param {(panel: P) => {data: object[], layout: Record<string, any>}} figure
   * @param {(panel: P) => string} [note]
   */
  function fill(name, list, figure, note) {
    const target = document.querySelector(`[data-figures=${name}]`);
    for (const panel of target ? list : []) {
      const frame = document.createElement("figure");
      const caption = document.createElement("figcaption");
      const title = document.createElement("h3");
      title.textContent = panel.label;
      caption.append(title);
      if (note) {
        const text = document.createElement("p");
        text.className = "aside";
        text.textContent = note(panel);
        caption.append(text);
      }
      const plot = document.createElement("div");
      plot.className = "plot";
      frame.append(caption, plot);
      target?.append(frame);
      Page.draw(plot, () => figure(panel));
    }
  }

  Page.startTheme();
  Page.startPrinting(300);
  fill("curves", panels.curves, curveFigure);
  fill("frontiers", panels.frontiers, frontierFigure);
  fill("sizes", panels.sizes, sizeFigure, panels.runs.length === 1 ? aside : undefined);
  for (const which of /** @type {("ratio" | "uar")[]} */ (["ratio", "uar"])) {
    const target = /** @type {HTMLElement | null} */ (document.querySelector(`[data-figure=${which}]`));
    if (target) Page.draw(target, () => ratioFigure(which));
  }
})();
