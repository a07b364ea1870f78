"""References of one's own: the trainings planned, run in any number of parts, evaluated, and put together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from torch import nn

from robustatlas.attacks.catalogue import attack_named
from robustatlas.classifier import Classifier
from robustatlas.datasets import Dataset
from robustatlas.errors import UserError
from robustatlas.evaluation import Cluster, evaluate
from robustatlas.files import write_text
from robustatlas.models.networks import network_for
from robustatlas.outcomes import AccuracyTable
from robustatlas.outcomes.strengths import check_strengths
from robustatlas.references import Reference
from robustatlas.references.building import ReferenceModel, Rule, reference_of
from robustatlas.training.devices import chosen_device
from robustatlas.training.display import TrainingDisplay
from robustatlas.training.monitor import accuracies
from robustatlas.training.recipes import recipe_named
from robustatlas.training.settings import Settings
from robustatlas.training.shared_out import fill_folders
from robustatlas.training.trainer import train
from robustatlas.wording import counted
from robustatlas.workers import cluster_of
from robustatlas.workers.share import Share, share_of

PLAN = "plan.json"
REFERENCE = "reference.json"
_ACCURACIES = "accuracies.json"
_STANDARD = "standard"
RECIPE_OF: dict[Rule, str] = {"acc": "pgd", "ata": "uniform"}
"""What each rule's paper trains by."""


@dataclass(frozen=True)
class ReferencePlan:
    """Which models a reference takes.

    Attributes:
        architecture: of all of them, see :func:`robustatlas.training.network_named`.
        strengths: attack -> the strengths that the reference has.
        rule: "acc" (MultiRobustBench: trained at each strength, mean of the seeds) or "ata" (UAR: the best of all).
        trained: attack -> the strengths trained at; empty: those of the reference.
        seeds: runs of each training.
        recipe: against one threat model; empty: "pgd" for acc, "uniform" for ata.
        steps: of crafting.
        recipe_settings: of the recipe.
        settings: of the trainer; its seed is the first of the runs'.
        samples: test images to evaluate on; None: all.
        search: of the evaluation.

    Raises:
        UserError: an attack, strength, rule, recipe or setting that there is not.

    Example:
        >>> plan = ReferencePlan("digits-cnn", {"linf": [0.1, 0.2]})
        >>> list(plan.trainings())
        [(None, 0.0, 0), ('linf', 0.1, 0), ('linf', 0.2, 0)]
    """

    architecture: str
    strengths: Mapping[str, Sequence[float]]
    rule: Rule = "acc"
    trained: Mapping[str, Sequence[float]] | None = None
    seeds: int = 1
    recipe: str = ""
    steps: int = 10
    recipe_settings: Mapping[str, Any] | None = None
    settings: Settings = field(default_factory=Settings)
    samples: int | None = None
    search: Literal["descent", "bisection", "every"] = "descent"

    def __post_init__(self) -> None:
        if self.rule not in RECIPE_OF:
            raise UserError(f"There is no rule {self.rule!r}; expected acc (MultiRobustBench) or ata (UAR).")
        if not self.strengths:
            raise UserError("A reference needs attacks and strengths, such as linf=0.1:5.")
        if self.seeds < 1:
            raise UserError(f"seeds={self.seeds}; expected at least one run of each training.")
        for attack, grid in {**self.strengths, **(self.trained or {})}.items():
            attack_named(attack)
            check_strengths(list(grid), attack)
        unknown = [attack for attack in self.trained or {} if attack not in self.strengths]
        if unknown:
            raise UserError(f"{', '.join(unknown)} would be trained against, but is not in the reference.")
        if self.rule == "acc" and self.trained:
            raise UserError("By the rule acc models are trained at the reference's own strengths; leave others out.")
        for name, strength, _ in self.trainings():
            if name is not None:
                self.recipe_against(name, strength)

    def trainings(self) -> Iterator[tuple[str | None, float, int]]:
        """(attack, strength, seed) of each model; the standard ones (None, 0) come first."""
        for run in range(self.seeds):
            yield None, 0.0, self.settings.seed + run
        for attack, grid in self.strengths.items():
            for strength in (self.trained or {}).get(attack, grid):
                for run in range(self.seeds):
                    yield attack, float(strength), self.settings.seed + run

    def recipe_against(self, attack: str, strength: float) -> Any:
        """The recipe of one training."""
        name = self.recipe or RECIPE_OF[self.rule]
        return recipe_named(name, {attack: strength}, self.steps, **(self.recipe_settings or {}))

    def described(self) -> dict[str, Any]:
        """As plain data: what a folder of trainings is compared by."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain


def name_of(attack: str | None, strength: float, seed: int) -> str:
    """The folder of a training.

    Example:
        >>> name_of("linf", 0.05, 1), name_of(None, 0.0, 0)
        ('linf-0.05-seed1', 'standard-seed0')
    """
    return f"{_STANDARD}-seed{seed}" if attack is None else f"{attack}-{strength:g}-seed{seed}"


def make_reference(
    plan: ReferencePlan,
    training: Dataset,
    test: Dataset,
    out: str | Path,
    part: str | tuple[int, int] | Share | None = None,
    device: str | None = None,
    progress: bool | TrainingDisplay | None = None,
    workers: int = 1,
    ray: bool | str | Cluster | None = None,
) -> Reference | None:
    """Train and evaluate what is missing of a plan, and put the reference together where all is there.

    Args:
        plan: the models.
        training: images to train on.
        test: images to evaluate on.
        out: folder; each training has one of its own in it. What is there is not done again.
        part: "k/n" or (k, n): do share k, from 0 to n - 1, of the trainings only; several processes or machines that
            see the same folder can each do one.
        device: where to train and evaluate.
        progress: as of :func:`robustatlas.training.train`; of several trainings at once their number is shown.
        workers: processes of this machine that train one model each.
        ray: as of :func:`robustatlas.evaluate`: trainings on a cluster, whose folders come back here.

    Returns:
        The reference, also written to ``reference.json``; None where other parts are missing.

    Raises:
        UserError: the folder holds another plan; whatever training and evaluation raise.

    Example:
        >>> import tempfile, robustatlas as ra
        >>> plan = ReferencePlan("digits-cnn", {"linf": [0.1]}, steps=1, settings=Settings(epochs=1), samples=8)
        >>> training, test = ra.load_dataset("digits", "train").take(64), ra.load_dataset("digits")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     reference = make_reference(plan, training, test, folder, progress=False)
        >>> reference.accuracies.attacks
        ('linf',)
    """
    share = share_of(part)
    folder = Path(out)
    _claim(folder, plan, training, test)
    folders = {
        folder / name_of(*each): each
        for number, each in enumerate(plan.trainings())
        if number % share.of == share.number and _accuracies(folder, *each) is None
    }
    cluster = cluster_of(ray, workers if workers > 1 else None)
    places = cluster or ([chosen_device(device)] * workers if workers > 1 else [])
    if cluster is not None and cluster.gpus and device is None:
        device = "cuda"
    shared = (plan, training, test, device, False if places else progress)
    with Progress(console=Console(stderr=True), disable=not places or progress is False) as bar:
        task = bar.add_task("Trainings", total=len(folders))
        fill_folders(_one, shared, folders, places, lambda _: bar.advance(task), lambda said: bar.print(escape(said)))
    return collect(plan, folder, training.name)


def collect(plan: ReferencePlan, folder: Path, data: str) -> Reference | None:
    """The reference of the models in ``folder``, written to ``reference.json``; None where some are missing."""
    models = []
    for attack, strength, seed in plan.trainings():
        table = _accuracies(folder, attack, strength, seed)
        if table is None:
            return None
        models.append(ReferenceModel(attack, strength, seed, table))
    rule = "acc* of MultiRobustBench" if plan.rule == "acc" else "ATA of UAR"
    recipe = plan.recipe or RECIPE_OF[plan.rule]
    reference = reference_of(
        name=folder.resolve().name,
        source=f"{len(models)} models {plan.architecture} trained on {data} by robustatlas ({rule})",
        models=models,
        strengths=plan.strengths,
        rule=plan.rule,
        notes=(
            f"Trained by the recipe {recipe} with {plan.steps} steps for {plan.settings.epochs} epochs, "
            f"{counted(plan.seeds, 'run')} of each; evaluated on {plan.samples or 'all'} test images by the search "
            f"{plan.search}.",
        ),
    )
    write_text(folder / REFERENCE, json.dumps(reference.to_dict(), indent=1) + "\n")
    return reference


def missing(plan: ReferencePlan, folder: str | Path) -> list[str]:
    """Names of the trainings that are not done."""
    return [name_of(*each) for each in plan.trainings() if _accuracies(Path(folder), *each) is None]


def _claim(folder: Path, plan: ReferencePlan, training: Dataset, test: Dataset) -> None:
    described = plan.described() | {"data": [training.name, len(training), test.name, len(test)]}
    path = folder / PLAN
    if not path.is_file():
        write_text(path, json.dumps(described, indent=1) + "\n")
        return
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is no plan of a reference; give another folder.") from error
    different = [key for key in described if there.get(key) != described[key]]
    if different:
        raise UserError(
            f"{folder} holds another plan (it differs in {', '.join(different)}); give another folder, or the same "
            "settings to go on."
        )


def _accuracies(folder: Path, attack: str | None, strength: float, seed: int) -> AccuracyTable | None:
    path = folder / name_of(attack, strength, seed) / _ACCURACIES
    return AccuracyTable.from_json(path) if path.is_file() else None


def _one(
    place: Path,
    shared: tuple[ReferencePlan, Dataset, Dataset, str | None, bool | TrainingDisplay | None],
    training_of: tuple[str | None, float, int],
) -> None:
    """Train one model and evaluate it against its own attack."""
    plan, training, test, device, progress = shared
    attack, strength, seed = training_of
    net: nn.Module = network_for(plan.architecture, training, seed)
    recipe = recipe_named(_STANDARD) if attack is None else plan.recipe_against(attack, strength)
    trained = train(
        net,
        training,
        recipe,
        settings=replace(plan.settings, seed=seed),
        out=place,
        architecture=plan.architecture,
        device=device,
        progress=progress,
    )
    if attack is None:
        table = AccuracyTable(_clean(trained.net, test, plan.samples), {})
    else:
        result = evaluate(
            Classifier(trained.net, name=name_of(attack, strength, seed)),
            test,
            [attack],
            search=plan.search,
            strengths={attack: [strength] if plan.rule == "acc" else list(plan.strengths[attack])},
            samples=plan.samples,
            run=place / "evaluation",
            progress=False,
        )
        table = result.accuracies()
    write_text(place / _ACCURACIES, json.dumps(table.to_dict()) + "\n")


def _clean(net: nn.Module, test: Dataset, samples: int | None) -> float:
    some = test.take(samples)
    device = next(net.parameters()).device
    return accuracies(net, (), some.images.to(device), some.labels.to(device), some.index.to(device))["clean"]
