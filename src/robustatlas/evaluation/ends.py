"""The diagnosis after the work: do gradients tell the truth where the searches ended?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.attacks.search.plan import AttackRun
from robustatlas.checks.diagnosis import Diagnosis
from robustatlas.checks.indicators import DiagnosedSamples, Measurement
from robustatlas.checks.indicators.gradients import EndGradient
from robustatlas.engine.run_ends import Ends, observed_run, run_ends
from robustatlas.evaluation.reading import DiagnosisRequest, diagnosed, halve_until_it_fits, indicator_reading
from robustatlas.models.classifier import Classifier, seeded
from robustatlas.models.classifier.probing import drop_failing_gradient
from robustatlas.outcomes import Run
from robustatlas.outcomes.comparable import find_rows
from robustatlas.outcomes.identity import current_time
from robustatlas.outcomes.records import DiagnosisRecord, Reading
from robustatlas.outcomes.strengths import merged_strengths
from robustatlas.outcomes.table import OutcomeTable

Levels = Mapping[str, NDArray[np.int64]]
"""Attack -> [n] of each sample of a diagnosis: index of the largest strength that it withstands; -1: none."""


def diagnosed_at_ends(store: Run, model: Classifier, request: DiagnosisRequest) -> Diagnosis:
    """The diagnosis of a run with what is read where its searches ended, of the attacks that are through with the
    samples of the diagnosis."""
    diagnosis = diagnosed(store, model, request)
    index = np.array(diagnosis.record.index, np.int64)
    before = {attack.name: diagnosis.checked_strengths.get(attack.name, ()) for attack in request.attacks}
    request = replace(request, attacks=[_add_strengths(attack, before[attack.name]) for attack in request.attacks])
    through = {
        attack.name: attack.strengths
        for attack, _ in _searching(request)
        if len(attack.strengths) > len(before[attack.name])
        and np.isin(index, store.finished_samples(attack.name, attack.strengths)).all()
    }
    if not through or not diagnosis.can_change:
        return diagnosis
    levels = withstood(store.table(list(through), index, through), index)
    record = with_ends(model, request, diagnosis.record, levels)
    return Diagnosis.from_record(store.keep_diagnosis(record))


def _add_strengths(attack: Attack, strengths: Sequence[float]) -> Attack:
    """Return the attack at these strengths too."""
    return replace(attack, strengths=tuple(merged_strengths([np.array(attack.strengths), np.array(strengths)])))


def _reduce_to_three_strengths(attack: Attack) -> Attack:
    """Return the attack at its smallest, its middle and its largest strength."""
    last = len(attack.strengths) - 1
    return replace(attack, strengths=tuple(attack.strengths[k] for k in sorted({0, last // 2, last})))


def withstood(table: OutcomeTable, index: NDArray[np.int64]) -> Levels:
    """Return the largest strengths that the samples ``index`` [n] withstand, for each attack of a table."""
    rows = find_rows(table.index, index)
    return {attack: _largest(table.correct(attack)[rows]) for attack in table.attacks}


def _largest(correct: NDArray[np.bool_]) -> NDArray[np.int64]:
    """``[n]``: the last column that holds, of [n, S]; -1: none."""
    return np.where(correct.any(1), correct.shape[1] - 1 - correct[:, ::-1].argmax(1), -1)


def with_ends(
    model: Classifier, request: DiagnosisRequest, record: DiagnosisRecord, levels: Levels | None = None
) -> DiagnosisRecord:
    """A record with what is read where searches ended.

    Of a sample that withstands a strength one run at the largest of these is made again, and the derivative test taken
    at its last point and at its best. One that withstands none has its example, and nothing of it is doubted.

    Args:
        model: of the record.
        request: of which it is the answer.
        record: of the samples themselves.
        levels: of the attacks to look at; None: of all, found by one run at each of three of their strengths.
    """
    if levels is None:
        request = replace(request, attacks=[_reduce_to_three_strengths(attack) for attack in request.attacks])
    model = drop_failing_gradient(model, request.work.rows[:2])
    asked = [(attack, run) for attack, run in _searching(request) if levels is None or attack.name in levels]
    if model.knowledge != "gradients" or not asked or not record.index:
        return record
    with model.counting() as passes:
        read = []
        for attack, run in asked:
            searches = _Searches.restore(model, request, record, attack, run)
            read.append(searches.reading(searches.withstood() if levels is None else levels[attack.name]))
    anew = {reading.name for reading in read}
    return record.model_copy(
        update={
            "created": current_time("microseconds"),
            "readings": (*(reading for reading in record.readings if reading.name not in anew), *read),
            "forward": round(record.forward + passes.forward / len(record.index), 2),
            "backward": round(record.backward + passes.backward / len(record.index), 2),
        }
    )


def _searching(request: DiagnosisRequest) -> list[tuple[Attack, AttackRun]]:
    """Return the attacks of a request that go by gradients, each with the run whose ends are looked at."""
    runs = [(attack, observed_run(plan)) for attack, plan in zip(request.attacks, request.plans, strict=True)]
    return [(attack, run) for attack, run in runs if run is not None]


@dataclass(frozen=True)
class _Searches:
    """Runs of one attack at the n samples of a diagnosis, which are the ``rows`` [n] of the request."""

    model: Classifier
    request: DiagnosisRequest
    attack: Attack
    run: AttackRun
    rows: Tensor

    @classmethod
    def restore(
        cls, model: Classifier, request: DiagnosisRequest, record: DiagnosisRecord, attack: Attack, run: AttackRun
    ) -> _Searches:
        """Return the runs on the samples of a stored diagnosis."""
        rows = find_rows(request.work.index, np.array(record.index, np.int64))
        return cls(model.with_errors(attack.errors), request, attack, run, torch.from_numpy(rows))

    def withstood(self) -> NDArray[np.int64]:
        """[n] index of the largest strength at which a run fails; -1: none."""
        everyone = torch.arange(len(self.rows))
        failed = [
            torch.cat(
                halve_until_it_fits(
                    self.request.batch, partial(self._failed, everyone, torch.full_like(everyone, level))
                )
            )
            for level in range(len(self.attack.strengths))
        ]
        return _largest(torch.stack(failed, 1).numpy())

    def reading(self, levels: NDArray[np.int64]) -> Reading:
        """Return the reading of the derivative test, on at most as many samples as the request allows.

        Args:
            levels: ``[n]`` index of the largest strength that each sample withstands; -1: none.
        """
        indicator, most = EndGradient(self.attack.name), self.request.ends
        standing = np.flatnonzero(levels >= 0)
        looked_at = torch.from_numpy(standing[:most])
        judged = torch.arange(len(levels)) < (standing[most] if len(standing) > most else len(levels))
        found = Measurement(torch.ones(len(levels), dtype=torch.float64), torch.zeros_like(judged), judged)
        if len(looked_at):
            parts = halve_until_it_fits(self.request.batch, partial(self._tested, looked_at, torch.from_numpy(levels)))
            tested = Measurement.concatenate(parts)
            found.values[looked_at], found.doubtful[looked_at], judged[looked_at] = (
                tested.values.double(),
                tested.doubtful,
                tested.judged,
            )
        told = indicator_reading(indicator, found)
        return told.model_copy(update={"attack": self.attack.name, "strengths": tuple(self.attack.strengths)})

    def _failed(self, places: Tensor, levels: Tensor, size: int) -> list[Tensor]:
        """Return for batches of ``size`` if a run finds nothing of the samples at ``places``."""
        return [~self._ends(part, levels)[1].fooled.cpu() for part in torch.split(places, size)]

    def _tested(self, places: Tensor, levels: Tensor, size: int) -> list[Measurement]:
        """The derivative test where runs of the samples at ``places`` end, so many at once: the worse of the last point
        and the best."""
        return [self._measure_worse_point(*self._ends(part, levels)) for part in torch.split(places, size)]

    def _measure_worse_point(self, at: Tensor, ends: Ends) -> Measurement:
        found = self._measured(at, ends.last)
        other = (ends.best != ends.last).flatten(1).any(1).nonzero().squeeze(1).cpu()
        if len(other):
            best = self._measured(at[other], ends.best[other.to(ends.best.device)])
            found.values[other] = found.values[other].minimum(best.values)
            found.doubtful[other] |= best.doubtful
            found.judged[other] |= best.judged
        return found

    def _ends(self, places: Tensor, levels: Tensor) -> tuple[Tensor, Ends]:
        """The rows of the samples at ``places``, and where runs of them end."""
        rows, model = self.rows[places], self.model
        x, labels = self.request.work.load(model, rows)
        noise = self.request.noise(rows, model.device, self.attack.name)
        with seeded(self.request.seed, model.device):
            return rows, run_ends(model, self.attack, self.run, x, labels, noise, levels[places])

    def _measured(self, rows: Tensor, x: Tensor) -> Measurement:
        labels, noise = self.request.work.labels[rows].to(x.device), self.request.noise(rows, self.model.device)
        look = DiagnosedSamples(self.model, x, labels, noise, {self.run.backward})
        return Measurement.concatenate([EndGradient(self.attack.name).measure(look)])
