// @ts-check
"use strict";

/** Up to five defenses held against each other. Each keeps its colour until it is removed. */
const Comparison = (() => {
  const { make } = Page;
  const FIRST_COMPARED = 3;

  /**
   * Names by their colours, empty where a colour is free.
   * @param {State} state
   * @param {Row[]} rows in the order of their official ranks
   */
  function compared(state, rows) {
    if (state.compare) return state.compare;
    const own = rows.filter((row) => row.defense.ownRun).slice(0, 2);
    const others = rows.filter((row) => !own.includes(row)).slice(0, Math.min(FIRST_COMPARED, Address.MOST_COMPARED - 1 - own.length));
    return [...own, ...others].map((row) => row.defense.name);
  }

  /**
   * The same names with one more, in the first free colour, or one less.
   * @param {string[]} names
   * @param {string} name
   * @param {boolean} wanted
   */
  function toggled(names, name, wanted) {
    const kept = names.map((other) => (other === name ? "" : other));
    if (!wanted) return Address.slots(kept);
    const free = kept.indexOf("");
    if (free < 0) return [...kept, name].slice(0, Address.MOST_COMPARED);
    kept[free] = name;
    return Address.slots(kept);
  }

  /**
   * @param {Board} board
   * @param {(name: string, wanted: boolean) => void} toggle
   */
  function of(board, toggle) {
    /** What the plots show now: they are drawn again only where it changes. */
    let plotted = "";

    /**
     * @param {string[]} names
     * @param {Row[]} rows
     * @returns {{row: Row, place: number}[]}
     */
    function chosen(names, rows) {
      const byName = new Map(rows.map((row) => [row.defense.name, row]));
      return names.flatMap((name, place) => {
        const row = byName.get(name);
        return row ? [{ row, place }] : [];
      });
    }

    /** @param {{row: Row, place: number}[]} shown */
    function drawChips(shown) {
      const chips = Page.element("chips");
      const focusInside = chips.contains(document.activeElement);
      chips.replaceChildren(...shown.map(({ row: { defense }, place }) => {
        const remove = make("button", { type: "button", "aria-label": `Remove ${defense.name} from the comparison` }, "×");
        remove.addEventListener("click", () => toggle(defense.name, false));
        return make("span", { class: "chip" }, Page.swatch(place), make("span", { class: "label" }, Table.nameOf(defense)), remove);
      }));
      if (focusInside) chips.querySelector("button")?.focus();
      const count = shown.length;
      Page.element("compare-note").textContent = count === 0 ? "Tick up to five defenses in the board."
        : count < Address.MOST_COMPARED ? `${count} of at most five; tick defenses in the board to change them.`
          : "Five of at most five: untick one first to compare another.";
    }

    /**
     * @param {{row: Row, place: number}[]} shown
     * @param {Cells} cells
     */
    function drawFacts(shown, cells) {
      const at = (/** @type {number} */ cell) => (cells.attack[cell] < 0 ? "clean" : `${board.attacks[cells.attack[cell]].label} ${Page.number(cells.strength[cell])}`);
      const noted = shown.some(({ row }) => row.defense.notes);
      const rows = shown.map(({ row, place }) => make("tr", {},
        make("th", { scope: "row" }, Page.swatch(place), " ", Table.nameOf(row.defense)),
        make("td", {}, row.trained),
        ...(board.compared ? [make("td", { class: "number" }, Columns.rough(row.scFloored)),
          make("td", {}, row.witness ? `${at(row.witness[0])} and ${at(row.witness[1])}` : "–")] : []),
        ...(noted ? [make("td", { class: "notes" }, row.defense.notes || "–")] : [])));
      const titles = ["Defense", "Trained against", ...(board.compared ? ["SC, pairs ≥ 1 point apart", "SC decided between"] : []), ...(noted ? ["Notes"] : [])];
      const head = make("tr", {}, ...titles.map((title, i) => make("th", { scope: "col", class: board.compared && i === 2 ? "number" : "" }, title)));
      const table = make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
      Page.element("facts").replaceChildren(...(rows.length > 0
        ? [make("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Details of the compared defenses" }, table)] : []));
    }

    /**
     * @param {string[]} names
     * @param {State["across"]} across
     * @param {Kind} kind
     * @param {Ranked} ranking
     */
    function drawPlots(names, across, kind, { key, cells, rows }) {
      if (!(/** @type {any} */ (globalThis).Plotly)) return;
      const wanted = JSON.stringify([names, across, key]);
      if (wanted === plotted) return;
      plotted = wanted;
      const entries = chosen(names, rows).map(({ row: { defense }, place }) => ({
        defense, place, accuracies: Metrics.accuraciesAt(board, defense, cells), seen: Metrics.seenAt(board, defense, cells),
      }));
      const ranked = rows.some((row) => row.cr !== null);
      Page.element("overview").hidden = !ranked;
      if (ranked) void Page.draw(Page.element("plot-overview"), () => Plots.overview(board, rows, entries, across));
      const attacks = new Set(cells.attack.filter((attack) => attack >= 0)).size;
      const anything = entries.length > 0 && attacks > 0;
      Page.element("plots").hidden = !anything;
      if (!anything) return;
      const heights = () => Plots.heights(attacks, entries.length, innerWidth);
      Page.element("plots").classList.toggle("many", attacks > Plots.MOST_ABREAST);
      const strength = Page.element("plot-strength");
      Page.draw(strength, () => Plots.strengthPlot(board, cells, entries, Page.widthOf(strength)));
      Page.draw(Page.element("plot-single"), () => Plots.singlePlot(board, cells, entries, kind, heights().single));
      if (!board.compared) return;
      const reference = Page.element("plot-reference");
      Page.draw(reference, () => Plots.referencePlot(board, cells, entries, Page.widthOf(reference), heights().reference));
      const seen = Page.element("plot-seen");
      const told = entries.filter(({ defense }) => defense.trainedOn !== null);
      Page.draw(seen, () => Plots.seenPlot(cells, told, kind, Page.widthOf(seen), heights().seen));
    }

    /**
     * @param {string[]} names
     * @param {Row[]} rows
     * @param {Cells} cells
     */
    function draw(names, rows, cells) {
      const shown = chosen(names, rows);
      drawChips(shown);
      drawFacts(shown, cells);
    }

    return { draw, drawPlots };
  }

  return { of, compared, toggled };
})();
