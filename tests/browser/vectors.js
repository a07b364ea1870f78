// Every metric of the board for one case of leaderboard_vectors.json.
(c) => {
  const attacks = Object.entries(c.reference.entries).map(([name, row]) => ({name, label: name, axis: "", group: "",
    ranked: true, strengths: Object.keys(row).map(Number), reference: Object.values(row),
    weights: c.weights ? Object.keys(row).map((strength) => c.weights[name]?.[strength] ?? (Number(c.weights[name]) || 0)) : null}));
  const board = {title: "", alpha: c.alpha, reference: {name: "", source: "", clean: c.reference.clean, weight: c.weights?.clean}, attacks, defenses: []};
  const defense = {trainedOn: c.trained_on, clean: c.accuracies.clean, samples: null, invalid: [], constants: {}, most: null,
    accuracies: Object.fromEntries(Object.entries(c.accuracies.entries).map(([name, row]) => [name, Object.values(row)]))};
  const all = Object.fromEntries(attacks.map((a) => [a.name, a.strengths.map((_, i) => i)]));
  const entries = Metrics.entriesOf(board, all);
  const accuracies = Metrics.accuraciesAt(board, defense, entries);
  const seen = Metrics.seenAt(board, defense, entries);
  const where = (wanted) => seen.flatMap((s, i) => s === wanted ? [i] : []);
  const each = (f) => Object.fromEntries(attacks.map((a, i) => [a.name, f(i)]));
  const summary = (kind) => Metrics.summarize(board, defense, entries, kind);
  return {
    "ind-avg": summary("ind-avg").cr, "ind-worst": summary("ind-worst").cr, exp: summary("exp").cr, max: summary("max").cr,
    single: each((i) => Metrics.ratioOn(accuracies, entries, "ind-avg", Metrics.indicesOf(entries, i, true))),
    inside: Metrics.ratioOn(accuracies, entries, "ind-avg", where(true)),
    outside: Metrics.ratioOn(accuracies, entries, "ind-avg", where(false)),
    seen: summary("exp").seen, sc: summary("exp").sc, mean_uar: summary("exp").uar,
    uar: each((i) => Metrics.ratioOn(accuracies, entries, "exp", Metrics.indicesOf(entries, i, false))),
  };
}
