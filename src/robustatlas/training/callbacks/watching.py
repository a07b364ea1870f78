"""Evaluation of a network after epochs of its training, within a share of the time, and without ever failing it."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import nn

from robustatlas.attacks.definition import Effort
from robustatlas.attacks.suites import resolve_attacks
from robustatlas.common.errors import UserError, first_line, shorten, warn
from robustatlas.common.files import parse_path
from robustatlas.common.scalars import integer_or_none, parse_seed, real_or_nan
from robustatlas.data import Dataset, load_dataset
from robustatlas.evaluation import evaluate
from robustatlas.evaluation.request import Attacks, Data, Strengths
from robustatlas.evaluation.samples import choose_samples, open_data
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.placement import check_numbers
from robustatlas.results.result import Result
from robustatlas.training.callbacks.looks import Look, read_looks, run_folder_name, save_plot
from robustatlas.training.callbacks.undisturbed import copy_network, preserve_training, restore_state, unwrap

_FOLDER = "robustness"
"""Default name of the folder of looks."""
FIRST = 8
"""Number of images at the beginning of the first look; their duration predicts that of all images."""

Model = Callable[[Any], Classifier | nn.Module | Callable[[torch.Tensor], Any]]


def watch(data: str | Data, attacks: Attacks = ("linf", "l2"), **settings: Any) -> Watch:
    """Return a function for a training loop, to be called after each epoch.

    Args:
        data, attacks: as of :class:`Watch`.
        settings: the other arguments of :class:`Watch`.

    Returns:
        ``look(net, epoch)``, which gives the numbers to log.

    Raises:
        UserError: what was given does not fit, in one sentence.

    Example:
        >>> import tempfile, robustatlas as ra
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     look = watch("digits", "pgd-linf", samples=8, share=None, folder=folder)
        ...     sorted(look(net, epoch=1))[:2]
        ['robustness/clean', 'robustness/clean_high']
    """
    return Watch(data, attacks, **settings)


class Watch:
    """Evaluation of a network every few epochs of its training, without an effect on the training.

    Args:
        data: name of a data set, a :class:`Dataset`, or images ``[N, ...]`` in [0, 1] and labels; not trained on.
        attacks: as of :func:`robustatlas.evaluate`.
        strengths: likewise; default: the catalogue's grids.
        every: epochs from one look to the next.
        samples: images of a look: the first ones of the data, the same in every epoch.
        effort: as of :func:`robustatlas.evaluate`.
        share: of the time of the training that looks may take altogether, in (0, 1]: an epoch is passed over where its
            look would be more. None: as long as they take.
        folder: holds a run for each look. Default: ``robustness``, or where that is there ``robustness-2`` and so on,
            so that two trainings do not mix; a training that goes on is to be given its folder.
        seed: of the attacks.
        model: what of the trained object is attacked: a function from it to a :class:`Classifier` or a network from
            images in [0, 1] to logits, such as ``lambda module: ra.Classifier(module.net, mean, std)``. Default: the
            object itself.

    Attributes:
        looks: what was found in this process, in order.

    Raises:
        UserError: what was given does not fit, in one sentence.

    Example:
        >>> data = (torch.rand(20, 1, 4, 4), torch.arange(20) % 3)
        >>> Watch(data, "linf", every=5, samples=16).due(epoch=10)
        True
    """

    def __init__(
        self,
        data: str | Data,
        attacks: Attacks = ("linf", "l2"),
        *,
        strengths: Strengths | None = None,
        every: int = 1,
        samples: int = 64,
        effort: Effort = "low",
        share: float | None = 0.05,
        folder: str | Path | None = None,
        seed: int = 0,
        model: Model = lambda trained: trained,
    ) -> None:
        for name, value in (("every", every), ("samples", samples)):
            if (integer_or_none(value) or 0) < 1:
                raise UserError(f"{name}={shorten(repr(value))}; expected a whole number of at least 1.")
        if share is not None and not 0 < real_or_nan(share) <= 1:
            raise UserError(f"share={shorten(repr(share))}; expected a share of the time such as 0.05, or None.")
        given = load_dataset(data) if isinstance(data, str) else open_data(data, samples)
        number = min(samples, len(choose_samples(given, None).index))
        resolve_attacks(attacks)  # refuses what there is not before the training begins, not after its first epoch
        self._asked: dict[str, Any] = {
            "attacks": attacks,
            "strengths": strengths,
            "effort": effort,
            "seed": parse_seed(seed),
            "progress": False,
        }
        self.data: Dataset | Data = given
        self.every, self.samples, self.share, self._model = every, number, share, model
        self._folder = None if folder is None else parse_path(folder)
        self.looks: list[Look] = []
        self._told: set[str] = set()
        self._seconds_of_one: float | None = None
        self.begin()

    @cached_property
    def folder(self) -> Path:
        """Folder of the runs; by default one of this training alone, which is made when it is first needed."""
        return _new_folder() if self._folder is None else self._folder

    def begin(self) -> None:
        """Start the clock of the training; needed only if the object was constructed long before."""
        self._begun, self._spent = time.perf_counter(), 0.0

    def due(self, epoch: int) -> bool:
        """Return True if the network is evaluated after this epoch (from 1), if there is time."""
        return epoch % self.every == 0

    def __call__(self, net: Any, epoch: int) -> dict[str, float]:
        """Look at ``net`` after an epoch (from 1): at a copy of it where it can be copied. Never raises.

        Under distributed training call it in one process, or in all: only rank 0 works, and asks no other.

        Returns:
            name -> number in percent, for a logger; empty where the epoch is passed over.
        """
        begun = time.perf_counter()
        try:
            if not self.due(epoch) or not _is_first_process():
                return {}
            look = self._look(net, epoch)
            numbers = {} if look is None else look.numbers()
        except Exception as error:
            self._say(_failure_message(epoch, error))
            return {}
        finally:
            self._spent += time.perf_counter() - begun
        self.looks += [] if look is None else [look]
        return numbers

    def plot(self, path: str | Path | None = None) -> Path | None:
        """Draw robust accuracy over epochs by attack.

        Args:
            path: of the picture; default: ``robustness.png`` in the folder.

        Returns:
            where it is; None, and a warning, where no look fitted into the share of the time or it cannot be drawn.
        """
        try:
            if not _is_first_process():
                return None
            if not self.looks:
                self._say(_no_look_message(1.0 if self.share is None else self.share))
                return None
            target = self.folder / "robustness.png" if path is None else parse_path(path)
            save_plot(read_looks(self.folder), target)
        except Exception as error:
            self._say(_plot_message(error))
            return None
        return target

    def _look(self, net: Any, epoch: int) -> Look | None:
        """Return the look, or None if it would exceed the share of the time."""
        if self._seconds_of_one is not None and not self._can_spend(self.samples * self._seconds_of_one):
            return None
        trained = unwrap(net) if isinstance(net, nn.Module) else net
        watched = trained if isinstance(trained, nn.Module) else nn.Module()
        check_numbers(watched)
        with preserve_training(watched), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = self._model(self._to_look_at(trained))
            network = model.net if isinstance(model, Classifier) else model
            with restore_state(network if isinstance(network, nn.Module) else nn.Module()):
                look = self._evaluated(model, epoch)
        for warning in said:
            self._say(str(warning.message))
        return look

    def _to_look_at(self, trained: Any) -> Any:
        copy = copy_network(trained) if isinstance(trained, nn.Module) else None
        if copy is None and isinstance(trained, nn.Module):
            warn(_copy_message(type(trained).__name__))
        return trained if copy is None else copy

    def _evaluated(self, model: Any, epoch: int) -> Look:
        """Return the look; the first one ends early if all images would exceed the share of the time."""
        classifier = model if isinstance(model, Classifier) else Classifier(model, name=type(model).__name__)
        run = self.folder / run_folder_name(epoch, classifier.identity().weights_sha256 or "0" * 8)
        unknown = self._seconds_of_one is None and self.share is not None
        result = self._timed(classifier, min(FIRST, self.samples) if unknown else self.samples, run)
        if result.samples < self.samples and self._can_spend(self.samples * (self._seconds_of_one or 0.0)):
            result = self._timed(classifier, self.samples, run)
        return Look.from_result(result, epoch, run)

    def _timed(self, classifier: Classifier, samples: int, run: Path) -> Result:
        begun = time.perf_counter()
        result = evaluate(classifier, self.data, samples=samples, run=run, **self._asked)
        self._seconds_of_one = (time.perf_counter() - begun) / samples
        return result

    def _can_spend(self, seconds: float) -> bool:
        """Return True if ``seconds`` more fit into the share of the training time so far."""
        training = time.perf_counter() - self._begun - self._spent
        return self.share is None or self._spent + seconds <= self.share * training

    def _say(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            try:
                warn(sentence)
            except Warning:  # users may turn warnings into errors
                print(sentence, file=sys.stderr)


def _new_folder() -> Path:
    """Make the first folder of ``robustness``, ``robustness-2`` and so on that does not exist, and return it."""
    for number in count(1):
        folder = Path(_FOLDER if number == 1 else f"{_FOLDER}-{number}")
        with suppress(FileExistsError):
            folder.mkdir()  # succeeds in exactly one of several processes
            return folder
    raise AssertionError("numbers do not end")


def _failure_message(epoch: int, error: Exception) -> str:
    return f"The look at the network after epoch {epoch} failed ({first_line(error)}); the training goes on."


def _copy_message(name: str) -> str:
    return (
        f"The network ({name}) cannot be copied, so looks run it itself and put back what it held: modes, buffers, "
        "gradients, tensors, numbers, generators. What else a pass changes stays changed."
    )


def _plot_message(error: Exception) -> str:
    return f"The accuracies over the epochs could not be drawn ({first_line(error)}); read_looks(folder) has them."


def _no_look_message(share: float) -> str:
    return (
        f"No look at the network fitted into {share:.0%} of the time of this training; give a larger share, fewer "
        "samples or attacks, or share=None."
    )


def _is_first_process() -> bool:
    there = torch.distributed.is_available() and torch.distributed.is_initialized()
    return not there or torch.distributed.get_rank() == 0
