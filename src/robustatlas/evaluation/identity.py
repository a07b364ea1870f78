"""The identity of a run: its data, and its model by weights, code and logits. Logits are compared on a few drawn
images, and margins on samples of the run itself."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustatlas.checks.sanity.gradients import CHECK_BATCH
from robustatlas.common.bundle import per_sample
from robustatlas.common.noise import Noise
from robustatlas.data import Beginning
from robustatlas.evaluation.gradients import projected_gradients
from robustatlas.evaluation.samples import ChosenSamples
from robustatlas.models.classifier import Classifier, Origin, seeded
from robustatlas.models.classifier.backward import Backward
from robustatlas.models.classifier.probing import drop_failing_gradient
from robustatlas.models.objectives import margin_of
from robustatlas.outcomes import DataRecord, Identity, ModelRecord, Run
from robustatlas.outcomes.identity import LOGIT_TOLERANCE, current_time
from robustatlas.outcomes.records import GradientRecord


def run_identity(model: Classifier, shape: Sequence[int], data: DataRecord) -> Identity:
    """Return the identity of a run of ``model`` on ``data``, whose inputs have the ``shape`` (without the batch)."""
    return Identity(model=model_record(model, shape), data=data, created=current_time())


def model_record(model: Classifier, shape: Sequence[int]) -> ModelRecord:
    """Return the record of a model, with its logits of a few drawn images, from bright to dark."""
    images = _probe_images(shape).to(model.device, model.dtype)
    with torch.no_grad(), seeded(0, model.device):
        logits = model.logits(images, verifying=True)
    known, origin = model.identity(), model.origin or Origin("")
    return ModelRecord(
        name=model.name,
        source=known.source or "",
        weights_sha256=known.weights_sha256,
        code_sha256=known.code_sha256,
        probe=tuple(tuple(row) for row in logits.double().cpu().tolist()),
        licence=origin.licence,
        home=origin.home,
        library=origin.library,
    )


def _probe_images(shape: Sequence[int]) -> Tensor:
    index = torch.arange(8)
    drawn = Noise.for_samples(0, index, "probe").uniform(*shape)
    return drawn ** per_sample(2.0 ** (index - 3.5), drawn)


@dataclass(frozen=True)
class ModelProbe:
    """The logits and gradients of a model on the probe's images, by which its copy in a worker is compared with it.

    Attributes:
        model: with the logits.
        shape: of an image.
        ways: the ways in which attacks take gradients of it; none of a model that has no gradient.
        gradients: of the margins, projected.
    """

    model: ModelRecord
    shape: tuple[int, ...]
    ways: frozenset[Backward | None]
    gradients: GradientRecord

    @classmethod
    def take(
        cls, model: Classifier, identity: Identity, shape: Sequence[int], ways: Collection[Backward | None]
    ) -> Self:
        """Return the probe of `model`, whose logits `identity` holds."""
        used = frozenset(ways) if model.knowledge == "gradients" else frozenset()
        return cls(identity.model, tuple(shape), used, _probe_gradients(model, identity.model, shape, used))

    def difference(self, copied: Classifier) -> str | None:
        """Return a sentence if `copied`, in a worker, is another model."""
        differences = self.model.differences(model_record(copied, self.shape))
        if not differences and not _probe_gradients(copied, self.model, self.shape, self.ways).is_same_gradient(
            self.gradients
        ):
            differences.append("its gradients on the probe's images are others")
        if not differences:
            return None
        return (
            f"The model that reached a worker on {copied.device} is not the one of this process: "
            f"{'; '.join(differences)}. A worker imports packages anew: set there what this process has set after the "
            "import, or evaluate with workers=1; else a file has another version there, or that device is broken."
        )


def _probe_gradients(
    model: Classifier, record: ModelRecord, shape: Sequence[int], ways: Collection[Backward | None]
) -> GradientRecord:
    images = _probe_images(shape)
    classes = len(record.probe[0]) - (model.rejection is not None)
    labels = torch.tensor(record.probe)[:, :classes].argmax(1)
    able = drop_failing_gradient(model, images[:1])
    return projected_gradients(able, Beginning(images, labels, tuple(range(len(images)))), ways)


_COMPARED = 64
"""Samples of a run whose clean margins are computed again before its results are reused."""

_REPEATED = 8
_DEVIATIONS = 4.0
"""A model whose answers vary, from draw to draw or with the rest of the batch, is asked so often, and is another one
where the margins of the run are, on average over the samples, so many standard deviations away."""

_MARGIN_ROUNDING = 1e-5
"""Margins are kept in float32."""


def check_answers(model: Classifier, run: Run, work: ChosenSamples) -> None:
    """Raise :class:`UserError` where the clean margins that ``run`` holds of the samples asked for are not those of
    ``model``.

    Up to 64 samples are compared. What logits that are off by a thousandth of the largest (networks in half precision:
    by their rounding) would explain is not a difference; of models whose answers vary, what four standard deviations
    would.
    """
    known = run.clean(work.index)
    rows = np.flatnonzero(np.isin(work.index, known["index"]) & ~np.isnan(_recorded_margins(known, work.index)))
    if not len(rows):
        return
    rows = rows[np.linspace(0, len(rows) - 1, min(_COMPARED, len(rows))).round().astype(np.int64)]
    positions = torch.from_numpy(rows)
    (x, labels), stored = work.load(model, positions), _recorded_margins(known, work.index[rows])
    margin, low, high = (values.double().cpu().numpy() for values in _margin_and_bounds(model, x, labels, 0))
    again = _margin_and_bounds(model, x, labels, 1)[0].double().cpu().numpy()
    if ((again < low) | (again > high)).any():
        others = [_margin_and_bounds(model, x, labels, k)[0].double().cpu().numpy() for k in range(2, _REPEATED)]
        drawn = np.stack([margin, again, *others])
        margin, spread = drawn.mean(0), drawn.std(0, ddof=1) * (1 + 1 / _REPEATED) ** 0.5 + (high - low) / 2
        differ = np.abs(stored - margin) > _DEVIATIONS * spread
        another = float((np.abs(stored - margin) / spread).clip(max=10.0).mean()) > _DEVIATIONS
    else:
        differ = (stored < low) | (stored > high)
        another = bool(differ.any())
    if another:
        first = int(differ.argmax())
        run.refuse(
            f"the model is not the one of the run: its margin on sample {work.index[rows[first]]} is "
            f"{margin[first]:.3g} and that of the run {stored[first]:.3g} ({int(differ.sum())} of {len(rows)} samples "
            "compared differ)"
        )


def _recorded_margins(known: Mapping[str, NDArray[Any]], index: NDArray[np.int64]) -> NDArray[np.float64]:
    """The margins that are known of the samples ``index`` [N]; NaN elsewhere."""
    order = np.argsort(known["index"], kind="stable")
    held = known["index"][order]
    place = np.searchsorted(held, index).clip(max=max(len(held) - 1, 0))
    if not len(held):
        return np.full(len(index), np.nan)
    return np.where(held[place] == index, known["clean_margin"][order][place].astype(np.float64), np.nan)


def _margin_and_bounds(model: Classifier, x: Tensor, labels: Tensor, number: int) -> tuple[Tensor, Tensor, Tensor]:
    """Softmax margins [B], the lowest and the highest that rounding of the logits explains; each ``number`` draws
    others, in other company."""
    company = torch.arange(len(x), device=x.device).roll(number)
    noise = Noise.for_samples(number, company, "answers")
    parts = torch.split(company, -(-CHECK_BATCH // (number + 1)))
    with torch.no_grad(), seeded(number, model.device):
        logits = torch.cat(
            [model.logits(x[part], labels=labels[part], noise=noise.take(part), verifying=True) for part in parts]
        )[company.argsort()].double()
    moved = 2 * max(LOGIT_TOLERANCE, model.rounding) * logits.abs().amax()
    shift = torch.zeros_like(logits).scatter(1, labels[:, None], 1.0) * moved
    margin, low, high = (margin_of((logits + by * shift).softmax(1), labels) for by in (0, -1, 1))
    return margin, low - _MARGIN_ROUNDING, high + _MARGIN_ROUNDING
