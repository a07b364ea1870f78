"""``repair``: the remedies of a diagnosis, tried on the samples concerned, as new evidence in the same run."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from robustatlas.attacks.catalogue import catalogue
from robustatlas.attacks.definition import Attack
from robustatlas.attacks.plans import plans_of
from robustatlas.attacks.search.plan import Stage
from robustatlas.checks.indicators import LookedAt
from robustatlas.checks.remedies import (
    Way,
    around,
    at_logits,
    averaged,
    estimated,
    from_random_starts,
    inside,
    precise,
    rescaled,
    transferred,
)
from robustatlas.checks.sanity import ways_back
from robustatlas.checks.verdict import Diagnosis
from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise
from robustatlas.common.tabular import Grid, Tabular, objects
from robustatlas.common.wording import strength
from robustatlas.evaluation.auditing import shortened
from robustatlas.evaluation.evaluating import evaluated
from robustatlas.evaluation.plan import Data, Work, attack_as_recorded, samples_of
from robustatlas.evaluation.reading import question_of
from robustatlas.evaluation.request import Request
from robustatlas.models.classifier import Classifier, seeded, undisturbed
from robustatlas.optimizers.pgd import PGD
from robustatlas.outcomes.outcome import percent
from robustatlas.results.result import Result
from robustatlas.trust.diagnosing import looked_at
from robustatlas.trust.subject import KnownSubject, Model, Subject, known_of

_BATCH = 128
_SHOWN = 32
"""Samples by which ways around modules are compared."""


@dataclass(frozen=True)
class Remedy:
    """One remedy that was tried.

    Attributes:
        name: such as ``input at 'net' (Sequential)`` or ``square-linf``.
        attack: whose evidence it adds to.
        samples: that were searched.
        lowered: of how many of these the smallest example is smaller by it than by the run before.
        passes: forward and backward passes a sample.

    Example:
        >>> Remedy("float64", "linf", samples=20, lowered=5, passes=300.0).lowered
        5
    """

    name: str
    attack: str
    samples: int
    lowered: int
    passes: float


@dataclass(frozen=True, repr=False)
class Repair(Tabular):
    """What the remedies changed.

    Attributes:
        diagnosis: on all samples of the run.
        gate: which gate failed: ``"forward"``, ``"gradient"``, ``"single step"``, ``"iterate"``, or ``""``: none.
        strengths: attack -> its strengths [S].
        before: attack -> robust accuracy in percent [S], by the run as it was.
        after: attack -> the same with the new evidence; never higher.
        remedies: those that were tried, in order.
        result: the run with the new evidence.

    Example:
        >>> import robustatlas as ra
        >>> model, data = ra.load_model("broken:random-backward"), ra.load_dataset("digits")
        >>> result = ra.evaluate(model, data, "linf", strengths={"linf": [0.2]}, samples=40, progress=False)
        >>> mended = ra.repair(result, data, model=model, remedies=("around",))
        >>> bool(mended.after["linf"][0] < mended.before["linf"][0] - 20)
        True
    """

    diagnosis: Diagnosis
    gate: str
    strengths: Mapping[str, NDArray[np.float64]]
    before: Mapping[str, NDArray[np.float64]]
    after: Mapping[str, NDArray[np.float64]]
    remedies: tuple[Remedy, ...]
    result: Result

    @property
    def sentence(self) -> str:
        """What came of it, in a sentence."""
        if not self.remedies:
            return "Nothing is flagged that a remedy could be tried for."
        most = max((float((self.before[a] - self.after[a]).max()), a) for a in self.before)
        gate = f"The gate that failed: {self.gate}. " if self.gate else ""
        return f"{gate}The remedies lower the robust accuracy by up to {most[0]:.1f} points ({most[1]})."

    def _grid(self) -> Grid:
        rows = [
            (each.name, each.attack, str(each.samples), str(each.lowered), f"{each.passes:.0f}")
            for each in self.remedies
        ]
        title = [self.sentence]
        for attack in self.before:
            told = zip(self.strengths[attack].tolist(), self.before[attack], self.after[attack], strict=True)
            title.append(
                f"{attack}: " + ", ".join(f"{strength(s, 3, of=attack)} {b:.1f} -> {a:.1f} %" for s, b, a in told)
            )
        return Grid("\n".join(title), ("remedy", "attack", "samples", "lowered", "passes"), rows, (2, 3, 4))

    def _columns(self) -> dict[str, NDArray[np.generic]]:
        return {
            "remedy": objects([each.name for each in self.remedies]),
            "attack": objects([each.attack for each in self.remedies]),
            "samples": np.array([each.samples for each in self.remedies]),
            "lowered": np.array([each.lowered for each in self.remedies]),
            "passes": np.array([each.passes for each in self.remedies]),
        }


REMEDIES: Mapping[str, frozenset[str]] = {
    "inside": frozenset({"border-gradient"}),
    "logits": frozenset({"zero-gradient", "gradient", "end-gradient", "probabilities"}),
    "rescaled": frozenset({"logit-scale", "probabilities"}),
    "around": frozenset({"zero-gradient", "gradient", "end-gradient"}),
    "float64": frozenset({"zero-gradient", "gradient", "end-gradient", "probabilities"}),
    "starts": frozenset({"zero-gradient", "border-gradient"}),
    "eot": frozenset({"random"}),
    "estimated": frozenset({"zero-gradient", "gradient", "end-gradient"}),
    "distilled": frozenset({"zero-gradient", "gradient", "end-gradient"}),
    "black-box": frozenset(
        {"zero-gradient", "gradient", "end-gradient", "border-gradient", "probabilities", "unconstrained"}
    ),
}
"""Remedy -> the flags that it is tried for, in the order in which they are tried.

- Gradients of something else: just ``inside`` [0, 1], of the last linear layer (``logits``), of ``rescaled`` outputs,
  ``around`` modules that mislead, in ``float64``.
- ``starts``: random ones.
- Gradients found otherwise: averaged over draws (``eot``), ``estimated``, of a ``distilled`` network.
- ``black-box``: attacks without gradients.
"""


def repair(
    run: Subject, data: Data | None = None, *, model: Model | None = None, remedies: Sequence[str] = tuple(REMEDIES)
) -> Repair:
    """Try the remedies of what a diagnosis flags, on the samples concerned, as new evidence in the same run.

    All samples of the run are looked at. Concerned are those that a flagged indicator doubts, or all where it doubts
    more than half. What is found is verified as ever, so that the smaller example counts, and nothing found is lost.

    Args:
        run: a result, or the folder of a run.
        data: of the run; default: by its name.
        model: of the run, where it cannot be loaded from its source.
        remedies: of :data:`REMEDIES`, those to try.

    Returns:
        the accuracies before and after, and what each remedy did.

    Raises:
        UserError: not a run, or its model and data cannot be had.

    Source: Athalye et al. 2018 (identity backward); Tramèr et al. 2020 (estimated gradients); Yao et al. 2021 (a search
    over backward rules and losses); AutoAdvExBench (gates).

    Example:
        >>> import robustatlas as ra
        >>> model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
        >>> result = ra.evaluate(model, data, "linf", strengths={"linf": [0.2]}, samples=40, progress=False)
        >>> repair(result, data, model=model).remedies
        ()
    """
    with undisturbed():
        known = known_of(run, data, model)
    if known.result is None:
        raise UserError("repair adds evidence to a run: give a result or the folder of a run, not a model.")
    unknown = [name for name in remedies if name not in REMEDIES]
    if unknown:
        raise UserError(f"There is no remedy {unknown[0]!r}; there are {', '.join(REMEDIES)}.")
    result = known.result
    with undisturbed(), seeded(0, known.model.device), known.model.evaluating():
        diagnosis = _looked_at(known, result)
        tried = tuple(_tried(known, result, diagnosis, remedies))
        gate = failed_gate(known, result, diagnosis) if tried else ""
    mended = result.reread()
    return Repair(
        diagnosis=diagnosis,
        gate=gate,
        strengths={attack: result.strengths(attack) for attack in result.attacks},
        before={attack: _accuracies(result, attack) for attack in result.attacks},
        after={attack: _accuracies(mended, attack) for attack in result.attacks},
        remedies=tried,
        result=mended,
    )


def _accuracies(result: Result, attack: str) -> NDArray[np.float64]:
    return np.asarray(percent(result.correct(attack).sum(0), result.samples))


def _looked_at(known: KnownSubject, result: Result) -> Diagnosis:
    """The diagnosis of all samples of the run that are classified correctly."""
    records = result.records.values()
    known_here = [name for name in result.attacks if name in catalogue()]
    attacks = [attack_as_recorded(name, records).bound_to(known.model) for name in known_here]
    plans = [attack.plans[attack.searches[0]] for attack in attacks]
    question = question_of(known.work, attacks, plans, 0, _BATCH, count=len(known.work.index))
    return Diagnosis.of(looked_at(known, question))


def _tried(known: KnownSubject, result: Result, diagnosis: Diagnosis, remedies: Sequence[str]) -> Iterator[Remedy]:
    for name in (name for name in result.attacks if name in catalogue()):
        recorded = attack_as_recorded(name, result.records.values())
        attack = replace(recorded, strengths=tuple(result.strengths(name).tolist()), typical=0)
        for remedy in remedies:
            concerned = _concerned(diagnosis, REMEDIES[remedy])
            for told, model, tries in _ways(remedy, attack, known, concerned) if len(concerned) else ():
                yield _added(model, tries, told, concerned, known, result)


def _concerned(diagnosis: Diagnosis, flags: Collection[str]) -> NDArray[np.int64]:
    """Positions of the samples that flagged indicators among ``flags`` doubt; all, where that is more than half."""
    index = np.array(diagnosis.record.index, np.int64)
    flagged = [finding for finding in diagnosis.indicators if finding.flagged and finding.decides]
    rows = sorted({row for finding in flagged if finding.kind in flags for row in finding.reading.doubtful})
    return index if 2 * len(rows) > len(index) else index[rows]


def _ways(
    remedy: str, attack: Attack, known: KnownSubject, concerned: NDArray[np.int64]
) -> Iterator[tuple[str, Classifier, Attack]]:
    """What a remedy is tried by: its name, the model as the attack sees it, the attack."""
    model = known.model
    if remedy == "black-box":
        for other in _without_gradients(attack.name):
            yield other.name, model, replace(other, name=attack.name, strengths=attack.strengths)
    elif remedy == "starts":
        yield "random starts", model, from_random_starts(attack)
    elif ways_back(attack.plans[attack.searches[0]]):
        for way in _through(remedy, known, concerned):
            yield way.name, way.model, shortened(attack) if way.dear else attack


def _through(remedy: str, known: KnownSubject, concerned: NDArray[np.int64]) -> Sequence[Way]:
    model, look = known.model, _look(known, concerned[:_SHOWN])
    found: dict[str, Callable[[], Sequence[Way | None]]] = {
        "inside": lambda: [inside(model)],
        "logits": lambda: at_logits(model, look.x),
        "rescaled": lambda: [rescaled(model)],
        "around": lambda: around(model, look),
        "float64": lambda: [precise(model, look.x)],
        "eot": lambda: [averaged(model)],
        "estimated": lambda: [estimated(model)],
        "distilled": lambda: [transferred(model, known.work.rows[: len(known.work.labels)])],
    }
    return [way for way in found[remedy]() if way is not None]


def _look(known: KnownSubject, index: NDArray[np.int64]) -> LookedAt:
    rows = torch.from_numpy(np.flatnonzero(np.isin(known.work.index, index)))
    x = known.work.rows[rows].to(known.model.device, known.model.dtype)
    noise = Noise.of(0, torch.from_numpy(known.work.index[rows.numpy()]).to(x.device), "repair")
    return LookedAt(known.model, x, known.work.labels[rows].to(x.device), noise)


def _without_gradients(name: str) -> list[Attack]:
    known = catalogue()
    return [known[other] for other in (f"square-{name}", f"hop-skip-jump-{name}") if other in known]


def _added(
    model: Classifier, attack: Attack, name: str, index: NDArray[np.int64], known: KnownSubject, result: Result
) -> Remedy:
    before = result.reread().minimal_size(attack.name)
    positions = _positions(known.data, index)
    request = Request(attacks=attack, samples=positions, run=result.run, diagnose=False, progress=False)
    found = evaluated(model, known.data, request)
    after = result.reread().minimal_size(attack.name)
    lowered = int((after < before * (1 - 1e-6)).sum())
    forward, backward = found.passes(attack.name)
    return Remedy(name, attack.name, len(index), lowered, forward + backward)


def _positions(data: Data, index: NDArray[np.int64]) -> list[int]:
    work: Work = samples_of(data, None)
    return np.flatnonzero(np.isin(work.index, index)).tolist()


_SAMPLES = 32
_SINGLE, _ITERATED = 2 / 3, 1 / 2
"""Of the samples that are right clean, what a single step and an iteration leave at most, at the largest strength."""


def failed_gate(known: KnownSubject, result: Result, diagnosis: Diagnosis) -> str:
    """The first gate that fails: ``"forward"`` (labels are not reproduced), ``"gradient"`` (it is zero at more than
    half of the samples), ``"single step"``, ``"iterate"``. ``""``: none."""
    index = np.array(diagnosis.record.index, np.int64)
    if not len(index):
        return "forward"
    zero = next((finding for finding in diagnosis.indicators if finding.name == "zero-gradient"), None)
    if zero is not None and zero.share is not None and zero.share.value > 50:
        return "gradient"
    for name in result.attacks:
        if name in catalogue() and result.records:
            attack = replace(attack_as_recorded(name, result.records.values()), typical=0)
            for gate, steps, most in (("single step", 1, _SINGLE), ("iterate", 20, _ITERATED)):
                if _left(known, _stepping(attack, steps, float(result.strengths(name)[-1])), index) > most:
                    return gate
    return ""


def _stepping(attack: Attack, steps: int, strength: float) -> Attack:
    rate = 1.0 if steps == 1 else 0.25
    return replace(attack, plans=plans_of(Stage(PGD(steps, rate=rate), "margin")), strengths=(strength,))


def _left(known: KnownSubject, attack: Attack, index: NDArray[np.int64]) -> float:
    rows = torch.from_numpy(np.flatnonzero(np.isin(known.work.index, index))[:_SAMPLES])
    data = (known.work.rows[rows], known.work.labels[rows])
    found = evaluated(known.model, data, Request(attacks=attack, diagnose=False, progress=False))
    return float(found.correct(attack.name)[:, -1].mean())
