// @ts-check
"use strict";

/**
 * The metrics of the board, recomputed for the cells that the reader chose. Percent throughout.
 * Every function mirrors one of robustatlas.metrics; both run on the same test vectors.
 *
 * @typedef {"ind-avg" | "ind-worst" | "exp" | "max"} Kind
 * @typedef {{name: string, label: string, axis: string, group: string, ranked: boolean,
 *   strengths: number[], reference: number[]}} Attack
 * @typedef {{name: string, title: string, url: string, architecture: string, extraData: boolean | null,
 *   trainedOn: Record<string, number>, clean: number | null, accuracies: Record<string, (number | null)[]>,
 *   samples: number | null, hypervolume: number | null, hypervolumeIs: string, notes: string, ownRun: boolean}} Defense
 * @typedef {{title: string, reference: {name: string, source: string, clean: number | null}, alpha: number,
 *   attacks: Attack[], defenses: Defense[]}} Board
 *
 * The cells that count, as parallel lists; the clean accuracy comes first, as attack -1,
 * where the reference has one.
 * `byReference` lists the cells in increasing order of their reference accuracy.
 * @typedef {{attack: number[], strength: number[], level: number[], reference: number[], byReference: number[]}} Cells
 *
 * Level indices of each attack, by the attack's name; an attack that is absent does not count.
 * @typedef {Record<string, number[]>} Choice
 *
 * @typedef {{cr: number | null, halfWidth: number | null, sc: number | null, scFloored: number | null,
 *   witness: [number, number] | null, seen: number | null, uar: number | null, missing: number}} Summary
 */
const Metrics = (() => {
  /** Two reference accuracies closer than this (percentage points) are a tie, left out of the stability constant. */
  const TIE = 1e-6;
  /** Relative difference up to which two strengths are the same one. */
  const SAME_STRENGTH = 1e-5;
  const NORMAL_95 = 1.959963984540054;

  /**
   * @param {Board} board
   * @param {Choice} selection
   * @returns {Cells}
   */
  function cellsOf(board, selection) {
    /** @type {Cells} */
    const cells = { attack: [], strength: [], level: [], reference: [], byReference: [] };
    if (board.reference.clean !== null) {
      cells.attack.push(-1);
      cells.strength.push(0);
      cells.level.push(0);
      cells.reference.push(board.reference.clean);
    }
    board.attacks.forEach((attack, index) => {
      for (const level of selection[attack.name] ?? []) {
        cells.attack.push(index);
        cells.strength.push(attack.strengths[level]);
        cells.level.push(level);
        cells.reference.push(attack.reference[level]);
      }
    });
    cells.byReference = cells.reference.map((_, i) => i).sort((a, b) => cells.reference[a] - cells.reference[b]);
    return cells;
  }

  /**
   * Accuracies of a defense at the cells; NaN where it was not evaluated.
   * @param {Board} board
   * @param {Defense} defense
   * @param {Cells} cells
   */
  function accuraciesAt(board, defense, cells) {
    const rows = board.attacks.map((attack) => defense.accuracies[attack.name]);
    return cells.attack.map((attack, i) => (attack < 0 ? defense.clean : rows[attack]?.[cells.level[i]]) ?? NaN);
  }

  /**
   * Whether each cell belongs to what the defense was trained for: clean, and trained attacks up to the trained strength.
   * @param {Board} board
   * @param {Defense} defense
   * @param {Cells} cells
   */
  function seenAt(board, defense, cells) {
    const trained = board.attacks.map((attack) => defense.trainedOn[attack.name] ?? -1);
    return cells.attack.map((attack, i) => attack < 0 || cells.strength[i] <= trained[attack] * (1 + SAME_STRENGTH));
  }

  /**
   * Competitiveness ratio (MultiRobustBench, section 4).
   * @param {number[]} accuracies
   * @param {number[]} reference
   * @param {Kind} kind
   */
  function competitivenessRatio(accuracies, reference, kind) {
    if (kind === "exp") return (100 * sum(accuracies)) / sum(reference);
    if (kind === "max") return (100 * least(accuracies)) / least(reference);
    const ratios = accuracies.map((accuracy, i) => (100 * accuracy) / reference[i]);
    return kind === "ind-worst" ? least(ratios) : sum(ratios) / ratios.length;
  }

  /**
   * Half the width of a 95% interval of the competitiveness ratio, for the draw of `samples` test images.
   * Which images fall at one cell also fall at others; the bound holds whatever their correlation, as the standard
   * deviation of a sum is at most the sum of the standard deviations. The worst case is taken at the cell that decides it.
   * @param {number[]} accuracies
   * @param {number[]} reference
   * @param {Kind} kind
   * @param {number} samples
   */
  function halfWidth(accuracies, reference, kind, samples) {
    const deviations = accuracies.map((accuracy) => {
      const share = Math.min(Math.max(accuracy / 100, 0), 1);
      return 100 * Math.sqrt((share * (1 - share)) / samples);
    });
    if (kind === "exp" || kind === "ind-avg") return NORMAL_95 * competitivenessRatio(deviations, reference, kind);
    if (kind === "max") return (100 * NORMAL_95 * deviations[indexOfLeast(accuracies)]) / least(reference);
    const worst = indexOfLeast(accuracies.map((accuracy, i) => accuracy / reference[i]));
    return (100 * NORMAL_95 * deviations[worst]) / reference[worst];
  }

  /**
   * Stability constant (MultiRobustBench, section 4): the steepest change of accuracy between a cell seen in training and
   * any cell whose reference accuracy is at most `alpha` percentage points away.
   * @param {number[]} accuracies
   * @param {Cells} cells
   * @param {boolean[]} seen
   * @param {number} alpha
   * @param {number} floor pairs of cells whose reference accuracies are closer than this are left out
   * @returns {{value: number, pair: [number, number] | null}} 0 where no pair is admissible
   */
  function stabilityConstant(accuracies, cells, seen, alpha, floor) {
    const order = cells.byReference;
    let value = 0;
    /** @type {[number, number] | null} */
    let pair = null;
    for (let position = 0; position < order.length; position++) {
      const from = order[position];
      if (!seen[from]) continue;
      for (const step of [-1, 1]) {
        for (let other = position + step; other >= 0 && other < order.length; other += step) {
          const to = order[other];
          const distance = Math.abs(cells.reference[from] - cells.reference[to]);
          if (distance > alpha) break;
          if (distance <= TIE || distance < floor) continue;
          const slope = Math.abs(accuracies[from] - accuracies[to]) / distance;
          if (slope > value) {
            value = slope;
            pair = [from, to];
          }
        }
      }
    }
    return { value, pair };
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
   * The same defense on the cells of one attack: with the clean cell (single CR), or without (UAR).
   * @param {Cells} cells
   * @param {number} attack
   * @param {boolean} withClean
   */
  function indicesOf(cells, attack, withClean) {
    return cells.attack.flatMap((other, i) => (other === attack || (withClean && other < 0) ? [i] : []));
  }

  /**
   * @param {number[]} accuracies
   * @param {Cells} cells
   * @param {Kind} kind
   * @param {number[]} indices
   * @returns {number | null} null where a cell is missing or none is left
   */
  function ratioOn(accuracies, cells, kind, indices) {
    if (indices.length === 0 || indices.some((i) => Number.isNaN(accuracies[i]))) return null;
    return competitivenessRatio(indices.map((i) => accuracies[i]), indices.map((i) => cells.reference[i]), kind);
  }

  /**
   * The row of one defense. A defense with a missing cell has no numbers: its average would be over other cells than
   * those of the others.
   * @param {Board} board
   * @param {Defense} defense
   * @param {Cells} cells
   * @param {Kind} kind
   * @returns {Summary}
   */
  function summarize(board, defense, cells, kind) {
    const accuracies = accuraciesAt(board, defense, cells);
    const missing = accuracies.reduce((count, accuracy) => count + (Number.isNaN(accuracy) ? 1 : 0), 0);
    if (missing > 0) {
      const nothing = { cr: null, halfWidth: null, sc: null, scFloored: null, witness: null, seen: null, uar: null };
      return { ...nothing, missing };
    }
    const seen = seenAt(board, defense, cells);
    const stability = stabilityConstant(accuracies, cells, seen, board.alpha, 0);
    return {
      cr: competitivenessRatio(accuracies, cells.reference, kind),
      halfWidth: defense.samples ? halfWidth(accuracies, cells.reference, kind, defense.samples) : null,
      sc: stability.value,
      scFloored: stabilityConstant(accuracies, cells, seen, board.alpha, 1).value,
      witness: stability.pair,
      seen: (100 * seen.filter(Boolean).length) / seen.length,
      uar: meanUar(accuracies, cells),
      missing,
    };
  }

  /**
   * @param {number[]} accuracies
   * @param {Cells} cells
   * @returns {number | null} null where only the clean accuracy counts
   */
  function meanUar(accuracies, cells) {
    /** @type {Map<number, [number, number]>} */
    const sums = new Map();
    cells.attack.forEach((attack, i) => {
      if (attack < 0) return;
      const [above, below] = sums.get(attack) ?? [0, 0];
      sums.set(attack, [above + accuracies[i], below + cells.reference[i]]);
    });
    if (sums.size === 0) return null;
    return sum([...sums.values()].map(([above, below]) => (100 * above) / below)) / sums.size;
  }

  /**
   * Ranks as the MultiRobustBench site gives them: by the ratio rounded to two decimals, ties by the lower stability
   * constant; rows without a ratio have no rank.
   * @param {{cr: number | null, sc: number | null}[]} rows
   * @returns {(number | null)[]}
   */
  function ranks(rows) {
    const complete = rows.flatMap((row, index) => (row.cr === null ? [] : [index]));
    const shown = rows.map((row) => (row.cr === null ? 0 : Number(row.cr.toFixed(2))));
    complete.sort((a, b) => shown[b] - shown[a] || (rows[a].sc ?? 0) - (rows[b].sc ?? 0));
    /** @type {(number | null)[]} */
    const result = rows.map(() => null);
    complete.forEach((index, position) => {
      const before = complete[position - 1];
      const tied = position > 0 && shown[before] === shown[index] && rows[before].sc === rows[index].sc;
      result[index] = tied ? result[before] : position + 1;
    });
    return result;
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

  /** @param {number[]} values */
  function indexOfLeast(values) {
    return values.indexOf(least(values));
  }

  return {
    cellsOf, accuraciesAt, seenAt, competitivenessRatio, halfWidth, stabilityConstant, unforeseenAttackRobustness,
    indicesOf, ratioOn, summarize, ranks,
  };
})();
