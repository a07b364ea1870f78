"""The summary of a run in plain words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from robustatlas.metrics.intervals import Interval
from robustatlas.report.facts import AttackFacts, ReferenceFacts, RunFacts
from robustatlas.report.vocabulary import describe


def percent(interval: Interval) -> str:
    """An interval in percent.

    >>> percent(Interval(61.25, 58.0, 64.4, 0.95))
    '61.2% (58.0 to 64.4)'
    """
    return f"{interval.value:.1f}% ({interval.low:.1f} to {interval.high:.1f})"


def size(value: float) -> str:
    """A size with three significant digits; the word "never" for inf.

    >>> size(0.0123456), size(float("inf"))
    ('0.0123', 'never')
    """
    return "never" if math.isinf(value) else f"{value:.3g}"


def summary(facts: RunFacts, warnings: int, unfinished: bool) -> list[tuple[str, str]]:
    """Pairs of a question and its answer: how robust, against what, where it breaks, what to trust."""
    answers = [("How robust?", _how_robust(facts))]
    if judged := [attack for attack in facts.attacks if attack.average]:
        answers.append(("Against what?", _against_what(judged)))
    answers.append(("Where does it break?", _where(facts.attacks)))
    if facts.reference:
        answers.append(("Compared with specialists?", _compared(facts.reference)))
    answers.append(("What to trust?", _trust(facts, warnings, unfinished)))
    return answers


def _how_robust(facts: RunFacts) -> str:
    text = f"Of {facts.samples} images, {percent(facts.clean)} are classified correctly as they are."
    if facts.average is None:
        return text
    attacks = count(len(facts.attacks), "attack")
    return f"{text} Averaged over {attacks} and their strengths, {percent(facts.average)} stay correct."


def _against_what(attacks: Sequence[AttackFacts]) -> str:
    ranked = sorted(attacks, key=lambda attack: -attack.average.value if attack.average else 0.0)
    best, worst = ranked[0], ranked[-1]
    if best.average is None or worst.average is None or best is worst:
        return f"{describe(best.attack).label} is the only attack whose every strength was searched."
    return (
        f"It holds best against {describe(best.attack).label}, where {percent(best.average)} stay correct on average "
        f"over the strengths, and worst against {describe(worst.attack).label}, with {percent(worst.average)}. "
        "Strengths of different attacks are not equally difficult; the comparison with a reference corrects for that."
    )


def _where(attacks: Sequence[AttackFacts]) -> str:
    broken = [f"{describe(a.attack).label} {size(a.quartiles[1])}" for a in attacks if math.isfinite(a.quartiles[1])]
    holding = [describe(a.attack).label for a in attacks if math.isinf(a.quartiles[1])]
    parts = []
    if broken:
        parts.append(f"Half of all images are misclassified from these sizes on: {listed(broken)}.")
    if holding:
        parts.append(f"More than half withstand {listed(holding)} as far as it was searched.")
    return " ".join(parts)


def _compared(reference: ReferenceFacts) -> str:
    scope = (
        f"all {reference.ranked} ranked cells"
        if reference.complete
        else f"{reference.cells} of the {reference.ranked} ranked cells, which is incomplete and has no rank"
    )
    if "ind-avg" not in reference.ratios:
        return f"Mean UAR {percent(reference.uar)}. Reference: {reference.name}, {scope}."
    return (
        f"It reaches {percent(reference.ratios['ind-avg'])} of the accuracy of models that were trained against each "
        f"attack, and {percent(reference.ratios['ind-worst'])} at its worst cell. Reference: {reference.name}, {scope}."
    )


def _trust(facts: RunFacts, warnings: int, unfinished: bool) -> str:
    half = (facts.clean.high - facts.clean.low) / 2
    parts = [
        f"Ranges in brackets are 95% intervals for the draw of the {facts.samples} images, here about ±{half:.1f} "
        "points for the clean accuracy. Robust accuracies are upper bounds: an attack can miss adversarial examples."
    ]
    if unfinished:
        parts.append("The run is not finished: some samples lack some attacks.")
    if warnings == 1:
        parts.append("The sanity checks gave a warning; read it below before the numbers.")
    elif warnings:
        parts.append(f"The sanity checks gave {warnings} warnings; read them below before the numbers.")
    else:
        parts.append("The sanity checks gave no warning.")
    return " ".join(parts)


def count(number: int, noun: str) -> str:
    """A number of things: "1 attack", "2 attacks"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(items: Sequence[str]) -> str:
    """Words in a row: "a, b and c"."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
