"""AutoAttack's class, carried out by this package: the same calls, at least as strong, and the whole curve besides."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import Attack, grid
from robustatlas.checks.sanity import check_inputs, check_logits
from robustatlas.common.errors import UserError, brief, warn
from robustatlas.common.files import named, one_sentence
from robustatlas.common.host import check_default_device
from robustatlas.common.scalars import count_of, real
from robustatlas.compat.autoattack_settings import NORMS, Ensemble, Version
from robustatlas.data.arrays import tensor_of
from robustatlas.data.labels import class_numbers
from robustatlas.evaluation import evaluate
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.placement import first_float, usable_device
from robustatlas.results.result import Result, load_result

OURS = "robustatlas"
"""Name of the search that goes first, in the lines that are printed."""


@dataclass(frozen=True)
class _Inputs:
    """Inputs of an evaluation.

    Attributes:
        x: [N, ...] in [0, 1].
        labels: [N].
        bs: largest number of inputs in a batch.
        predicted: [N] classes that the model gives them.
    """

    x: Tensor
    labels: Tensor
    bs: int
    predicted: Tensor

    @property
    def right(self) -> Tensor:
        """[N] True where the model is right."""
        return self.predicted == self.labels


class AutoAttack:
    """Class with the constructor, methods and defaults of ``autoattack.AutoAttack`` (fra31/auto-attack).

    ``run_standard_evaluation`` first looks for the smallest adversarial example of every sample, and then lets
    AutoAttack's own attacks of the version, with the settings that were made on them, attack the samples left standing.
    ``result`` then holds the whole curve up to ``eps``, with intervals.

    Args:
        model: from inputs in [0, 1] to logits.
        norm: ``"Linf"``, ``"L2"`` or ``"L1"``.
        eps: the strength.
        seed: of all random numbers; None: 0.
        verbose: print what is found.
        attacks_to_run: names for ``version="custom"``.
        version: ``"standard"``, ``"plus"``, ``"rand"`` or ``"custom"``.
        is_tf_model: not supported; see :func:`robustatlas.from_tensorflow` for such models.
        device: where to compute; without CUDA the default is the CPU, which is said.
        log_path: a file that gets a copy of what is printed.
        fast: leave AutoAttack's own attacks out.

    Attributes:
        apgd, apgd_targeted, fab, square: settings of the attacks, such as ``apgd.n_restarts``, ``fab.n_target_classes``
            and ``square.n_queries``.
        result: after an evaluation, the :class:`robustatlas.Result` of it.

    Raises:
        UserError: an unknown norm, version or attack, or a model of TensorFlow.

    Example:
        >>> import robustatlas as ra
        >>> net, data = ra.load_model("builtin:digits-linf").net, ra.load_dataset("digits").take(8)
        >>> adversary = AutoAttack(net, norm="Linf", eps=0.1, device="cpu", verbose=False, fast=True)
        >>> x_adv = adversary.run_standard_evaluation(data.images, data.labels, bs=8)
        >>> x_adv.shape, bool((x_adv - data.images).abs().max() <= 0.1 + 1e-6)
        (torch.Size([8, 1, 8, 8]), True)
    """

    def __init__(
        self,
        model: Any,
        norm: str = "Linf",
        eps: float = 0.3,
        seed: int | None = None,
        verbose: bool = True,
        attacks_to_run: Sequence[str] = (),
        version: Version = "standard",
        is_tf_model: bool = False,
        device: str | torch.device = "cuda",
        log_path: str | Path | None = None,
        *,
        fast: bool = False,
    ) -> None:
        if is_tf_model:
            raise UserError("is_tf_model=True is not supported; give robustatlas.from_tensorflow(model) as the model.")
        if norm not in NORMS:
            raise UserError(f"norm={brief(repr(norm))} is not known; expected one of {', '.join(NORMS)}.")
        if not 0 < real(eps) < float("inf"):
            raise UserError(f"eps={brief(repr(eps))} is not a strength; expected a positive number, such as 8/255.")
        self.model, self.norm, self.epsilon, self.seed, self.verbose = model, norm, float(eps), seed, verbose
        self.device = _choose_device(model, device)
        self.log_path = None if log_path is None else named(log_path)
        self.fast = fast
        self.result: Result | None = None
        self._ensemble = Ensemble.with_defaults(NORMS[norm])
        self.apgd, self.apgd_targeted = self._ensemble.apgd, self._ensemble.apgd_targeted
        self.fab, self.square = self._ensemble.fab, self._ensemble.square
        self.attacks_to_run = list(attacks_to_run)
        self._kept: tempfile.TemporaryDirectory[str] | None = None
        self.version = version
        self.set_version(version)

    def set_version(self, version: Version = "standard") -> None:
        """Make the settings of a version.

        Args:
            version: ``"standard"``, ``"plus"``, ``"rand"`` or ``"custom"`` (which leaves all as it is).

        Raises:
            UserError: there is no such version, or attacks are named that the version would replace.
        """
        if version not in ("standard", "plus", "rand", "custom"):
            raise UserError(f"version={brief(repr(version))} is not known; expected standard, plus, rand or custom.")
        if self.attacks_to_run and version != "custom" and version != self.version:
            self.attacks_to_run = []
        if self.attacks_to_run and version != "custom":
            raise UserError(f"attacks_to_run is replaced by version={version!r}; give version='custom' to choose them.")
        self.version = version
        self.attacks_to_run = self._ensemble.set_version(version) or self.attacks_to_run

    def get_logits(self, x: Tensor) -> Tensor:
        """Return the logits [B, C] of the model."""
        return self._classifier().logits(tensor_of(x).to(self.device))

    def clean_accuracy(self, x_orig: Tensor, y_orig: Tensor, bs: int = 250) -> float:
        """Return the share of the inputs [N, ...] that are classified correctly, in [0, 1]."""
        share = float(self._check_inputs(x_orig, y_orig, bs).right.float().mean())
        self._say(f"clean accuracy: {share:.2%}")
        return share

    def run_standard_evaluation(
        self,
        x_orig: Tensor,
        y_orig: Tensor,
        bs: int = 250,
        return_labels: bool = False,
        state_path: str | Path | None = None,
        *,
        batch_size: int | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attack inputs, each until it is broken.

        Args:
            x_orig: [N, ...] in [0, 1].
            y_orig: [N] labels.
            bs: samples at work at once.
            return_labels: return the predictions [N] of what is returned as well.
            batch_size: the same as ``bs``, by the name that pyautoattack has for it.
            state_path: keep what is found in the folder of this name, so that an interrupted evaluation goes on.

        Returns:
            adversarial inputs [N, ...] of the same type and device: within ``eps`` for samples that were broken, as
            they were for those that stand or were misclassified before.

        Raises:
            UserError: inputs, labels or a model that do not fit, in one sentence.
        """
        start, inputs = time.monotonic(), self._check_inputs(x_orig, y_orig, bs if batch_size is None else batch_size)
        run = self._run_folder(state_path)
        self._say(f"using {self.version} version including {', '.join(self.attacks_to_run)}.")
        standing, found = inputs.right.clone(), inputs.x.clone()
        self._say(f"initial accuracy: {_format_share(standing)}")
        if not standing.any():
            self._say("no sample is classified correctly: nothing is left to attack")
            return (found, inputs.predicted) if return_labels else found
        whole_curve = replace(attack_named(NORMS[self.norm]), strengths=grid(self.epsilon))
        own = [] if self.fast else [(name, self._ensemble.attack(name, self.epsilon)) for name in self.attacks_to_run]
        for name, attack in [(OURS, whole_curve), *own]:
            if standing.any():
                asked = torch.ones_like(standing) if name == OURS else standing
                rows, examples = self._find_examples(attack, inputs, asked, run, diagnose=name == OURS)
                found[rows], standing[rows] = examples, False
                spent = time.monotonic() - start
                self._say(f"robust accuracy after {name.upper()}: {_format_share(standing)} (total time {spent:.1f} s)")
        self.result = load_result(run)
        predicted = self._logits(found, inputs.bs).argmax(1).to(found.device)
        self._say(f"robust accuracy: {_format_share(predicted == inputs.labels)}")
        return (found, predicted) if return_labels else found

    def run_standard_evaluation_individual(
        self,
        x_orig: Tensor,
        y_orig: Tensor,
        bs: int = 250,
        return_labels: bool = False,
        *,
        batch_size: int | None = None,
    ) -> dict[str, Any]:
        """Let each of ``attacks_to_run`` attack all inputs by itself.

        Args:
            x_orig: [N, ...] in [0, 1].
            y_orig: [N] labels.
            bs: samples at work at once.
            return_labels: return predictions as well.
            batch_size: the same as ``bs``.

        Returns:
            attack -> what :meth:`run_standard_evaluation` returns, of that attack alone.
        """
        inputs, results = self._check_inputs(x_orig, y_orig, bs if batch_size is None else batch_size), {}
        for name in self.attacks_to_run:
            start = time.monotonic()
            found, standing = inputs.x.clone(), inputs.right.clone()
            if standing.any():
                attack = self._ensemble.attack(name, self.epsilon)
                rows, examples = self._find_examples(attack, inputs, inputs.right, None)
                found[rows], standing[rows] = examples, False
            spent = time.monotonic() - start
            self._say(f"robust accuracy by {name.upper()}: {_format_share(standing)} (time attack: {spent:.1f} s)")
            results[name] = (found, self._logits(found, inputs.bs).argmax(1)) if return_labels else found
        return results

    def _check_inputs(self, x_orig: Any, y_orig: Any, bs: Any) -> _Inputs:
        """Return inputs, labels and predictions, or refuse them in one sentence."""
        check_default_device()
        size = count_of("bs", bs)
        x = check_inputs(tensor_of(x_orig), y_orig)
        labels = torch.from_numpy(class_numbers(y_orig, "Labels")).to(x.device)
        logits = self._logits(x, size)
        check_logits(logits, len(x), labels)
        return _Inputs(x, labels, size, logits.argmax(1).to(x.device))

    def _find_examples(
        self, attack: Attack, inputs: _Inputs, asked: Tensor, run: Path | None, *, diagnose: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Return the positions of the samples that an attack breaks within epsilon, and their examples.

        Args:
            attack: to run.
            inputs: of the evaluation.
            asked: [N] True for the samples to attack; those misclassified before are left out of what is returned.
            run: folder that keeps the outcomes; None: none.
            diagnose: make a diagnosis as well.
        """
        result = evaluate(
            self._classifier(),
            (inputs.x, inputs.labels),
            [attack],
            search=attack.searches[0],
            samples=asked.nonzero().flatten().tolist(),
            seed=self.seed or 0,
            run=run,
            batch_size=inputs.bs,
            keep_adversarial=True,
            diagnose=diagnose,
            progress=None if self.verbose else False,
        )
        within = result.clean & result.outcome(attack.name).broken([self.epsilon])[:, 0]
        index, examples = result.adversarial(attack.name)
        kept = np.isin(index, result.index[within])
        rows, found = torch.from_numpy(index[kept]).to(inputs.x.device), torch.from_numpy(examples[kept]).to(inputs.x)
        return rows, found.reshape(-1, *inputs.x.shape[1:])  # an empty array has no shape of images

    def _classifier(self) -> Classifier:
        draws = self.apgd.eot_iter if self.apgd.eot_iter > 1 else None
        return Classifier(self.model, device=self.device, draws=draws)

    def _logits(self, x: Tensor, bs: int) -> Tensor:
        """Return the logits [N, C] of inputs [N, ...], in batches of ``bs``."""
        classifier = self._classifier()
        with classifier.evaluating(), torch.no_grad():
            parts = [classifier.logits(part.to(classifier.device, classifier.dtype)) for part in torch.split(x, bs)]
        return torch.cat(parts)

    def _run_folder(self, state_path: str | Path | None) -> Path:
        if state_path is not None:
            return named(state_path)
        self._kept = tempfile.TemporaryDirectory(prefix="robustatlas-")
        return Path(self._kept.name) / "run"

    def _say(self, sentence: str) -> None:
        if self.verbose:
            print(sentence)
        if self.log_path is not None:
            with one_sentence(self.log_path), self.log_path.open("a", encoding="utf-8") as file:
                file.write(sentence + "\n")


def _format_share(mask: Tensor) -> str:
    return f"{float(mask.float().mean()):.2%}"


def _choose_device(model: Any, device: str | torch.device) -> torch.device:
    if str(device).startswith("cuda") and not torch.cuda.is_available():
        own = first_float(model)
        warn(f"device={str(device)!r} is the default, and there is no CUDA here: the CPU computes.")
        return own.device if own is not None else torch.device("cpu")
    return usable_device(device)
