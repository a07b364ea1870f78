"""The differences of a study from its paper and its presets, for its page and ``--dry-run``."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from robustatlas.common.wording import list_names
from robustatlas.studies.description import Study
from robustatlas.studies.planning import request_of
from robustatlas.studies.running import plan_of
from robustatlas.training.against import unreached_strengths
from robustatlas.training.preset import describe_differences
from robustatlas.training.presets import PRESETS
from robustatlas.training.references import ReferencePlan

AS_PRINTED = "paper"
"""The size at which a study of a paper is as printed."""


@dataclass(frozen=True)
class Differences:
    """Sentences about a study.

    Attributes:
        paper: what is not as in the paper: those of the file, and those of the presets with the names of their models.
        presets: what models and ``[training]`` give in place of the presets.
        warnings: trainings whose steps never reach their strength.

    Example:
        >>> from robustatlas.studies import read_study
        >>> differences_of(read_study("robustness-curves", "tiny")).paper[0]
        "Digits, two epochs and 6 images, this package's own search: the numbers mean nothing."
    """

    paper: tuple[str, ...]
    presets: tuple[str, ...]
    warnings: tuple[str, ...]


def differences_of(study: Study) -> Differences:
    """Return what a study has otherwise than the paper and the presets. Nothing is trained."""
    return Differences(
        (*study.differs, *_with_names(_preset_sentences(study))),
        _with_names(_overrides(study)),
        _with_names(_unreached_trainings(study)),
    )


def _with_names(trainings: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return each sentence once, behind the names of the trainings that it is about."""
    found: dict[str, list[str]] = {}
    for name, sentence in trainings:
        found.setdefault(sentence, []).append(name)
    return tuple(f"{list_names(dict.fromkeys(names), at_most=3)}: {sentence}" for sentence, names in found.items())


def _preset_sentences(study: Study) -> Iterator[tuple[str, str]]:
    """Yield the name of each training by a preset with each sentence of the preset. A smaller size of a paper has other
    settings, and says itself in what it differs."""
    if study.size not in ("", AS_PRINTED):
        return
    for name, model in study.models.items():
        if model.trained and model.preset is not None:
            for sentence in PRESETS[model.preset].differences(model.features):
                yield f"models.{name}", sentence
    for name, plan in _reference_plans(study):
        for attack in plan.strengths:
            if (preset := plan.course(attack).preset) is not None:
                for sentence in preset.differences(plan.features):
                    yield f"references.{name} {attack}", sentence


def _overrides(study: Study) -> Iterator[tuple[str, str]]:
    for name, model in study.models.items():
        if model.trained and (changed := request_of(model).overrides()):
            yield f"models.{name}", f"not as in the preset {model.preset}: {'; '.join(changed)}."
    for name, plan in _reference_plans(study):
        for attack in plan.strengths if plan.presets else ():
            if changed := _reference_overrides(plan, attack):
                yield f"references.{name} {attack}", f"not as in the preset: {'; '.join(changed)}."


def _reference_overrides(plan: ReferencePlan, attack: str) -> list[str]:
    """Return a phrase for each thing that a reference has in place of the preset of an attack, but the strength."""
    course = plan.course(attack)
    preset = PRESETS[f"{plan.presets}-{attack}"]
    if course.preset is None:
        return [f"the recipe {course.recipe} in place of {preset.kind}"]
    recipe = plan.recipe_against(attack, preset.fights[attack].strength)
    return describe_differences(preset, plan.architecture, recipe, course.settings)


def _unreached_trainings(study: Study) -> Iterator[tuple[str, str]]:
    for name, model in study.models.items():
        if model.trained:
            for sentence in unreached_strengths(request_of(model).plan(0)[0].against):
                yield f"models.{name}", sentence
    for name, plan in _reference_plans(study):
        for attack, strengths in plan.strengths.items():
            for sentence in unreached_strengths(plan.recipe_against(attack, float(strengths[0])).against):
                yield f"references.{name} {attack}", sentence


def _reference_plans(study: Study) -> Iterator[tuple[str, ReferencePlan]]:
    for name, entry in study.references.items():
        yield name, plan_of(entry)
