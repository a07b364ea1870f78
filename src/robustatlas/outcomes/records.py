"""Records of a run: its attacks (``attacks/``), what was asked of it (``plans/``), what its owner says of its model
(``cards/``), and what indicators read of it (``diagnoses/``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import chain, pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, model_validator

from robustatlas.common.errors import UserError
from robustatlas.common.interrupts import delay_interrupts
from robustatlas.common.wording import format_significant
from robustatlas.outcomes.base import Json, Record, Role, deciding_fields, differences, digest
from robustatlas.outcomes.outcome import Booleans, broken_mask
from robustatlas.outcomes.strengths import check_strengths, snap_sizes

EXAMPLES = "examples"
"""The search of a record whose examples were handed over; its rows say what is known, not what was searched."""

MOST_SAMPLES = 2**25
"""Larger positions in a data set than this are a mistake or an attack on the reader's memory."""

ATTACK_NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,119}$"
AttackName = Annotated[str, StringConstraints(pattern=ATTACK_NAME)]


Numbers = tuple[tuple[float, ...], ...]


class GradientRecord(BaseModel):
    """Fingerprint of the gradients that an attack was given, measured at a few samples of the data.

    Attributes:
        at: positions of these samples in the data set.
        ways: way back through input transformations -> the gradient of the margin at each sample: the binary logarithm
            of its length, and random projections of its direction; empty where it is zero. The way ``"own"`` is what
            the model does by itself. Without ways, the attack takes no gradient.
        within: how far numbers of the same gradient may differ, from device to device.
        kinks: of each ReLU of the network, in the order of a pass, the standard deviation of its input at these
            samples, by which it was smoothed; empty where the attack does not smooth them.
        without: the share of some samples, classified correctly, at which no way gives a gradient.

    Example:
        >>> known = GradientRecord(at=(0,), ways={"own": ((1.0, 0.25),)}, within=0.05)
        >>> known.is_same_gradient(known.model_copy(update={"ways": {"own": ((1.0, 0.26),)}}))
        True
        >>> known.is_same_gradient(known.model_copy(update={"ways": {"own": ((),)}}))
        False
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: Annotated[tuple[int, ...], Role.DECIDES] = ()
    ways: Annotated[dict[str, Numbers], Role.DECIDES] = {}
    within: Annotated[float, Role.DESCRIBES] = 0.0
    kinks: Annotated[tuple[float, ...], Role.DESCRIBES] = ()
    without: Annotated[float, Role.DESCRIBES] = 0.0

    def is_same_gradient(self, other: GradientRecord) -> bool:
        """Return if both are fingerprints of equal gradients."""
        if self.at != other.at or self.ways.keys() != other.ways.keys():
            return False
        for way, ours in self.ways.items():
            theirs = other.ways[way]
            if [*map(len, ours)] != [*map(len, theirs)]:
                return False
            numbers = zip(chain(*ours), chain(*theirs), strict=True)
            if not all(abs(one - two) <= self.within for one, two in numbers):
                return False
        return True


class AttackRecord(Record):
    """One attack as it was run. Its fingerprint is of the fields that decide its numbers.

    Attributes:
        name: of the attack.
        strengths: those that were searched.
        monotone: whether a sample broken at one strength is broken at all larger ones.
        threat: the set of perturbations, with all its settings (and fingerprints of networks in it).
        protocol: how it was searched: the plan of the search, seed, precision, constants of the engine.
        gradient: the gradient of the model that the attack was given; None where the attack takes none.
        unit: of the strengths.
        source: where the attack was published.
        note: how the default differs from the published attack.
        calibrated: whose strengths these are, where they are not those of a source.
        effort: what the plan was scaled to, where that is not the default.
        runs: each run of the plan, in words.
        counterpart: of an attack of one's own, this package's attack on the same threat model, against which it is
            held; empty: it is this package's, or there is none.
        largest: size beyond which images in [0, 1] do not differ; None: there is none, or it is not known.

    Example:
        >>> AttackRecord(name="linf", strengths=(0.1, 0.2)).monotone
        True
    """

    survivor_word: ClassVar[str] = "robust"
    """Word for a sample without an example."""

    name: Annotated[AttackName, Role.DECIDES]
    strengths: Annotated[tuple[float, ...], Role.DECIDES] = Field(min_length=1, max_length=100_000)
    monotone: Annotated[bool, Role.DECIDES] = True
    threat: Annotated[Json, Role.DECIDES] = Field(default_factory=dict)
    protocol: Annotated[Json, Role.DECIDES] = Field(default_factory=dict)
    gradient: Annotated[GradientRecord | None, Role.DECIDES] = None
    unit: Annotated[str, Role.DESCRIBES] = ""
    source: Annotated[str, Role.DESCRIBES] = ""
    note: Annotated[str, Role.DESCRIBES] = ""
    calibrated: Annotated[str, Role.DESCRIBES] = ""
    effort: Annotated[str, Role.DESCRIBES] = ""
    runs: Annotated[tuple[str, ...], Role.DESCRIBES] = ()
    counterpart: Annotated[str, Role.DESCRIBES] = ""
    largest: Annotated[float | None, Role.DESCRIBES] = None

    @model_validator(mode="after")
    def _check(self) -> AttackRecord:
        check_strengths(list(self.strengths), self.name)
        return self

    @cached_property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits; equal for equal numbers."""
        with delay_interrupts():
            deciding = self.model_dump(mode="json", include=_DECIDING - {"gradient"})
            if self.gradient is not None:
                deciding["gradient"] = self.gradient.model_dump(mode="json", include=_DECIDING_OF_GRADIENTS)
            return digest(deciding)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some fields changed, checked as any other record and with a fingerprint of its own."""
        copied = super().model_copy(update=update, deep=deep)
        return type(self)(**{name: getattr(copied, name) for name in type(self).model_fields})

    @property
    def key(self) -> str:
        """Name of its files: ``linf-0123456789ab``."""
        return f"{self.name}-{self.fingerprint}"

    @property
    def examples_source(self) -> str | None:
        """Name of who handed over the examples that it holds, all of them verified; None: they were searched."""
        by = self.protocol.get("by")
        return str(by) if self.protocol.get("search") == EXAMPLES else None

    @property
    def judges_strengths(self) -> bool:
        """True if its strengths were searched; otherwise sizes were, or examples were handed over."""
        return self.examples_source is None and self.protocol.get("search") != "minimum"

    @property
    def origin(self) -> str:
        """Phrase for people that names the search which found its numbers."""
        if self.examples_source is not None:
            return f"examples of {self.examples_source}"
        search, seed = self.protocol.get("search", "given"), self.protocol.get("seed")
        effort = self.effort or self.protocol.get("effort")
        said = [str(search), *self._grid()]
        said += [*([f"{effort} effort"] if effort else []), *([f"seed {seed}"] if seed is not None else [])]
        return ", ".join(said)

    def _grid(self) -> list[str]:
        """Return a phrase with the spacing of a sweep, to which its numbers are exact; nothing for other searches."""
        optimizers = [
            each for each in _run_settings(self.protocol.get("plan"), "optimizer") if isinstance(each, Mapping)
        ]
        spacings: list[Any] = [each["spacing"] for each in optimizers if each.get("kind") == "Sweep"]
        return [f"exact to steps of {format_significant(min(spacings), 3)}"] if spacings else []

    @property
    def lowers_margins(self) -> bool:
        """True if the lowest margin was searched for at every strength.

        By the search for that, or at each strength by itself on the margin of probabilities, as the paper of the
        adversarial hypervolume does.
        """
        search = self.protocol.get("search")
        objectives = _run_settings(self.protocol.get("plan"), "objective")
        published = search == "every" and bool(objectives) and set(map(str, objectives)) == {"probability-margin"}
        return search == "frontier" or published

    @cached_property
    def threat_identity(self) -> str:
        """Twelve hexadecimal digits, equal for attacks on the same threat model with all of its parameters.

        What an attack is called, and how it searches, makes no difference; what counts as an error does. An attack that
        records no threat model is known by its name.
        """
        return digest(self.threat_parameters or self.name)

    @property
    def threat_parameters(self) -> dict[str, JsonValue]:
        """Parameters of the set of perturbed inputs, and what counts as an error; empty if no set is recorded."""
        held = set_parameters(self.threat)
        errors = self.protocol.get("errors", "accepted")
        return {**held, "errors": errors} if isinstance(held, dict) and held else {}

    @property
    def is_measured_by_its_model(self) -> bool:
        """Return if its sizes are distances of the attacked model's own activations, which differ among models."""
        distance = self.threat.get("distance")
        features = distance.get("features") if isinstance(distance, dict) else None
        return isinstance(features, dict) and {"network", "layers"} <= features.keys()

    def has_same_threat(self, other: AttackRecord) -> bool:
        """Return if both have one threat model and one way of judging, so that the smaller example counts."""
        return (self.name, self.monotone, self.threat) == (other.name, other.monotone, other.threat)

    def withstands(self, columns: Mapping[str, NDArray[Any]], place: int) -> Booleans:
        """Return which samples ``[M]``, of whom ``columns`` were found, withstand the strength at a place."""
        if not self.monotone:
            return np.asarray(columns["fooled"][:, place] == 0)
        sizes = snap_sizes(columns["minimal_size"], self.strengths)
        return ~broken_mask(sizes, [self.strengths[place]])[:, 0]

    def has_same_search(self, other: AttackRecord) -> bool:
        """Return if both search one threat model with equal settings and gradients, at any strengths."""
        if self.gradient is None or other.gradient is None:
            by_gradient = self.gradient is other.gradient
        else:
            by_gradient = self.gradient.is_same_gradient(other.gradient)
        return self.has_same_threat(other) and self.protocol == other.protocol and by_gradient


_DECIDING, _DECIDING_OF_GRADIENTS = deciding_fields(AttackRecord), deciding_fields(GradientRecord)

_SEARCH_PARAMETERS = {"Linf": {"starts"}, "L2": {"starts"}, "L1": {"starts", "sparsity"}, "L0": {"starts"}}
"""Fields of recorded lp balls that say where a search begins and how it moves, not what the ball holds."""


def set_parameters(threat: JsonValue) -> JsonValue:
    """Return a recorded threat model without the fields that do not change which inputs it holds."""
    if isinstance(threat, dict):
        left_out = _SEARCH_PARAMETERS.get(str(threat.get("kind")), set())
        return {name: set_parameters(value) for name, value in threat.items() if name not in left_out}
    return [set_parameters(value) for value in threat] if isinstance(threat, list) else threat


def _run_settings(plan: JsonValue, name: str) -> list[JsonValue]:
    """Return the setting ``name`` of each run of a recorded plan."""
    runs = plan.get("runs") if isinstance(plan, dict) else None
    return [run.get(name) for run in runs if isinstance(run, dict)] if isinstance(runs, list) else []


Span = tuple[Annotated[int, Field(ge=0, le=MOST_SAMPLES)], Annotated[int, Field(ge=1, le=MOST_SAMPLES)]]


class CallRecord(Record):
    """Request of one call of ``evaluate``: some attacks on some samples.

    Attributes:
        attacks: their names.
        spans: positions of the samples, as (first, end) of runs of consecutive ones, in increasing order.
        created: when it was asked, in UTC.
        command: the command line that asked.
        warnings: what the checks before the work said.

    Example:
        >>> CallRecord(attacks=("linf",), spans=((0, 3), (5, 6))).index()
        array([0, 1, 2, 5])
    """

    attacks: tuple[str, ...] = Field(min_length=1)
    spans: tuple[Span, ...] = Field(min_length=1)
    created: str = ""
    command: str = ""
    warnings: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> CallRecord:
        if any(end <= first for first, end in self.spans) or any(a[1] > b[0] for a, b in pairwise(self.spans)):
            raise UserError("Spans are expected as (first, end) of samples, increasing and apart.")
        return self

    @property
    def name(self) -> str:
        """Name of its file, determined by the attacks and samples."""
        return digest([list(self.attacks), [list(span) for span in self.spans]])

    @property
    def count(self) -> int:
        """Number of samples."""
        return sum(end - first for first, end in self.spans)

    def index(self) -> NDArray[np.int64]:
        """Return the positions of the samples, increasing."""
        return np.concatenate([np.arange(first, end) for first, end in self.spans])


class CardRecord(Record):
    """Description of a run's model by its owner, such as its paper or its training; it affects no number."""

    created: str = ""
    about: Json

    @property
    def name(self) -> str:
        """Name of its file."""
        return digest([self.created, self.about])


def sample_spans(index: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """Return positions as runs of consecutive ones.

    >>> sample_spans(np.array([4, 0, 1, 2, 9]))
    ((0, 3), (4, 5), (9, 10))
    """
    ordered = distinct_positions(index)
    breaks = np.flatnonzero(np.diff(ordered) != 1) + 1
    runs = np.split(ordered, breaks)
    return tuple((int(run[0]), int(run[-1]) + 1) for run in runs)


def distinct_positions(index: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return positions in increasing order, each once. (``np.unique`` hashes them, which is slower for many.)

    >>> distinct_positions(np.array([4, 0, 4, 2]))
    array([0, 2, 4])
    """
    ordered = np.sort(index)
    return ordered[np.diff(ordered, prepend=ordered[:1] - 1) > 0]


def check_joins(
    record: AttackRecord, known: Iterable[AttackRecord], where: str, remedy: str = "give another folder"
) -> None:
    """Raise :class:`UserError` where a run holds an attack of this name with another threat model, or judged in another
    way; ``where``: what the sentence calls the run, ``remedy``: what to do."""
    for other in known:
        if other.name == record.name and not other.has_same_threat(record):
            held, given = (each.model_dump(mode="json", include={"monotone", "threat"}) for each in (other, record))
            how = ", ".join(differences(held, given, "in the run"))
            raise UserError(
                f"{where} holds {record.name!r} with another threat model or another way of judging ({how}), whose "
                f"numbers cannot be joined with these; {remedy}."
            )


Severity = Literal["masked", "doubtful", "note"]
"""Verdict that a flag causes: ``"masked"`` (attacks by gradients are blind at many samples), ``"doubtful"``, or
``"note"`` (worth knowing; the search is not concerned)."""


class Reading(Record):
    """One indicator at the samples of a diagnosis.

    Attributes:
        severity: what a flag makes of the verdict.
        threshold: share of the samples above which the model is flagged.
        limit: from which value on a sample is doubtful, in words.
        means: what a flag says.
        remedy: what to do then.
        code: the remedy as one line of Python; empty where there is nothing to do.
        decides: whether the verdict counts it.
        values: [n] what was measured; None where nothing can be said.
        doubtful: rows, from 0, of the samples that it speaks against.
        attack: that was looked at where its searches ended; empty: the samples themselves were looked at.
        strengths: of that attack, increasing, that were looked at; none of the samples themselves.

    Example:
        >>> reading = Reading(name="gradient", severity="masked", threshold=0.1, values=(1.0, 0.2, None), doubtful=(1,))
        >>> reading.value_count
        2
    """

    name: str
    severity: Severity
    threshold: float = Field(ge=0, le=1)
    limit: str = ""
    means: str = ""
    remedy: str = ""
    code: str = ""
    source: str = ""
    decides: bool = True
    values: tuple[float | None, ...] = ()
    doubtful: tuple[int, ...] = ()
    attack: str = ""
    strengths: tuple[float, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Reading:
        if any(not 0 <= row < len(self.values) or self.values[row] is None for row in self.doubtful):
            raise UserError(f"The reading of {self.name!r} doubts samples that it has no value of.")
        return self

    @property
    def value_count(self) -> int:
        """Number of samples of which something can be said."""
        return sum(value is not None for value in self.values)


class DiagnosisRecord(Record):
    """Readings of all indicators at samples ``index`` [n], positions in the data set of correctly classified samples.
    ``asked``: names the question, that is attacks, samples to choose from and seed. ``told``: whether anything can be
    told: attacks by gradients were asked for, or such with nothing to optimise. ``forward``, ``backward``: passes a
    sample."""

    asked: str
    created: str = ""
    told: bool = True
    index: tuple[Annotated[int, Field(ge=0, le=MOST_SAMPLES)], ...] = ()
    readings: tuple[Reading, ...] = ()
    forward: float = 0.0
    backward: float = 0.0

    @model_validator(mode="after")
    def _check(self) -> DiagnosisRecord:
        for reading in self.readings:
            if len(reading.values) != len(self.index):
                raise UserError(
                    f"The reading of {reading.name!r} has {len(reading.values)} values for {len(self.index)} samples."
                )
        return self

    @property
    def name(self) -> str:
        """Name of its file."""
        return digest([self.asked, [[r.name, *r.strengths] if r.strengths else r.name for r in self.readings]])
