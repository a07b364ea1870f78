"""The plan of a study, of which nothing is run here: its steps, what each waits for and asks of trainer and evaluation,
which of them a machine does, and in what the study differs from its paper and its presets."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from robustatlas.attacks.definition import Attack
from robustatlas.attacks.suites import requested_attacks, resolve_attacks, uar_attack
from robustatlas.common.errors import UserError
from robustatlas.common.wording import join_words, list_names, suggestion
from robustatlas.evaluation.request import Request
from robustatlas.evaluation.workers.share import Share
from robustatlas.studies.description import EvaluationEntry, ModelEntry, ReferenceEntry, Study
from robustatlas.training.against import unreached_strengths
from robustatlas.training.preset import describe_differences
from robustatlas.training.presets import PRESETS
from robustatlas.training.references import ReferencePlan
from robustatlas.training.request import TrainingRequest
from robustatlas.training.settings import Settings

Kind = Literal["models", "evaluations", "references", "outputs"]

TRAININGS, RUNS, REFERENCES, OUTPUTS_FOLDER = "trainings", "runs", "references", "outputs"
"""Folders of a study."""


@dataclass(frozen=True)
class Step:
    """One piece of work.

    Attributes:
        kind: section of the file that it is of.
        entry: name there.
        model, seed, epoch: of evaluations and trainings.
        needs: names of the steps that come before it.

    Example:
        >>> Step("models", "linf", seed=1).name
        'models.linf.seed-1'
    """

    kind: Kind
    entry: str
    model: str = ""
    seed: int | None = None
    epoch: int | None = None
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the step, distinct in a study; ``--only`` takes its beginning."""
        parts = [self.kind, self.entry, self.model if self.kind == "evaluations" else ""]
        parts += ["" if self.seed is None else f"seed-{self.seed}"]
        parts += ["" if self.epoch is None else f"epoch-{self.epoch}"]
        return ".".join(filter(None, parts))

    @property
    def place(self) -> Path:
        """Folder of the step, relative to that of the study."""
        seed = () if self.seed is None else (f"seed-{self.seed}",)
        if self.kind == "models":
            return Path(TRAININGS, self.entry, *seed)
        if self.kind == "evaluations":
            epoch = () if self.epoch is None else (f"epoch-{self.epoch:04d}",)
            return Path(RUNS, self.entry, self.model, *seed, *epoch)
        return Path(REFERENCES if self.kind == "references" else OUTPUTS_FOLDER, self.entry)


def training_request(model: ModelEntry) -> TrainingRequest:
    """Return the training request of a model."""
    taken = ("architecture", "preset", "recipe", "against", "steps", "rate", "features", "options", "keep")
    return TrainingRequest(**{key: getattr(model, key) for key in taken}, given=model.settings)


def epochs_to_keep(model: ModelEntry) -> tuple[int, ...]:
    """Return the epochs after which weights are kept."""
    if not model.trained or model.keep is None:
        return ()
    return tuple(range(model.keep, training_request(model).plan(0)[1].epochs + 1, model.keep))


def study_steps(study: Study) -> tuple[Step, ...]:
    """All steps, each after those that it waits for.

    Example:
        >>> from robustatlas.studies import read_study
        >>> [step.name for step in study_steps(read_study("uar", "tiny"))][:2]
        ['models.normal.seed-0', 'models.linf.seed-0']
    """
    trainings = [
        Step("models", name, seed=seed, needs=_training_needed(study, study.models[name].start, seed))
        for name in _training_order(study)
        for seed in study.model_seeds(name)
    ]
    references = [Step("references", name) for name in study.references]
    evaluations = [step for name in study.evaluations for step in _evaluations(study, name)]
    outputs = [
        Step("outputs", name, needs=tuple(_step_needs(study, output, evaluations)))
        for name, output in study.outputs.items()
    ]
    return (*trainings, *evaluations, *references, *outputs)


def _training_order(study: Study) -> Sequence[str]:
    """Return the models that are trained, each after the model whose weights it begins with."""
    done: dict[str, None] = {}

    def add(name: str) -> None:
        start = study.models[name].start
        if start is not None and study.models[start].trained:
            add(start)
        done[name] = None

    for name, model in study.models.items():
        if model.trained:
            add(name)
    return list(done)


def _training_needed(study: Study, name: str | None, seed: int | None) -> tuple[str, ...]:
    """Return the name of the training of a model at a seed, or at its first seed if it has not that one."""
    if name is None or not study.models[name].trained:
        return ()
    return (Step("models", name, seed=study.matching_seed(name, seed)).name,)


def _evaluations(study: Study, name: str) -> Iterator[Step]:
    for model in study.evaluated_models(name):
        entry = study.models[model]
        epochs = epochs_to_keep(entry) if study.evaluations[name].epochs else (None,)
        for seed in study.model_seeds(model):
            for epoch in epochs:
                needs = _training_needed(study, entry.of or model, seed)
                yield Step("evaluations", name, model=model, seed=seed, epoch=epoch, needs=needs)


def _step_needs(study: Study, output: Any, evaluations: Sequence[Step]) -> Iterator[str]:
    wanted = output.wants(study)
    for step in evaluations:
        if step.entry in wanted.evaluations and step.model in wanted.models:
            yield step.name
    for reference in wanted.references:
        if reference in study.references:
            yield Step("references", reference).name
    for model in wanted.trainings:
        for seed in study.model_seeds(model):
            yield from _training_needed(study, study.models[model].of or model, seed)


def select_steps(steps: Sequence[Step], only: Sequence[str]) -> tuple[Step, ...]:
    """Return the steps whose names begin with one of the names in ``only``, or all steps if it is empty.

    Raises:
        UserError: a name with which no step begins.

    Example:
        >>> steps = [Step("models", "a", seed=0), Step("models", "b", seed=0)]
        >>> [step.name for step in select_steps(steps, ["models.b"])]
        ['models.b.seed-0']
    """
    beginnings = dict.fromkeys(".".join(step.name.split(".")[:2]) for step in steps)
    for name in only:
        if not any(_begins(step, name) for step in steps):
            known = [*beginnings, *dict.fromkeys(step.kind for step in steps)]
            there = f"the steps are {join_words(list(beginnings))}"
            raise UserError(f"--only {name!r} is not a step{suggestion(name, known, there)}")
    return tuple(step for step in steps if not only or any(_begins(step, name) for name in only))


def _begins(step: Step, name: str) -> bool:
    return step.name == name or step.name.startswith(f"{name}.")


def steps_of_share(steps: Sequence[Step], share: Share) -> tuple[Step, ...]:
    """Return the steps of a share: a training goes with all steps that need it, so that no machine waits for another.

    References are in every share, as their trainings are shared out one by one; outputs too, made by whoever finds all
    that they need.

    Example:
        >>> steps = [Step("models", "a", seed=0), Step("models", "a", seed=1)]
        >>> steps.append(Step("evaluations", "e", model="a", seed=1, needs=("models.a.seed-1",)))
        >>> [step.name for step in steps_of_share(steps, Share(1, 2))]
        ['models.a.seed-1', 'evaluations.e.a.seed-1']
    """
    first: dict[str, str] = {}
    for step in steps:
        if step.kind in ("models", "evaluations"):
            first[step.name] = first.get(step.needs[0], step.needs[0]) if step.needs else _alone(step)
    number = {name: place % share.of for place, name in enumerate(dict.fromkeys(first.values()))}
    return tuple(step for step in steps if step.name not in first or number[first[step.name]] == share.number)


def _alone(step: Step) -> str:
    """Return the key of the share of a step without needs: an evaluation goes with all others of its model."""
    return step.name if step.kind == "models" else step.model


def evaluation_request(entry: EvaluationEntry) -> Request:
    """Return the request of an evaluation."""
    attacks: list[str | Attack] = requested_attacks(entry.attacks, entry.protocol, entry.features)
    if entry.steps is not None:
        if entry.protocol != "paper":
            raise UserError("steps are for UAR's attacks as published; give protocol = 'paper' beside them.")
        found = resolve_attacks(attacks, "paper")
        attacks = [uar_attack(attack.name, attack.strengths, "paper", entry.steps) for attack in found]
    return Request(
        attacks=attacks,
        search=entry.search,
        protocol=entry.protocol,
        strengths=entry.strengths,
        samples=entry.samples,
        seed=entry.seed,
        effort=entry.effort,
        exclude=entry.exclude,
        diagnose=entry.diagnose,
        audit=entry.audit,
    )


def reference_plan(entry: ReferenceEntry) -> ReferencePlan:
    """Return the plan of a reference."""
    taken = ("architecture", "strengths", "rule", "trained", "seeds", "recipe", "steps", "rate", "samples", "search",
             "protocol", "features", "presets", "evaluation_steps")  # fmt: skip
    return ReferencePlan(
        **{key: getattr(entry, key) for key in taken},
        recipe_settings=entry.options,
        per_attack=entry.attack or None,
        settings=Settings(**entry.settings),
    )


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
        >>> study_differences(read_study("robustness-curves", "tiny")).paper[0]
        "Digits, two epochs and 6 images, this package's own search: the numbers mean nothing."
    """

    paper: tuple[str, ...]
    presets: tuple[str, ...]
    warnings: tuple[str, ...]


def study_differences(study: Study) -> Differences:
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
        if model.trained and (changed := training_request(model).overrides()):
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
            for sentence in unreached_strengths(training_request(model).plan(0)[0].against):
                yield f"models.{name}", sentence
    for name, plan in _reference_plans(study):
        for attack, strengths in plan.strengths.items():
            for sentence in unreached_strengths(plan.recipe_against(attack, float(strengths[0])).against):
                yield f"references.{name} {attack}", sentence


def _reference_plans(study: Study) -> Iterator[tuple[str, ReferencePlan]]:
    for name, entry in study.references.items():
        yield name, reference_plan(entry)
