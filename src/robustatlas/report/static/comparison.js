// @ts-check
"use strict";

/** Up to five defenses held against each other, each in the colour and dash that are its own on every page. */
const Comparison = (() => {
  const { make } = Page;
  const FIRST_COMPARED = 3;

  /**
   * Names of the compared defenses: those that the reader chose, or the first ones.
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
   * The same names with one more, or one less.
   * @param {string[]} names
   * @param {string} name
   * @param {boolean} wanted
   */
  function toggled(names, name, wanted) {
    const others = names.filter((other) => other !== name);
    return wanted ? [...others, name].slice(0, Address.MOST_COMPARED) : others;
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
     */
    function chosen(names, rows) {
      const byName = new Map(rows.map((row) => [row.defense.name, row]));
      return names.flatMap((name) => byName.get(name) ?? []);
    }

    /** @param {Defense} defense */
    const lookOf = (defense) => board.looks[defense.look];

    /** @param {Row[]} shown */
    function drawChips(shown) {
      const chips = Page.element("chips");
      const focusInside = chips.contains(document.activeElement);
      chips.replaceChildren(...shown.map(({ defense }) => {
        const remove = make("button", { type: "button", "aria-label": `Remove ${defense.name} from the comparison` }, "×");
        remove.addEventListener("click", () => toggle(defense.name, false));
        return make("span", { class: "chip" }, Page.swatch(lookOf(defense)), make("span", { class: "label" }, Table.nameOf(defense)), remove);
      }));
      if (focusInside) chips.querySelector("button")?.focus();
      const count = shown.length;
      Page.element("compare-note").textContent = count === 0 ? "Tick up to five defenses in the board."
        : count < Address.MOST_COMPARED ? `${count} of at most five; tick defenses in the board to change them.`
          : "Five of at most five: untick one first to compare another.";
    }

    /**
     * @param {Row[]} shown
     * @param {Entries} entries
     */
    function drawFacts(shown, entries) {
      const at = (/** @type {number} */ entry) => (entries.attack[entry] < 0 ? "clean" : `${board.attacks[entries.attack[entry]].label} ${board.attacks[entries.attack[entry]].written[entries.level[entry]]}`);
      const noted = shown.some((row) => row.defense.notes);
      const rows = shown.map((row) => make("tr", {},
        make("th", { scope: "row" }, Page.swatch(lookOf(row.defense)), " ", Table.nameOf(row.defense)),
        make("td", {}, row.trained),
        ...(board.compared ? [make("td", { class: "number" }, Columns.rough(row.scFloored), ...(row.scFlooredSpan ? [make("small", {}, ` ${Columns.roughly(row.scFlooredSpan)}`)] : [])),
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
    function drawPlots(names, across, kind, { key, entries, rows }) {
      if (!(/** @type {any} */ (globalThis).Plotly)) return;
      const wanted = JSON.stringify([names, across, key]);
      if (wanted === plotted) return;
      plotted = wanted;
      const models = chosen(names, rows).map(({ defense }) => ({
        defense, look: lookOf(defense), accuracies: Metrics.accuraciesAt(board, defense, entries), seen: Metrics.seenAt(board, defense, entries),
      }));
      const ranked = rows.some((row) => row.cr !== null);
      Page.element("overview").hidden = !ranked;
      if (ranked) void Page.draw(Page.element("plot-overview"), () => Plots.overview(board, rows, models, across, Page.widthOf(Page.element("plot-overview"))));
      const attacks = new Set(entries.attack.filter((attack) => attack >= 0)).size;
      const anything = models.length > 0 && attacks > 0;
      Page.element("plots").hidden = !anything;
      if (!anything) return;
      const heights = () => Plots.heights(attacks, models.length, innerWidth);
      Page.element("plots").classList.toggle("many", attacks > Plots.MOST_ABREAST);
      const strength = Page.element("plot-strength");
      Page.draw(strength, () => Plots.strengthPlot(board, entries, models, Page.widthOf(strength)));
      Page.draw(Page.element("plot-single"), () => Plots.singlePlot(board, entries, models, kind, heights().single));
      if (!board.compared) return;
      const reference = Page.element("plot-reference");
      Page.draw(reference, () => Plots.referencePlot(board, entries, models, Page.widthOf(reference), heights().reference));
      const seen = Page.element("plot-seen");
      const told = models.filter(({ defense }) => defense.trainedOn !== null);
      Page.draw(seen, () => Plots.seenPlot(entries, told, kind, Page.widthOf(seen), heights().seen));
    }

    /**
     * @param {string[]} names
     * @param {Row[]} rows
     * @param {Entries} entries
     */
    function draw(names, rows, entries) {
      const shown = chosen(names, rows);
      drawChips(shown);
      drawFacts(shown, entries);
    }

    return { draw, drawPlots };
  }

  return { of, compared, toggled };
})();
