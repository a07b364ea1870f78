"""The diagnosis before the work: indicators read some images, and say if the numbers that follow can be trusted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack, Plan
from robustatlas.checks.diagnosis import Diagnosis
from robustatlas.checks.indicators import INDICATORS, DiagnosedSamples, Indicator, Measurement
from robustatlas.checks.sanity import backward_rules
from robustatlas.common.noise import Noise
from robustatlas.common.scalars import random_generator
from robustatlas.engine.run_ends import observed_run
from robustatlas.evaluation.memory import ran_out
from robustatlas.evaluation.samples import ChosenSamples
from robustatlas.models.classifier import Classifier, seeded
from robustatlas.models.classifier.probing import drop_failing_gradient
from robustatlas.outcomes import Run
from robustatlas.outcomes.base import digest
from robustatlas.outcomes.identity import current_time
from robustatlas.outcomes.records import DiagnosisRecord, GradientRecord, Reading, sample_spans

FEWEST = 32
"""Samples that are looked at in any case, where there are so many."""
_SHARE = 0.05
"""Share of the passes of the evaluation, above the fewest samples."""
_PASSES = 34
"""Forward and backward passes a sample of all indicators together, and of the choice of samples."""
FEWEST_ENDS = 17
"""Samples that are looked at in any case where the searches of an attack ended: of so many one may be doubtful, and the
verdict is sound all the same."""
_END = 38
"""Passes of the derivative test at two points."""
_DIGITS = 4
_KNOWS = {"labels": 0, "scores": 1, "gradients": 2}

T = TypeVar("T")


@dataclass(frozen=True)
class DiagnosisRequest:
    """Request of a diagnosis: samples, attacks and indicators.

    Attributes:
        work: the samples to choose from.
        attacks: whose numbers are to be judged.
        plans: of their searches.
        seed: of the choice, and of the random directions.
        count: samples, at most.
        batch: samples at once.
        indicators: to be read.
        ends: samples that withstand something, at most, whose searches are looked at where they ended, of each attack.
        gradients: as the run records them; another gradient is another request.
    """

    work: ChosenSamples
    attacks: Sequence[Attack]
    plans: Sequence[Plan]
    seed: int
    count: int
    batch: int
    indicators: Sequence[type[Indicator]]
    ends: int
    gradients: Sequence[GradientRecord] = ()

    @property
    def digest(self) -> str:
        """Digest that is equal for equal requests."""
        ways = sorted({str(way) for plan in self.plans for way in backward_rules(plan)})
        objectives = sorted({run.objective for plan in self.plans for run in plan.runs})
        spans = [list(span) for span in sample_spans(self.work.index)]
        taken = [gradient.model_dump(mode="json", include={"at", "ways"}) for gradient in self.gradients]
        return digest([self.seed, self.count, ways, objectives, spans, taken])

    def noise(self, rows: Tensor, device: torch.device, of: str = "diagnosis") -> Noise:
        """The streams of the samples at ``rows`` [M]; ``of``: what draws from them."""
        return Noise.for_samples(self.seed, torch.from_numpy(self.work.index[rows.numpy()]).to(device), of)


def diagnosis_request(
    work: ChosenSamples,
    attacks: Sequence[Attack],
    plans: Sequence[Plan],
    seed: int,
    batch: int,
    count: int | None = None,
    passes: float = 0.0,
    gradients: Sequence[GradientRecord] = (),
    everything: bool = False,
) -> DiagnosisRequest:
    """Return the request to diagnose some attacks at ``count`` samples. By default these are as many as cost a
    twentieth of the ``passes`` a sample that the evaluation takes, with the look at the ends of searches, and at least
    32 (or all). ``everything``: with the indicators that decide nothing."""
    everyone = len(work.index)
    affordable, each = _SHARE * passes * everyone, _passes_at_ends(plans)
    number = min(everyone, max(FEWEST, int(affordable / (_PASSES + each))) if count is None else count)
    ends = number if count is not None else max(FEWEST_ENDS, int((affordable - _PASSES * number) / max(each, 1)))
    indicators = tuple(
        kind for kind in INDICATORS.load_usable().values() if kind.part == "always" and (everything or kind.decides)
    )
    return DiagnosisRequest(work, attacks, plans, seed, number, batch, indicators, ends, gradients)


def _passes_at_ends(plans: Sequence[Plan]) -> int:
    """A sample, of the look at the ends of the searches of all plans: a run, and the test at two points."""
    runs = [run for run in map(observed_run, plans) if run is not None]
    return sum(2 * run.optimizer.evaluations + 1 + _END for run in runs)


def read_indicators(model: Classifier, request: DiagnosisRequest) -> DiagnosisRecord:
    """Ask: choose samples at random among those that are classified correctly, and read all indicators at them."""
    model = drop_failing_gradient(model, request.work.rows[:2])
    with model.counting() as passes:
        chosen = halve_until_it_fits(request.batch, lambda size: _select_samples(model, request, size))
        gradients = model.knowledge == "gradients" and any(map(backward_rules, request.plans))
        indicators = [
            indicator()
            for indicator in request.indicators
            if _KNOWS[model.knowledge] >= _KNOWS[indicator.needs] and (gradients or indicator.needs != "gradients")
        ]
        measured = halve_until_it_fits(request.batch, lambda size: _measured(model, request, chosen, indicators, size))
    objectives = {run.objective for plan in request.plans for run in plan.runs}
    count = max(1, len(chosen))
    return DiagnosisRecord(
        asked=request.digest,
        created=current_time("microseconds"),
        told=gradients or not any(attack.threat.optimised for attack in request.attacks),
        index=tuple(request.work.index[chosen.numpy()].tolist()),
        readings=tuple(
            indicator_reading(indicator, found, indicator.severity_of(objectives))
            for indicator, found in zip(indicators, measured, strict=True)
        ),
        forward=round(passes.forward / count, 2),
        backward=round(passes.backward / count, 2),
    )


def diagnosed(store: Run, model: Classifier, request: DiagnosisRequest) -> Diagnosis:
    """The diagnosis that a run has, or else one that is made and kept in it."""
    known = [record for record in store.diagnoses() if record.asked == request.digest]
    if not known:
        known = [store.keep_diagnosis(read_indicators(model, request))]
    return Diagnosis.from_record(known[-1])


def indicator_reading(indicator: Indicator, found: Measurement, severity: str | None = None) -> Reading:
    """Return the reading of an indicator, as it is stored."""
    values = [
        _rounded(value) if judged else None
        for value, judged in zip(found.values.double().tolist(), found.judged.tolist(), strict=True)
    ]
    return Reading.model_validate(
        {
            "name": indicator.name,
            "severity": severity or indicator.severity,
            "threshold": indicator.threshold,
            "limit": indicator.limit,
            "means": indicator.means,
            "remedy": indicator.remedy,
            "code": indicator.code,
            "source": indicator.source,
            "decides": indicator.decides,
            "values": tuple(values),
            "doubtful": tuple(found.doubtful.nonzero().flatten().tolist()),
        }
    )


def _rounded(value: float) -> float:
    return float(f"{min(max(value, -1e300), 1e300):.{_DIGITS}g}")


def _select_samples(model: Classifier, request: DiagnosisRequest, size: int) -> Tensor:
    """Rows [n] of the samples to look at: the first in random order that are classified correctly, in that order."""
    work = request.work
    order = torch.from_numpy(np.argsort(work.index, kind="stable"))
    order = order[torch.from_numpy(random_generator(request.seed).permutation(len(order)))]
    found: list[Tensor] = []
    with torch.no_grad():
        for rows in torch.split(order, max(1, min(size, request.count))):
            x, labels = work.load(model, rows)
            noise = request.noise(rows, model.device).child(0)
            with seeded(0, model.device):
                logits = model.logits(x, labels=labels, noise=noise, verifying=True)
            found.append(rows[(logits.argmax(1) == labels).cpu()])
            if sum(map(len, found)) >= request.count:
                break
    return torch.cat(found)[: request.count]


def _measured(
    model: Classifier, request: DiagnosisRequest, chosen: Tensor, indicators: Sequence[Indicator], size: int
) -> list[Measurement]:
    """Return the measurements of each indicator on all samples, in batches of ``size``."""
    ways = {way for plan in request.plans for way in backward_rules(plan)} or {None}
    parts: list[list[Measurement]] = []
    for rows in torch.split(chosen, size):
        look = DiagnosedSamples(model, *request.work.load(model, rows), request.noise(rows, model.device), ways)
        parts.append([indicator.measure(look) for indicator in indicators])
    if not parts:
        nothing = torch.zeros(0)
        return [Measurement(nothing, nothing.bool(), nothing.bool()) for _ in indicators]
    return [Measurement.concatenate(found) for found in zip(*parts, strict=True)]


def halve_until_it_fits(size: int, attempt: Callable[[int], T]) -> T:
    """Return the result of ``attempt`` with the largest batch, halved from ``size``, that fits into memory."""
    while True:
        try:
            return attempt(size)
        except Exception as error:
            if size == 1 or not ran_out(error):
                raise
            size //= 2
