"""The first lines of a report: what is required, whether it is kept, and the images that broke."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robustatlas.report.facts import RunFacts
from robustatlas.report.gallery import Example
from robustatlas.report.gate import Check, Requirement, check_requirements, check_verdict
from robustatlas.report.gate.requirements import required_strengths
from robustatlas.results.result import Result

_MOST_IMAGES = 4


@dataclass(frozen=True)
class RuledLine:
    """A requirement on the page: the decision on it, and images that broke, by attack."""

    check: Check
    broken: tuple[tuple[str, Example], ...]


def ruled_lines(
    result: Result,
    facts: RunFacts,
    gallery: Mapping[str, Sequence[Example]],
    requirements: Sequence[Requirement],
    verdicts: Sequence[str] = (),
) -> list[RuledLine]:
    """Return the decision on each requirement and required verdict of a run; `gallery`: kept examples, by attack."""
    checks = check_requirements(requirements, result, facts)
    diagnosed = [check_verdict(text, result, requirements) for text in verdicts]
    lines = [
        RuledLine(check, tuple(_broken_images(result, gallery, requirement)[:_MOST_IMAGES]))
        for check, requirement in zip(checks, requirements, strict=True)
    ]
    return [*lines, *(RuledLine(check, ()) for check in diagnosed)]


def _broken_images(
    result: Result, gallery: Mapping[str, Sequence[Example]], requirement: Requirement
) -> list[tuple[str, Example]]:
    within = dict(required_strengths(requirement, result))
    return [
        (attack, example) for attack, at in within.items() for example in gallery.get(attack, ()) if example.size <= at
    ]
