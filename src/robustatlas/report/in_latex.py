"""A run as a table for a paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from robustatlas.common.latex import in_latex
from robustatlas.common.wording import strength, wording
from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.masked import masked
from robustatlas.report.facts.attack import AttackFacts
from robustatlas.report.facts.run import RunFacts
from robustatlas.report.facts.units import STANDARD

_MOST = 5
"""Of attacks at more strengths those that papers give, the middle one and the largest are written."""


def run_in_latex(facts: RunFacts) -> str:
    """A table for a paper (package booktabs): robust accuracies in percent with 95 % intervals.

    A row for each attack and strength, the mean of each attack, and the worst case over several.

    Example:
        >>> from robustatlas.report.facts import facts_of
        >>> from robustatlas.results.result import Result
        >>> run = Result.from_arrays([0, 0], [0, 0], {"linf": [0.1, 0.3]}, {"linf": [0.2]}, model="my_net")
        >>> print(run_in_latex(facts_of(run)).splitlines()[7])
        $L_\\infty$ & 0.2 & 50.0 [1.3, 98.7] \\\\
    """
    lines = [
        f"% {in_latex(facts.name)}: {facts.samples} images of {in_latex(facts.data)}; 95 \\% intervals over images in",
        "% brackets. Strength: the largest change that an attack may make, in the unit of that attack.",
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"Attack & Strength & Accuracy, \% \\",
        r"\midrule",
        _row("none", "", facts.clean),
    ]
    for attack in facts.attacks:
        note = " (upper bound)" if masked(facts, [attack.attack]) else ""
        lines += [_row(_named(attack), at, number, note) for at, number in _numbers(attack)]
    if facts.union is not None:
        at = ", ".join(f"{attack} {strength(most, 3, of=attack)}" for attack, most in facts.union_at.items())
        lines += [r"\midrule", f"% worst case at {at}"]
        lines.append(_row("worst case", "", facts.union, " (upper bound)" if masked(facts, facts.union_at) else ""))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _numbers(attack: AttackFacts) -> Iterator[tuple[str, Interval]]:
    grid = attack.strengths.tolist()
    for place in _chosen(attack.attack, grid) if attack.accuracy else ():
        assert attack.accuracy is not None
        yield strength(grid[place], of=attack.attack), attack.accuracy[place]
    if attack.average is not None and len(grid) > 1:
        yield f"mean of {len(grid)}", attack.average


def _chosen(attack: str, grid: Sequence[float]) -> list[int]:
    if len(grid) <= _MOST:
        return list(range(len(grid)))
    usual = [k for k, each in enumerate(grid) if abs(each / STANDARD.get(attack, (1e9, ""))[0] - 1) < 1e-5]
    return sorted({*usual, (len(grid) - 1) // 2, len(grid) - 1})


def _named(attack: AttackFacts) -> str:
    norm = {"linf": r"$L_\infty$", "l2": "$L_2$", "l1": "$L_1$", "l0": "$L_0$"}
    return norm.get(attack.attack) or in_latex(wording(attack.attack).label)


def _row(name: str, at: str, number: Interval, note: str = "") -> str:
    return f"{name} & {in_latex(at)} & {number:.1f}{note} \\\\"
