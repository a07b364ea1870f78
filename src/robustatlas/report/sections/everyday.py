"""Worst and typical cases beside each other, where draws say what is typical."""

from collections.abc import Sequence

from robustatlas.common import wording
from robustatlas.report import pages
from robustatlas.report.facts.run import RunFacts
from robustatlas.report.sections import Section
from robustatlas.results.result import Result


def _body(results: Sequence[Result], facts: Sequence[RunFacts]) -> str:
    told = [(run, [attack for attack in run.attacks if attack.typical and attack.accuracy]) for run in facts]
    told = [(run, attacks) for run, attacks in told if attacks]
    if not told:
        return ""
    return pages.render("everyday.html", runs=told, many=len(facts) > 1, wording=wording)


SECTION = Section("everyday", "Worst and typical case", _body)
