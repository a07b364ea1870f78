// @ts-check
"use strict";

(async () => {
  const { make } = Page;
  const finishLoading = Page.delayLoading();
  /** Whether the library of the plots is there, or cannot be had. */
  let tried = false;
  const board = Metrics.bounded(/** @type {Board} */ (JSON.parse(await Page.textOf("board-data"))));
  const attackNamed = new Map(board.attacks.map((attack) => [attack.name, attack]));
  const { officialSelection, writeSelection } = Address.of(board);
  const official = writeSelection(officialSelection());
  const columns = Columns.of(board);

  // ---- from state to rows ----------------------------------------------------------------------------------------

  /** @param {State} given @returns {Kind} */
  function kindOf(given) {
    if (given.mode === "aggregated") return given.order === "average" ? "exp" : "max";
    return given.order === "average" ? "ind-avg" : "ind-worst";
  }

  /** @type {Map<string, Ranked>} the last view, and the official ones */
  const known = new Map();

  /** @type {Map<string, Entries>} those of the last choice, and the official ones: what is known at them is kept with them */
  const knownEntries = new Map();

  /**
   * @param {string} chosen the selection, as text
   * @param {Choice} selection
   */
  function entriesFor(chosen, selection) {
    const found = knownEntries.get(chosen) ?? Metrics.entriesOf(board, selection);
    for (const other of knownEntries.keys()) if (other !== official) knownEntries.delete(other);
    knownEntries.set(chosen, found);
    return found;
  }

  /**
   * All defenses with their numbers and ranks, in the order of the ranks.
   * @param {Kind} kind
   * @param {Choice} selection
   * @returns {Ranked}
   */
  function rank(kind, selection) {
    const chosen = writeSelection(selection);
    const key = `${kind} ${chosen}`;
    const found = known.get(key);
    if (found) return found;
    const isOfficial = chosen === official;
    const entries = entriesFor(chosen, selection);
    const summaries = board.defenses.map((defense) => Metrics.summarize(board, defense, entries, kind, isOfficial));
    const ranks = Metrics.ranks(summaries);
    const ranges = Metrics.rankRanges(summaries.map(({ cr, span, masked, unranked }) => (cr === null || masked.length > 0 || unranked ? null : span ?? [cr, cr])));
    const before = isOfficial ? null : new Map(rank(kind, officialSelection()).rows.map((row) => [row.defense, row.rank]));
    /** @type {(defense: Defense, summary: Summary) => Row} */
    const unplaced = (defense, summary) => ({
      ...summary, defense, about: Columns.isAbout({ defense }, entries, board), rank: null, range: null, before: null,
      extra: defense.extraData === null ? "–" : defense.extraData ? "yes" : "no",
      trained: trainedText(defense),
      haystack: `${defense.name} ${defense.title} ${defense.architecture}`.toLowerCase(),
      trainings: (defense.trainings ?? []).map((training) => unplaced(training, Metrics.summarize(board, training, entries, kind, isOfficial))),
    });
    const rows = board.defenses.map((defense, i) => ({
      ...unplaced(defense, summaries[i]), rank: ranks[i], range: ranges[i], before: before?.get(defense) ?? null,
    }));
    rows.sort((a, b) => (a.rank ?? Infinity) - (b.rank ?? Infinity) || a.missing - b.missing);
    for (const other of known.keys()) if (!other.endsWith(` ${official}`)) known.delete(other);
    const ranked = { key, entries, rows };
    known.set(key, ranked);
    return ranked;
  }

  const now = () => rank(kindOf(state), state.selection);

  /** @param {Defense} defense */
  function trainedText(defense) {
    if (defense.trainedOn === null) return "not stated";
    const parts = Object.entries(defense.trainedWords).map(([name, words]) => `${attackNamed.get(name)?.label ?? name} ${words}`);
    return parts.join(", ") || "clean images only";
  }

  /**
   * @param {Row[]} rows in the order of their ranks
   */
  function visibleRows(rows) {
    const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = rows.filter((row) =>
      words.every((word) => row.haystack.includes(word)) && (!state.extra || row.extra === state.extra) &&
      (!state.trained || (row.defense.trainedOn !== null && state.trained in row.defense.trainedOn)));
    const column = columns.find((candidate) => candidate.key === state.sort) ?? columns[0];
    if (column.key === "rank" && !state.descending) return shown;
    const sign = state.descending ? -1 : 1;
    return shown.sort((a, b) => {
      const behind = Number(column.masked(a)) - Number(column.masked(b));
      if (behind !== 0) return behind;
      const [x, y] = [column.value(a), column.value(b)];
      if (x === null || y === null) return (x === null ? 1 : 0) - (y === null ? 1 : 0);
      return sign * (typeof x === "string" ? x.localeCompare(String(y)) : x - Number(y));
    });
  }

  // ---- drawing -----------------------------------------------------------------------------------------------------

  /** Names; those of the start come from one ranking, so that no other view paints them anew. */
  const compared = () => Comparison.compared(state, rank("ind-avg", officialSelection()).rows);
  const toggleCompared = (/** @type {string} */ name, /** @type {boolean} */ wanted) =>
    change({ compare: Comparison.toggled(compared(), name, wanted) });
  const table = Table.of(board, { change, toggleCompared });
  const comparison = Comparison.of(board, toggleCompared);
  const drawer = Drawer.of(board, change, () => state.selection);

  /** The reader's own models, best first. @param {Row[]} rows */
  const ownRows = (rows) => rows.filter((row) => row.defense.ownRun);

  function drawBoard() {
    const { entries, rows } = now();
    const shown = visibleRows(rows);
    table.setColumns(Columns.shown(columns, state));
    table.draw(state, shown, rows, compared(), ownRows(rows).find(({ masked }) => masked.length === 0)?.defense.name ?? "");
    const complete = rows.filter((row) => row.rank !== null).length;
    const masked = rows.filter((row) => row.masked.length > 0 && row.missing === 0).length;
    const unlike = rows.filter((row) => row.unranked && row.masked.length === 0 && row.missing === 0).length;
    const attacks = new Set(entries.attack.filter((attack) => attack >= 0)).size;
    Page.element("status").textContent =
      `${viewName()}: ${Page.counted(complete, "defense")} ranked` +
      `${complete + masked + unlike < rows.length ? `, ${rows.length - complete - masked - unlike} incomplete` : ""}${masked > 0 ? `, ${masked} masked` : ""}${unlike > 0 ? `, ${unlike} not comparable` : ""}${shown.length < rows.length ? `, ${shown.length} shown` : ""}. ` +
      `${Page.counted(attacks, "attack")}, ${Page.counted(entries.attack.length, "entry")} with the clean accuracy.`;
    const isOfficial = writeSelection(state.selection) === official;
    Page.element("choice-summary").textContent = `${isOfficial && board.official ? "official set, " : ""}${attacks} of ${Page.counted(board.attacks.length, "attack")}`;
    drawOwn(rows, entries, complete);
    drawBeside(rows);
    Page.element("official").hidden =
      isOfficial && state.order === "average" && state.mode === "individual" && state.sort === "rank" && !state.descending;
  }

  /** What each ratio is, as the terminal and the report explain it. @type {Record<Kind, string>} */
  const MEANINGS = {
    "ind-avg": "mean ratio of the entries", "ind-worst": "lowest ratio of an entry", exp: "ratio of the sums", max: "ratio of the lowest accuracies",
  };

  /** What the shown ranking is: the official one, of published references only, is by the ratios of the entries over its set. */
  function viewName() {
    if (!board.compared) return `Ranking by the ${state.order === "average" ? "average" : "lowest"} accuracy`;
    const isOfficial = writeSelection(state.selection) === official;
    const whose = !isOfficial ? "Your ranking" : board.official && state.mode === "individual" ? "Official ranking" : "Ranking";
    return `${whose} by CR ${kindOf(state)} (${MEANINGS[kindOf(state)]})${isOfficial ? "" : ", attacks of your choice"}`;
  }

  /** The own runs that rank best beside the field. @param {Row[]} rows in the order of their ranks */
  function drawBeside(rows) {
    const target = document.querySelector(".beside");
    if (!target) return;
    const views = /** @type {HTMLElement[]} */ ([...target.children]);
    const names = [...new Set(ownRows(rows).map(({ defense }) => defense.name).filter((name) => views.some((view) => view.dataset.run === name)))];
    const shown = names.slice(0, Number(/** @type {HTMLElement} */ (target).dataset.most));
    for (const view of views) view.hidden = !shown.includes(view.dataset.run ?? "");
    for (const name of shown) target.append(...views.filter((view) => view.dataset.run === name));
  }

  /**
   * Where the reader's own model stands, in a sentence.
   * @param {Row[]} rows
   * @param {Entries} entries
   * @param {number} complete
   */
  function drawOwn(rows, entries, complete) {
    const [row, ...others] = ownRows(rows);
    const target = Page.element("own");
    target.hidden = row === undefined;
    if (!row) return;
    const link = make("button", { type: "button", class: "link" }, "Your model ", Table.nameOf(row.defense), ":");
    link.addEventListener("click", () => table.show(row.defense.name));
    const span = row.range && row.range[0] < row.range[1] ? `${ordinal(row.range[0])} to ${ordinal(row.range[1])}` : ordinal(row.rank ?? 0);
    const place = row.masked.length > 0 ? `${Columns.MASKED}, no rank` : row.unranked ? `no rank: ${row.unranked}` : row.rank === null ? `incomplete, ${row.missing} of ${Page.counted(entries.attack.length, "entry")} missing`
      : `${row.about ? "about " : ""}${span} of ${complete}`;
    const alone = row.rank !== null && Columns.rangeOf(row) ? ` (${ordinal(row.rank)} by the number alone). ` : ". ";
    const name = board.compared ? `CR ${kindOf(state)}` : state.order === "average" ? "Average over attacks, strengths and clean images" : "Lowest accuracy";
    const union = board.compared || row.defense.union === null ? "" : `, union ${Page.fixed(row.defense.union, 1)}%`;
    const ratio = row.cr === null ? "" : `${name} ${Page.fixed(row.cr, 1)}%${row.span ? ` (${Columns.between(row.span)})` : ""}${union} on ${Page.counted(row.defense.samples ?? 0, "image")}${row.trainings.length > 0 ? `, over ${Page.counted(row.trainings.length, "training")}` : ""}. `;
    const first = row.defense.headline ? `${row.defense.headline}. Rank: ` : "";
    target.replaceChildren(link, " ", first, make("b", { class: "place" }, place), alone, ratio, breaking(row, entries), " ", weakest(row, entries),
      others.length > 0 ? ` And ${Page.counted(others.length, "more row")} of yours.` : "");
  }

  /**
   * From where on half of the images are wrong, under the attack of those that count that leaves fewest of them correct; one
   * whose threat model is not the reference's speaks only where there is no other.
   * @param {Row} row
   * @param {Entries} entries
   */
  function breaking({ defense }, entries) {
    const accuracies = Metrics.accuraciesAt(board, defense, entries);
    const known = board.attacks.flatMap(({ name }, index) => {
      const at = Metrics.indicesOf(entries, index, false).filter((i) => !Number.isNaN(accuracies[i]));
      if (at.length === 0 || !(name in defense.halves)) return [];
      return [{ name, left: at.reduce((sum, i) => sum + accuracies[i], 0) / at.length }];
    });
    const exact = known.filter(({ name }) => !defense.ownThreats.includes(name));
    const weakestOf = (exact.length > 0 ? exact : known).sort((a, b) => a.left - b.left)[0];
    return weakestOf ? defense.halves[weakestOf.name] : "";
  }

  /** @param {number} place */
  function ordinal(place) {
    const ending = place % 100 > 10 && place % 100 < 14 ? "th" : { 1: "st", 2: "nd", 3: "rd" }[place % 10] ?? "th";
    return `${place}${ending}`;
  }

  /**
   * The entry at which a model falls furthest behind the reference, under an attack with the same threat model.
   * @param {Row} row
   * @param {Entries} entries
   */
  function weakest(row, entries) {
    const accuracies = Metrics.accuraciesAt(board, row.defense, entries);
    let worst = -1;
    accuracies.forEach((accuracy, i) => {
      if (entries.attack[i] < 0 || Number.isNaN(accuracy) || row.defense.ownThreats.includes(board.attacks[entries.attack[i]].name)) return;
      if (worst < 0 || accuracy / entries.reference[i] < accuracies[worst] / entries.reference[worst]) worst = i;
    });
    if (worst < 0) return "";
    if (board.compared && accuracies[worst] >= entries.reference[worst]) return "Nowhere behind the reference.";
    const attack = board.attacks[entries.attack[worst]];
    if (!board.compared) return `Lowest under ${attack.label} ${attack.written[entries.level[worst]]}: ${Page.fixed(accuracies[worst], 1)}% correct.`;
    return `Furthest behind the reference under ${attack.label} ${attack.written[entries.level[worst]]}: ${Page.fixed(accuracies[worst], 1)}% correct, not ${Page.fixed(entries.reference[worst], 1)}%.`;
  }

  function buildColumns() {
    const target = Page.element("columns");
    const optional = columns.filter((column) => !["rank", "defense", "cr"].includes(column.key));
    for (const column of optional) {
      const box = /** @type {HTMLInputElement} */ (make("input", { type: "checkbox", value: column.key }));
      box.addEventListener("change", () => {
        const shown = Columns.shown(columns, state).map(({ key }) => key).filter((key) => key !== column.key);
        change({ columns: box.checked ? [...shown, column.key] : shown });
      });
      target.append(make("label", {}, box, make("span", {}, column.title)));
    }
    Page.element("usual-columns").addEventListener("click", () => change({ columns: null }));
  }

  function buildFilters() {
    const trained = /** @type {HTMLSelectElement} */ (Page.element("trained"));
    for (const attack of board.attacks) {
      if (board.defenses.some(({ trainedOn }) => trainedOn && attack.name in trainedOn)) trained.append(make("option", { value: attack.name }, attack.label));
    }
    Page.element("trained-field").hidden = trained.options.length === 1 && !state.trained;
    Page.element("extra-field").hidden = board.defenses.every(({ extraData }) => extraData === null) && !state.extra;
    Page.element("across-field").hidden = board.defenses.every(({ petaflops }) => petaflops === null);
  }

  function drawControls() {
    for (const radio of /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll(".segments input"))) {
      radio.checked = radio.value === (radio.name === "board" ? state.order : state.mode);
    }
    const search = /** @type {HTMLInputElement} */ (Page.element("search"));
    if (search.value !== state.query) search.value = state.query;
    for (const name of /** @type {const} */ (["extra", "trained", "across"])) {
      /** @type {HTMLSelectElement} */ (Page.element(name)).value = state[name];
    }
    const shown = Columns.shown(columns, state).map(({ key }) => key);
    for (const box of /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll("#columns input"))) box.checked = shown.includes(box.value);
  }

  // ---- taking the table away ---------------------------------------------------------------------------------------

  /** @param {string} format */
  function exportTable(format) {
    const rows = visibleRows(now().rows);
    const view = { board, kind: kindOf(state), selection: state.selection };
    if (format === "csv") return Page.download("leaderboard.csv", "text/csv", Exports.csv(view, rows));
    if (format === "json") return Page.download("leaderboard.json", "application/json", Exports.json(view, rows));
    Page.element("export-title").textContent = format === "latex" ? "LaTeX" : "Markdown";
    const area = /** @type {HTMLTextAreaElement} */ (Page.element("export-text"));
    const shown = Columns.shown(columns, state);
    area.value = format === "latex" ? Exports.latex(view, shown, rows) : Exports.markdown(view, shown, rows);
    Page.element("copied").textContent = "";
    /** @type {HTMLDialogElement} */ (Page.element("export")).showModal();
    area.select();
    return undefined;
  }

  async function copy() {
    const area = /** @type {HTMLTextAreaElement} */ (Page.element("export-text"));
    area.select();
    try {
      await navigator.clipboard.writeText(area.value);
      Page.element("copied").textContent = "Copied.";
    } catch {
      Page.element("copied").textContent = "Selected; press Ctrl+C to copy.";
    }
  }

  // ---- everything together -----------------------------------------------------------------------------------------

  let state = Address.read(board, location.hash);
  /** @type {number | undefined} */
  let pending;

  /**
   * @param {Partial<State>} changes
   * @param {boolean} [step] whether Back returns to what was before
   */
  function change(changes, step = true) {
    state = { ...state, ...changes };
    // The address comes first: where something has been drawn anew, writing it waits for its layout.
    const address = location.href.split("#")[0] + Address.write(board, state);
    if (address !== location.href) {
      if (step) history.pushState(null, "", address);
      else history.replaceState(null, "", address);
    }
    draw();
  }

  function draw() {
    drawControls();
    drawBoard();
    drawer.draw();
    const { entries, rows } = now();
    comparison.draw(compared(), rows, entries);
    drawPlotsSoon();
  }

  /** The board answers at once; the plots follow when nothing else changes for a moment, and the board has been painted. */
  function drawPlotsSoon() {
    clearTimeout(pending);
    const drawPlots = () => {
      comparison.drawPlots(compared(), state.across, kindOf(state), now());
      if (tried) setTimeout(finishLoading, 0);
    };
    pending = setTimeout(() => requestAnimationFrame(() => { pending = setTimeout(drawPlots, 0); }), 60);
  }

  function listen() {
    for (const radio of /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll(".segments input"))) {
      radio.addEventListener("change", () => change(radio.name === "board"
        ? { order: /** @type {Order} */ (radio.value) } : { mode: /** @type {Mode} */ (radio.value) }));
    }
    const search = /** @type {HTMLInputElement} */ (Page.element("search"));
    search.addEventListener("input", () => change({ query: search.value }, false));
    for (const name of ["extra", "trained", "across"]) {
      const select = /** @type {HTMLSelectElement} */ (Page.element(name));
      select.addEventListener("change", () => change({ [name]: select.value }));
    }
    Page.element("official").addEventListener("click", () => change({ ...Address.start(board), columns: state.columns, compare: state.compare }));
    table.onSort((key) => change({ sort: key,
      descending: state.sort === key ? !state.descending : columns.find((column) => column.key === key)?.descends ?? false }));
    for (const button of document.querySelectorAll("[data-export]")) {
      button.addEventListener("click", () => exportTable(button.getAttribute("data-export") ?? ""));
    }
    Page.element("copy").addEventListener("click", () => void copy());
    addEventListener("popstate", () => {
      state = Address.read(board, location.hash);
      draw();
    });
  }

  /** The plots come after the first board is on screen: their library is most of the site. */
  function loadPlots() {
    const script = document.createElement("script");
    script.src = "plotly.min.js";
    for (const end of ["load", "error"]) {
      script.addEventListener(end, () => {
        tried = true;
        drawPlotsSoon();
      });
    }
    document.body.append(script);
  }

  Page.startTheme();
  Scrolling.watch();
  Page.startPrinting(620);
  Page.tellInFiles(() => ({
    models: compared().flatMap((name) => {
      const found = board.defenses.find((defense) => defense.name === name);
      return found ? [{ name: Plots.short(name, 34), look: board.looks[found.look] }] : [];
    }),
    about: [Exports.heading({ board, kind: kindOf(state), selection: state.selection },
      (strengths) => (strengths.length > 2 ? `${strengths[0]} to ${strengths.at(-1)}` : strengths.join(" "))),
    ...now().rows.filter(({ defense, masked }) => masked.length > 0 && compared().includes(defense.name))
      .map(({ defense }) => `${defense.name}: ${Columns.MASKED}`)].join("; "),
  }));
  /** @type {HTMLDetailsElement} */ (document.querySelector(".fold")).open = !matchMedia("(max-width: 640px)").matches;
  buildColumns();
  buildFilters();
  listen();
  draw();
  requestAnimationFrame(() => setTimeout(loadPlots, 0));
})();
