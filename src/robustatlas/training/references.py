"""Own references: plan trainings, run them in any number of parts, evaluate them, and collect the reference."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from rich.console import Console
from rich.progress import Progress
from torch import nn

from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import Attack, ProtocolName
from robustatlas.attacks.suites import uar_attack
from robustatlas.common.errors import UserError
from robustatlas.common.escaping import terminal_text
from robustatlas.common.files import parse_path, write_text
from robustatlas.common.wording import list_names, pluralise
from robustatlas.data import Dataset
from robustatlas.evaluation import Cluster, evaluate
from robustatlas.evaluation.workers import parse_cluster
from robustatlas.evaluation.workers.share import Share, parse_share
from robustatlas.metrics.references import Reference
from robustatlas.metrics.references.building import ReferenceModel, Rule, build_reference
from robustatlas.models.card import CARD, read_card
from robustatlas.models.classifier import Classifier
from robustatlas.models.networks import network_for
from robustatlas.models.sources.local_files import features_file, hashes_of_files, source_files
from robustatlas.outcomes import AccuracyTable
from robustatlas.outcomes.comparable import threat_identities
from robustatlas.outcomes.identity import DataRecord
from robustatlas.outcomes.strengths import check_strengths, read_strength
from robustatlas.results.result import load_result
from robustatlas.threats.perceptual import Perceptual, load_distance
from robustatlas.training.devices import default_device
from robustatlas.training.display import TrainingDisplay
from robustatlas.training.given import check_apart
from robustatlas.training.recipes import recipe_named
from robustatlas.training.settings import Settings
from robustatlas.training.shared_out import fill_folders
from robustatlas.training.trainer import train
from robustatlas.training.watch import accuracies
from robustatlas.training.ways import ALL, STANDARD, STEPS, Course, PerAttack, field_recipe, field_steps, find_course

PLAN = "plan.json"
REFERENCE = "reference.json"
_EVALUATION = "evaluation"
_APART_REMEDY = "give other images to train on (--train-data; a file or folder is taken whole, whatever the split)"


@dataclass(frozen=True)
class ReferencePlan:
    """Plan of the models of a reference.

    Attributes:
        architecture: of all of them, see :func:`robustatlas.training.network_named`.
        strengths: attack -> the strengths that the reference has, as people type them (jpeg-quality 90, 50, 10).
        rule: "acc" (MultiRobustBench: trained at each strength, mean of the seeds) or "ata" (UAR: the best of all).
        trained: attack -> the strengths trained at; empty: those of the reference.
        seeds: runs of each training.
        recipe: against one threat model; empty: for each attack that of its own field (:func:`field_recipe`).
        steps: of crafting; None: of each attack those of its own field (:func:`field_steps`).
        recipe_settings: of the recipe.
        settings: of the trainer; its seed is the first of the runs'.
        samples: test images to evaluate on; None: all.
        search: of the evaluation; None: descent, and every strength of attacks as published.
        protocol: "default", or "paper": attacks as the rule's paper ran them, those of UAR for ata.
        features: what ``lpips`` compares images by, ``ARCHITECTURE=FILE``; None: each network itself.
        rate: length of a step as a share of the strength; None: the recipe's.
        presets: "multirobustbench", "uar" or "uar-imagenet100": against each attack as the preset of that paper trains,
            in place of recipe, steps, rate and the settings (but the seed). Empty: none.
        per_attack: attack -> what is otherwise against it: `recipe`, `steps`, `rate`, settings of the trainer and of
            the recipe, such as ``{"elastic": {"steps": 30, "epochs": 60}}``; "all" is against every attack and none,
            "standard" the standard training.
        evaluation_steps: of UAR's attacks as published, as an evaluation of few steps is held against; None: 200.

    Raises:
        UserError: an unknown attack, rule, recipe or setting, or a strength that is not one.

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
    steps: int | None = None
    recipe_settings: Mapping[str, Any] | None = None
    settings: Settings = field(default_factory=Settings)
    samples: int | None = None
    search: Literal["descent", "bisection", "every"] | None = None
    protocol: ProtocolName = "default"
    features: str | None = None
    rate: float | None = None
    presets: str = ""
    per_attack: PerAttack | None = None
    evaluation_steps: int | None = None

    def __post_init__(self) -> None:
        if self.rule not in get_args(Rule):
            raise UserError(f"There is no rule {self.rule!r}; expected acc (MultiRobustBench) or ata (UAR).")
        if not self.strengths:
            raise UserError("A reference needs attacks and strengths, such as linf=0.1:5.")
        if self.seeds < 1:
            raise UserError(f"seeds={self.seeds}; expected at least one run of each training.")
        for attack, grid in {**self.strengths, **(self.trained or {})}.items():
            check_strengths([read_strength(at, attack) for at in grid], attack, attack_named(attack).threat.levels)
        unknown = [attack for attack in self.trained or {} if attack not in self.strengths]
        if unknown:
            raise UserError(f"{', '.join(unknown)} would be trained against, but is not in the reference.")
        if self.rule == "acc" and self.trained:
            raise UserError("By the rule acc models are trained at the reference's own strengths; leave others out.")
        if self.protocol not in get_args(ProtocolName):
            raise UserError(f"protocol={self.protocol!r} is not known; expected default or paper.")
        if self.evaluation_steps is not None and (self.protocol != "paper" or self.evaluation_steps < 1):
            raise UserError("evaluation_steps are for UAR's attacks as published: at least 1, with protocol paper.")
        asked = (self.recipe, self.steps, self.rate, self.recipe_settings, replace(self.settings, seed=0) != Settings())
        if self.presets and any(asked):
            raise UserError(
                f"The presets {self.presets} have recipe, steps, rate and settings of their own; say what is otherwise "
                "against each attack, or against all: per_attack={'all': {'epochs': 5}} (--for all:epochs=5)."
            )
        strange = [name for name in self.per_attack or {} if name not in {*self.strengths, ALL, STANDARD}]
        if strange:
            known = list_names([*self.strengths, ALL, STANDARD])
            raise UserError(f"per_attack names {list_names(strange)}, which is not trained here; there are {known}.")
        if self.features is not None and not any(field_recipe(attack) == "pat" for attack in self.strengths):
            raise UserError("features= is for the attack lpips, which is not in the reference; leave it out.")
        for name, strength, _ in self.trainings():
            self.course(name)
            if name is not None:
                self.recipe_against(name, strength)

    def trainings(self) -> Iterator[tuple[str | None, float, int]]:
        """Yield (attack, strength, seed) of each model; the standard ones (None, 0, seed) come first."""
        for run in range(self.seeds):
            yield None, 0.0, self.settings.seed + run
        for attack, grid in self.strengths.items():
            for strength in (self.trained or {}).get(attack, grid):
                for run in range(self.seeds):
                    yield attack, float(strength), self.settings.seed + run

    def recipe_against(self, attack: str, strength: float) -> Any:
        """Return the recipe of one training."""
        features = self.features if isinstance(attack_named(attack).threat, Perceptual) else None
        return self.course(attack).against(attack, strength, features)

    def course(self, attack: str | None) -> Course:
        """Return the training against an attack (None: standard training)."""
        usual = Course(self.recipe, self.steps or 0, self.rate, self.recipe_settings or {}, self.settings)
        return find_course(attack, self.rule, self.presets, self.per_attack, usual)

    @property
    def searched(self) -> Literal["descent", "bisection", "every"]:
        """Search over strengths in the evaluation."""
        return self.search or ("every" if self.protocol == "paper" else "descent")

    def internal_strengths(self) -> dict[str, tuple[float, ...]]:
        """Return the strengths by attack in the internal scale, where larger is always stronger."""
        return {attack: tuple(read_strength(at, attack) for at in grid) for attack, grid in self.strengths.items()}

    def evaluation_attack(self, attack: str) -> Attack:
        """Return the attack of the evaluation."""
        strengths = self.internal_strengths()[attack]
        if self.protocol == "paper" and (self.rule == "ata" or self.evaluation_steps is not None):
            found = uar_attack(attack, strengths, self.protocol, self.evaluation_steps or 200)
        else:
            found = attack_named(attack, self.protocol)
        if self.features is None or not isinstance(found.threat, Perceptual):
            return found
        return replace(found, threat=replace(found.threat, distance=load_distance(self.features)))

    def to_record(self) -> dict[str, Any]:
        """Return plain data that identifies the plan of a folder."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        if self.steps is None:
            plain["steps"] = STEPS
            own = {a: {"steps": field_steps(a, self.rule)} for a in self.strengths if not self.presets}
            given = plain["per_attack"] or {}
            other = {a: {**steps, **given.get(a, {})} for a, steps in own.items() if steps["steps"] != STEPS}
            plain["per_attack"] = {**given, **other}
        return {
            key: value
            for key, value in plain.items()
            if value or key not in ("presets", "per_attack", "evaluation_steps")
        }


def training_name(attack: str | None, strength: float, seed: int) -> str:
    """Return the name of a training and of its folder.

    >>> training_name("linf", 0.05, 1), training_name(None, 0.0, 0)
    ('linf-0.05-seed1', 'standard-seed0')
    """
    return f"{STANDARD}-seed{seed}" if attack is None else f"{attack}-{strength:g}-seed{seed}"


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
    """Train and evaluate the missing models of a plan, and collect the reference when all exist.

    Args:
        plan: the models.
        training: images to train on.
        test: images to evaluate on.
        out: folder; each training has a folder in it. Finished trainings are not repeated.
        part: "k/n" or (k, n): do share k, from 0 to n - 1, of the trainings only; several processes or machines that
            see the same folder can each do one.
        device: for training and evaluation.
        progress: as of :func:`robustatlas.training.train`; of several trainings at once their number is shown.
        workers: processes of this machine that train one model each.
        ray: as of :func:`robustatlas.evaluate`: trainings on a cluster, whose folders come back here.

    Returns:
        The reference, also written to ``reference.json``; None if other parts are missing.

    Raises:
        UserError: measured images are trained on, the folder holds another plan, or as of training and evaluation.

    Example:
        >>> import tempfile, robustatlas as ra
        >>> plan = ReferencePlan("digits-cnn", {"linf": [0.1]}, steps=1, settings=Settings(epochs=1), samples=8)
        >>> training, test = ra.load_dataset("digits", "train").take(64), ra.load_dataset("digits")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     reference = make_reference(plan, training, test, folder, progress=False)
        >>> reference.accuracies.attacks
        ('linf',)
    """
    share = parse_share(part)
    folder = parse_path(out)
    check_apart(
        test.take(plan.samples), training, _APART_REMEDY
    )  # take() fails here, before the first training, if there are too few
    _claim_folder(folder, plan, training, test)
    folders = {
        folder / training_name(*each): each
        for number, each in enumerate(plan.trainings())
        if number % share.of == share.number
        and not _accuracies_file(plan, folder / training_name(*each), len(test)).is_file()
    }
    cluster = parse_cluster(ray, workers if workers > 1 else None)
    places = cluster or ([default_device(device)] * workers if workers > 1 else [])
    if cluster is not None and cluster.gpus and device is None:
        device = "cuda"
    shared = (plan, training, test, device, False if places else progress)
    with Progress(console=Console(stderr=True, highlight=False), disable=not places or progress is False) as bar:
        task = bar.add_task("Trainings", total=len(folders))
        fill_folders(
            _train_and_evaluate,
            shared,
            folders,
            places,
            lambda _: bar.advance(task),
            lambda said: bar.print(terminal_text(said)),
        )
    return collect_reference(plan, folder, training, test)


def collect_reference(plan: ReferencePlan, folder: Path, training: Dataset, test: Dataset) -> Reference | None:
    """Return the reference of the models in ``folder`` and write it to ``reference.json``; None if some are missing."""
    models = []
    for attack, strength, seed in plan.trainings():
        file = _accuracies_file(plan, folder / training_name(attack, strength, seed), len(test))
        if not file.is_file():
            return None
        table = AccuracyTable.from_json(file)
        models.append(ReferenceModel(attack, read_strength(strength, attack or STANDARD), seed, table))
    rule = "acc* of MultiRobustBench" if plan.rule == "acc" else "ATA of UAR"
    reference = build_reference(
        name=folder.resolve().name,
        source=f"{len(models)} models {plan.architecture} trained on {training.name} by robustatlas ({rule})",
        models=models,
        strengths=plan.internal_strengths(),
        rule=plan.rule,
        notes=(
            f"Trained by {_describe_recipes(plan)}, {pluralise(plan.seeds, 'run')} of each; evaluated on "
            f"{'all' if plan.samples is None else plan.samples} test images by the search "
            f"{plan.searched}{' of the attacks as published' if plan.protocol == 'paper' else ''}.",
        ),
        classes=len(training.classes),
        data=DataRecord(name=test.name, **vars(test.fingerprint)),
        warnings=_collect_warnings(plan, folder),
        threats=_threat_identities(plan, folder),
    )
    write_text(folder / REFERENCE, json.dumps(reference.to_dict(), indent=1) + "\n")
    return reference


def _collect_warnings(plan: ReferencePlan, folder: Path) -> tuple[str, ...]:
    """Return the warnings of trainings and evaluations, each once, after the names of its networks."""
    about: dict[str, list[str]] = {}
    for name in (training_name(*each) for each in plan.trainings()):
        place = folder / name
        sentences = read_card(place).warnings if (place / CARD).is_file() else ()
        if (place / _EVALUATION).is_dir():
            sentences += load_result(place / _EVALUATION).warnings
        for sentence in dict.fromkeys(sentences):
            about.setdefault(sentence, []).append(name)
    return tuple(f"{list_names(names, at_most=3)}: {sentence}" for sentence, names in about.items())


def _threat_identities(plan: ReferencePlan, folder: Path) -> dict[str, str]:
    """Return the identity of each attack's threat model as the networks were evaluated."""
    places = [folder / training_name(*each) / _EVALUATION for each in plan.trainings()]
    records = [record for place in places if place.is_dir() for record in load_result(place).records.values()]
    return threat_identities(records)


def _describe_recipes(plan: ReferencePlan) -> str:
    """Return such as "the recipe pgd with 10 steps for 20 epochs"; different recipes name their attacks."""
    by: dict[str, list[str]] = {}
    for attack in plan.strengths:
        way = plan.course(attack)
        how = f"{pluralise(way.steps, 'step')} for {pluralise(way.settings.epochs, 'epoch')}"
        said = f"the recipe {way.recipe} with {how}"
        by.setdefault(said, []).append(attack)
    if len(by) == 1:
        return next(iter(by))
    return ", ".join(f"{said} ({', '.join(attacks)})" for said, attacks in by.items())


def missing_trainings(plan: ReferencePlan, folder: str | Path, test_images: int) -> list[str]:
    """Return the names of trainings that are not finished, or not evaluated on samples of ``test_images`` images."""
    return [
        training_name(*each)
        for each in plan.trainings()
        if not _accuracies_file(plan, parse_path(folder) / training_name(*each), test_images).is_file()
    ]


def trainings_without_weights(plan: ReferencePlan, folder: str | Path) -> list[str]:
    """Return the names of the trainings that have no weights yet."""
    return [
        training_name(*each)
        for each in plan.trainings()
        if not (parse_path(folder) / training_name(*each) / CARD).is_file()
    ]


def _claim_folder(folder: Path, plan: ReferencePlan, training: Dataset, test: Dataset) -> None:
    """Write the plan to its folder, or check that the folder has the same plan; only ``samples`` may differ."""
    described = plan.to_record() | {
        "data": [training.name, len(training), test.name],
        "sha256": [*vars(training.fingerprint).values(), *vars(test.fingerprint).values()],
    }
    del described["samples"]
    described["files"] = hashes_of_files([*source_files(plan.architecture), *features_file(plan.features)])
    path = folder / PLAN
    if not path.is_file():
        write_text(path, json.dumps(described, indent=1) + "\n")
        return
    try:
        existing = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is not a plan of a reference; give another folder.") from error
    different = [key for key in described if existing.get(key) != described[key]]
    if different:
        raise UserError(
            f"{folder} holds another plan (it differs in {', '.join(different)}); give another folder, or the same "
            "settings to go on."
        )


def _accuracies_file(plan: ReferencePlan, place: Path, images: int) -> Path:
    """Return the file of accuracies of the training in ``place`` on the plan's samples of ``images`` test images."""
    samples = images if plan.samples is None else plan.samples
    return place / f"accuracies-{samples}-of-{images}.json"


def _train_and_evaluate(
    place: Path,
    shared: tuple[ReferencePlan, Dataset, Dataset, str | None, bool | TrainingDisplay | None],
    training_of: tuple[str | None, float, int],
) -> None:
    plan, training, test, device, progress = shared
    attack, strength, seed = training_of
    net: nn.Module = network_for(plan.architecture, training, seed)
    way = plan.course(attack)
    recipe = recipe_named(STANDARD, **way.options) if attack is None else plan.recipe_against(attack, strength)
    trained = train(
        net,
        training,
        recipe,
        settings=replace(way.settings, seed=seed),
        out=place,
        architecture=plan.architecture,
        device=device,
        progress=progress,
    )
    if attack is None:
        table = AccuracyTable(_clean_accuracy(trained.net, test, plan.samples), {})
    else:
        result = evaluate(
            Classifier(trained.net, name=training_name(attack, strength, seed)),
            test,
            [plan.evaluation_attack(attack)],
            search=plan.searched,
            protocol=plan.protocol,
            strengths={attack: [strength] if plan.rule == "acc" else list(plan.strengths[attack])},
            samples=plan.samples,
            run=place / _EVALUATION,
            progress=False,
        )
        table = result.accuracies()
    write_text(_accuracies_file(plan, place, len(test)), json.dumps(table.to_dict()) + "\n")


def _clean_accuracy(net: nn.Module, test: Dataset, samples: int | None) -> float:
    subset = test.take(samples)
    device = next(net.parameters()).device
    return accuracies(net, (), subset.images.to(device), subset.labels.to(device), subset.index.to(device))["clean"]
