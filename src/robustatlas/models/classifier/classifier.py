"""Any classifier as one thing: inputs in [0, 1] to logits, on its device, in eval mode, with its passes counted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise
from robustatlas.models.classifier.answers import Answers, CountedAnswers, Deterministic, LabelledAnswers, Randomised
from robustatlas.models.classifier.backends import Network, choose_backend, network_in_forms
from robustatlas.models.classifier.columns import Classes, Columns
from robustatlas.models.classifier.draws import Verdict
from robustatlas.models.classifier.identity import ModelIdentity, Origin, model_identity
from robustatlas.models.classifier.modes import hold_eval_mode
from robustatlas.models.classifier.network import Given, InputSteps, Net
from robustatlas.models.classifier.outputs import Logits, OutputReader, Outputs
from robustatlas.models.classifier.passes import Passes, counting
from robustatlas.models.classifier.placement import arrival_device, copy_on, first_float
from robustatlas.models.classifier.rejection import Errors, Rejection
from robustatlas.models.classifier.settings import ClassifierSettings, Knowledge, Precision, StandIn, read_settings
from robustatlas.models.classifier.smoothing import Kinks


@dataclass(frozen=True)
class ClassifierParts:
    """The parts of a classifier: classifiers of one network share all of them but the settings.

    Attributes:
        network: the network on its device.
        settings: all that decides the answers beside the network.
        columns: the columns of its answers, as far as they are known.
        passes: the count of its passes.
    """

    network: Network
    settings: ClassifierSettings
    columns: Columns
    passes: Passes


def _parts_of(net: Net, given: Mapping[str, Any], base: ClassifierSettings | None) -> ClassifierParts:
    """Return the parts of a classifier of ``net``; settings that are not given are taken from ``base``."""
    if not callable(net):
        raise UserError(
            f"The model is a {type(net).__name__}; expected an nn.Module or a function from images to logits."
        )
    settings = read_settings(net, given, base)
    own = first_float(net)
    if own is not None and own.device != settings.device:
        net = copy_on(settings.device, net)
    return ClassifierParts(network_in_forms(net, settings), settings, Columns(settings.columns), Passes())


def _arrive(net: Net, settings: ClassifierSettings, columns: Columns, passes: Passes) -> Classifier:
    """Return an unpickled classifier on the device it had, or on that of :func:`unpickle_on`."""
    settings = settings.replace(device=arrival_device() or settings.device)
    if settings.network_dtype is not None and isinstance(net, nn.Module):
        net.to(settings.device)
    return Classifier(ClassifierParts(network_in_forms(net, settings), settings, columns, passes))


class Classifier:
    """A network that maps inputs in [0, 1] to logits.

    Args:
        net: an ``nn.Module`` or any callable from ``[B, ...]`` in [0, 1] to logits ``[B, C]`` (also a dict or object
            with ``logits``). Another :class:`Classifier` is taken over, with all that is not given here.
        prepare: what is done to the inputs before all else, ``[B, ...]`` to ``[B, ...]``, such as resizing. It is part
            of the model: attacks change the inputs that it gets. Where it has no gradient, see
            :func:`straight_through`.
        mean, std: normalisation before ``net``, a number or one per channel (``None``: it takes [0, 1]).
        device: where to run (default: where ``net`` is). Another device gets a copy; ``net`` itself stays.
        precision: ``"float32"`` (default); ``"tf32"`` rounds the factors of matrix products and convolutions in the
            search, on an NVIDIA GPU (Ampere or newer); ``"bfloat16"`` runs the search under autocast and on images
            channels-last. What counts is always verified in float32 or the network's own float64. A network whose
            parameters are float16 or bfloat16 computes in that and gets its inputs in it, in search and verification
            alike.
        compiled: search through ``torch.compile`` (default False), which is slow to begin and then faster. What counts
            is verified by the network itself. Where compiling fails the search goes on without, and says so.
        outputs: what ``net`` returns: ``"logits"`` (default; log-probabilities are such), ``"probabilities"``, or,
            where it has one number a sample, the ``"logit"`` or ``"probability"`` of class 1 of two.
        batch_size: the only size of batch that ``net`` takes, or several: batches are cut into such, and the last one
            is filled up. By default batches are as they come.
        dtype: float32 (default) or float64, what a ``net`` without parameters computes in.
        knowledge: what an attacker can learn: ``"gradients"`` (default), ``"scores"``, or ``"labels"`` alone.
        queries: of a model that has no gradient: at most so many questions (forward passes) about one sample by each
            attack, those about the clean sample and the one that verifies an example among them.
        rejection: of a model that may refuse to answer. ``"class"``: the last of its logits says so. ``"score"``:
            ``net`` returns (logits [B, C], score [B], threshold) and rejects where the score is above the threshold.
            Logits then are [B, C + 1], the last for rejection; an error is what is accepted and wrong.
        draws: of a ``net`` that draws random numbers with torch: over how many draws its logits, and so its gradients,
            are averaged. Each draw belongs to the sample and the step, so results repeat; a success is judged by fresh
            draws only.
        threshold: of such a model: how often, from 0 to 1, an input must be misclassified to count (default 0.5, the
            majority). What is not certain by the exact binomial test does not.
        classes: how many there are, without that of rejection, or their names in the order of the logits; every answer
            must have a column for each. Folders of pictures are numbered by names (see :func:`load_dataset`).
        name: what reports call it.
        origin: where it came from, as :func:`load_model` says it.

    ``net`` is never changed: it runs in eval mode inside :meth:`evaluating`, which restores every module's mode.

    A classifier does not change after its construction: :meth:`replace` gives another one of the same network.

    Attributes:
        net: the network, on the device of the classifier.
        settings: all that decides its answers beside the network. Each of the arguments above is an attribute too
            (``batch_size``: ``batch_sizes``).
        dtype: number format of the inputs that a search should hold, float32 or float64. Logits come in the dtype of
            the inputs.
        network_dtype: number format in which the network computes: that of its parameters.
        errors: the event that counts as an error, see :meth:`with_errors`.
        kinks: the spread of the input of each ReLU, see :meth:`with_smoothing`; empty: gradients cannot be smoothed.
        remedy: name of the gradient that searches follow in place of its own, see :meth:`with_stand_in`; empty: its
            own.

    Raises:
        UserError: ``net`` is not callable, ``mean`` or ``std`` are not numbers, the device cannot be used, the
            precision is not known; later, where an answer is not what ``outputs`` or ``classes`` say.

    Example:
        >>> net = torch.nn.Linear(4, 3)
        >>> model = Classifier(net)
        >>> model.logits(torch.rand(5, 4)).shape, model.forward_passes
        (torch.Size([5, 3]), 5)
    """

    def __init__(
        self,
        net: Callable[[Tensor], Any] | Classifier | ClassifierParts,
        mean: Given = None,
        std: Given = None,
        *,
        prepare: Callable[[Tensor], Tensor] | None = None,
        device: str | torch.device | None = None,
        precision: Precision | None = None,
        compiled: bool | None = None,
        outputs: Outputs | None = None,
        batch_size: int | Sequence[int] | None = None,
        dtype: torch.dtype | None = None,
        knowledge: Knowledge | None = None,
        queries: int | None = None,
        rejection: Rejection | None = None,
        draws: int | None = None,
        threshold: float | None = None,
        classes: Classes = None,
        name: str | None = None,
        origin: Origin | None = None,
    ) -> None:
        given = {
            "mean": mean,
            "std": std,
            "prepare": prepare,
            "device": device,
            "precision": precision,
            "compiled": compiled,
            "outputs": outputs,
            "batch_size": batch_size,
            "dtype": dtype,
            "knowledge": knowledge,
            "queries": queries,
            "rejection": rejection,
            "draws": draws,
            "threshold": threshold,
            "classes": classes,
            "name": name,
            "origin": origin,
        }
        if isinstance(net, ClassifierParts):
            parts = net
        elif isinstance(net, Classifier):
            parts = _parts_of(net.net, given, net.settings)
        else:
            parts = _parts_of(net, given, None)
        settings = parts.settings
        self._parts = parts
        self.settings: ClassifierSettings = settings
        self.net: Net = parts.network.net
        self.mean, self.std, self.prepare = settings.mean, settings.std, settings.prepare
        self.device, self.dtype = settings.device, settings.dtype
        self.network_dtype = settings.network_dtype or settings.dtype
        self.precision, self.compiled, self.batch_sizes = settings.precision, settings.compiled, settings.batch_sizes
        self.outputs, self.classes, self.rejection = settings.outputs, settings.classes, settings.rejection
        self.knowledge, self.queries, self.errors = settings.knowledge, settings.queries, settings.errors
        self.draws, self.threshold = settings.draws, settings.threshold
        self.name, self.origin, self.kinks = settings.name, settings.origin, settings.kinks
        self.remedy = "" if settings.stand_in is None else settings.stand_in.name
        self._normalisation = {
            name: torch.tensor(value, dtype=settings.dtype, device=settings.device)
            for name, value in (("mean", settings.mean), ("std", settings.std))
            if value is not None
        }
        self._inputs = InputSteps(settings.prepare, self._normalisation, settings.network_dtype)
        self._answers = self._choose_answers()

    def _choose_answers(self) -> Deterministic | Randomised:
        """Return the way in which labelled samples are answered."""
        parts, settings = self._parts, self.settings
        reader = OutputReader(settings.outputs, settings.rejection)
        answers: Answers
        if settings.labelled is not None:
            answers = LabelledAnswers(settings.labelled)
        else:
            backend = choose_backend(parts.network, self._inputs, reader, settings)
            answers = CountedAnswers(backend, settings, parts.columns, parts.passes)
        if settings.draws is None:
            return Deterministic(answers)
        return Randomised(answers, settings.draws, settings.threshold, one_by_one=settings.batch_sizes == (1,))

    def replace(self, **changes: Any) -> Classifier:
        """Return a classifier of the same network with some settings changed; passes are counted together.

        Args:
            changes: names and values of :class:`~robustatlas.models.classifier.settings.ClassifierSettings`, taken as
                they are. For arguments that are checked, give this classifier to :class:`Classifier`.

        Example:
            >>> model = Classifier(torch.nn.Linear(4, 3), rejection="class")
            >>> model.replace(errors="refused").errors
            'refused'
        """
        return Classifier(dataclasses.replace(self._parts, settings=self.settings.replace(**changes)))

    @property
    def forward_passes(self) -> int:
        """Number of samples that ever went forward through the network, whoever sent them; see :meth:`counting`."""
        return self._parts.passes.forward

    @property
    def backward_passes(self) -> int:
        """Number of samples that a gradient ever went back to, whoever asked; see :meth:`counting`."""
        return self._parts.passes.backward

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on the changes that made the model fit when it was loaded; to be shown to the user."""
        return self.origin.notes if self.origin is not None else ()

    def counting(self, watch: Callable[[Passes], None] | None = None) -> AbstractContextManager[Passes]:
        """Count the passes that this caller makes inside; other threads that share the model count their own.

        Args:
            watch: called before each forward pass with the passes so far; an exception keeps it from being made.

        Example:
            >>> model = Classifier(torch.nn.Linear(4, 3))
            >>> with model.counting() as passes:
            ...     _ = model.logits(torch.rand(5, 4))
            >>> passes
            Passes(forward=5, backward=0)
        """
        return counting(self._parts.passes, watch)

    def identity(self) -> ModelIdentity:
        """Return the identity of the model: its source, its code and its weights now.

        Example:
            >>> one, two = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
            >>> Classifier(one).identity() == Classifier(one).identity() != Classifier(two).identity()
            True
        """
        return model_identity(self.net, self._normalisation, self.origin)

    def normalisation(self) -> dict[str, Tensor]:
        """Return ``mean`` and ``std`` where they are given, as tensors."""
        return dict(self._normalisation)

    @property
    def class_count(self) -> int | None:
        """Number of classes without that of rejection; None if the model has neither said so nor answered yet."""
        columns = self._parts.columns
        return columns.count and columns.count - (self.rejection is not None)

    @property
    def excluded_classes(self) -> tuple[int, ...]:
        """Classes that it never answers, because their logit is -inf, as far as its answers have shown."""
        return self._parts.columns.excluded or ()

    @property
    def rounding(self) -> float:
        """Distance, relative to the largest logit, by which search and verification may differ."""
        return self.settings.rounding

    def with_errors(self, errors: Errors) -> Classifier:
        """Return this model with another event that counts as an error; passes are counted together.

        Of models that reject: ``"accepted"`` and wrong, ``"wrong"`` whether rejected or not, or ``"refused"`` or wrong.
        Of any model: ``"improbable"``.
        """
        return self.replace(errors=errors)

    def with_stand_in(self, way: Logits, remedy: str) -> Classifier:
        """Return this model with the gradients of ``way``; passes are counted together.

        ``way`` is a function of inputs [B, ...] in [0, 1] to the logits [B, C] that this model gives. Searches go
        through it, and verification goes through the network itself. ``remedy`` names it in records.
        """
        return self.replace(stand_in=StandIn(way, remedy))

    def with_smoothing(self, kinks: Kinks) -> Classifier:
        """Return this model, whose gradients by ``backward="smoothed"`` go through its ReLUs smoothed by ``kinks``.

        See :mod:`robustatlas.models.classifier.smoothing`. Passes are counted together.
        """
        return self.replace(kinks=kinks)

    def channels_last(self) -> Classifier:
        """Return this model with images channels-last on a CPU: faster, and equal except for rounding."""
        fits = self.device.type == "cpu" and isinstance(self.net, nn.Module)
        return self.replace(channels_last=True) if fits else self

    def logits(
        self, x: Tensor, *, labels: Tensor | None = None, noise: Noise | None = None, verifying: bool = False
    ) -> Tensor:
        """Return the logits ``[B, C]`` of ``x`` ``[B, ...]`` in [0, 1]; differentiable and counted.

        They are float32, or float64 if ``x`` is. An empty batch never reaches the network.

        Args:
            x: inputs.
            labels: [B]; the logits of a model that rejects are folded so that the largest is another than the label
                exactly if an error counts (see :mod:`robustatlas.models.classifier.rejection`); without labels they
                are [B, C + 1].
            noise: streams [B] of a randomised model with ``draws``; the logits are the mean over the draws.
            verifying: compute in true float32 (no autocast, no TF32), so that no success rests on reduced precision. A
                network in half precision is judged as it is.
        """
        return self._answers.logits(x, labels, noise, verifying)

    def searched(self, x: Tensor, labels: Tensor, noise: Noise) -> tuple[Tensor, Tensor | None]:
        """Return :meth:`logits` for a search, and how far below zero their margin must be to be believed, [B].

        That distance is twice the standard error of the margin's mean over the draws. None: any margin below zero is
        believed.
        """
        return self._answers.searched(x, labels, noise)

    def judge(self, x: Tensor, labels: Tensor, noise: Noise) -> Verdict:
        """Return the verdict on ``x`` [B, ...], by a forward pass of its own.

        A randomised model is judged by as many fresh draws from ``noise`` as it takes to be certain, at most the last
        of :data:`~robustatlas.outcomes.outcome.LOOKS`.
        """
        with torch.no_grad():
            return self._answers.judge(x, labels, noise)

    def answer(self, x: Tensor, net: Net | None = None) -> Any:
        """Return whatever ``net`` (None: its own) returns for one batch; passes are not counted.

        ``net`` never gets the memory of ``x``, because a network may write into its input.

        Raises:
            UserError: ``prepare`` returned something else than a tensor.
        """
        return self._inputs.call(self.net if net is None else net, x)

    @contextmanager
    def evaluating(self) -> Iterator[Classifier]:
        """Run the network in eval mode; the mode of each of its modules is restored at the end."""
        with hold_eval_mode(self.net) if isinstance(self.net, nn.Module) else nullcontext():
            yield self

    def __reduce__(self) -> tuple[Any, ...]:
        # The network travels on the CPU, to processes that may have other devices.
        net, parts = self.net, self._parts
        if self.settings.network_dtype is not None and self.device.type != "cpu":
            net = copy_on(torch.device("cpu"), net)
        return _arrive, (net, parts.settings, parts.columns, parts.passes)

    def __repr__(self) -> str:
        return f"Classifier({self.name}, device={self.device}, precision={self.precision})"
