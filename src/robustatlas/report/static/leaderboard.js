// @ts-check
"use strict";

(() => {
  const FIRST_COMPARED = 3;
  const FIRST_ROWS = 60;
  /** @type {Board} */
  const board = JSON.parse(Page.element("board-data").textContent ?? "");
  const attackNamed = new Map(board.attacks.map((attack) => [attack.name, attack]));

  /** @param {number | null} value */
  const fixed = (value) => (value === null ? "–" : value.toFixed(2));
  const { everyLevel, select, officialSelection, writeSelection } = Address.of(board);
  const official = writeSelection(officialSelection());

  /** @type {Column[]} */
  const COLUMNS = [
    { key: "rank", title: "Rank", hint: "Place by the competitiveness ratio, ties by the lower stability constant", kind: "number",
      value: (row) => row.rank, show: (row) => (row.rank === null ? "–" : String(row.rank)), descends: false },
    { key: "defense", title: "Defense", hint: "Name, linked to the paper", kind: "text",
      value: (row) => row.defense.name, show: (row) => row.defense.name, descends: false },
    { key: "cr", title: "CR, %", hint: "Competitiveness ratio", kind: "number", value: (row) => row.cr, show: (row) => fixed(row.cr), descends: true },
    { key: "clean", title: "Clean, %", hint: "Accuracy on unperturbed images", kind: "number",
      value: (row) => row.defense.clean, show: (row) => fixed(row.defense.clean), descends: true },
    { key: "sc", title: "SC", hint: "Stability constant; lower is steadier", kind: "number", value: (row) => row.sc, show: (row) => fixed(row.sc), descends: false },
    { key: "seen", title: "Seen, %", hint: "Share of the cells inside the training attacks", kind: "number",
      value: (row) => row.seen, show: (row) => fixed(row.seen), descends: true },
    { key: "uar", title: "UAR, %", hint: "Unforeseen attack robustness, mean over the attacks", kind: "number",
      value: (row) => row.uar, show: (row) => fixed(row.uar), descends: true },
    { key: "hypervolume", title: "Hypervolume", hint: "Adversarial hypervolume, 0 to 1", kind: "number",
      value: (row) => row.defense.hypervolume, show: (row) => (row.defense.hypervolume === null ? "–" : `${row.defense.hypervolume.toFixed(4)} ${row.defense.hypervolumeIs}`.trim()), descends: true },
    { key: "extra", title: "Extra data", hint: "Trained with more than the data set's own images", kind: "text",
      value: (row) => row.extra, show: (row) => row.extra, descends: false },
    { key: "architecture", title: "Architecture", hint: "Network", kind: "text",
      value: (row) => row.defense.architecture, show: (row) => row.defense.architecture || "–", descends: false },
  ];
  /** What no defense of the board has said needs no column. @type {Record<string, (defense: Defense) => boolean>} */
  const KNOWN = {
    hypervolume: (defense) => defense.hypervolume !== null, extra: (defense) => defense.extraData !== null,
    architecture: (defense) => defense.architecture !== "",
  };
  const shownColumns = COLUMNS.filter(({ key }) => !(key in KNOWN) || board.defenses.some(KNOWN[key]));

  // ---- from state to rows ----------------------------------------------------------------------------------------

  /** @param {State} state @returns {Kind} */
  function kindOf(state) {
    if (state.mode === "aggregated") return state.order === "average" ? "exp" : "max";
    return state.order === "average" ? "ind-avg" : "ind-worst";
  }

  /** @type {{key: string, cells: Cells, rows: Row[]} | null} */
  let ranked = null;

  /**
   * All defenses with their numbers and ranks, in the order of the ranks.
   * @param {State} state
   */
  function rank(state) {
    const kind = kindOf(state);
    const key = `${kind} ${writeSelection(state.selection)}`;
    if (ranked?.key === key) return ranked;
    const cells = Metrics.cellsOf(board, state.selection);
    const summaries = board.defenses.map((defense) => Metrics.summarize(board, defense, cells, kind));
    const ranks = Metrics.ranks(summaries);
    const rows = board.defenses.map((defense, i) => ({
      ...summaries[i], defense, rank: ranks[i],
      extra: defense.extraData === null ? "–" : defense.extraData ? "yes" : "no",
      trained: trainedText(defense),
      haystack: `${defense.name} ${defense.title} ${defense.architecture}`.toLowerCase(),
    }));
    rows.sort((a, b) => (a.rank ?? Infinity) - (b.rank ?? Infinity) || a.missing - b.missing);
    ranked = { key, cells, rows };
    return ranked;
  }

  /** @param {Defense} defense */
  function trainedText(defense) {
    const parts = Object.entries(defense.trainedOn).map(([name, strength]) =>
      `${attackNamed.get(name)?.label ?? name} ≤ ${Page.number(strength)}`);
    return parts.join(", ") || "no attack stated";
  }

  /**
   * @param {State} state
   * @param {Row[]} rows in the order of their ranks
   */
  function visibleRows(state, rows) {
    const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = rows.filter((row) =>
      words.every((word) => row.haystack.includes(word)) && (!state.extra || row.extra === state.extra) &&
      (!state.trained || state.trained in row.defense.trainedOn));
    const column = COLUMNS.find((candidate) => candidate.key === state.sort) ?? COLUMNS[0];
    if (column.key === "rank" && !state.descending) return shown;
    const sign = state.descending ? -1 : 1;
    return shown.sort((a, b) => {
      const [x, y] = [column.value(a), column.value(b)];
      if (x === null || y === null) return (x === null ? 1 : 0) - (y === null ? 1 : 0);
      return sign * (typeof x === "string" ? x.localeCompare(String(y)) : x - Number(y));
    });
  }

  // ---- drawing -----------------------------------------------------------------------------------------------------

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
   * A name that may be broken at its joints: Dai2023|Multi|Robust|Bench_|LPIPS.
   * @param {string} name
   */
  function breakable(name) {
    return name.split(/(?<=[_-])|(?<=[a-z0-9])(?=[A-Z])/).flatMap((part, i) => (i === 0 ? [part] : [make("wbr"), part]));
  }

  /** @type {Map<string, {tr: HTMLElement, pick: HTMLInputElement, cells: Map<string, HTMLElement>, shown: string}>} */
  const built = new Map();

  /** @param {Defense} defense */
  function buildRow(defense) {
    const pick = /** @type {HTMLInputElement} */ (make("input", { type: "checkbox", "aria-label": `Compare ${defense.name}` }));
    pick.addEventListener("change", () => toggleCompared(defense.name, pick.checked));
    const name = defense.url ? make("a", { href: defense.url, rel: "noopener" }, ...breakable(defense.name))
      : make("span", {}, ...breakable(defense.name));
    const heading = make("th", { scope: "row", class: "name" }, name);
    if (defense.ownRun) heading.append(make("span", { class: "tag" }, "your run"));
    if (defense.title) heading.append(make("small", {}, defense.title));
    const tr = make("tr", defense.ownRun ? { class: "own" } : {}, make("td", { class: "pick" }, pick));
    /** @type {Map<string, HTMLElement>} */
    const cells = new Map();
    for (const column of shownColumns) {
      if (column.key === "defense") {
        tr.append(heading);
        continue;
      }
      const cell = make("td", { class: `${column.kind}${column.key === "rank" || column.key === "cr" ? ` ${column.key}` : ""}` });
      cells.set(column.key, cell);
      tr.append(cell);
    }
    const row = { tr, pick, cells, shown: "" };
    built.set(defense.name, row);
    return row;
  }

  /**
   * @param {Row} row
   * @param {number} best the highest ratio of the board
   */
  function fillRow(row, best) {
    const target = built.get(row.defense.name) ?? buildRow(row.defense);
    const key = JSON.stringify([row.rank, row.cr, row.halfWidth, row.sc, row.seen, row.uar, row.missing, best]);
    if (target.shown === key) return target;
    target.shown = key;
    target.tr.classList.toggle("incomplete", row.missing > 0);
    for (const column of shownColumns) {
      const cell = target.cells.get(column.key);
      if (!cell) continue;
      if (column.key === "cr") cell.replaceChildren(...ratioCell(row, best));
      else cell.textContent = column.show(row);
      if (column.key === "architecture") cell.title = row.defense.architecture;
    }
    return target;
  }

  /**
   * @param {Row} row
   * @param {number} best
   */
  function ratioCell(row, best) {
    if (row.cr === null) {
      const own = make("button", { type: "button" }, "Rank on its cells");
      own.addEventListener("click", () => change({ selection: cellsOfDefense(row.defense) }));
      return [make("span", {}, `incomplete, ${row.missing} missing`), own];
    }
    const width = Math.max(0, Math.min(100, (100 * row.cr) / best));
    const fill = make("i");
    fill.style.width = `${width}%`;
    const bar = make("span", { class: "bar", "aria-hidden": "true" }, fill);
    return row.halfWidth === null ? [fixed(row.cr), bar] : [fixed(row.cr), make("small", {}, ` ± ${fixed(row.halfWidth)}`), bar];
  }

  /** @param {Defense} defense @returns {Choice} */
  function cellsOfDefense(defense) {
    return Object.fromEntries(board.attacks.flatMap(({ name, strengths }) => {
      const levels = strengths.flatMap((_, level) => ((defense.accuracies[name]?.[level] ?? null) === null ? [] : [level]));
      const ranked = attackNamed.get(name)?.ranked || !hasRankedCells(defense);
      return levels.length > 0 && ranked ? [[name, levels]] : [];
    }));
  }

  /** @param {Defense} defense */
  function hasRankedCells(defense) {
    return board.attacks.some(({ name, ranked }) => ranked && defense.accuracies[name]?.some((value) => value !== null));
  }

  function buildHead() {
    const headings = shownColumns.map((column) => {
      const button = make("button", { type: "button", title: column.hint }, column.title);
      button.addEventListener("click", () => {
        const again = state.sort === column.key;
        change({ sort: column.key, descending: again ? !state.descending : column.descends });
      });
      return make("th", { scope: "col", class: column.kind === "number" ? "number" : "", "data-key": column.key }, button);
    });
    const pick = make("th", { scope: "col", class: "pick" }, make("span", {}, make("span", { class: "hidden-visually" }, "Compare")));
    Page.element("board").querySelector("thead")?.append(make("tr", {}, pick, ...headings));
  }

  /** @type {number | undefined} */
  let placing;

  /**
   * Put rows into the board: those that fit on a screen now, the others after the next paint. The focus stays in its row.
   * @param {(() => HTMLElement)[]} makers
   */
  function placeRows(makers) {
    const body = /** @type {HTMLElement} */ (Page.element("board").querySelector("tbody"));
    const focused = document.activeElement;
    const keepFocus = () => {
      if (focused instanceof HTMLElement && focused !== document.activeElement && body.contains(focused)) focused.focus({ preventScroll: true });
    };
    clearTimeout(placing);
    body.replaceChildren(...makers.slice(0, FIRST_ROWS).map((maker) => maker()));
    if (makers.length === 0) {
      body.append(make("tr", {}, make("td", { colspan: `${shownColumns.length + 1}` }, "No defense matches. Clear the search or the filters.")));
    }
    keepFocus();
    if (makers.length > FIRST_ROWS) {
      placing = setTimeout(() => {
        body.append(...makers.slice(FIRST_ROWS).map((maker) => maker()));
        keepFocus();
      }, 30);
    }
  }

  function drawBoard() {
    const { cells, rows } = rank(state);
    const shown = visibleRows(state, rows);
    const best = Math.max(...rows.map((row) => row.cr ?? 0)) || 1;
    const compared = comparedNames(rows);
    placeRows(shown.map((row) => () => {
      const { tr, pick } = fillRow(row, best);
      pick.checked = compared.includes(row.defense.name);
      pick.disabled = !pick.checked && state.compare !== null && compared.length >= Address.MOST_COMPARED;
      return tr;
    }));
    for (const heading of document.querySelectorAll("#board thead th[data-key]")) {
      if (heading.getAttribute("data-key") !== state.sort) heading.removeAttribute("aria-sort");
      else heading.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
    }
    const complete = rows.filter((row) => row.rank !== null).length;
    const attacks = new Set(cells.attack.filter((attack) => attack >= 0)).size;
    const isOfficial = writeSelection(state.selection) === official;
    Page.element("status").textContent =
      `${isOfficial ? "Official ranking" : "Your ranking"}: ${Page.counted(complete, "defense")} ranked` +
      `${complete < rows.length ? `, ${rows.length - complete} incomplete` : ""}${shown.length < rows.length ? `, ${shown.length} shown` : ""}. ` +
      `${Page.counted(attacks, "attack")}, ${Page.counted(cells.attack.length, "cell")} with the clean accuracy.`;
    Page.element("choice-summary").textContent =
      `${isOfficial ? "official set: " : ""}${attacks} of ${Page.counted(board.attacks.length, "attack")}, ${Page.counted(cells.attack.length, "cell")}`;
    /** @type {HTMLButtonElement} */ (Page.element("official")).disabled =
      isOfficial && state.order === "average" && state.mode === "individual" && state.sort === "rank" && !state.descending;
  }

  // ---- the choice of attacks -----------------------------------------------------------------------------------------

  /** @type {Map<string, {box: HTMLInputElement, from: HTMLSelectElement, to: HTMLSelectElement, name: HTMLElement}>} */
  const choosers = new Map();

  function buildChoice() {
    const target = Page.element("attacks");
    let group = "";
    for (const attack of board.attacks) {
      const oneUnit = board.attacks.every((other) => other.group !== attack.group || other.axis === attack.axis);
      if (attack.group !== group) {
        group = attack.group;
        target.append(make("h3", {}, oneUnit ? `${group}: ${attack.axis}` : group));
      }
      const box = /** @type {HTMLInputElement} */ (make("input", { type: "checkbox", value: attack.name }));
      const options = () => attack.strengths.map((strength, level) => make("option", { value: `${level}` }, Page.number(strength)));
      const [from, to] = ["from", "to"].map((word) => /** @type {HTMLSelectElement} */ (
        make("select", { "aria-label": `${attack.label}: strengths ${word}` }, ...options())));
      const name = make("span", { class: "name" }, attack.label);
      box.addEventListener("change", () => selectLevels(attack, box.checked ? everyLevel(attack) : []));
      from.addEventListener("change", () => selectRange(attack, Number(from.value), Math.max(Number(from.value), Number(to.value))));
      to.addEventListener("change", () => selectRange(attack, Math.min(Number(from.value), Number(to.value)), Number(to.value)));
      target.append(make("div", { class: "attack" }, make("label", {}, box, name), from, make("span", { class: "soft small" }, "to"), to,
        ...(oneUnit ? [] : [make("span", { class: "unit" }, attack.axis)])));
      choosers.set(attack.name, { box, from, to, name });
    }
    for (const button of document.querySelectorAll("[data-preset]")) {
      button.addEventListener("click", () => change({ selection: preset(button.getAttribute("data-preset") ?? "") }));
    }
    const trained = /** @type {HTMLSelectElement} */ (Page.element("trained"));
    for (const attack of board.attacks) {
      if (board.defenses.some((defense) => attack.name in defense.trainedOn)) trained.append(make("option", { value: attack.name }, attack.label));
    }
    Page.element("trained-field").hidden = trained.options.length === 1 && !state.trained;
    Page.element("extra-field").hidden = !board.defenses.some(KNOWN.extra) && !state.extra;
  }

  /** @param {string} name @returns {Choice} */
  function preset(name) {
    if (name === "all") return select(() => true);
    if (name === "norms") return select((attack) => attack.group === "Norms");
    if (name === "none") return {};
    if (name === "official") return officialSelection();
    const chosen = Object.keys(state.selection);
    return Object.fromEntries(chosen.map((attackName) => {
      const levels = everyLevel(/** @type {Attack} */ (attackNamed.get(attackName)));
      const half = Math.ceil(levels.length / 2);
      return [attackName, name === "weak" ? levels.slice(0, half) : name === "strong" ? levels.slice(-half) : levels];
    }));
  }

  /**
   * @param {Attack} attack
   * @param {number[]} levels
   */
  function selectLevels(attack, levels) {
    const { [attack.name]: _, ...others } = state.selection;
    change({ selection: levels.length > 0 ? { ...others, [attack.name]: levels } : others });
  }

  /**
   * @param {Attack} attack
   * @param {number} from
   * @param {number} to
   */
  function selectRange(attack, from, to) {
    selectLevels(attack, everyLevel(attack).slice(from, to + 1));
  }

  function drawChoice() {
    for (const attack of board.attacks) {
      const chooser = choosers.get(attack.name);
      const levels = state.selection[attack.name] ?? [];
      if (!chooser) continue;
      const first = levels[0] ?? 0;
      const last = levels.at(-1) ?? attack.strengths.length - 1;
      chooser.box.checked = levels.length > 0;
      chooser.from.disabled = chooser.to.disabled = levels.length === 0;
      chooser.from.value = `${first}`;
      chooser.to.value = `${last}`;
      const gaps = levels.length > 0 && levels.length < last - first + 1;
      chooser.name.textContent = gaps ? `${attack.label} (${Page.counted(levels.length, "strength")})` : attack.label;
    }
  }

  // ---- the comparison --------------------------------------------------------------------------------------------------

  /** @param {Row[]} rows in the order of their ranks */
  function comparedNames(rows) {
    if (state.compare) return state.compare;
    const own = rows.filter((row) => row.defense.ownRun).slice(0, 2);
    const first = rows.filter((row) => !own.includes(row)).slice(0, FIRST_COMPARED);
    return rows.filter((row) => first.includes(row) || own.includes(row)).map((row) => row.defense.name);
  }

  /**
   * @param {string} name
   * @param {boolean} wanted
   */
  function toggleCompared(name, wanted) {
    const now = comparedNames(rank(state).rows).filter((other) => other !== name);
    change({ compare: wanted ? [...now, name].slice(0, Address.MOST_COMPARED) : now });
  }

  function comparedRows() {
    const { rows } = rank(state);
    const byName = new Map(rows.map((row) => [row.defense.name, row]));
    return comparedNames(rows).flatMap((name) => byName.get(name) ?? []);
  }

  function drawComparison() {
    const chosen = comparedRows();
    drawChips(chosen);
    drawFacts(chosen, rank(state).cells);
    Page.element("compare-note").textContent = chosen.length === 0
      ? "Tick up to five defenses in the board." : `${chosen.length} of at most five; tick defenses in the board to change them.`;
  }

  function drawPlots() {
    if (!(/** @type {any} */ (globalThis).Plotly)) return;
    const { cells } = rank(state);
    const kind = kindOf(state);
    const entries = comparedRows().map(({ defense }) => ({
      defense, accuracies: Metrics.accuraciesAt(board, defense, cells), seen: Metrics.seenAt(board, defense, cells),
    }));
    const attacks = new Set(cells.attack.filter((attack) => attack >= 0)).size;
    const heights = Plots.heights(attacks, entries.length, innerWidth);
    arrangePlots(attacks > Plots.MOST_ABREAST);
    const strength = Page.element("plot-strength");
    Page.draw(strength, () => Plots.strengthPlot(board, cells, entries, Page.widthOf(strength)));
    Page.draw(Page.element("plot-single"), () => Plots.singlePlot(board, cells, entries, kind, heights.single));
    Page.draw(Page.element("plot-reference"), () => Plots.referencePlot(board, cells, entries, heights.reference));
    const seen = Page.element("plot-seen");
    Page.draw(seen, () => Plots.seenPlot(cells, entries, kind, Page.widthOf(seen), heights.seen));
  }

  /**
   * Plots measure their place when they are drawn for the first time, so another arrangement starts them anew.
   * @param {boolean} many
   */
  function arrangePlots(many) {
    const plots = Page.element("plots");
    if (plots.classList.contains("many") === many) return;
    plots.classList.toggle("many", many);
    for (const plot of plots.querySelectorAll(".plot")) /** @type {any} */ (globalThis).Plotly.purge(plot);
  }

  /** @param {Row[]} chosen */
  function drawChips(chosen) {
    const namespace = "http://www.w3.org/2000/svg";
    const dashes = ["", "5 3", "2 2", "5 2 1 2", "8 3"];
    const chips = Page.element("chips");
    const focusInside = chips.contains(document.activeElement);
    chips.replaceChildren(...chosen.map(({ defense }, i) => {
      const swatch = document.createElementNS(namespace, "svg");
      swatch.setAttribute("class", "swatch");
      swatch.setAttribute("viewBox", "0 0 21 12");
      swatch.setAttribute("aria-hidden", "true");
      const line = document.createElementNS(namespace, "path");
      line.setAttribute("d", "M0 6h21");
      line.setAttribute("style", `stroke: var(--series-${i + 1}); stroke-width: 3; stroke-dasharray: ${dashes[i]}`);
      swatch.append(line);
      const remove = make("button", { type: "button", "aria-label": `Remove ${defense.name} from the comparison` }, "×");
      remove.addEventListener("click", () => toggleCompared(defense.name, false));
      return make("span", { class: "chip" }, swatch, make("span", { class: "label" }, defense.name), remove);
    }));
    if (focusInside) chips.querySelector("button")?.focus();
  }

  /**
   * @param {Row[]} chosen
   * @param {Cells} cells
   */
  function drawFacts(chosen, cells) {
    const place = (/** @type {number} */ cell) => (cells.attack[cell] < 0 ? "clean" : `${board.attacks[cells.attack[cell]].label} ${Page.number(cells.strength[cell])}`);
    const noted = chosen.some((row) => row.defense.notes);
    const rows = chosen.map((row) => make("tr", {},
      make("th", { scope: "row" }, ...breakable(row.defense.name)),
      make("td", {}, row.trained),
      make("td", { class: "number" }, fixed(row.scFloored)),
      make("td", {}, row.witness ? `${place(row.witness[0])} and ${place(row.witness[1])}` : "–"),
      ...(noted ? [make("td", {}, row.defense.notes || "–")] : [])));
    const titles = ["Defense", "Trained against", "SC, pairs ≥ 1 point apart", "SC decided between", ...(noted ? ["Notes"] : [])];
    const head = make("tr", {}, ...titles.map((title, i) =>
      make("th", { scope: "col", class: i === 2 ? "number" : "" }, title)));
    const table = make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
    Page.element("facts").replaceChildren(...(rows.length > 0
      ? [make("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Details of the compared defenses" }, table)] : []));
  }

  // ---- taking the table away ---------------------------------------------------------------------------------------------

  /** @param {string} format */
  function exportTable(format) {
    const rows = visibleRows(state, rank(state).rows);
    if (format === "csv") return download("leaderboard.csv", "text/csv", Exports.csv(rows));
    if (format === "json") return download("leaderboard.json", "application/json", Exports.json(board, kindOf(state), state.selection, rows));
    Page.element("export-title").textContent = format === "latex" ? "LaTeX" : "Markdown";
    const area = /** @type {HTMLTextAreaElement} */ (Page.element("export-text"));
    const columns = shownColumns.filter((column) => column.key !== "architecture");
    area.value = format === "latex" ? Exports.latex(columns, rows) : Exports.markdown(columns, rows);
    /** @type {HTMLDialogElement} */ (Page.element("export")).showModal();
    area.select();
    return undefined;
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

  // ---- everything together -------------------------------------------------------------------------------------------------


  let state = Address.read(board, location.hash);
  /** @type {number | undefined} */
  let pending;

  /** @param {Partial<State>} changes */
  function change(changes) {
    state = { ...state, ...changes };
    draw();
    const address = location.href.split("#")[0] + Address.write(board, state);
    if (address !== location.href) history.replaceState(null, "", address);
  }

  function draw() {
    drawControls();
    drawBoard();
    drawChoice();
    drawComparison();
    drawPlotsSoon();
  }

  /** The board answers at once; the plots follow when nothing else changes for a moment. */
  function drawPlotsSoon() {
    clearTimeout(pending);
    pending = setTimeout(drawPlots, 60);
  }

  function drawControls() {
    for (const input of document.querySelectorAll(".segments input")) {
      const radio = /** @type {HTMLInputElement} */ (input);
      radio.checked = radio.value === (radio.name === "board" ? state.order : state.mode);
    }
    const search = /** @type {HTMLInputElement} */ (Page.element("search"));
    if (search.value !== state.query) search.value = state.query;
    /** @type {HTMLSelectElement} */ (Page.element("extra")).value = state.extra;
    /** @type {HTMLSelectElement} */ (Page.element("trained")).value = state.trained;
  }

  function listen() {
    for (const input of document.querySelectorAll(".segments input")) {
      const radio = /** @type {HTMLInputElement} */ (input);
      radio.addEventListener("change", () => change(radio.name === "board"
        ? { order: /** @type {Order} */ (radio.value) } : { mode: /** @type {Mode} */ (radio.value) }));
    }
    const search = /** @type {HTMLInputElement} */ (Page.element("search"));
    search.addEventListener("input", () => change({ query: search.value }));
    const extra = /** @type {HTMLSelectElement} */ (Page.element("extra"));
    extra.addEventListener("change", () => change({ extra: extra.value }));
    const trained = /** @type {HTMLSelectElement} */ (Page.element("trained"));
    trained.addEventListener("change", () => change({ trained: trained.value }));
    Page.element("official").addEventListener("click", () => change(Address.start(board)));
    for (const button of document.querySelectorAll("[data-export]")) {
      button.addEventListener("click", () => exportTable(button.getAttribute("data-export") ?? ""));
    }
    Page.element("copy").addEventListener("click", () => {
      const area = /** @type {HTMLTextAreaElement} */ (Page.element("export-text"));
      area.select();
      if (navigator.clipboard) void navigator.clipboard.writeText(area.value);
    });
    addEventListener("hashchange", () => {
      state = Address.read(board, location.hash);
      draw();
    });
    let width = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth === width) return;
      width = innerWidth;
      drawPlotsSoon();
    });
  }

  /** The plots come after the first board is on screen: their library is most of the site. */
  function loadPlots() {
    const script = document.createElement("script");
    script.src = "plotly.min.js";
    script.addEventListener("load", drawPlots);
    document.body.append(script);
  }

  Page.startTheme();
  Page.startPrinting(620);
  buildHead();
  buildChoice();
  listen();
  draw();
  requestAnimationFrame(() => setTimeout(loadPlots, 0));
})();
