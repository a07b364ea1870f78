// @ts-check
"use strict";

/**
 * What the reader chose, and how the address bar keeps it.
 *
 * @typedef {"average" | "worst"} Order
 * @typedef {"individual" | "aggregated"} Mode
 *
 * Everything on the page follows from this and from the data. `compare` null means the first rows of the board. `columns` null means the usual ones; `across` is what the overview plots.
 * @typedef {{order: Order, mode: Mode, selection: Choice, sort: string, descending: boolean, query: string,
 *   extra: string, trained: string, compare: string[] | null, columns: string[] | null, across: "clean" | "petaflops"}} State
 */
const Address = (() => {
  const MOST_COMPARED = 5;
  /** @param {Attack} attack */
  const everyLevel = (attack) => attack.strengths.map((_, level) => level);

  /**
   * The choices of attacks that a board allows, and their text.
   * @param {Board} board
   */
  function of(board) {
    /** @param {(attack: Attack) => boolean} wanted @returns {Choice} */
    const select = (wanted) => Object.fromEntries(board.attacks.filter(wanted).map((attack) => [attack.name, everyLevel(attack)]));
    const officialSelection = () => select((attack) => attack.ranked);
    /** @param {Choice} selection */
    const writeSelection = (selection) => board.attacks.flatMap(({ name, strengths }) => {
      const levels = selection[name] ?? [];
      if (levels.length === 0) return [];
      return [levels.length === strengths.length ? name : `${name}:${writeLevels(levels)}`];
    }).join(",");
    return { everyLevel, select, officialSelection, writeSelection };
  }

  /**
   * Levels as ranges that count from one: [0, 1, 2, 5] is "1-3.6".
   * @param {number[]} levels
   */
  function writeLevels(levels) {
    /** @type {[number, number][]} */
    const ranges = [];
    for (const level of levels) {
      const last = ranges.at(-1);
      if (last && last[1] === level - 1) last[1] = level;
      else ranges.push([level, level]);
    }
    return ranges.map(([from, to]) => (from === to ? `${from + 1}` : `${from + 1}-${to + 1}`)).join(".");
  }

  /**
   * @param {string} text
   * @param {number} count levels that the attack has
   */
  function readLevels(text, count) {
    const levels = new Set(text.split(".").flatMap((range) => {
      const [from, to = from] = range.split("-").map(Number);
      if (!Number.isInteger(from) || !Number.isInteger(to) || from < 1 || to > count) return [];
      return Array.from({ length: Math.max(to - from + 1, 0) }, (_, i) => from - 1 + i);
    }));
    return [...levels].sort((a, b) => a - b);
  }

  /**
   * @param {Board} board
   * @param {string} text
   * @returns {Choice}
   */
  function readSelection(board, text) {
    return Object.fromEntries(text.split(",").flatMap((part) => {
      const [name, levels] = part.split(":");
      const attack = board.attacks.find((candidate) => candidate.name === name);
      if (!attack) return [];
      const chosen = levels === undefined ? everyLevel(attack) : readLevels(levels, attack.strengths.length);
      return chosen.length > 0 ? [[name, chosen]] : [];
    }));
  }

  /**
   * The official ranking, nothing filtered.
   * @param {Board} board
   * @returns {State}
   */
  function start(board) {
    return {
      order: "average", mode: "individual", selection: of(board).officialSelection(), sort: "rank", descending: false, query: "",
      extra: "", trained: "", compare: null, columns: null, across: "clean",
    };
  }

  /**
   * The part of the address after the page: empty for the official ranking, else "#...".
   * @param {Board} board
   * @param {State} state
   */
  function write(board, state) {
    const { writeSelection, officialSelection } = of(board);
    const query = new URLSearchParams();
    if (state.order !== "average") query.set("board", state.order);
    if (state.mode !== "individual") query.set("ratios", state.mode);
    const attacks = writeSelection(state.selection);
    if (attacks !== writeSelection(officialSelection())) query.set("attacks", attacks || "none");
    if (state.sort !== "rank" || state.descending) query.set("sort", `${state.descending ? "-" : ""}${state.sort}`);
    if (state.query) query.set("q", state.query);
    if (state.extra) query.set("extra", state.extra);
    if (state.trained) query.set("trained", state.trained);
    if (state.compare?.length === 0) query.set("compare", "");
    for (const name of state.compare ?? []) query.append("compare", name);
    if (state.columns) query.set("columns", state.columns.join(","));
    if (state.across !== "clean") query.set("across", state.across);
    const text = query.toString().replaceAll("%2C", ",").replaceAll("%3A", ":");
    return text && `#${text}`;
  }

  /**
   * @param {Board} board
   * @param {string} hash what `write` gave; whatever is not understood is left at its default
   * @returns {State}
   */
  function read(board, hash) {
    const query = new URLSearchParams(hash.slice(1));
    const state = start(board);
    if (query.get("board") === "worst") state.order = "worst";
    if (query.get("ratios") === "aggregated") state.mode = "aggregated";
    const attacks = query.get("attacks");
    if (attacks !== null) state.selection = readSelection(board, attacks);
    const sort = query.get("sort") ?? "rank";
    state.sort = sort.replace(/^-/, "");
    state.descending = sort.startsWith("-");
    state.query = query.get("q") ?? "";
    const [extra, trained] = [query.get("extra") ?? "", query.get("trained") ?? ""];
    state.extra = ["yes", "no"].includes(extra) ? extra : "";
    state.trained = board.attacks.some((attack) => attack.name === trained) ? trained : "";
    if (query.has("compare")) {
      const known = (/** @type {string} */ name) => board.defenses.some((defense) => defense.name === name);
      state.compare = [...new Set(query.getAll("compare").filter(known))].slice(0, MOST_COMPARED);
    }
    state.columns = query.get("columns")?.split(",").filter(Boolean) ?? null;
    if (query.get("across") === "petaflops") state.across = "petaflops";
    return state;
  }

  return { MOST_COMPARED, of, start, write, read };
})();
