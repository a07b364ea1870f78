// @ts-check
"use strict";

/**
 * The metrics of the board, recomputed for the entries that the reader chose. Percent throughout.
 * Every function mirrors one of robustatlas.metrics; both run on the same test vectors.
 *
 * @typedef {"ind-avg" | "ind-worst" | "exp" | "max"} Kind
 * @typedef {{name: string, label: string, axis: string, falls: number | null, usual: [number, string] | null, group: string, ranked: boolean,
 *   strengths: number[], written: string[], reference: number[], weights?: number[] | null, standard: {level: number, strength: string, exact: boolean} | null}} Attack
 *
 * `parts` are the pieces of the name between which it may be broken; `trainedOn` null means that nobody said; `trainedTyped` holds its strengths as people type them. `low` and
 * `high` bound the accuracies exactly, as `bounded` reads it off the board; `ratios` are the intervals over all ranked entries, as every page shows them.
 * `few` marks a row that rests on much fewer images than others. `constants` are the intervals of the stability constants
 * over all ranked entries, by their floors; `most` is the largest ratio that is possible, where there is one; `invalid` are the
 * attacks under which its accuracies are masked: upper bounds only, that win nothing; `unranked` says why it has no rank, and is empty
 * where it may have one.
 * @typedef {{name: string, parts: string[], title: string, url: string, architecture: string, extraData: boolean | null,
 *   trainedOn: Record<string, number> | null, trainedTyped: Record<string, number>, trainedWords: Record<string, string>, clean: number | null, accuracies: Record<string, (number | null)[]>,
 *   cleanBounds: number[] | null, low: Record<string, (number | null)[]>, high: Record<string, (number | null)[]>,
 *   ratios: Record<string, number[]>, samples: number | null, few: boolean, hypervolume: number | null, hypervolumeIs: string,
 *   constants: Record<string, number[]>, most: number | null, invalid: string[], unranked: string,
 *   union: number | null, own: Record<string, number>, petaflops: number | null, notes: string, ownRun: boolean, halves: Record<string, string>, ownThreats: string[], headline: string, look: number, certified: Record<string, (number | null)[]>,
 *   trainings?: Defense[], perDeviation?: number}} Defense
 * `trainings` are those whose means a row holds, with the bounds over the choice of trainings; `perDeviation` is half of such an interval
 * in standard deviations.
 * `headline` is the number that comes first of a run, in words;
 * `halves` says for each attack of a run from where on half of the images are wrong; `ownThreats` are attacks whose threat model is not
 * that of the reference, so that what is said beside it holds about; `look` is its place among the looks of the board;
 * `certified` says for each attack that was certified what the accuracy is at least, at every strength.
 *
 * `bounds` holds for each number of images the accuracies `of` the board on so many, and the exact ends of the intervals of each.
 * @typedef {{samples: number, of: number[], low: number[], high: number[]}} Bounds
 *
 * `compared` is false where the reference is only 100% everywhere: ratios to it are the accuracies themselves.
 * @typedef {{title: string, compared: boolean, official: boolean, hypervolume: string, reference: {name: string, source: string, clean: number | null, weight?: number, what: string, trained: boolean}, alpha: number,
 *   long: boolean, attacks: Attack[], defenses: Defense[], bounds: Bounds[], looks: Look[]}} Board
 *
 * The entries that count, as parallel lists; the clean accuracy comes first, as attack -1,
 * where the reference has one. A choice of entries is one of weights 0 and 1; a board of other weights multiplies them.
 * `byReference` lists the entries in increasing order of their reference accuracy.
 * @typedef {{attack: number[], strength: number[], level: number[], reference: number[], weight: number[], byReference: number[]}} Entries
 *
 * Level indices of each attack, by the attack's name; an attack that is absent does not count.
 * @typedef {Record<string, number[]>} Choice
 *
 * @typedef {{accuracies: number[], low: number[] | null, high: number[] | null, sc: number | null, scFloored: number | null,
 *   scSpan: number[] | null, scFlooredSpan: number[] | null, masked: string[], unranked: string,
 *   witness: [number, number] | null, seen: number | null, uar: number | null, missing: number}} Profile
 *
 * @typedef {{cr: number | null, span: [number, number] | null, sc: number | null, scFloored: number | null,
 *   scSpan: number[] | null, scFlooredSpan: number[] | null, masked: string[], unranked: string,
 *   witness: [number, number] | null, seen: number | null, uar: number | null, missing: number}} Summary
 */
const Metrics = (() => {
  /** Two reference accuracies closer than this (percentage points) are a tie, left out of the stability constant. */
  const TIE = 1e-6;
  /** Relative difference up to which two strengths are the same one. */
  const SAME_STRENGTH = 1e-5;

  /**
   * The board with the bounds of every accuracy.
   * @param {Board} board
   */
  function bounded(board) {
    const places = new Map(board.bounds.map(({ samples, of }) => [samples, new Map(of.map((accuracy, place) => [accuracy, place]))]));
    for (const defense of board.defenses.flatMap((each) => each.trainings ?? [each])) {
      const known = board.bounds.find(({ samples }) => samples === defense.samples);
      const place = places.get(defense.samples ?? 0);
      const ends = (/** @type {"low" | "high"} */ end) => Object.fromEntries(Object.entries(defense.accuracies).map(([attack, values]) =>
        [attack, known ? values.map((value) => known[end][place?.get(value ?? NaN) ?? -1] ?? null) : []]));
      [defense.low, defense.high] = [ends("low"), ends("high")];
      const clean = place?.get(defense.clean ?? NaN);
      defense.cleanBounds = known && clean !== undefined ? [known.low[clean], known.high[clean]] : null;
    }
    return board;
  }

  /**
   * @param {Board} board
   * @param {Choice} selection
   * @returns {Entries}
   */
  function entriesOf(board, selection) {
    /** @type {Entries} */
    const entries = { attack: [], strength: [], level: [], reference: [], weight: [], byReference: [] };
    if (board.reference.clean !== null) {
      entries.attack.push(-1);
      entries.strength.push(0);
      entries.level.push(0);
      entries.reference.push(board.reference.clean);
      entries.weight.push(board.reference.weight ?? 1);
    }
    board.attacks.forEach((attack, index) => {
      for (const level of selection[attack.name] ?? []) {
        if (attack.weights?.[level] === 0) continue;
        entries.attack.push(index);
        entries.strength.push(attack.strengths[level]);
        entries.level.push(level);
        entries.reference.push(attack.reference[level]);
        entries.weight.push(attack.weights?.[level] ?? 1);
      }
    });
    entries.byReference = entries.reference.map((_, i) => i).sort((a, b) => entries.reference[a] - entries.reference[b]);
    return entries;
  }

  /**
   * Accuracies of a defense at the entries; NaN where it was not evaluated.
   * @param {Board} board
   * @param {Defense} defense
   * @param {Entries} entries
   */
  function accuraciesAt(board, defense, entries) {
    return valuesAt(board, defense.accuracies, defense.clean, entries);
  }

  /**
   * @param {Board} board
   * @param {Record<string, (number | null)[]>} rows
   * @param {number | null} clean
   * @param {Entries} entries
   */
  function valuesAt(board, rows, clean, entries) {
    const found = board.attacks.map((attack) => rows[attack.name]);
    return entries.attack.map((attack, i) => (attack < 0 ? clean : found[attack]?.[entries.level[i]]) ?? NaN);
  }

  /**
   * Whether each entry belongs to what the defense was trained for: clean, and trained attacks up to the trained strength.
   * @param {Board} board
   * @param {Defense} defense
   * @param {Entries} entries
   */
  function seenAt(board, defense, entries) {
    const trained = board.attacks.map((attack) => defense.trainedOn?.[attack.name] ?? -1);
    return entries.attack.map((attack, i) => attack < 0 || entries.strength[i] <= trained[attack] * (1 + SAME_STRENGTH));
  }

  /**
   * Competitiveness ratio (MultiRobustBench, definitions 3.4 and 3.5, appendix E).
   * @param {number[]} accuracies
   * @param {number[]} reference
   * @param {Kind} kind
   * @param {number[] | null} weight what has none takes no part; null: all alike
   */
  function competitivenessRatio(accuracies, reference, kind, weight = null) {
    const weighed = (/** @type {number[]} */ values) => (weight ? values.map((value, i) => value * weight[i]) : values);
    const counted = (/** @type {number[]} */ values) => (weight ? values.filter((_, i) => weight[i] > 0) : values);
    if (kind === "exp") return (100 * sum(weighed(accuracies))) / sum(weighed(reference));
    if (kind === "max") return (100 * least(counted(accuracies))) / least(counted(reference));
    const ratios = accuracies.map((accuracy, i) => (100 * accuracy) / reference[i]);
    return kind === "ind-worst" ? least(counted(ratios)) : sum(weighed(ratios)) / (weight ? sum(weight) : ratios.length);
  }

  /**
   * A 95% interval of the competitiveness ratio for the draw of test images: the ratio at the exact lower and at the exact
   * upper bounds of its accuracies. It lets all of them err to the same side, so it holds whatever their correlation.
   * @param {number[] | null} low bounds of the accuracies, null where the number of images is unknown
   * @param {number[] | null} high
   * @param {Entries} entries
   * @param {Kind} kind
   * @returns {[number, number] | null}
   */
  function spanOf(low, high, entries, kind) {
    if (!low || !high) return null;
    return [competitivenessRatio(low, entries.reference, kind, entries.weight), competitivenessRatio(high, entries.reference, kind, entries.weight)];
  }

  /**
   * Stability constant (MultiRobustBench, definition 3.7): the steepest change of accuracy between an entry seen in training and
   * any entry whose reference accuracy is at most `alpha` percentage points away.
   * @param {number[]} accuracies
   * @param {Entries} entries
   * @param {boolean[]} seen
   * @param {number} alpha
   * @param {number} floor pairs of entries whose reference accuracies are closer than this are left out
   * @param {number[] | null} [low] bounds of the accuracies
   * @param {number[] | null} [high]
   * @returns {{value: number, pair: [number, number] | null, span: [number, number] | null}} 0 where no pair is admissible;
   *   `span` is between what it lies at the bounds
   */
  function stabilityConstant(accuracies, entries, seen, alpha, floor, low = null, high = null) {
    const order = entries.byReference;
    let [value, least, most] = [0, 0, 0];
    /** @type {[number, number] | null} */
    let pair = null;
    for (let position = 0; position < order.length; position++) {
      const from = order[position];
      if (!seen[from]) continue;
      for (const step of [-1, 1]) {
        for (let other = position + step; other >= 0 && other < order.length; other += step) {
          const to = order[other];
          const distance = Math.abs(entries.reference[from] - entries.reference[to]);
          if (distance > alpha) break;
          if (distance <= TIE || distance < floor) continue;
          if (low && high) {
            least = Math.max(least, (low[from] - high[to]) / distance, (low[to] - high[from]) / distance);
            most = Math.max(most, (high[from] - low[to]) / distance, (high[to] - low[from]) / distance);
          }
          const slope = Math.abs(accuracies[from] - accuracies[to]) / distance;
          if (pair === null || slope > value) {
            value = slope;
            pair = [from, to];
          }
        }
      }
    }
    return { value, pair, span: pair && low && high ? [least, most] : null };
  }

  /**
   * Unforeseen attack robustness over the chosen strengths of one attack (ratio of sums; the clean accuracy is not part).
   * @param {number[]} accuracies
   * @param {number[]} reference
   */
  function unforeseenAttackRobustness(accuracies, reference) {
    return (100 * sum(accuracies)) / sum(reference);
  }

  /**
   * The same defense on the entries of one attack: with the clean entry (single CR), or without (UAR).
   * @param {Entries} entries
   * @param {number} attack
   * @param {boolean} withClean
   */
  function indicesOf(entries, attack, withClean) {
    return entries.attack.flatMap((other, i) => (other === attack || (withClean && other < 0) ? [i] : []));
  }

  /**
   * @param {number[]} accuracies
   * @param {Entries} entries
   * @param {Kind} kind
   * @param {number[]} indices
   * @returns {number | null} null where an entry is missing or none is left
   */
  function ratioOn(accuracies, entries, kind, indices) {
    if (indices.length === 0 || indices.some((i) => Number.isNaN(accuracies[i]))) return null;
    const [chosen, reference, weight] = [accuracies, entries.reference, entries.weight].map((values) => indices.map((i) => values[i]));
    return competitivenessRatio(chosen, reference, kind, weight);
  }

  /** @type {WeakMap<Entries, Map<Defense, Profile>>} what was found for entries before */
  const profiles = new WeakMap();

  /**
   * What a defense is at the entries, whatever ratio ranks it.
   * @param {Board} board
   * @param {Defense} defense
   * @param {Entries} entries
   * @returns {Profile}
   */
  function profileOf(board, defense, entries) {
    const known = profiles.get(entries) ?? new Map();
    profiles.set(entries, known);
    const found = known.get(defense);
    if (found) return found;
    const accuracies = accuraciesAt(board, defense, entries);
    const missing = accuracies.reduce((count, accuracy) => count + (Number.isNaN(accuracy) ? 1 : 0), 0);
    /** @type {Profile} */
    const profile = { accuracies, low: null, high: null, missing, masked: maskedAt(board, defense, entries), unranked: defense.unranked ?? "", sc: null, scFloored: null,
      scSpan: null, scFlooredSpan: null, witness: null, seen: null, uar: null };
    known.set(defense, profile);
    if (missing > 0) return profile;
    profile.uar = meanUar(accuracies, entries);
    if (defense.samples) {
      profile.low = valuesAt(board, defense.low, defense.cleanBounds?.[0] ?? null, entries);
      profile.high = valuesAt(board, defense.high, defense.cleanBounds?.[1] ?? null, entries);
    }
    if (defense.trainedOn !== null) {
      const seen = seenAt(board, defense, entries);
      const stability = stabilityConstant(accuracies, entries, seen, board.alpha, 0, profile.low, profile.high);
      const floored = stabilityConstant(accuracies, entries, seen, board.alpha, 1, profile.low, profile.high);
      [profile.sc, profile.scSpan, profile.witness] = [stability.pair ? stability.value : null, stability.span, stability.pair];
      [profile.scFloored, profile.scFlooredSpan] = [floored.pair ? floored.value : null, floored.span];
      profile.seen = (100 * seen.filter(Boolean).length) / seen.length;
    }
    return profile;
  }

  /**
   * The row of one defense. A defense with a missing entry has no numbers: its average would be over other entries than
   * those of the others.
   * @param {Board} board
   * @param {Defense} defense
   * @param {Entries} entries
   * @param {Kind} kind
   * @param {boolean} official whether these are all ranked entries, whose interval of a run is that of every other page
   * @returns {Summary}
   */
  function summarize(board, defense, entries, kind, official = false) {
    if (defense.trainings) return summarizeTrainings(board, defense, defense.trainings, entries, kind, official);
    const { accuracies, low, high, ...profile } = profileOf(board, defense, entries);
    if (profile.missing > 0) return { ...profile, cr: null, span: null };
    const known = official ? defense.ratios[kind] : undefined;
    const cr = competitivenessRatio(accuracies, entries.reference, kind, entries.weight);
    const span = known ? [known[0], known[1]] : spanOf(low, high, entries, kind);
    return {
      ...profile, cr, span: span && [span[0], Math.max(cr, Math.min(span[1], defense.most ?? Infinity))],
      scSpan: (official && defense.constants[0]) || profile.scSpan, scFlooredSpan: (official && defense.constants[1]) || profile.scFlooredSpan,
    };
  }

  /**
   * The row of several trainings: of each number the mean, with the interval over the choice of trainings, as
   * `mean_over_trainings` has it.
   * @param {Board} board
   * @param {Defense} defense
   * @param {Defense[]} trainings
   * @param {Entries} entries
   * @param {Kind} kind
   * @param {boolean} official
   * @returns {Summary}
   */
  function summarizeTrainings(board, defense, trainings, entries, kind, official) {
    const each = trainings.map((training) => summarize(board, training, entries, kind, official));
    const over = (/** @type {"cr" | "sc" | "scFloored" | "seen" | "uar"} */ key) => overTrainings(each.map((one) => one[key]), defense.perDeviation ?? 0);
    const [cr, sc, scFloored] = [over("cr"), over("sc"), over("scFloored")];
    const most = defense.most ?? Infinity;
    return {
      cr: cr.mean, span: cr.mean === null || cr.span === null ? null : [cr.span[0], Math.max(cr.mean, Math.min(cr.span[1], most))],
      sc: sc.mean, scSpan: sc.span, scFloored: scFloored.mean, scFlooredSpan: scFloored.span, seen: over("seen").mean, uar: over("uar").mean,
      witness: null, missing: Math.max(...each.map(({ missing }) => missing)), masked: maskedAt(board, defense, entries), unranked: defense.unranked,
    };
  }

  /**
   * The mean over trainings and Student's interval, cut at 0; no mean where a training lacks the number, and no interval where
   * all are equal.
   * @param {(number | null)[]} values
   * @param {number} perDeviation half of the interval in standard deviations
   * @returns {{mean: number | null, span: [number, number] | null}}
   */
  function overTrainings(values, perDeviation) {
    const known = values.flatMap((value) => (value === null ? [] : [value]));
    if (known.length < values.length) return { mean: null, span: null };
    const mean = sum(known) / known.length;
    const half = perDeviation * Math.sqrt(sum(known.map((value) => (value - mean) ** 2)) / (known.length - 1));
    return { mean, span: half > 1e-9 * Math.abs(mean) ? [Math.max(0, mean - half), mean + half] : null };
  }

  /**
   * Attacks that count under which the accuracies of a defense are masked.
   * @param {Board} board
   * @param {Defense} defense
   * @param {Entries} entries
   */
  function maskedAt(board, defense, entries) {
    return defense.invalid.filter((name) => entries.attack.some((attack) => attack >= 0 && board.attacks[attack].name === name));
  }

  /**
   * @param {number[]} accuracies
   * @param {Entries} entries
   * @returns {number | null} null where only the clean accuracy counts
   */
  function meanUar(accuracies, entries) {
    /** @type {Map<number, [number, number]>} */
    const sums = new Map();
    entries.attack.forEach((attack, i) => {
      if (attack < 0) return;
      const [above, below] = sums.get(attack) ?? [0, 0];
      sums.set(attack, [above + accuracies[i], below + entries.reference[i]]);
    });
    if (sums.size === 0) return null;
    return sum([...sums.values()].map(([above, below]) => (100 * above) / below)) / sums.size;
  }

  /**
   * Ranks as the MultiRobustBench site gives them: by the ratio rounded to two decimals, ties by the lower stability
   * constant, one that is not known last; rows without a ratio have no rank, and neither have those that are masked
   * or that are not compared.
   * @param {{cr: number | null, sc: number | null, masked?: string[], unranked?: string}[]} rows
   * @returns {(number | null)[]}
   */
  function ranks(rows) {
    const complete = rows.flatMap((row, index) => (row.cr === null || row.masked?.length || row.unranked ? [] : [index]));
    const shown = rows.map((row) => (row.cr === null ? 0 : Number(Page.fixed(row.cr, 2))));
    complete.sort((a, b) => shown[b] - shown[a] || bySteadiness(rows[a].sc, rows[b].sc));
    /** @type {(number | null)[]} */
    const result = rows.map(() => null);
    complete.forEach((index, position) => {
      const before = complete[position - 1];
      const tied = position > 0 && shown[before] === shown[index] && rows[before].sc === rows[index].sc;
      result[index] = tied ? result[before] : position + 1;
    });
    return result;
  }

  /**
   * @param {number | null} a
   * @param {number | null} b
   */
  function bySteadiness(a, b) {
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return a - b;
  }

  /**
   * The best and the worst rank of each row that its interval and those of the others leave open.
   * @param {([number, number] | null)[]} spans
   * @returns {([number, number] | null)[]}
   */
  function rankRanges(spans) {
    const known = spans.flatMap((span) => (span ? [span] : []));
    const lows = known.map(([low]) => low).sort((a, b) => a - b);
    const highs = known.map(([, high]) => high).sort((a, b) => a - b);
    return spans.map((span) => (span ? [1 + known.length - countUpTo(lows, (low) => low <= span[1]),
      known.length - countUpTo(highs, (high) => high < span[0])] : null));
  }

  /**
   * How many values at the front of a list something holds for, where it holds for none behind the first for which it does not.
   * @param {number[]} values
   * @param {(value: number) => boolean} holds
   */
  function countUpTo(values, holds) {
    let [from, to] = [0, values.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (holds(values[middle])) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  /** @param {number[]} values */
  function sum(values) {
    let total = 0;
    for (const value of values) total += value;
    return total;
  }

  /** @param {number[]} values */
  function least(values) {
    return values.reduce((lowest, value) => (value < lowest ? value : lowest), Infinity);
  }

  return {
    bounded, entriesOf, accuraciesAt, seenAt, competitivenessRatio, stabilityConstant, unforeseenAttackRobustness,
    indicesOf, ratioOn, summarize, ranks, rankRanges,
  };
})();
