"""The first lines of a report: what is required, whether it is kept, and the images that broke."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robustatlas.common.wording import MASKED
from robustatlas.outcomes.masked import masked
from robustatlas.report.facts import RunFacts
from robustatlas.report.gallery import Example
from robustatlas.report.gate.requirements import Requirement, number_of, rests_on, strengths_of, unsearched
from robustatlas.report.gate.verdict import State, check_verdict, ruling_on
from robustatlas.results.result import Result

_MOST_IMAGES = 4


@dataclass(frozen=True)
class RuledLine:
    """A requirement on the page: whether it is kept, the sentence beside it, and images that broke, by attack."""

    text: str
    state: State
    said: str
    broken: tuple[tuple[str, Example], ...]


def ruled(
    result: Result,
    facts: RunFacts,
    gallery: Mapping[str, Sequence[Example]],
    requirements: Sequence[Requirement],
    verdicts: Sequence[str] = (),
) -> list[RuledLine]:
    """What is to say of each requirement and required verdict of a run; ``gallery``: kept examples, by attack."""
    diagnosed = [check_verdict(text, result, requirements) for text in verdicts]
    return [
        *(_line(result, facts, gallery, requirement) for requirement in requirements),
        *(RuledLine(check.name, "pass" if check.passed else "fail", check.sentence, ()) for check in diagnosed),
    ]


def _line(
    result: Result, facts: RunFacts, gallery: Mapping[str, Sequence[Example]], requirement: Requirement
) -> RuledLine:
    number = number_of(requirement, result, facts)
    ruling = ruling_on(requirement, number, result.samples)
    said = f"{number.value:.1f} ({number.low:.1f} to {number.high:.1f})"
    if masked(result, rests_on(requirement, result)):
        return RuledLine(requirement.text, "fail", f"{said}: {MASKED}, which proves nothing", ())
    if doubt := unsearched(requirement, result, facts):
        said = f"between {number.low:.1f} and {number.high:.1f}, {doubt}"
    elif ruling.state == "open":
        wanted = "more images" if ruling.samples is None else f"about {ruling.samples:,} images"
        said = f"{said}; {wanted} would decide, {result.samples:,} were looked at"
    within = dict(strengths_of(requirement, result))
    broken = [
        (attack, example) for attack, at in within.items() for example in gallery.get(attack, ()) if example.size <= at
    ]
    return RuledLine(requirement.text, ruling.state, said, tuple(broken[:_MOST_IMAGES]))
