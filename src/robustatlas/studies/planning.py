"""The steps of a study, what each waits for, and which of them a machine does: pure, nothing is run here."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from robustatlas.common.errors import UserError
from robustatlas.common.wording import instead, listed
from robustatlas.evaluation.workers.share import Share
from robustatlas.studies.description import ModelEntry, Study
from robustatlas.training.request import TrainingRequest

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


def request_of(model: ModelEntry) -> TrainingRequest:
    """Return the training request of a model."""
    taken = ("architecture", "preset", "recipe", "against", "steps", "rate", "features", "options", "keep")
    return TrainingRequest(**{key: getattr(model, key) for key in taken}, given=model.settings)


def epochs_to_keep(model: ModelEntry) -> tuple[int, ...]:
    """Return the epochs after which weights are kept."""
    if not model.trained or model.keep is None:
        return ()
    return tuple(range(model.keep, request_of(model).plan(0)[1].epochs + 1, model.keep))


def steps_of(study: Study) -> tuple[Step, ...]:
    """All steps, each after those that it waits for.

    Example:
        >>> from robustatlas.studies import read_study
        >>> [step.name for step in steps_of(read_study("uar", "tiny"))][:2]
        ['models.normal.seed-0', 'models.linf.seed-0']
    """
    trainings = [
        Step("models", name, seed=seed, needs=_training_of(study, study.models[name].start, seed))
        for name in _training_order(study)
        for seed in study.seeds_of(name)
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


def _training_of(study: Study, name: str | None, seed: int | None) -> tuple[str, ...]:
    """Return the name of the training of a model at a seed, or at its first seed if it has not that one."""
    if name is None or not study.models[name].trained:
        return ()
    return (Step("models", name, seed=study.seed_beside(name, seed)).name,)


def _evaluations(study: Study, name: str) -> Iterator[Step]:
    for model in study.evaluated(name):
        entry = study.models[model]
        epochs = epochs_to_keep(entry) if study.evaluations[name].epochs else (None,)
        for seed in study.seeds_of(model):
            for epoch in epochs:
                needs = _training_of(study, entry.of or model, seed)
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
        for seed in study.seeds_of(model):
            yield from _training_of(study, study.models[model].of or model, seed)


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
            there = f"the steps are {listed(list(beginnings))}"
            raise UserError(f"--only {name!r} is not a step{instead(name, known, there)}")
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
