// @ts-check
"use strict";

/**
 * The plots of the board and of the comparison, as plotly figures.
 *
 * `look` is the model's own colour, dash and symbol, which it keeps as others come and go.
 *
 * @typedef {{defense: Defense, accuracies: number[], seen: boolean[], look: Look}} Drawn
 */
const Plots = (() => {
  /** @param {number} value */
  const percent = (value) => `${Page.fixed(value, 2)}%`;
  /** What is said of values on a plot that is pointed at, where there are such. @param {(number | null)[]} values */
  const pointed = (values) => values.map((value) => (value === null || Number.isNaN(value) ? "" : percent(value)));

  /**
   * @param {string} text
   * @param {number} width
   */
  const short = (text, width) => (text.length > width ? `${text.slice(0, width - 1)}…` : text);

  /** @param {Drawn[]} models */
  const stylesOf = (models) => models.map(({ look }) => Page.drawnAs(look));

  /**
   * Every ranked defense at once: competitiveness ratio over clean accuracy or over the cost of the training.
   * @param {Board} board
   * @param {Row[]} rows
   * @param {Drawn[]} models
   * @param {State["across"]} across
   * @param {number} width
   */
  function overview(board, rows, models, across, width) {
    const styles = new Map(models.map(({ defense, look }) => [defense.name, Page.drawnAs(look)]));
    const shown = rows.filter(({ rank, defense }) => rank !== null && defense[across] !== null);
    const style = (/** @type {Row} */ row) => styles.get(row.defense.name);
    const value = (/** @type {Row} */ row) => row.cr ?? 0;
    const ends = shown.flatMap((row) => [value(row), ...(row.span ?? [])]);
    const clean = (/** @type {Row} */ { defense }) => (across === "clean" ? defense.cleanBounds : null);
    const pad = 0.06 * (Math.max(...ends) - Math.min(...ends)) || 5;
    const faint = Page.colour("--mark");
    const colours = shown.map((row) => style(row)?.colour ?? faint);
    const range = [Math.max(0, Math.min(...ends) - pad), Math.max(...ends) + pad];
    const named = namedOf(shown, across, value, width, range[1] - range[0]);
    const data = [{
      type: "scatter", mode: "markers+text", x: shown.map(({ defense }) => defense[across]), y: shown.map(value), cliponaxis: false,
      error_x: { type: "data", symmetric: false, array: shown.map((row) => (clean(row)?.[1] ?? row.defense[across] ?? 0) - (row.defense[across] ?? 0)),
        arrayminus: shown.map((row) => (row.defense[across] ?? 0) - (clean(row)?.[0] ?? row.defense[across] ?? 0)), color: faint, thickness: 1, width: 0 },
      error_y: { type: "data", symmetric: false, array: shown.map((row) => (row.span ? row.span[1] - value(row) : 0)),
        arrayminus: shown.map((row) => (row.span ? value(row) - row.span[0] : 0)), color: faint, thickness: 1, width: 0 },
      marker: { color: colours, size: shown.map((row) => (style(row) ? 13 : 9)),
        symbol: shown.map((row) => style(row)?.symbol ?? "circle"), line: { color: Page.colour("--surface"), width: 1 } },
      text: shown.map((row) => (named.has(row) ? Page.plotText(short(row.defense.name, NAME)) : "")), textposition: "top left", textfont: { size: 11, color: Page.colour("--text") },
      hovertext: shown.map((row) => `${Page.plotText(short(row.defense.name, 34))}<br>rank ${row.about ? "about " : ""}${Columns.rangeOf(row) || row.rank}, ${Columns.ratioOf(board).short} ${percent(value(row))}${row.span ? ` (${Columns.between(row.span)})` : ""}`),
      hovertemplate: "%{hovertext}<br>%{x}<extra></extra>",
    }];
    const axis = across === "clean" ? { title: "clean accuracy (%)", minallowed: 0, maxallowed: 100 } : { title: "cost of the training (PetaFLOPs)", type: "log" };
    return {
      data,
      said: inWords(models, ({ defense }) => [`${Columns.ratioOf(board).short} ${spoken(shown.find((row) => row.defense === defense)?.cr ?? null)}`, `clean ${spoken(defense.clean)}`]),
      layout: Page.layout({ height: OVERVIEW, xaxis: Page.axis(axis), yaxis: Page.axis({ title: `${Columns.ratioOf(board).name} (%)`, range }) }),
    };
  }

  /** Letters of a name in the overview, and its height and the width of a letter in pixels. */
  const NAME = 24;
  const [LINE, LETTER] = [16, 7];
  const OVERVIEW = 380;

  /**
   * Rows to which no other row is preferable: those of a higher value at a higher clean accuracy, or at a lower cost.
   * @param {Row[]} rows
   * @param {State["across"]} across
   * @param {(row: Row) => number} value
   */
  function paretoFront(rows, across, value) {
    const good = (/** @type {Row} */ { defense }) => (across === "clean" ? 1 : -1) * (defense[across] ?? 0);
    return rows.filter((row) => !rows.some((other) =>
      good(other) >= good(row) && value(other) >= value(row) && (good(other) > good(row) || value(other) > value(row))));
  }

  /**
   * The rows of the front whose names have room above and to the left of their points, the highest first.
   * @param {Row[]} rows
   * @param {State["across"]} across
   * @param {(row: Row) => number} value
   * @param {number} width in pixels
   * @param {number} span of the vertical axis
   */
  function namedOf(rows, across, value, width, span) {
    const place = (/** @type {Row} */ { defense }) => (across === "clean" ? defense.clean ?? 0 : Math.log(defense.petaflops ?? 1));
    const places = rows.map(place);
    const [lowest, highest] = [Math.min(...places), Math.max(...places)];
    /** @type {Map<Row, {right: number, left: number, base: number}>} */
    const boxes = new Map();
    for (const row of paretoFront(rows, across, value).sort((a, b) => value(b) - value(a))) {
      const right = 0.8 * width * ((place(row) - lowest) / (highest - lowest || 1));
      const box = { right, left: right - LETTER * short(row.defense.name, NAME).length, base: OVERVIEW * (value(row) / span) };
      if ([...boxes.values()].every((other) => box.right < other.left || other.right < box.left || Math.abs(box.base - other.base) > LINE)) boxes.set(row, box);
    }
    return boxes;
  }

  /**
   * A plot in words, with its values: of every model what it is under each of some things.
   * @param {Drawn[]} models
   * @param {(model: Drawn) => string[]} values
   */
  function inWords(models, values) {
    return models.map((model) => `${model.defense.name}: ${values(model).join(", ")}.`).join(" ");
  }

  /** @param {number | null} value */
  const spoken = (value) => (value === null || Number.isNaN(value) ? "not known" : `${Page.fixed(value, 1)}%`);

  /**
   * The attacks of the entries, with the indices of their entries.
   * @param {Board} board
   * @param {Entries} entries
   */
  function panels(board, entries) {
    return board.attacks
      .map((attack, index) => ({ attack, index, at: Metrics.indicesOf(entries, index, false) }))
      .filter((panel) => panel.at.length > 0);
  }

  /**
   * Columns for so many panels: as few rows as possible, and these as full as possible.
   * @param {number} count
   * @param {number} most
   */
  function columnsFor(count, most) {
    return Math.max(Math.ceil(count / Math.max(Math.ceil(count / most), 1)), 1);
  }

  const MOST_ABREAST = 16;

  /**
   * Heights of the plots that stand next to each other, so that they end together: up to `MOST_ABREAST` attacks, three
   * abreast; more than that, the long list of attacks beside the two others. On a narrow screen each as it needs.
   * @param {number} attacks
   * @param {number} models
   * @param {number} width of the window
   */
  function heights(attacks, models, width) {
    const list = Math.max(260, 30 * attacks + 70);
    if (width <= 900) return { single: list, reference: 440, seen: 58 * models + 80 };
    if (attacks <= MOST_ABREAST) {
      const all = Math.max(400, list);
      return { single: all, reference: all, seen: all };
    }
    const seen = 58 * models + 80;
    const single = Math.max(22 * attacks + 70, seen + 520);
    return { single, reference: single - seen - BETWEEN, seen };
  }

  /** What lies between two plots of a column: the frame, the gap and the caption of the second one. */
  const BETWEEN = 96;

  /**
   * One small panel for each attack: accuracy over strength, with the reference.
   * @param {Board} board
   * @param {Entries} entries
   * @param {Drawn[]} models
   * @param {number} width
   */
  function strengthPlot(board, entries, models, width) {
    const shown = panels(board, entries);
    const columns = columnsFor(shown.length, width < 460 ? 2 : width < 900 ? 3 : 6);
    const rows = Math.max(Math.ceil(shown.length / columns), 1);
    const rowHeight = columns <= 3 && width > 900 ? 230 : 190;
    const height = rows * rowHeight + 20;
    const gapX = 34 / width;
    const gapY = 76 / height;
    const cellWidth = (1 - gapX * (columns - 1)) / columns;
    const cellHeight = (1 - gapY * (rows - 1)) / rows;
    const style = stylesOf(models);
    /** @type {object[]} */
    const data = [];
    /** @type {object[]} */
    const annotations = [];
    /** @type {object[]} */
    const shapes = [];
    /** @type {Record<string, any>} */
    const axes = {};
    shown.forEach(({ attack, at }, position) => {
      const column = position % columns;
      const row = Math.floor(position / columns);
      const left = column * (cellWidth + gapX);
      const top = 1 - row * (cellHeight + gapY);
      const suffix = position === 0 ? "" : String(position + 1);
      axes[`xaxis${suffix}`] = Page.axis({
        domain: [left, left + cellWidth], anchor: `y${suffix}`, nticks: 4, tickfont: { size: 11 },
        ...(attack.falls === null ? { rangemode: "tozero" } : { autorange: "reversed" }),
        title: attack.axis, automargin: false,
      });
      axes[`xaxis${suffix}`].title = { text: Page.wrap(attack.axis, (width * cellWidth) / 6.2), font: { size: 11 }, standoff: 3 };
      axes[`yaxis${suffix}`] = Page.axis({
        domain: [top - cellHeight, top], anchor: `x${suffix}`, range: [0, 102], tickvals: [0, 50, 100],
        ticktext: ["0%", "50%", "100%"], tickfont: { size: 11 }, showticklabels: column === 0, automargin: false,
      });
      const other = models.some(({ defense }) => defense.ownThreats.includes(attack.name));
      annotations.push({
        text: `<b>${Page.plotText(attack.label)}</b>${other ? " other set" : ""}`, showarrow: false, xref: `x${suffix} domain`, yref: `y${suffix} domain`,
        x: 0, y: 1, xanchor: "left", yanchor: "bottom", font: { size: 11, color: Page.colour("--text") },
      });
      if (attack.usual && attack.usual[0] <= entries.strength[at.at(-1) ?? 0]) {
        const mark = Page.usualMark(attack.usual, suffix);
        shapes.push(...mark.shapes);
        annotations.push(...mark.annotations);
      }
      const strengths = [0, ...at.map((i) => entries.strength[i])].map((strength) => (attack.falls === null ? strength : attack.falls - strength));
      const reference = [board.reference.clean, ...at.map((i) => entries.reference[i])];
      const anchor = { xaxis: `x${suffix}`, yaxis: `y${suffix}`, type: "scatter" };
      if (board.compared) data.push({
        ...anchor, mode: "lines", x: strengths, y: reference, line: { color: Page.colour("--mark"), width: 4, dash: other ? "1px,5px" : "solid" },
        customdata: pointed(reference), hovertemplate: "%{x:.4~r}: %{customdata}<extra>reference</extra>",
      });
      models.forEach(({ defense, accuracies }, i) => {
        const certified = defense.certified[attack.name];
        if (certified) data.push(...doubt(anchor, strengths, [defense.clean, ...at.map((entry) => accuracies[entry])],
          [defense.clean, ...at.map((entry) => certified[entries.level[entry]])], style[i], Page.plotText(short(defense.name, 34))));
        data.push({
          ...anchor, mode: "lines+markers", marker: { symbol: style[i].symbol, color: style[i].colour, size: 6, maxdisplayed: 4 }, x: strengths, connectgaps: false,
          y: [defense.clean, ...at.map((entry) => accuracies[entry])].map((y) => (Number.isNaN(y) ? null : y)),
          line: { color: style[i].colour, dash: style[i].dash, width: 2 },
          customdata: pointed([defense.clean, ...at.map((entry) => accuracies[entry])]),
          hovertemplate: `%{x:.4~r}: %{customdata}<extra>${Page.plotText(short(defense.name, 34))}</extra>`,
        });
      });
    });
    const said = inWords(models, ({ accuracies }) => shown.map(({ attack, at }) => `${attack.label} ${spoken(accuracies[at[0]])} to ${spoken(accuracies[at.at(-1) ?? 0])}`));
    return { data, said, layout: Page.layout({ ...axes, annotations, shapes, height: height + 40, margin: { l: 40, r: 8, t: 22, b: 44 } }) };
  }

  /**
   * The certified line of a model, and what lies in doubt between it and what attacks left.
   * @param {object} anchor the axes
   * @param {number[]} strengths
   * @param {(number | null)[]} most
   * @param {(number | null)[]} least
   * @param {{colour: string, dash: string}} style
   * @param {string} name
   */
  function doubt(anchor, strengths, most, least, { colour, dash }, name) {
    return [
      { ...anchor, mode: "lines", x: strengths, y: least, line: { color: colour, dash, width: 1 }, customdata: pointed(least), hovertemplate: `%{x:.4~r}: certified, at least %{customdata}<extra>${name}</extra>` },
      { ...anchor, mode: "lines", x: strengths, y: most, line: { width: 0 }, fill: "tonexty", fillcolor: Page.faint(colour, 0.2), hoverinfo: "skip" },
    ];
  }

  /**
   * @param {Board} board
   * @param {Entries} entries
   * @param {Drawn[]} models
   * @param {Kind} kind
   * @param {number} height
   */
  function singlePlot(board, entries, models, kind, height) {
    const shown = panels(board, entries);
    const labels = shown.map(({ attack }) => Page.plotText(attack.label));
    const style = stylesOf(models);
    const spread = models.length > 1 ? 0.6 / (models.length - 1) : 0;
    const data = models.map(({ defense, accuracies }, i) => ({
      type: "scatter", mode: "markers", text: labels, cliponaxis: false,
      x: shown.map(({ index }) => Metrics.ratioOn(accuracies, entries, kind, Metrics.indicesOf(entries, index, true))),
      y: shown.map((_, row) => row + (models.length > 1 ? i * spread - 0.3 : 0)),
      marker: { color: style[i].colour, size: 8, line: { color: style[i].colour, width: 1 },
        symbol: shown.map(({ attack }) => `${style[i].symbol}${defense.ownThreats.includes(attack.name) ? "-open" : ""}`) },
      customdata: shown.map(({ index }) => Columns.fixed(Metrics.ratioOn(accuracies, entries, kind, Metrics.indicesOf(entries, index, true)), Columns.digitsOf(defense))),
      hovertemplate: `%{text}: %{customdata}%<extra>${Page.plotText(short(defense.name, 34))}</extra>`,
    }));
    return {
      data,
      said: inWords(models, ({ accuracies }) => shown.map(({ attack, index }) => `${attack.label} ${spoken(Metrics.ratioOn(accuracies, entries, kind, Metrics.indicesOf(entries, index, true)))}`)),
      layout: Page.layout({
        height,
        xaxis: Page.axis({ title: `${Columns.ratioOf(board).name} (%)`, rangemode: "tozero" }),
        yaxis: Page.axis({ range: [labels.length - 0.5, -0.5], nticks: undefined, tickvals: labels.map((_, row) => row), ticktext: labels }),
        shapes: board.compared ? [verticalLine(100)] : [],
      }),
    };
  }

  /** @param {number} x */
  function verticalLine(x) {
    return { type: "line", x0: x, x1: x, y0: 0, y1: 1, yref: "paper", line: { color: Page.colour("--line-strong"), width: 1.5, dash: "dot" } };
  }

  /**
   * Every entry against the reference, a panel for each model: in one panel five clouds hide each other.
   * @param {Board} board
   * @param {Entries} entries
   * @param {Drawn[]} models
   * @param {number} width
   * @param {number} height
   */
  function referencePlot(board, entries, models, width, height) {
    const style = stylesOf(models);
    const columns = columnsFor(models.length, width < 700 ? 2 : 3);
    const rows = Math.max(Math.ceil(models.length / columns), 1);
    const text = entries.attack.map((attack, i) =>
      attack < 0 ? "clean" : `${Page.plotText(board.attacks[attack].label)} at ${board.attacks[attack].written[entries.level[i]]}`);
    /** @type {Record<string, any>} */
    const axes = {};
    /** @type {object[]} */
    const shapes = [];
    const annotations = models.map(({ defense }, i) => ({
      text: Page.plotText(short(defense.name, Math.floor(width / columns / 9))), showarrow: false, font: { size: 11, color: Page.colour("--text") },
      xref: `${axisName("x", i)} domain`, yref: `${axisName("y", i)} domain`, x: 0, xanchor: "left", y: 1, yanchor: "bottom",
    }));
    const data = models.map(({ defense, accuracies }, i) => {
      const [column, row] = [i % columns, Math.floor(i / columns)];
      const [bottom, top] = share(row, rows, 0.08).map((end) => 1 - end).reverse();
      const [xaxis, yaxis] = [axisName("x", i), axisName("y", i)];
      const lowest = i + columns >= models.length;
      axes[xaxis.replace("x", "xaxis")] = Page.axis({ title: lowest ? "reference (%)" : "", range: [0, 101], tickvals: [0, 50, 100],
        domain: share(column, columns, 0.06), anchor: yaxis, automargin: false, nticks: undefined, showticklabels: lowest });
      axes[yaxis.replace("y", "yaxis")] = Page.axis({ title: column === 0 && row === 0 ? "accuracy (%)" : "", range: [0, 101], tickvals: [0, 50, 100],
        domain: [bottom, top], anchor: xaxis, automargin: false, nticks: undefined, showticklabels: column === 0 });
      shapes.push({ type: "line", xref: xaxis, yref: yaxis, x0: 0, y0: 0, x1: 100, y1: 100, line: { color: Page.colour("--line-strong"), width: 1.5, dash: "dot" } });
      return {
        type: "scatter", mode: "markers", xaxis, yaxis, x: entries.reference, y: accuracies.map((y) => (Number.isNaN(y) ? null : y)), text,
        marker: { color: style[i].colour, symbol: style[i].symbol, size: 5, opacity: 0.72 },
        customdata: pointed(accuracies).map((accuracy, i) => [accuracy, percent(entries.reference[i])]),
        hovertemplate: `%{text}<br>defense %{customdata[0]}, reference %{customdata[1]}<extra>${Page.plotText(short(defense.name, 34))}</extra>`,
      };
    });
    const said = inWords(models, ({ accuracies }) => [`at least as accurate as the reference at ${accuracies.filter((y, i) => y >= entries.reference[i]).length} of ${Page.counted(accuracies.length, "entry")}`]);
    return { data, said, layout: Page.layout({ ...axes, annotations, shapes, height, margin: { l: 46, r: 8, t: 22, b: 44 } }) };
  }

  /**
   * The ends of one of several equal parts of [0, 1] with gaps between them.
   * @param {number} place
   * @param {number} count
   * @param {number} gap
   */
  function share(place, count, gap) {
    const size = (1 - gap * (count - 1)) / count;
    return [place * (size + gap), place * (size + gap) + size];
  }

  /**
   * The name that plotly gives to an axis: x, x2, x3, ...
   * @param {"x" | "y"} letter
   * @param {number} index
   */
  function axisName(letter, index) {
    return `${letter}${index > 0 ? index + 1 : ""}`;
  }

  /**
   * @param {Entries} entries
   * @param {Drawn[]} models
   * @param {Kind} kind
   * @param {number} width
   * @param {number} height
   */
  function seenPlot(entries, models, kind, width, height) {
    const narrow = width < 560;
    const style = stylesOf(models);
    const labels = models.map(({ defense }) => Page.plotText(short(defense.name, 34)));
    const side = (/** @type {Drawn} */ { accuracies, seen }, /** @type {boolean} */ inside) =>
      Metrics.ratioOn(accuracies, entries, kind, seen.flatMap((isSeen, entry) => (isSeen === inside ? [entry] : [])));
    const data = models.flatMap((model, i) => {
      const y = `#${i + 1}`;
      const [inside, outside] = [side(model, true), side(model, false)];
      const mark = (/** @type {number | null} */ x, /** @type {boolean} */ filled) => ({
        type: "scatter", mode: "markers", x: [x], y: [y], cliponaxis: false,
        marker: { color: style[i].colour, symbol: `${style[i].symbol}${filled ? "" : "-open"}`, size: 13, line: { width: 2, color: style[i].colour } },
        customdata: pointed([x]), hovertemplate: `${filled ? "inside" : "outside"} the training attacks: %{customdata}<extra></extra>`,
      });
      const bar = { type: "scatter", mode: "lines", x: [inside, outside], y: [y, y], line: { color: style[i].colour, width: 2 }, hoverinfo: "skip" };
      return [bar, mark(inside, true), mark(outside, false)];
    });
    return {
      data,
      said: inWords(models, (model) => [`inside ${spoken(side(model, true))}`, `outside ${spoken(side(model, false))}`]),
      layout: Page.layout({
        height, shapes: [verticalLine(100)],
        xaxis: Page.axis({ title: "competitiveness ratio (%)", rangemode: "tozero" }),
        yaxis: Page.axis({
          autorange: "reversed", type: "category", tickvals: labels.map((_, i) => `#${i + 1}`), ticktext: labels, nticks: undefined,
          showticklabels: !narrow, showline: !narrow,
        }),
        annotations: narrow ? labels.map((text, i) => ({
          text, xref: "paper", x: 0, xanchor: "left", y: `#${i + 1}`, yshift: 15, showarrow: false, font: { size: 11 },
        })) : [],
        margin: { l: 12, r: 12, t: 12, b: 44 },
      }),
    };
  }

  return { MOST_ABREAST, short, heights, strengthPlot, singlePlot, referencePlot, seenPlot, overview };
})();
