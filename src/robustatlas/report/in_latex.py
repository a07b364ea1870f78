"""A run as a table for a paper."""

from collections.abc import Iterator, Sequence

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.escaping import latex_text
from robustatlas.common.typed_strengths import STANDARD_STRENGTHS, format_strength
from robustatlas.outcomes.strengths import strength_position
from robustatlas.report.facts.attack import AttackFacts
from robustatlas.report.facts.run import RunFacts
from robustatlas.report.numbers.number import Number
from robustatlas.report.numbers.texts import number_text
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
    for attack in facts.attacks:
        lines += [_row(_attack_label(attack), [latex_text(at)], number) for at, number in _numbers(facts, attack)]
    return 1, lines


def _suite(facts: RunFacts) -> tuple[int, list[str]]:
    """As :func:`_long`, with a row for each attack; those at the same strengths of one unit stand together."""
    blocks: dict[tuple[str, ...], list[AttackFacts]] = {}
    for attack in facts.attacks:
        if attack.accuracy and attack.average:
            grid = attack.strengths.tolist()
            at = [format_strength(grid[place], attack=attack.attack) for place in _positions(attack.attack, grid)]
            blocks.setdefault((attack.unit, *at), []).append(attack)
    columns = max((len(key) - 1 for key in blocks), default=1)
    lines = [_row("no attack", [""] * columns, facts.clean)]
    for (_, *at), attacks in blocks.items():
        empty = [""] * (columns - len(at))
        lines += [r"\midrule", " & ".join(["Strength", *map(latex_text, at), *empty, r"mean \\"]), r"\midrule"]
        places = _positions(attacks[0].attack, attacks[0].strengths.tolist())
        shown = [[attack.accuracy[place].value for place in places] for attack in attacks if attack.accuracy]
        for attack, values in zip(attacks, shown, strict=True):
            assert attack.average is not None
            entries = [*(f"{value:.1f}" for value in values), *empty]
            lines.append(_row(_attack_label(attack), entries, attack.average))
        if len(attacks) > 1:
            means = [f"{sum(each) / len(each):.1f}" for each in zip(*shown, strict=True)]
            over = sum(attack.average.value for attack in attacks if attack.average) / len(attacks)
            lines.append(" & ".join(["mean", *means, *empty, rf"{over:.1f} \\"]))
    return columns, lines


def _numbers(facts: RunFacts, attack: AttackFacts) -> Iterator[tuple[str, Number]]:
    """Yield the numbers of an attack, each with its strength or with what it is a mean over."""
    grid, first = attack.strengths.tolist(), facts.headline
    points = (
        [] if first is None or first.is_mean else [one.strength for one in first.numbers if attack.attack in one.at]
    )
    leading = strength_position(points[0], grid) if points else None
    for place in _positions(attack.attack, grid, leading) if attack.accuracy else ():
        assert attack.accuracy is not None
        yield format_strength(grid[place], attack=attack.attack), attack.accuracy[place]
    if attack.average is not None and len(grid) > 1:
        yield f"mean of {len(grid)}", attack.average


def _positions(attack: str, grid: Sequence[float], leading: int | None = None) -> list[int]:
    if len(grid) <= _MOST:
        return list(range(len(grid)))
    usual = [k for k, each in enumerate(grid) if abs(each / STANDARD_STRENGTHS.get(attack, (1e9, ""))[0] - 1) < 1e-5]
    usual += [] if leading is None else [leading]
    return sorted({*usual, (len(grid) - 1) // 2, len(grid) - 1})


def _attack_label(attack: AttackFacts) -> str:
    norm = {"linf": r"$L_\infty$", "l2": "$L_2$", "l1": "$L_1$", "l0": "$L_0$"}
    return norm.get(attack.attack) or latex_text(attack_label(attack.attack).label)


def _row(name: str, entries: Sequence[str], number: Number) -> str:
    return " & ".join([name, *entries, rf"{number_text(number)} \\"])
