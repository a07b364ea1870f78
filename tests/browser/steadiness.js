// Between what the stability constant of one case of leaderboard_vectors.json lies.
(c) => {
  const attacks = Object.entries(c.reference.entries).map(([name, row]) => ({name, strengths: Object.keys(row).map(Number), reference: Object.values(row)}));
  const board = {alpha: c.alpha, reference: {clean: c.reference.clean}, attacks, defenses: []};
  const entries = Metrics.entriesOf(board, Object.fromEntries(attacks.map((a) => [a.name, a.strengths.map((_, i) => i)])));
  const at = (table) => Metrics.accuraciesAt(board, {clean: table.clean,
    accuracies: Object.fromEntries(Object.entries(table.entries).map(([name, row]) => [name, Object.values(row)]))}, entries);
  const seen = Metrics.seenAt(board, {trainedOn: c.trained_on}, entries);
  return Metrics.stabilityConstant(at(c.low), entries, seen, c.alpha, c.floor, at(c.low), at(c.high)).span;
}
