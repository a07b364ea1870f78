// @ts-check
"use strict";

/**
 * The table as text: CSV and JSON with full precision, LaTeX and Markdown as it is shown.
 *
 * @typedef {Summary & {defense: Defense, rank: number | null, extra: string, trained: string, haystack: string}} Row
 * @typedef {{key: string, title: string, hint: string, kind: "number" | "text", value: (row: Row) => number | string | null,
 *   show: (row: Row) => string, descends: boolean}} Column
 */
const Exports = (() => {
  /** @param {Row[]} rows */
  function csv(rows) {
    const quote = (/** @type {string} */ text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const lines = [["rank", "defense", "clean", "cr", "cr_half_width", "sc", "sc_floor_1", "seen", "uar", "hypervolume", "hypervolume_is",
      "extra_data", "architecture", "missing_cells", "paper"]];
    for (const row of rows) {
      const { defense } = row;
      const numbers = [defense.clean, row.cr, row.halfWidth, row.sc, row.scFloored, row.seen, row.uar, defense.hypervolume];
      lines.push([String(row.rank ?? ""), defense.name, ...numbers.map((value) => String(value ?? "")), defense.hypervolumeIs,
        String(defense.extraData ?? ""), defense.architecture, String(row.missing), defense.url]);
    }
    return lines.map((line) => line.map(quote).join(",")).join("\r\n") + "\r\n";
  }

  /**
   * @param {Board} board
   * @param {Kind} kind
   * @param {Choice} selection
   * @param {Row[]} rows
   */
  function json(board, kind, selection, rows) {
    const attacks = board.attacks.filter(({ name }) => selection[name]?.length)
      .map(({ name, strengths }) => [name, selection[name].map((level) => strengths[level])]);
    return JSON.stringify({
      kind, reference: board.reference.name, attacks: Object.fromEntries(attacks),
      rows: rows.map(({ defense, rank, cr, halfWidth, sc, scFloored, seen, uar, missing }) => ({
        rank, name: defense.name, clean: defense.clean, cr, halfWidth, sc, scFloored, seen, uar, hypervolume: defense.hypervolume,
        hypervolumeIs: defense.hypervolumeIs, missing, extraData: defense.extraData, architecture: defense.architecture, trainedOn: defense.trainedOn,
        title: defense.title, url: defense.url,
      })),
    }, null, 1);
  }

  /**
   * @param {Column[]} columns
   * @param {Row[]} rows
   */
  function latex(columns, rows) {
    /** @type {Record<string, string>} */
    const special = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "–": "--" };
    const escape = (/** @type {string} */ text) => text.replace(/[\\~^–&%$#_{}]/g, (sign) => special[sign] ?? `\\${sign}`);
    const line = (/** @type {string[]} */ cells) => `${cells.map(escape).join(" & ")} \\\\`;
    return [
      `\\begin{tabular}{${columns.map((column) => (column.kind === "number" ? "r" : "l")).join("")}}`, "\\toprule",
      line(columns.map((column) => column.title)), "\\midrule",
      ...rows.map((row) => line(columns.map((column) => column.show(row)))), "\\bottomrule", "\\end{tabular}", "",
    ].join("\n");
  }

  /**
   * @param {Column[]} columns
   * @param {Row[]} rows
   */
  function markdown(columns, rows) {
    const escape = (/** @type {string} */ text) => text.replace(/[\\`*_[\]<>|#~&]/g, "\\$&").replace(/\s+/g, " ");
    const line = (/** @type {string[]} */ cells) => `| ${cells.join(" | ")} |`;
    return [
      line(columns.map((column) => column.title)),
      line(columns.map((column) => (column.kind === "number" ? "---:" : "---"))),
      ...rows.map((row) => line(columns.map((column) => escape(column.show(row))))), "",
    ].join("\n");
  }

  return { csv, json, latex, markdown };
})();
