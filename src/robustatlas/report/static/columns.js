// @ts-check
"use strict";

/**
 * The columns of the board: those that are usual, and all that can be chosen.
 *
 * @typedef {Summary & {defense: Defense, about: boolean, rank: number | null, range: [number, number] | null, before: number | null,
 *   extra: string, trained: string, haystack: string, trainings: Row[]}} Row
 * @typedef {{key: string, entries: Entries, rows: Row[]}} Ranked all rows of one view, by their ranks; `key` says which view
 *
 * `below` is what stands small under it on the screen, and `masked` whether the number rests on attacks under which the row is
 * masked: an upper bound only.
 * @typedef {{key: string, title: string, hint: string, kind: "number" | "text", value: (row: Row) => number | string | null,
 *   show: (row: Row) => string, below?: (row: Row) => string, masked: (row: Row) => boolean, descends: boolean, usual: boolean}} Column
 */
const Columns = (() => {
  const inThousands = new Intl.NumberFormat("en");
  /** @param {number | null | undefined} value @param {number} [digits] */
  const fixed = (value, digits = 2) => (value === null || value === undefined ? "–" : Page.fixed(value, digits));
  /** Decimals that so many images bear: a second one means nothing where one image moves the first. @param {Defense} defense */
  const digitsOf = ({ samples }) => ((samples ?? 0) < 10_000 ? 1 : 2);
  /** Three significant digits and two decimals at most, of numbers that a few images decide. @param {number | null | undefined} value */
  const rough = (value) => (value === null || value === undefined ? "–" : inThousands.format(Number(Page.fixed(Page.precise(value, 3), 2))));
  /** @param {number | null} value */
  const whole = (value) => (value === null ? "–" : inThousands.format(value));
  /** @param {[number, number] | number[] | null | undefined} span @param {number} [digits] */
  const between = (span, digits = 1) => (span ? `${Page.fixed(span[0], digits)} to ${Page.fixed(span[1], digits)}` : "");
  /** The interval of an accuracy; null where the number of images is not known. @param {Defense} defense @param {string} attack @param {number} level */
  const spanAt = ({ low, high }, attack, level) => {
    const [from, to] = [low[attack]?.[level] ?? null, high[attack]?.[level] ?? null];
    return from === null || to === null ? null : [from, to];
  };
  /** @param {number[] | null} span */
  const roughly = (span) => (span ? `${rough(span[0])} to ${rough(span[1])}` : "");
  const MASKED = "upper bound only";
  /** @param {Row} row */
  const rangeOf = ({ range }) => (range && range[0] < range[1] ? `${range[0]} to ${range[1]}` : "");

  /**
   * Whether a row searched another threat model than the reference under an attack that counts, so that its place holds about.
   * @param {{defense: Defense}} row
   * @param {Entries} entries
   * @param {Board} board
   */
  const isAbout = ({ defense }, entries, board) =>
    defense.ownThreats.some((name) => entries.attack.some((attack) => attack >= 0 && board.attacks[attack].name === name));

  /**
   * What the number is called by which the board ranks.
   * @param {Board} board
   */
  function ratioOf(board) {
    return board.compared ? { short: "CR", name: "competitiveness ratio", hint: "Competitiveness ratio" }
      : { short: "Average", name: "average accuracy", hint: "Average over attacks, strengths and the clean images, or the lowest accuracy," };
  }

  /** @param {Board} board @returns {Column[]} */
  function of(board) {
    const { defenses } = board;
    /** @param {Partial<Column> & {key: string, title: string, hint: string, value: Column["value"]}} column @returns {Column} */
    const number = (column) => ({
      kind: "number", show: (row) => fixed(/** @type {number | null} */ (column.value(row)), digitsOf(row.defense)), descends: true, usual: true,
      masked: () => false, ...column,
    });
    const byEntries = (/** @type {Row} */ row) => row.masked.length > 0;
    /** @type {Column[]} */
    const columns = [
      number({ key: "rank", title: "Rank", hint: `Place by the ${board.compared ? "competitiveness ratio, ties by the lower stability constant" : "average accuracy"}: those that the intervals leave open; below, the one by the number alone`,
        value: (row) => row.rank, show: (row) => (row.rank === null ? "–" : `${row.about ? "about " : ""}${rangeOf(row) || row.rank}`), descends: false }),
      number({ key: "defense", title: "Defense", hint: "Name, linked to the paper", kind: "text",
        value: (row) => row.defense.name, show: (row) => row.defense.name, descends: false }),
      // The headline: the accuracies at the strengths that papers give come before every average.
      ...standards(board).map(({ attack, level, name, hint }) => number({ key: `robust-${attack.name}`, title: `${name}, %`, hint,
        value: ({ defense }) => defense.accuracies[attack.name]?.[level] ?? null, masked: ({ defense }) => defense.invalid.includes(attack.name),
        below: ({ defense }) => ((defense.certified[attack.name]?.[level] ?? null) !== null ? `certified ≥ ${fixed(defense.certified[attack.name][level], digitsOf(defense))}` : between(spanAt(defense, attack.name, level))) })),
      number({ key: "cr", title: `${ratioOf(board).short}, %`, hint: `${ratioOf(board).hint} with its 95% interval`, value: (row) => row.cr, masked: byEntries }),
      number({ key: "clean", title: "Clean, %", hint: "Accuracy on unperturbed images", value: (row) => row.defense.clean }),
      ...(board.compared ? [number({ key: "sc", title: "SC, lower: steadier", hint: "Stability constant as published, with its 95% interval; lower is steadier; – where the training is not stated, or no pair of entries is close enough",
        usual: false, value: (row) => row.sc, show: (row) => rough(row.sc), below: (row) => roughly(row.scSpan), masked: byEntries, descends: false }),
      number({ key: "sc1", title: "SC, pairs ≥ 1 apart", hint: "Stability constant by pairs of entries at least one point of difficulty apart, which no few images decide; lower is steadier",
        usual: false, value: (row) => row.scFloored, show: (row) => rough(row.scFloored), below: (row) => roughly(row.scFlooredSpan), masked: byEntries, descends: false }),
      number({ key: "seen", title: "Seen, %", hint: "Share of the entries inside the training attacks", value: (row) => row.seen }),
      number({ key: "uar", title: "mUAR, %", hint: "Unforeseen attack robustness, mean over the attacks", value: (row) => row.uar, masked: byEntries })] : []),
      number({ key: "samples", title: "Images", hint: "Test images behind every accuracy of the row",
        value: (row) => row.defense.samples, show: (row) => whole(row.defense.samples) }),
    ];
    /** What no defense of the board has said needs no column. @param {(defense: Defense) => boolean} known @param {Column} column */
    const where = (known, column) => { if (defenses.some(known)) columns.push(column); };
    /** What withstands all attacks stands before an average over attacks and strengths. */
    if (defenses.some((defense) => defense.union !== null)) columns.splice(board.compared ? columns.length : columns.findIndex(({ key }) => key === "cr"), 0, number({ key: "union", title: "Union, %", hint: "Accuracy under all ranked attacks at once, each at the strength that papers give, or else at the middle one of its strengths",
      usual: !board.compared, value: (row) => row.defense.union, masked: ({ defense }) => board.attacks.some(({ name, ranked }) => ranked && defense.invalid.includes(name)) }));
    /** Of a telephone one number is in view: the one that ranks. */
    if (matchMedia("(max-width: 640px)").matches) columns.splice(2, 0, ...columns.splice(columns.findIndex(({ key }) => key === "cr"), 1));
    for (const name of new Set(defenses.flatMap((defense) => Object.keys(defense.own)))) {
      columns.push(number({ key: name, title: `${name}, %`, hint: name.startsWith("UA2") ? "Mean accuracy under the eight core attacks of ImageNet-UA at this level"
        : "Accuracy under all core attacks of ImageNet-UA at once, up to this level", usual: name === "UA2 medium", value: (row) => row.defense.own[name] ?? null, masked: ({ defense }) => defense.invalid.length > 0 }));
    }
    where((defense) => defense.hypervolume !== null, number({ key: "hypervolume", title: `AH ${board.hypervolume}`, hint: `Adversarial hypervolume under ${board.hypervolume}, 0 to 1`,
      value: (row) => row.defense.hypervolume, show: ({ defense }) => fixed(defense.hypervolume, 3), below: ({ defense }) => (defense.invalid.includes("linf") ? "" : defense.hypervolumeIs),
      masked: ({ defense }) => defense.invalid.includes("linf") }));
    where((defense) => defense.petaflops !== null, number({ key: "petaflops", title: "PetaFLOPs", hint: "Cost of the training", usual: false,
      value: (row) => row.defense.petaflops, show: (row) => whole(row.defense.petaflops), descends: false }));
    where((defense) => defense.extraData !== null, number({ key: "extra", title: "Extra data", hint: "Trained with more than the data set's own images",
      kind: "text", usual: false, value: (row) => row.extra, show: (row) => row.extra, descends: false }));
    where((defense) => defense.architecture !== "", number({ key: "architecture", title: "Architecture", hint: "Network", kind: "text", usual: false,
      value: (row) => row.defense.architecture, show: (row) => row.defense.architecture || "–", descends: false }));
    return [...columns, ...board.attacks.map((attack, index) => number({
      key: `attack-${attack.name}`, title: `${attack.label}${board.compared ? " CR" : ""}, %`, usual: false,
      hint: `${board.compared ? "Average ratio" : "Average accuracy"} under ${attack.label} alone, at all its strengths`, value: singleRatio(board, attack, index),
      masked: ({ defense }) => defense.invalid.includes(attack.name),
    }))];
  }

  /**
   * @param {Board} board
   * @param {Attack} attack
   * @param {number} index
   */
  function singleRatio(board, attack, index) {
    const entries = Metrics.entriesOf(board, { [attack.name]: attack.strengths.map((_, level) => level) });
    /** @type {Map<Defense, number | null>} */
    const known = new Map();
    return (/** @type {Row} */ { defense }) => {
      const found = known.get(defense);
      if (found !== undefined) return found;
      const ratio = Metrics.ratioOn(Metrics.accuraciesAt(board, defense, entries), entries, "ind-avg", Metrics.indicesOf(entries, index, true));
      known.set(defense, ratio);
      return ratio;
    };
  }

  /**
   * The robust accuracies that papers give, at the strengths of the board nearest to theirs.
   * @param {Board} board
   */
  function standards(board) {
    return board.attacks.flatMap((attack) => {
      if (!attack.standard) return [];
      const { level, strength, exact } = attack.standard;
      const here = attack.written[level];
      return [{ attack, level, name: `${attack.label} ${here}`,
        hint: `Robust accuracy under ${attack.label} at ${here}${exact ? "" : `, the strength of the board nearest to ${strength}`}` }];
    });
  }

  /**
   * @param {Column[]} columns
   * @param {State} state
   */
  function shown(columns, state) {
    const { columns: chosen } = state;
    if (!chosen) return columns.filter((column) => column.usual);
    return columns.filter((column) => ["rank", "defense", "cr"].includes(column.key) || chosen.includes(column.key));
  }

  return { MASKED, of, ratioOf, shown, fixed, rough, roughly, digitsOf, whole, between, rangeOf, isAbout };
})();
