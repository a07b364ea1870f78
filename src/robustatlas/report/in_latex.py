"""A run as a table for a paper."""

import math
from collections.abc import Iterator, Sequence

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.escaping import latex_text
from robustatlas.common.typed_strengths import STANDARD_STRENGTHS, format_strength
from robustatlas.outcomes.strengths import is_same_strength
from robustatlas.report.facts.run import RunFacts
from robustatlas.report.numbers.number import MEAN_OF_ATTACK, MEAN_OF_STRENGTH, ROBUST, Number
from robustatlas.report.numbers.texts import number_text, value_text
from robustatlas.report.words import worst_case_in_words

_MOST = 5
"""Number of strengths up to which all are written; of more those that papers give, the middle one and the largest."""
_SUITE = 7
"""Runs of so many attacks have a row for each, and a column for each strength."""


def run_in_latex(facts: RunFacts) -> str:
    """A table for a paper (package booktabs): robust accuracies in percent with 95 % intervals.

    A row for each attack and strength (of a suite a column for each strength), the mean over the strengths, and the
    worst case over several.
    """
    columns, body = _suite(facts) if len(facts.attacks) >= _SUITE else _long(facts)
    name, data = latex_text(facts.name), latex_text(facts.data)
    lines = [
        f"% {name}: {facts.samples} images of {data}; 95 \\% intervals over images in",
        "% brackets. Strength: the largest change that an attack may make, in the unit of that attack.",
        rf"\begin{{tabular}}{{l{'r' * (columns + 1)}}}",
        r"\toprule",
        *body,
    ]
    if (worst := facts.worst) is not None:
        lines += [r"\midrule", f"% {latex_text(worst_case_in_words(worst))}"]
        lines.append(_row("worst case", [""] * columns, worst))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _long(facts: RunFacts) -> tuple[int, list[str]]:
    """The columns before the last, and a row for each attack and strength."""
    lines = [r"Attack & Strength & Accuracy, \% \\", r"\midrule", _row("no attack", [""], facts.clean)]
    for known in facts.attacks:
        label = _attack_label(known.attack)
        lines += [_row(label, [latex_text(at)], number) for at, number in _numbers(facts, known.attack)]
    return 1, lines


def _suite(facts: RunFacts) -> tuple[int, list[str]]:
    """As :func:`_long`, with a row for each attack; those at the same strengths of one unit stand together."""
    numbers, blocks = facts.numbers, facts.numbers.blocks()
    places = {block: _shown_places(numbers.select(ROBUST, block[0])) for block in blocks}
    columns = max(map(len, places.values()), default=1)
    lines = [_row("no attack", [""] * columns, facts.clean)]
    for block, chosen in places.items():
        empty, grid = [""] * (columns - len(chosen)), numbers.select(ROBUST, block[0])
        heads = [latex_text(format_strength(grid[place].strength, attack=block[0])) for place in chosen]
        lines += [r"\midrule", " & ".join(["Strength", *heads, *empty, r"mean \\"]), r"\midrule"]
        for attack in block:
            entries = [value_text(numbers.select(ROBUST, attack)[place]) for place in chosen]
            lines.append(_row(_attack_label(attack), [*entries, *empty], numbers.select(MEAN_OF_ATTACK, attack)[0]))
        if len(block) > 1:
            means = numbers.select(MEAN_OF_STRENGTH, block[0])
            over = numbers.mean(MEAN_OF_STRENGTH, block[0])
            entries = [value_text(means[place]) for place in chosen]
            lines.append(" & ".join(["mean", *entries, *empty, rf"{over:.1f} \\"]))
    return columns, lines


def _numbers(facts: RunFacts, attack: str) -> Iterator[tuple[str, Number]]:
    """Yield the numbers of an attack, each with its strength or with what it is a mean over."""
    rows = facts.numbers.select(ROBUST, attack)
    for place in _shown_places(rows, facts.headline.numbers if facts.headline else ()):
        yield format_strength(rows[place].strength, attack=attack), rows[place]
    if len(rows) > 1 and (mean := facts.numbers.find(MEAN_OF_ATTACK, attack)) is not None:
        yield f"mean of {len(rows)}", mean


def _shown_places(rows: Sequence[Number], leading: Sequence[Number] = ()) -> list[int]:
    """Return the positions of rows over strengths that stand in the table, `leading` ones among them."""
    if len(rows) <= _MOST:
        return list(range(len(rows)))
    usual, _ = STANDARD_STRENGTHS.get(rows[0].attack, (math.inf, ""))
    chosen = {k for k, row in enumerate(rows) if row in leading or is_same_strength(row.strength, usual)}
    return sorted({*chosen, (len(rows) - 1) // 2, len(rows) - 1})


def _attack_label(attack: str) -> str:
    norm = {"linf": r"$L_\infty$", "l2": "$L_2$", "l1": "$L_1$", "l0": "$L_0$"}
    return norm.get(attack) or latex_text(attack_label(attack).label)


def _row(name: str, entries: Sequence[str], number: Number) -> str:
    return " & ".join([name, *entries, rf"{number_text(number)} \\"])
