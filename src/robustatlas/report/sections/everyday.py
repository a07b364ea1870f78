"""Worst and typical cases beside each other, where draws say what is typical."""

from collections.abc import Sequence

from robustatlas.report import pages
from robustatlas.report.facts.run import RunFacts
from robustatlas.report.sections import Section
from robustatlas.results.result import Result

_WIDTH, _HEIGHT = 220.0, 80.0


def _body(results: Sequence[Result], facts: Sequence[RunFacts]) -> str:
    told = [(run, [attack for attack in run.attacks if attack.typical and attack.accuracy]) for run in facts]
    told = [(run, attacks) for run, attacks in told if attacks]
    if not told:
        return ""
    return pages.render("everyday.html", runs=told, many=len(facts) > 1, line=_line, size=(_WIDTH, _HEIGHT))


def _line(strengths: Sequence[float], clean: float, values: Sequence[float]) -> str:
    last = float(strengths[-1])
    points = [(0.0, clean), *zip((float(at) / last for at in strengths), values, strict=True)]
    return " ".join(f"{_WIDTH * x:.1f},{_HEIGHT * (1 - y / 100):.1f}" for x, y in points)


SECTION = Section("everyday", "Worst and typical case", _body)
