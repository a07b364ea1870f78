// @ts-check
"use strict";

/**
 * The table as text: CSV and JSON with full precision, LaTeX and Markdown as it is shown. Each says which board it is of.
 *
 * @typedef {{board: Board, kind: Kind, selection: Choice}} View
 */
const Exports = (() => {
  /**
   * The attacks and strengths that count.
   * @param {View} view
   */
  function attacksOf({ board, selection }) {
    return Object.fromEntries(board.attacks.filter(({ name }) => selection[name]?.length)
      .map(({ name, written }) => [name, selection[name].map((level) => written[level])]));
  }

  /**
   * What the table is of, in one line.
   * @param {View} view
   * @param {(strengths: string[]) => string} [range] what is said of the strengths of an attack
   */
  function heading(view, range = (strengths) => strengths.join(" ")) {
    const attacks = Object.entries(attacksOf(view)).map(([name, strengths]) => `${name} (${range(strengths)})`);
    const against = view.board.compared ? `CR ${view.kind}; reference ${view.board.reference.name}${view.board.reference.trained ? "" : ` (${view.board.reference.what})`}` : `${view.kind.endsWith("g") || view.kind === "exp" ? "Average" : "Lowest"} accuracy; no reference`;
    return `${against}; 95% intervals; clean and ${attacks.join(", ") || "no attack"}`;
  }

  /**
   * Text that no spreadsheet takes for a formula.
   * @param {string} text
   */
  function inert(text) {
    return /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  }

  /**
   * @param {View} view
   * @param {Row[]} rows
   */
  function csv(view, rows) {
    const quote = (/** @type {string} */ text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const attacks = Object.entries(attacksOf(view)).map(([name, strengths]) => `${name}:${strengths.join(" ")}`).join("; ");
    const own = [...new Set(rows.flatMap(({ defense }) => Object.keys(defense.own)))];
    const lines = [["rank", "rank_best", "rank_worst", "defense", "images", "cr", "cr_low", "cr_high", "clean", "clean_low", "clean_high", "sc",
      "sc_floor_1", "seen", "uar", "union", "hypervolume_linf", "train_petaflops", "hypervolume_is", "extra_data", "architecture", "missing_entries", "paper", "board",
      "reference", "attacks", "sc_low", "sc_high", "sc_floor_1_low", "sc_floor_1_high", "masked", "trainings", ...own]];
    for (const row of rows) {
      const { defense } = row;
      const numbers = [row.cr, row.span?.[0], row.span?.[1], defense.clean, defense.cleanBounds?.[0], defense.cleanBounds?.[1], row.sc,
        row.scFloored, row.seen, row.uar, defense.union, defense.hypervolume, defense.petaflops];
      lines.push([row.rank, row.range?.[0], row.range?.[1]].map((place) => String(place ?? "")).concat(
        inert(defense.name), String(defense.samples ?? ""), numbers.map((value) => String(value ?? "")), defense.hypervolumeIs, String(defense.extraData ?? ""),
        inert(defense.architecture), String(row.missing), inert(defense.url), view.kind, inert(view.board.reference.name), inert(attacks),
        [...(row.scSpan ?? ["", ""]), ...(row.scFlooredSpan ?? ["", ""])].map(String), row.masked.length > 0 ? Columns.MASKED : "", String(row.trainings.length || 1),
        own.map((name) => String(defense.own[name] ?? ""))));
    }
    return lines.map((line) => line.map(quote).join(",")).join("\r\n") + "\r\n";
  }

  /**
   * @param {View} view
   * @param {Row[]} rows
   */
  function json(view, rows) {
    return JSON.stringify({
      kind: view.kind, reference: view.board.reference.name, confidence: 0.95, attacks: attacksOf(view),
      rows: rows.map(({ defense, rank, range, cr, span, sc, scSpan, scFloored, scFlooredSpan, masked, seen, uar, missing, trainings }) => ({
        rank, rankRange: range, name: defense.name, trainings: trainings.map((one) => one.defense.name), images: defense.samples, clean: defense.clean, cleanInterval: defense.cleanBounds,
        cr, crInterval: span, sc, scInterval: scSpan, scFloored, scFlooredInterval: scFlooredSpan, masked: masked.length > 0 ? Columns.MASKED : null, seen, uar, union: defense.union, own: defense.own, hypervolume: defense.hypervolume, hypervolumeIs: defense.hypervolumeIs, missing, extraData: defense.extraData,
        petaflops: defense.petaflops, architecture: defense.architecture, trainedOn: defense.trainedOn && defense.trainedTyped, title: defense.title,
        url: defense.url, notes: defense.notes,
      })),
    }, null, 1);
  }

  /**
   * What a cell says on paper: with its interval where it has one.
   * @param {Column} column
   * @param {Row} row
   */
  function written(column, row) {
    const mark = column.masked(row) ? `, ${Columns.MASKED}` : "";
    if (column.key === "cr" && row.span) return `${column.show(row)} (${Columns.between(row.span, Columns.digitsOf(row.defense))})${mark}`;
    const range = column.key === "rank" && row.rank !== null && Columns.rangeOf(row) ? `${row.rank} by number` : "";
    const said = range || (column.below?.(row) ?? "");
    return `${column.show(row)}${said ? ` (${said})` : ""}${mark}`;
  }

  /**
   * @param {View} view
   * @param {Column[]} columns
   * @param {Row[]} rows
   */
  function latex(view, columns, rows) {
    /** @type {Record<string, string>} */
    const special = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "–": "--", "∞": "$\\infty$" };
    const escape = (/** @type {string} */ text) => text.replace(/[\\~^–∞&%$#_{}]/g, (sign) => special[sign] ?? `\\${sign}`);
    const line = (/** @type {string[]} */ cells) => `${cells.map(escape).join(" & ")} \\\\`;
    return [
      `% ${heading(view).replace(/\s+/g, " ")}`,
      `\\begin{tabular}{${columns.map((column) => (column.kind === "number" ? "r" : "l")).join("")}}`, "\\toprule",
      line(columns.map((column) => column.title)), "\\midrule",
      ...rows.map((row) => line(columns.map((column) => written(column, row)))), "\\bottomrule", "\\end{tabular}", "",
    ].join("\n");
  }

  /**
   * @param {View} view
   * @param {Column[]} columns
   * @param {Row[]} rows
   */
  function markdown(view, columns, rows) {
    const escape = (/** @type {string} */ text) => text.replace(/[\\`*_[\]<>|#~&]/g, "\\$&").replace(/\s+/g, " ");
    const line = (/** @type {string[]} */ cells) => `| ${cells.join(" | ")} |`;
    return [
      line(columns.map((column) => column.title)),
      line(columns.map((column) => (column.kind === "number" ? "---:" : "---"))),
      ...rows.map((row) => line(columns.map((column) => escape(written(column, row))))), "", escape(heading(view)), "",
    ].join("\n");
  }

  return { heading, csv, json, latex, markdown };
})();
