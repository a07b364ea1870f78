"""The check of a submission to the leaderboard: a run folder with the card of its model."""

from collections.abc import Mapping

from robustatlas.common.wording import counted, some
from robustatlas.metrics.references.reference import Reference
from robustatlas.report.facts.rows import PUBLISHED_SAMPLES
from robustatlas.report.numbers.against import hold_against
from robustatlas.results.result import Result

CARD_ENTRIES: Mapping[str, str] = {
    "title": "the paper",
    "url": "its address",
    "architecture": "the network",
    "extra_data": "whether it was trained with more than the data set's own images",
    "trained_on": "attack to largest strength of the training, {} for none",
}
"""Statements that the card of a submission has to make: entry -> what it is."""


def submission_faults(result: Result, reference: Reference) -> list[str]:
    """Return a sentence for each thing that a submission lacks; none of a complete one.

    Args:
        result: the run, loaded from its folder.
        reference: that of the leaderboard.

    Returns:
        what keeps the run from a rank among the published defenses, and what its card does not say.

    Example:
        >>> from robustatlas.outcomes import AccuracyTable
        >>> reference = Reference("mine", "", AccuracyTable(90, {"linf": {0.1: 60, 0.2: 30}}), ("linf",))
        >>> result = Result.from_arrays([0, 1], [0, 0], {"linf": [0.15, 0.0]}, {"linf": [0.1]})
        >>> submission_faults(result, reference)[0]
        'It lacks 1 of 2 ranked points: linf@0.2; evaluate with the attacks and strengths of mine.'
    """
    held = hold_against(result, reference, result.records.values(), result.identity)
    found = []
    if not held.complete:
        lacking = held.ranked_points - held.points
        found.append(
            f"It lacks {lacking} of {counted(held.ranked_points, 'ranked point')}: {some(held.missing)}; evaluate with "
            f"the attacks and strengths of {reference.name}."
        )
    if result.missing:
        found.append(f"The run is unfinished ({some(result.missing)}); the same evaluation goes on.")
    images = PUBLISHED_SAMPLES.get(reference.name)
    if images is not None and result.samples < images:
        found.append(f"It has {result.samples:,} of the {images:,} test images; evaluate all.")
    if held.own_threat:
        found.append(f"Threat models of {some(held.own_threat)} are not as published; evaluate --protocol paper.")
    if result.invalid:
        found.append(f"Gradients of {some(result.invalid)} mislead, so that its accuracies are upper bounds only.")
    found += held.doubts
    if lacking_entries := [name for name in CARD_ENTRIES if result.about.get(name) in (None, "")]:
        said = ", ".join(f"{name} ({CARD_ENTRIES[name]})" for name in lacking_entries)
        found.append(f"Its card does not say {said}; evaluate --about card.json.")
    return found
