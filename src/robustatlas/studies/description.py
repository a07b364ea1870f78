"""The entries of a study file: data, models, evaluations, references and outputs by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from robustatlas.attacks.definition import Effort, ProtocolName, Search
from robustatlas.common.errors import UserError
from robustatlas.common.scalars import parse_fraction, real_or_nan
from robustatlas.common.typed_strengths import text_as_typed
from robustatlas.common.wording import join_words, suggestion
from robustatlas.metrics.references.building import Rule
from robustatlas.outcomes.strengths import parse_grid


def _strength(given: Any) -> float:
    found = parse_fraction(given) if isinstance(given, str) else real_or_nan(given)
    if not 0 < found < float("inf"):
        raise ValueError(f"{given!r} is not a strength; expected a positive number or a fraction such as '8/255'")
    return found


def _read_texts(given: Any) -> Any:
    """Read texts such as "0.1:20" by the attacks that they are of; a mistake is raised by the entry itself."""
    if not isinstance(given, Mapping):
        return given
    found = dict(given)
    for attack, each in given.items():
        try:
            found[attack] = parse_grid(each, attack) if isinstance(each, str) else each
        except UserError as error:
            found[attack] = error
    return found


def _strengths(given: Any) -> tuple[float, ...]:
    try:
        if isinstance(given, UserError):
            raise given
        return tuple(map(_strength, given))
    except (UserError, TypeError) as error:
        raise ValueError(f"{error}") from error


def _seeds(given: Any) -> tuple[int, ...]:
    seeds = tuple(range(given)) if isinstance(given, int) and not isinstance(given, bool) else given
    numbers = isinstance(seeds, Sequence) and all(type(seed) is int for seed in seeds)
    if not numbers or not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"{given!r}; expected how many trainings, or their seeds, such as [0, 1, 2]")
    return tuple(seeds)


Strength = Annotated[float, BeforeValidator(_strength)]
"""A strength as people type it: :func:`robustatlas.outcomes.strengths.read_strength` reads it where its attack is
known."""
Strengths = Annotated[
    dict[str, Annotated[tuple[float, ...], BeforeValidator(_strengths)]], BeforeValidator(_read_texts)
]
"""Attack -> its strengths, as people type them."""
Seeds = Annotated[tuple[int, ...], BeforeValidator(_seeds)]
Count = Annotated[int, Field(ge=1)]


class StudyEntry(BaseModel):
    """An entry of a study: it is not changed, and has no keys but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def to_record(self) -> dict[str, Any]:
        """As plain data: what is compared with what was done before."""
        return self.model_dump(mode="json", exclude_none=True)


class StandIn(StudyEntry):
    """Images for ``--dry-run``, where the true ones may not be here: a shape, and how many there are."""

    shape: Annotated[tuple[Count, Count, Count], Field(strict=False)]
    classes: Count
    test: Count
    train: Count = 1


class DataEntry(StudyEntry):
    """Images: ``name`` as of :func:`robustatlas.load_dataset`, ``train`` where those to train on are others, and how
    many of each."""

    name: str
    train: str | None = None
    samples: Count | None = None
    train_samples: Count | None = None
    resize: Count | None = None
    crop: Count | None = None
    channels: Literal[1, 3] | None = None
    stand_in: StandIn | None = None


class TrainingEntry(StudyEntry):
    """The training of a model; a key that a model lacks is taken from the section ``training``."""

    architecture: str | None = None
    recipe: str | None = None
    preset: str | None = None
    against: dict[str, Strength] | None = None
    steps: Count | None = None
    rate: float | None = None
    features: str | None = None
    options: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    seeds: Seeds = (0,)
    keep: Count | None = None
    start: str | None = None
    extra: str | None = None


class ModelEntry(TrainingEntry):
    """A model: a ``source`` as of :func:`robustatlas.load_model` (its ``seeds`` are those of its evaluations, and its
    ``architecture`` is tried by ``--dry-run`` in its place), another one behind a ``defense``, or a training."""

    label: str | None = None
    data: str | None = None
    source: str | None = None
    weights: str | None = None
    arguments: dict[str, Any] = {}
    of: str | None = None
    defense: str | None = None
    trained_on: dict[str, Strength] | None = None

    @model_validator(mode="after")
    def _check_kind(self) -> ModelEntry:
        kinds = [kind for kind in ("source", "of", "architecture") if getattr(self, kind) is not None]
        if not kinds:
            raise ValueError("expected a source, or the architecture of a training")
        if self.of is not None and len(kinds) > 1:
            raise ValueError(f"it is of another model, and has {' and '.join(kinds)}; give one of them")
        if (self.of is None) != (self.defense is None):
            raise ValueError("`of` (a model) and `defense` (what stands before it, such as 'jpeg=75') belong together")
        return self

    @property
    def trained(self) -> bool:
        """Return if the study trains the model."""
        return self.source is None and self.of is None


class EvaluationEntry(StudyEntry):
    """Models under attacks, as of :func:`robustatlas.evaluate`; ``epochs``: the weights kept on the way, and not the
    last."""

    attacks: list[str]
    models: list[str] | None = None
    data: str | None = None
    exclude: list[str] = []
    strengths: Strengths | None = None
    search: Search | None = None
    protocol: ProtocolName = "default"
    effort: Effort = "default"
    features: str | None = None
    steps: Count | None = None
    samples: Count | None = None
    seed: int = 0
    epochs: bool = False
    diagnose: bool = True
    audit: Annotated[int, Field(ge=0)] | None = None


class ReferenceEntry(StudyEntry):
    """Accuracies of models that are trained against each attack; ``attack``: name -> settings of its own."""

    architecture: str
    strengths: Strengths
    data: str | None = None
    rule: Rule = "acc"
    trained: Strengths | None = None
    seeds: Count = 1
    presets: str = ""
    recipe: str = ""
    steps: Count | None = None
    rate: float | None = None
    options: dict[str, Any] | None = None
    settings: dict[str, Any] = {}
    samples: Count | None = None
    search: Literal["descent", "bisection", "every"] | None = None
    protocol: ProtocolName = "default"
    features: str | None = None
    attack: dict[str, dict[str, Any]] = {}
    evaluation_steps: Count | None = None


class Study(StudyEntry):
    """All of a study at one size.

    Attributes:
        name: of its file.
        title: what its page is called.
        paper: what it is a study of.
        size: at which its numbers are; empty where the file has no sizes.
        differs: in what this size is not as in the paper, one sentence each.
        data: by name.
        models: by name.
        evaluations: by name.
        references: by name.
        outputs: tables and figures by name; see :data:`robustatlas.studies.outputs.OUTPUTS`.

    Example:
        >>> from robustatlas.studies import read_study
        >>> study = read_study("uar", "tiny")
        >>> study.models["linf"].against
        {'linf': 0.1}
    """

    name: str
    title: str
    paper: str = ""
    size: str = ""
    differs: list[str] = []
    data: dict[str, DataEntry]
    models: dict[str, ModelEntry] = {}
    evaluations: dict[str, EvaluationEntry] = {}
    references: dict[str, ReferenceEntry] = {}
    outputs: dict[str, Any] = {}

    def data_name(self, entry: ModelEntry | EvaluationEntry | ReferenceEntry) -> str:
        """The name of an entry's data: its own, or the first."""
        return entry.data or next(iter(self.data))

    def evaluated_models(self, evaluation: str) -> tuple[str, ...]:
        """The models of an evaluation: those that it names, or all that are of its data."""
        entry = self.evaluations[evaluation]
        data = self.data_name(entry)
        alike = (name for name, model in self.models.items() if self.data_name(model) == data)
        return tuple(alike if entry.models is None else entry.models)

    def model_seeds(self, model: str) -> tuple[int | None, ...]:
        """The seeds of a model's trainings; of one that is not trained here a single None."""
        entry = self.models[model]
        if entry.of is not None:
            return self.model_seeds(entry.of)
        return entry.seeds if entry.trained or "seeds" in entry.model_fields_set else (None,)

    def matching_seed(self, model: str, seed: int | None) -> int | None:
        """Return the seed of the training of `model` that goes with `seed` of another model: the same, or the first."""
        seeds = self.model_seeds(model)
        return seed if seed in seeds else seeds[0]

    def label(self, model: str) -> str:
        """Return the name of a model in tables: its label, what it alone is trained against, or its name there."""
        entry = self.models[model]
        if entry.label is not None or not entry.against or not entry.trained:
            return entry.label or model
        own, others = (
            _training_phrase(entry.against),
            [_training_phrase(each.against or {}) for each in self.models.values()],
        )
        return own if others.count(own) == 1 else f"{model} ({own})"


def _training_phrase(against: Mapping[str, float]) -> str:
    return " and ".join(f"{attack} {text_as_typed(strength)}" for attack, strength in against.items())


def check_known(name: str, among: Iterable[str], place: str) -> None:
    """Raise a :class:`UserError` where ``place`` names what is not among the names that there are.

    Example:
        >>> check_known("linf", ["linf", "l2"], "evaluations.main")
    """
    names = list(among)
    if name not in names:
        raise UserError(f"{place} names {name!r}{suggestion(name, names, f'there are {join_words(names)}')}")
