// @ts-check
"use strict";

/**
 * The table of the board: its rows, their details, and the row of the reader's own model, which stays in sight.
 *
 * @typedef {{tr: HTMLElement, pick: HTMLInputElement, more: HTMLElement, cells: Map<string, HTMLElement>, key: string}} Built
 * @typedef {{change: (changes: Partial<State>) => void, toggleCompared: (name: string, wanted: boolean) => void}} Actions
 */
const Table = (() => {
  const { make } = Page;
  const FIRST_ROWS = 40;

  /**
   * A name that may be broken at its joints.
   * @param {Defense} defense
   */
  function nameOf(defense) {
    const label = defense.parts.flatMap((part, i) => (i === 0 ? [part] : [make("wbr"), part]));
    const whole = defense.parts.join("") === defense.name ? {} : { title: defense.name };
    return make("span", { class: "model", ...whole }, ...label);
  }

  /**
   * @param {Board} board
   * @param {Actions} act
   */
  function of(board, act) {
    const table = Page.element("board");
    const body = /** @type {HTMLElement} */ (table.querySelector("tbody"));
    const head = /** @type {HTMLElement} */ (table.querySelector("thead"));
    /** @type {Map<string, Built>} */
    const built = new Map();
    /** @type {Set<string>} names of the rows whose details are open */
    const open = new Set();
    /** @type {Column[]} */
    let columns = [];
    /** @type {number | undefined} */
    let placing;
    /** @type {{rows: Row[], compared: string[], full: boolean, pinned: string}} */
    let last = { rows: [], compared: [], full: false, pinned: "" };

    /** @param {Column[]} wanted */
    function setColumns(wanted) {
      if (wanted.map((column) => column.key).join() === columns.map((column) => column.key).join()) return;
      columns = wanted;
      built.clear();
      const headings = columns.map((column) => {
        const button = make("button", { type: "button", title: column.hint, "data-sort": column.key }, column.title);
        return make("th", { scope: "col", class: column.kind, "data-key": column.key }, button);
      });
      const pick = make("th", { scope: "col", class: "pick" }, make("span", { class: "hidden-visually" }, "Details and comparison"));
      head.replaceChildren(make("tr", {}, pick, ...headings));
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
      const tr = make("tr", defense.ownRun ? { class: "own" } : {}, make("td", { class: "pick" }, make("span", {}, more, pick)));
      /** @type {Map<string, HTMLElement>} */
      const cells = new Map();
      for (const column of columns) {
        const attributes = { class: `${column.kind} ${column.key}`, "data-key": column.key };
        const cell = column.key === "defense" ? headingOf(defense) : make("td", attributes);
        cells.set(column.key, cell);
        tr.append(cell);
      }
      const row = { tr, pick, more, cells, key: "" };
      built.set(defense.name, row);
      return row;
    }

    /** @param {Defense} defense */
    function headingOf(defense) {
      const name = defense.url ? make("a", { href: defense.url, rel: "noopener" }, nameOf(defense)) : nameOf(defense);
      const tags = [...(defense.ownRun ? [make("span", { class: "tag" }, "your run")] : []),
        ...(defense.few ? [make("span", { class: "tag few", title: "Other rows rest on far more images; this place says little" },
          `only ${Page.counted(defense.samples ?? 0, "image")}`)] : [])];
      return make("th", { scope: "row", class: "name", "data-key": "defense", "data-name": defense.name }, name, ...tags);
    }

    /** @param {Row} row */
    function fillRow(row) {
      const target = built.get(row.defense.name) ?? buildRow(row.defense);
      const key = JSON.stringify([row.rank, row.range, row.before, row.cr, row.span, row.sc, row.seen, row.uar, row.missing]);
      if (target.key === key) return target;
      target.key = key;
      target.tr.classList.toggle("incomplete", row.missing > 0);
      for (const column of columns) {
        const cell = target.cells.get(column.key);
        if (!cell || column.key === "defense") continue;
        if (column.key === "cr") cell.replaceChildren(...ratioCell(row));
        else if (column.key === "rank") cell.replaceChildren(...rankCell(row));
        else cell.replaceChildren(column.show(row), ...(column.below?.(row) ? [make("small", {}, column.below(row))] : []));
      }
      return target;
    }

    /** @param {Row} row */
    function rankCell(row) {
      const range = Columns.rangeOf(row);
      const moved = row.before !== null && row.rank !== null && row.before !== row.rank;
      return [String(row.rank ?? "–"), ...(range ? [make("small", { title: "Places that the intervals leave open" }, range)] : []),
        ...(moved ? [make("small", { class: "before" }, `was ${row.before}`)] : [])];
    }

    /** @param {Row} row */
    function ratioCell(row) {
      if (row.cr === null) {
        const own = make("button", { type: "button" }, "Rank on its cells");
        own.addEventListener("click", () => act.change({ selection: cellsOfDefense(row.defense) }));
        return [make("span", {}, `incomplete, ${row.missing} missing`), own];
      }
      const at = (/** @type {number} */ value) => `${Math.max(0, Math.min(100, value))}%`;
      const fill = make("i");
      fill.style.width = at(row.cr);
      const bar = make("span", { class: "bar", "aria-hidden": "true" }, fill);
      if (!row.span) return [Columns.fixed(row.cr), make("small", {}, "images unknown"), bar];
      const whisker = make("b");
      whisker.style.left = at(row.span[0]);
      whisker.style.right = `calc(100% - ${at(row.span[1])})`;
      bar.append(whisker);
      return [Columns.fixed(row.cr), make("small", {}, Columns.between(row.span)), bar];
    }

    /** @param {Defense} defense @returns {Choice} */
    function cellsOfDefense(defense) {
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
        ["Images", defense.samples === null ? "not known" : Columns.whole(defense.samples)], ["Notes", defense.notes],
      ].filter(([, text]) => text).map(([term, text]) => make("div", {}, make("dt", {}, term), make("dd", {}, text)));
      const strips = board.attacks.filter(({ name }) => defense.accuracies[name]).map((attack) => make("tr", {},
        make("th", { scope: "row" }, attack.label),
        make("td", { class: "range" }, `${Page.number(attack.strengths[0])} to ${Page.number(attack.strengths.at(-1) ?? 0)}`),
        ...attack.strengths.map((strength, level) => cellOf(defense, attack.name, strength, level))));
      const most = Math.max(...board.attacks.map((attack) => attack.strengths.length));
      const cells = make("table", { class: "cells" },
        make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Attack"), make("th", { scope: "col" }, "Strengths"),
          make("th", { scope: "colgroup", colspan: `${most}` }, "Accuracy, %, weakest to strongest"))), make("tbody", {}, ...strips));
      const frame = make("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": `All accuracies of ${defense.name}` }, cells);
      return make("tr", { class: "detail" }, make("td", { colspan: `${columns.length + 1}` },
        make("div", { class: "sheet" }, make("dl", {}, ...facts), ...(strips.length > 0 ? [frame] : []))));
    }

    /**
     * @param {Defense} defense
     * @param {string} attack
     * @param {number} strength
     * @param {number} level
     */
    function cellOf(defense, attack, strength, level) {
      const value = defense.accuracies[attack][level];
      if (value === null || value === undefined) return make("td", {}, "–");
      const [low, high] = [defense.low[attack]?.[level], defense.high[attack]?.[level]];
      const interval = low === null || low === undefined ? "" : ` (${Columns.between([low, high ?? 100])})`;
      const cell = make("td", { class: `cell${value >= 73 ? " top" : value >= 58 ? " upper" : ""}`,
        title: `strength ${Page.number(strength)}: ${Columns.fixed(value)}%${interval}` }, value.toFixed(0));
      cell.style.setProperty("--shade", `${value}%`);
      return cell;
    }

    /** Put rows into the board: those that fit on a screen now, the others after the next paint. The focus stays. */
    function place() {
      const focused = document.activeElement;
      const keepFocus = () => {
        if (focused instanceof HTMLElement && focused !== document.activeElement && body.contains(focused)) focused.focus({ preventScroll: true });
      };
      const lines = (/** @type {Row[]} */ rows) => rows.flatMap((row) => {
        const name = row.defense.name;
        const { tr, pick, more } = fillRow(row);
        pick.checked = last.compared.includes(name);
        pick.disabled = !pick.checked && last.full;
        pick.title = pick.disabled ? "Five are compared; untick one first" : "";
        more.setAttribute("aria-expanded", String(open.has(name)));
        tr.classList.toggle("pinned", name === last.pinned);
        return open.has(name) ? [tr, detailOf(row)] : [tr];
      });
      clearTimeout(placing);
      body.replaceChildren(...lines(last.rows.slice(0, FIRST_ROWS)));
      if (last.rows.length === 0) {
        body.append(make("tr", {}, make("td", { colspan: `${columns.length + 1}` }, "No defense matches. Clear the search or the filters.")));
      }
      keepFocus();
      if (last.rows.length > FIRST_ROWS) {
        placing = setTimeout(() => {
          body.append(...lines(last.rows.slice(FIRST_ROWS)));
          keepFocus();
        }, 30);
      }
    }

    /**
     * @param {State} state
     * @param {Row[]} rows those that are shown, in their order
     * @param {string[]} compared
     * @param {string} pinned name of the row that comes first and stays in sight
     */
    function draw(state, rows, compared, pinned) {
      const first = rows.filter(({ defense }) => defense.name === pinned);
      last = { rows: [...first, ...rows.filter((row) => !first.includes(row))], compared, full: compared.filter(Boolean).length >= Address.MOST_COMPARED, pinned };
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
      built.get(name)?.tr.nextElementSibling?.scrollIntoView({ block: "center" });
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
