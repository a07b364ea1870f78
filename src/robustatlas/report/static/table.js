// @ts-check
"use strict";

/**
 * The table of the board: its rows, their details, and the row of the reader's own model, which stays in sight.
 *
 * Each row is a grid of its own with widths that are measured once, and says which of how many it is, as of a long board most
 * are not in the document (groups.js). A cell is written only where its words have changed.
 *
 * @typedef {{node: HTMLElement, lines: string[]}} Written a cell and what it says
 * @typedef {{tr: HTMLElement, pick: HTMLInputElement, more: HTMLElement, cells: Map<string, Written>}} Built
 * @typedef {{change: (changes: Partial<State>) => void, toggleCompared: (name: string, wanted: boolean) => void}} Actions
 */
const Table = (() => {
  const { make } = Page;
  /** What a number is that is masked stands last, in as many lines as its column has room for. */
  const MARKED = { 1: { class: "masked" } };
  const OTHER_THREAT = "Searched under another threat model than the reference's: what is said beside it holds about";

  /**
   * A name that may be broken at its joints.
   * @param {Defense} defense
   */
  function nameOf(defense) {
    const label = defense.parts.flatMap((part, i) => (i === 0 ? [part] : [make("wbr"), part]));
    const node = make("span", { class: "model" }, ...label);
    if (defense.parts.join("") !== defense.name) node.title = defense.name;
    return node;
  }

  /**
   * @param {Defense} defense
   * @param {boolean} mixed whether the board has rows of others as well
   */
  function tagsOf(defense, mixed) {
    return [...(defense.ownRun && mixed ? [make("span", { class: "tag" }, "your run")] : []),
      ...(defense.trainings ? [make("span", { class: "tag" }, `mean of ${defense.trainings.length} seeds`)] : []),
      ...(defense.few ? [make("span", { class: "tag few", title: "Other rows rest on far more images; this place says little" },
        `only ${Page.counted(defense.samples ?? 0, "image")}`)] : [])];
  }

  /**
   * What a cell says: its number or words, and what stands small below.
   * @param {Column} column
   * @param {Row} row
   */
  function linesOf({ key, show, below, masked }, row) {
    const mark = masked(row) ? Columns.MASKED : "";
    if (key === "rank") {
      const moved = row.before !== null && row.rank !== null && row.before !== row.rank;
      return [show(row), Columns.rangeOf(row) && row.rank !== null ? `${row.rank} by number` : "", moved ? `was ${row.before}` : ""];
    }
    if (key === "cr" && row.cr === null) return [`incomplete, ${row.missing} missing`];
    if (key === "cr") return [show(row), row.span ? Columns.between(row.span) : row.trainings.length > 0 ? "all alike" : "images unknown", mark];
    return [show(row), below?.(row) ?? "", mark];
  }

  /** @param {string[]} lines @param {{[line: number]: Record<string, string>}} [attributes] of small ones */
  function written([first, ...small], attributes = {}) {
    return [first, ...small.flatMap((text, i) => (text ? [make("small", attributes[i] ?? {}, text)] : []))];
  }

  /**
   * What a cell of a column holds.
   * @param {Column} column
   * @param {Row} row
   * @param {string[]} lines
   * @param {(defense: Defense) => void} rankOnItsEntries
   */
  function contentOf({ key }, row, lines, rankOnItsEntries) {
    if (key === "rank") return written(lines, { 0: { title: "The place by the number alone, which the intervals do not tell from the others" }, 1: { class: "before" } });
    if (key !== "cr") return written(lines, MARKED);
    if (row.cr === null) {
      const own = make("button", { type: "button" }, "Rank on its entries");
      own.addEventListener("click", () => rankOnItsEntries(row.defense));
      return [make("span", {}, lines[0]), own];
    }
    const at = (/** @type {number} */ value) => `${Math.max(0, Math.min(100, value))}%`;
    const ends = row.span ? `; --low: ${at(row.span[0])}; --high: ${at(row.span[1])}` : "";
    return [...written(lines, MARKED), make("span", { class: row.span ? "bar ranged" : "bar", "aria-hidden": "true", style: `--value: ${at(row.cr)}${ends}` })];
  }

  /** Room that a text takes, in units of its own. @type {(text: string) => number} */
  const roomOf = (() => {
    const context = document.createElement("canvas").getContext("2d");
    if (context) context.font = getComputedStyle(document.body).font;
    return (text) => context?.measureText(text).width ?? text.length;
  })();

  /**
   * Rows that hold the widest text of each line of a column; digits are equally wide, so for numbers the longest is that.
   * @param {Column} column
   * @param {Row[]} rows
   * @param {(row: Row) => string[]} linesFor
   */
  function widestOf(column, rows, linesFor) {
    /** @type {{row: Row, room: number}[]} */
    const found = [];
    const room = column.kind === "text" ? roomOf : (/** @type {string} */ text) => text.length;
    for (const row of rows) {
      const lines = linesFor(row);
      // What is said instead of a number is another kind of line.
      const shift = column.key === "cr" && row.cr === null ? 2 : 0;
      lines.forEach((text, i) => {
        const wanted = room(text);
        if (wanted > (found[i + shift]?.room ?? 0)) found[i + shift] = { row, room: wanted };
      });
    }
    return [...new Set(found.filter(Boolean).map(({ row }) => row))];
  }

  /**
   * @param {Board} board
   * @param {Actions} act
   */
  function of(board, act) {
    const table = /** @type {HTMLTableElement} */ (Page.element("board"));
    const head = /** @type {HTMLElement} */ (table.querySelector("thead"));
    const mixed = board.defenses.some(({ ownRun }) => !ownRun);
    table.classList.toggle("mixed", mixed);
    /** Trainings of a row of several: they are shown below it where it is open, have no place and are not compared. */
    const trainings = new Set(board.defenses.flatMap((defense) => defense.trainings ?? []));
    /** @type {Map<string, Built>} */
    const built = new Map();
    /** @type {Map<string, HTMLElement>} */
    const details = new Map();
    /** @type {Set<string>} names of the rows whose details are open */
    const open = new Set();
    /** @type {Column[]} */
    let columns = [];
    /** @type {Map<string, Record<string, string>>} widths by what they were measured for */
    const measured = new Map();
    /** @type {Map<Row, string[][]>} what the cells of each row say, in the order of the columns */
    let said = new Map();
    /** @type {Map<Row, number>} */
    let places = new Map();
    /** @type {{rows: Row[], all: Row[], compared: string[], full: boolean, pinned: string}} */
    let last = { rows: [], all: [], compared: [], full: false, pinned: "" };

    /** Where letters and margins are smaller, as in the style sheet. */
    const narrow = matchMedia("(max-width: 640px)");
    narrow.addEventListener("change", () => setWidths(last.all));

    const groups = Groups.of(table, board.long, linesFor, nothing);
    const place = () => groups.place(last.rows, last.pinned);

    const rankOnItsEntries = (/** @type {Defense} */ defense) => act.change({ selection: entriesOfDefense(defense) });

    /** @param {Column[]} wanted */
    function setColumns(wanted) {
      if (wanted.map((column) => column.key).join() === columns.map((column) => column.key).join()) return;
      columns = wanted;
      built.clear();
      details.clear();
      const headings = columns.map((column) => {
        const button = make("button", { type: "button", title: column.hint, "data-sort": column.key }, column.title);
        return make("th", { role: "columnheader", scope: "col", class: column.kind, "data-key": column.key }, button);
      });
      const pick = make("th", { role: "columnheader", scope: "col", class: "pick" }, make("span", { class: "hidden-visually" }, "Details and comparison"));
      head.replaceChildren(make("tr", { role: "row" }, pick, ...headings));
    }

    /**
     * The least width of each column, from its heading and the widest that stands in it, as the browser measures it; it is not
     * asked twice about texts of the same lengths.
     * @param {Row[]} rows of the whole board: filters move no column
     */
    function setWidths(rows) {
      const widest = columns.map((column, i) => (column.key === "defense" ? [] : widestOf(column, rows, (row) => said.get(row)?.[i] ?? [])));
      const lengths = columns.map(({ key }, i) => [key, widest[i].map((row) => said.get(row)?.[i].map((line) => line.length))]);
      const wanted = JSON.stringify([narrow.matches, lengths]);
      const found = measured.get(wanted) ?? measure(rows, widest);
      measured.set(wanted, found);
      for (const [name, value] of Object.entries(found)) if (table.style.getPropertyValue(name) !== value) table.style.setProperty(name, value);
    }

    /**
     * @param {Row[]} rows
     * @param {Row[][]} widest by the columns
     */
    function measure(rows, widest) {
      const widestOfAll = (/** @type {string[]} */ texts) => texts.reduce((a, b) => (roomOf(b) > roomOf(a) ? b : a), "");
      const widestPart = widestOfAll([...new Set(rows.flatMap(({ defense }) => defense.parts))]);
      const widestName = widestOfAll(rows.map(({ defense }) => defense.parts.join("")));
      const few = rows.filter(({ defense }) => defense.few).sort((a, b) => (b.defense.samples ?? 0) - (a.defense.samples ?? 0)).slice(0, 1);
      const names = make("th", { class: "name" }, make("div", {}, widestPart), make("div", { class: "whole" }, widestName), ...rows.filter(({ defense }) => defense.trainings).slice(0, 1).flatMap(({ defense }) => tagsOf(defense, mixed)), ...few.flatMap(({ defense }) => tagsOf(defense, mixed)));
      const samples = columns.map((column, i) => (column.key === "defense" ? names : make("td", { class: `${column.kind} ${column.key}` },
        ...widest[i].map((row) => make("div", {}, ...contentOf(column, row, linesOf(column, row), rankOnItsEntries))))));
      const headings = [...head.querySelectorAll("th")].map((heading) => /** @type {HTMLElement} */ (heading.cloneNode(true)));
      for (const heading of headings) heading.setAttribute("aria-sort", "ascending");
      const pick = make("td", { class: "pick" }, make("span", {}, make("button", { class: "more" }), make("input", { type: "checkbox" })));
      const ruler = make("thead", { class: "ruler", inert: "" }, make("tr", {}, ...headings), make("tr", { class: "incomplete" }, pick, ...samples));
      ruler.style.gridTemplateColumns = `repeat(${columns.length + 1}, min-content)`;
      table.append(ruler);
      const { gridTemplateColumns, gridTemplateRows } = getComputedStyle(ruler);
      const widths = gridTemplateColumns.split(" ").map((width) => Math.ceil(parseFloat(width)));
      const height = gridTemplateRows.split(" ")[0];
      ruler.remove();
      const tracks = widths.map((width, i) => (i === 0 ? `${width}px` : `minmax(${width}px, ${columns[i - 1].key === "defense" ? 4 : 1}fr)`));
      return { "--columns": tracks.join(" "), "--least": `${widths.reduce((sum, width) => sum + width, 0)}px`, "--head": height };
    }

    /** @param {Defense} defense @returns {Built} */
    function buildRow(defense) {
      const pick = /** @type {HTMLInputElement} */ (make("input", { type: "checkbox", "aria-label": `Compare ${defense.name}` }));
      pick.addEventListener("change", () => act.toggleCompared(defense.name, pick.checked));
      const more = make("button", { type: "button", class: "more", "aria-expanded": "false", "aria-label": `Details of ${defense.name}` });
      more.addEventListener("click", () => {
        if (!open.delete(defense.name)) open.add(defense.name);
        place();
      });
      pick.hidden = trainings.has(defense);
      const tr = make("tr", { role: "row", class: `${defense.ownRun ? "own" : ""} ${trainings.has(defense) ? "training" : ""}` }, make("td", { role: "cell", class: "pick" }, make("span", {}, more, pick)));
      /** @type {Map<string, Written>} */
      const cells = new Map();
      for (const column of columns) {
        if (column.key === "defense") {
          tr.append(headingOf(defense));
          continue;
        }
        const node = make("td", { role: "cell", class: `${column.kind} ${column.key}`, "data-key": column.key });
        cells.set(column.key, { node, lines: [] });
        tr.append(node);
      }
      const row = { tr, pick, more, cells };
      built.set(defense.name, row);
      return row;
    }

    /** @param {Defense} defense */
    function headingOf(defense) {
      const name = defense.url ? make("a", { href: defense.url, rel: "noopener" }, nameOf(defense)) : nameOf(defense);
      return make("th", { role: "rowheader", scope: "row", class: "name", "data-key": "defense", "data-name": defense.name }, name, ...tagsOf(defense, mixed && !trainings.has(defense)));
    }

    /** @param {Row} row */
    function fillRow(row) {
      const target = built.get(row.defense.name) ?? buildRow(row.defense);
      target.tr.classList.toggle("incomplete", row.missing > 0);
      const texts = said.get(row) ?? [];
      for (const [i, column] of columns.entries()) {
        const cell = target.cells.get(column.key);
        if (!cell) continue;
        const lines = texts[i];
        if (lines.length === cell.lines.length && lines.every((line, i) => line === cell.lines[i])) continue;
        cell.lines = lines;
        cell.node.replaceChildren(...contentOf(column, row, lines, rankOnItsEntries));
      }
      return target;
    }

    /** @param {Defense} defense @returns {Choice} */
    function entriesOfDefense(defense) {
      const has = (/** @type {Attack} */ { name }) => defense.accuracies[name]?.some((value) => value !== null);
      const ranked = board.attacks.filter((attack) => attack.ranked && has(attack));
      return Object.fromEntries((ranked.length > 0 ? ranked : board.attacks.filter(has)).map(({ name, strengths }) =>
        [name, strengths.flatMap((_, level) => ((defense.accuracies[name][level] ?? null) === null ? [] : [level]))]));
    }

    /** @param {Row} row */
    function detailOf(row) {
      const { defense } = row;
      const facts = [
        ["Name", defense.parts.join("") === defense.name ? "" : defense.name], ["Paper", defense.title], ["Trained against", row.trained], ["Architecture", defense.architecture],
        ["Extra data", row.extra === "–" ? "" : row.extra], ["Training", defense.petaflops === null ? "" : `${Columns.whole(defense.petaflops)} PetaFLOPs`],
        ["Trainings", (defense.trainings ?? []).map(({ name }) => name).join(", ")], ["Images", defense.samples === null ? "not known" : Columns.whole(defense.samples)], ["Notes", defense.notes],
      ].filter(([, text]) => text).map(([term, text]) => make("div", {}, make("dt", {}, term), make("dd", {}, text)));
      const strips = board.attacks.filter(({ name }) => defense.accuracies[name]).map((attack) => make("tr", {},
        make("th", { scope: "row", ...(defense.ownThreats.includes(attack.name) ? { class: "hatched", title: OTHER_THREAT } : {}) }, attack.label,
          ...(defense.invalid.includes(attack.name) ? [make("small", {}, Columns.MASKED)] : [])),
        ...attack.written.map((strength, level) => cellOf(defense, attack.name, strength, level)))).concat(
        board.attacks.filter(({ name }) => defense.certified[name]).map((attack) => make("tr", { class: "certified" },
          make("th", { scope: "row" }, `${attack.label} certified, at least`),
          ...attack.written.map((strength, level) => certifiedCell(defense, attack.name, strength, level)))));
      const most = Math.max(...board.attacks.map((attack) => attack.strengths.length));
      const cells = make("table", { class: "cells" },
        make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Attack"),
          make("th", { scope: "colgroup", colspan: `${most}` }, "Accuracy, %, at each strength"))), make("tbody", {}, ...strips));
      const frame = make("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": `All accuracies of ${defense.name}` }, cells);
      return make("tr", { role: "row", class: "detail" }, make("td", { role: "cell", colspan: `${columns.length + 1}` },
        make("div", { class: "sheet" }, make("dl", {}, ...facts), ...(strips.length > 0 ? [frame] : []))));
    }

    /**
     * @param {Defense} defense
     * @param {string} attack
     * @param {string} strength
     * @param {number} level
     */
    function cellOf(defense, attack, strength, level) {
      const value = defense.accuracies[attack][level];
      if (value === null || value === undefined) return make("td", {}, "–");
      const [low, high] = [defense.low[attack]?.[level], defense.high[attack]?.[level]];
      const interval = low === null || low === undefined ? "" : ` (${Columns.between([low, high ?? 100])})`;
      return shaded(value, strength, `strength ${strength}: ${Columns.fixed(value, Columns.digitsOf(defense))}%${interval}`);
    }

    /**
     * @param {Defense} defense
     * @param {string} attack
     * @param {string} strength
     * @param {number} level
     */
    function certifiedCell(defense, attack, strength, level) {
      const value = defense.certified[attack][level];
      if (value === null || value === undefined) return make("td", {}, "–");
      return shaded(value, strength, `strength ${strength}: certified, at least ${Columns.fixed(value, Columns.digitsOf(defense))}%`);
    }

    /**
     * @param {number} value in percent
     * @param {string} strength
     * @param {string} said
     */
    function shaded(value, strength, said) {
      const cell = make("td", { role: "cell", class: `cell${value >= 73 ? " top" : value >= 58 ? " upper" : ""}`, "aria-label": said }, Page.fixed(value, 0), make("small", {}, strength));
      cell.style.setProperty("--shade", `${value}%`);
      return cell;
    }

    /** @param {Row} row @returns {HTMLElement[]} its line, and its details and trainings where they are open */
    function linesFor(row) {
      const { name } = row.defense;
      const { tr, pick, more } = fillRow(row);
      const index = places.get(row);
      if (index !== undefined) tr.setAttribute("aria-rowindex", `${index + 2}`);
      pick.checked = last.compared.includes(name);
      pick.disabled = !pick.checked && last.full;
      pick.title = pick.disabled ? "Five are compared; untick one first" : "";
      more.setAttribute("aria-expanded", String(open.has(name)));
      tr.classList.toggle("pinned", name === last.pinned);
      if (!open.has(name)) return [tr];
      const detail = details.get(name) ?? detailOf(row);
      details.set(name, detail);
      return [tr, detail, ...row.trainings.flatMap(linesFor)];
    }

    function nothing() {
      return make("tr", { role: "row" }, make("td", { role: "cell", colspan: `${columns.length + 1}` }, "No defense matches. Clear the search or the filters."));
    }

    /**
     * @param {State} state
     * @param {Row[]} rows those that are shown, in their order
     * @param {Row[]} all those of the board
     * @param {string[]} compared
     * @param {string} pinned name of the row that comes first and stays in sight
     */
    function draw(state, rows, all, compared, pinned) {
      const first = rows.filter(({ defense }) => defense.name === pinned);
      const others = first.length > 0 ? rows.filter((row) => row !== first[0]) : rows;
      const every = all.flatMap((row) => [row, ...row.trainings]);
      last = { rows: [...first, ...others], all: every, compared, full: compared.length >= Address.MOST_COMPARED, pinned };
      said = new Map(every.map((row) => [row, columns.map((column) => linesOf(column, row))]));
      places = new Map(last.rows.map((row, place) => [row, place]));
      table.setAttribute("aria-rowcount", `${last.rows.length + 1}`);
      setWidths(every);
      place();
      for (const heading of head.querySelectorAll("th[data-key]")) {
        if (heading.getAttribute("data-key") !== state.sort) heading.removeAttribute("aria-sort");
        else heading.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
      }
    }

    /** Bring a row into sight with its details. @param {string} name */
    function show(name) {
      open.add(name);
      place();
      groups.reveal(name);
      details.get(name)?.scrollIntoView({ block: "center" });
      built.get(name)?.more.focus({ preventScroll: true });
    }

    /** @param {(key: string) => void} sort */
    function onSort(sort) {
      head.addEventListener("click", (event) => {
        const key = event.target instanceof Element && event.target.closest("button")?.getAttribute("data-sort");
        if (key) sort(key);
      });
    }

    return { setColumns, draw, show, onSort };
  }

  return { of, nameOf };
})();
