// @ts-check
"use strict";

/**
 * Which rows of the board are in the document. Rows are taken in groups, each a body of the table. Of a long board only the
 * groups near the screen are drawn, and besides its first and last ones, the one with the focus, and on paper all; the
 * others leave their room.
 *
 * @typedef {{place: (rows: Row[], pinned: string) => void, reveal: (name: string) => void}} Groups
 */
const Groups = (() => {
  const { make } = Page;
  /** Rows of a short board that are drawn before the first paint; the others follow it. */
  const FIRST_ROWS = 40;
  const GROUP = 20;
  /** Height of a row that was never drawn, in the letters of the page. */
  const USUAL_ROW = 3.9;

  /**
   * @param {HTMLTableElement} table
   * @param {boolean} long
   * @param {(row: Row) => HTMLElement[]} linesFor its line, and its details where they are open
   * @param {() => HTMLElement} nothing the line of a board without rows
   * @returns {Groups}
   */
  function of(table, long, linesFor, nothing) {
    /** @type {WeakMap<Element, Row[]>} */
    const rowsIn = new WeakMap();
    /** @type {WeakMap<Row["defense"], number>} of rows that were drawn once: the mean height in their group */
    const heights = new WeakMap();
    /** @type {Set<Element>} */
    const near = new Set();
    const usual = USUAL_ROW * parseFloat(getComputedStyle(document.body).fontSize);
    let onPaper = false;
    /** @type {number | undefined} */
    let placing;

    const nearness = new IntersectionObserver((changes) => {
      for (const { target, isIntersecting } of changes) {
        if (isIntersecting) near.add(target);
        else near.delete(target);
        fill(/** @type {HTMLElement} */ (target));
      }
    }, { root: table.parentElement, rootMargin: "100% 0%" });

    /** @param {HTMLElement} body */
    function isDrawn(body) {
      const place = [...table.tBodies].indexOf(/** @type {HTMLTableSectionElement} */ (body));
      return !long || onPaper || near.has(body) || body.contains(document.activeElement) || place < 2 || place === table.tBodies.length - 1;
    }

    /** Of the pinned row only the line stays in sight; its details come first in the next group. @param {HTMLElement} body */
    function linesOf(body) {
      const [rows, above] = [rowsIn.get(body) ?? [], body.previousElementSibling];
      if (body.classList.contains("pinned")) return linesFor(rows[0]).slice(0, 1);
      if (above?.classList.contains("pinned")) return [...linesFor((rowsIn.get(above) ?? [])[0]).slice(1), ...rows.flatMap(linesFor)];
      return rows.length > 0 ? rows.flatMap(linesFor) : [nothing()];
    }

    /** @param {HTMLElement} body */
    function fill(body) {
      const rows = rowsIn.get(body) ?? [];
      const drawn = isDrawn(body);
      if (!drawn && body.childElementCount > 0) {
        const height = body.clientHeight / rows.length;
        for (const { defense } of rows) heights.set(defense, height);
      }
      const lines = drawn ? linesOf(body) : [];
      if (lines.length !== body.childElementCount || lines.some((line, k) => line !== body.children[k])) body.replaceChildren(...lines);
      body.style.height = drawn ? "" : `${rows.reduce((sum, { defense }) => sum + (heights.get(defense) ?? usual), 0)}px`;
    }

    /**
     * The rows in groups; the pinned row stands alone, as it moves against all others.
     * @param {Row[]} rows
     * @param {string} pinned
     */
    function inGroups(rows, pinned) {
      const alone = rows[0]?.defense.name === pinned ? 1 : 0;
      const groups = alone ? [rows.slice(0, 1)] : [];
      for (let i = alone; i < Math.max(rows.length, alone + 1); i += GROUP) groups.push(rows.slice(i, i + GROUP));
      return groups;
    }

    /**
     * Put rows into the board; at the start those that fit on a screen, the others after the first paint. The focus stays.
     * @param {Row[]} rows
     * @param {string} pinned name of the row that stays in sight
     */
    function place(rows, pinned) {
      clearTimeout(placing);
      const bodies = [...table.tBodies];
      const first = !long && bodies.length === 1 && bodies[0].childElementCount === 0 ? FIRST_ROWS : Infinity;
      const focused = document.activeElement;
      const groups = inGroups(rows.slice(0, first), pinned);
      for (const left of bodies.slice(groups.length)) {
        nearness.unobserve(left);
        near.delete(left);
        left.remove();
      }
      groups.forEach((group, i) => {
        const body = bodies[i] ?? table.appendChild(make("tbody", { role: "rowgroup" }));
        rowsIn.set(body, group);
        body.classList.toggle("pinned", group[0]?.defense.name === pinned);
        if (long) nearness.observe(body);
      });
      for (const body of table.tBodies) fill(body);
      if (focused instanceof HTMLElement && focused !== document.activeElement && table.contains(focused)) focused.focus({ preventScroll: true });
      if (rows.length > first) placing = setTimeout(() => place(rows, pinned), 30);
    }

    /** Have a row in the document. @param {string} name */
    function reveal(name) {
      const body = [...table.tBodies].find((group) => rowsIn.get(group)?.some(({ defense }) => defense.name === name));
      if (!body) return;
      near.add(body);
      fill(body);
    }

    for (const event of ["beforeprint", "afterprint"]) {
      addEventListener(event, () => {
        onPaper = event === "beforeprint";
        for (const body of table.tBodies) fill(body);
      });
    }

    return { place, reveal };
  }

  return { of };
})();
