"""Any classifier as one thing: inputs in [0, 1] to logits, on its device, in eval mode, with its passes counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise
from robustatlas.common.scalars import integer_or_none, real_or_nan
from robustatlas.models.classifier.backward import chosen_here
from robustatlas.models.classifier.batches import batch_sizes, in_batches
from robustatlas.models.classifier.columns import Classes, Columns
from robustatlas.models.classifier.compiled import ChannelsLast, Compiled
from robustatlas.models.classifier.draws import Verdict, drawn_logits, judged_by_draws
from robustatlas.models.classifier.identity import ModelIdentity, Origin
from robustatlas.models.classifier.modes import in_eval_mode
from robustatlas.models.classifier.normalisation import Given, statistic
from robustatlas.models.classifier.outputs import Outputs
from robustatlas.models.classifier.passes import Passes, counted, counting, listeners
from robustatlas.models.classifier.placement import arriving, copy_on, first_float, held_in, usable
from robustatlas.models.classifier.precision import surroundings
from robustatlas.models.classifier.rejection import Errors, Rejection, for_labels
from robustatlas.models.classifier.settings import DEFAULT, HALF, ROUNDING, ClassifierSettings, Knowledge, Precision
from robustatlas.models.classifier.smoothing import Kinks, smoothing
from robustatlas.models.classifier.wrappers import Net, answering, casting, guarded, normalising, on_a_copy, preparing
from robustatlas.models.objectives import margin_of


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

    What is given stays an attribute of its name (``batch_size``: ``batch_sizes``).

    Attributes:
        dtype: of the inputs that a search should hold, float32 or float64. Logits come in the dtype of the inputs.
        network_dtype: of the network's parameters, in which it computes.
        casts: whether there are such, so that inputs are cast to that.
        errors: of a model that rejects: what counts as an error, see :meth:`judged_by`.
        kinks: by which its ReLUs go back smoothed where asked for, see :meth:`smoothed_by`; empty: as they are.
        remedy: whose gradients searches take in place of its own, see :meth:`going_through`; empty: its own.

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
        net: Callable[[Tensor], Any] | Classifier,
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
        said = ClassifierSettings(
            mean=mean,
            std=std,
            prepare=prepare,
            device=device,
            precision=precision,
            compiled=compiled,
            outputs=outputs,
            batch_size=batch_size,
            dtype=dtype,
            knowledge=knowledge,
            queries=queries,
            rejection=rejection,
            draws=draws,
            threshold=threshold,
            classes=classes,
            name=name,
            origin=origin,
        )
        if isinstance(net, Classifier):
            self._set_up(net.net, said.completed(net._said()))
        else:
            self._set_up(net, said.completed(DEFAULT))

    def _set_up(self, net: Net, said: ClassifierSettings) -> None:
        if not callable(net):
            raise UserError(
                f"The model is a {type(net).__name__}; expected an nn.Module or a function from images to logits."
            )
        own = first_float(net)
        said.check(net, own)
        home = own.device if own is not None else torch.device("cpu")
        self.device = home if said.device is None else usable(said.device)
        self.net = net if own is None or self.device == home else copy_on(self.device, net)
        self.dtype = held_in(own, said.dtype)
        self.casts = own is not None
        self.network_dtype = own.dtype if own is not None else self.dtype
        self.prepare, self.origin, self.classes = said.prepare, said.origin, said.classes
        self.precision, self.outputs = said.precision_on(self.device), said.outputs or "logits"
        self.knowledge, self.compiled = said.knowledge or "gradients", bool(said.compiled)
        self.batch_sizes, self.queries = batch_sizes(said.batch_size), integer_or_none(said.queries)
        self.rejection: Rejection | None = said.rejection
        self.errors: Errors = "accepted"
        self.draws, self.threshold = integer_or_none(said.draws), real_or_nan(said.threshold)
        self.name = str(said.name or getattr(net, "__name__", type(net).__name__))
        self.mean, self.std = statistic(said.mean, "mean"), statistic(said.std, "std")
        self._normalisation = {
            what: torch.tensor(value, dtype=self.dtype, device=self.device)
            for what, value in (("mean", self.mean), ("std", self.std))
            if value is not None
        }
        self._fast, self._last = self._faster(), ChannelsLast(self.net)
        self._way: Net | None = None
        self.remedy = ""
        self.kinks: Kinks = ()
        self._total, self._columns = Passes(), Columns(said.columns)

    def _said(self) -> ClassifierSettings:
        """The settings of this classifier, for another one of its network."""
        mine = {field.name: getattr(self, field.name, None) for field in fields(ClassifierSettings)}
        return ClassifierSettings(
            **mine | {"batch_size": self.batch_sizes or None, "dtype": None if self.casts else self.dtype}
        )

    @property
    def forward_passes(self) -> int:
        """Samples that ever went forward through the network, whoever sent them; see :meth:`counting`."""
        return self._total.forward

    @property
    def backward_passes(self) -> int:
        """Samples that a gradient ever went back to, whoever asked; see :meth:`counting`."""
        return self._total.backward

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to make the model fit when it was loaded, one sentence each; to be shown to the user."""
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
        return counting(self._total, watch)

    def identity(self) -> ModelIdentity:
        """What makes this model this model: its source, its code and its weights now.

        Example:
            >>> one, two = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
            >>> Classifier(one).identity() == Classifier(one).identity() != Classifier(two).identity()
            True
        """
        return ModelIdentity.of(self.net, self._normalisation, self.origin)

    def normalisation(self) -> dict[str, Tensor]:
        """``mean`` and ``std`` where they are given, as tensors."""
        return dict(self._normalisation)

    @property
    def class_count(self) -> int | None:
        """How many classes it has, without that of rejection; None where it has neither said so nor answered yet."""
        return self._columns.count and self._columns.count - (self.rejection is not None)

    @property
    def excluded_classes(self) -> tuple[int, ...]:
        """Classes that it never answers, because their logit is -inf, as far as its answers have shown."""
        return self._columns.excluded or ()

    @property
    def rounding(self) -> float:
        """How far, relative to the largest logit, search and verification may differ."""
        return ROUNDING[self.precision] or HALF.get(self.network_dtype, 0.0)

    def judged_by(self, errors: Errors) -> Classifier:
        """This model with another idea of an error: of models that reject ``"accepted"`` and wrong, ``"wrong"`` whether
        rejected or not, or ``"refused"`` or wrong; of any ``"improbable"``. Passes are counted together."""
        return self._view(errors=errors)

    def going_through(self, way: Net, remedy: str) -> Classifier:
        """This model with the gradients of ``way``, a function of inputs [B, ...] in [0, 1] to the logits [B, C] that
        this model gives. Searches go through it; what counts is verified by the network itself. ``remedy`` names it in
        records. Passes are counted together."""
        return self._view(_way=way, remedy=remedy)

    def smoothed_by(self, kinks: Kinks) -> Classifier:
        """This model, whose gradients by ``backward="smoothed"`` go through its ReLUs smoothed by ``kinks``, see
        :mod:`robustatlas.models.classifier.smoothing`. Passes are counted together."""
        return self._view(kinks=kinks)

    def channels_last(self) -> Classifier:
        """This model, whose network of torch gets images channels-last on a CPU: faster, the same but for rounding."""
        return self._view(net=self._last) if self.device.type == "cpu" and isinstance(self.net, nn.Module) else self

    def _view(self, **changed: Any) -> Classifier:
        view = object.__new__(type(self))  # not copy.copy, which would send the network to the CPU and back
        vars(view).update(vars(self), **changed)
        return view

    def logits(
        self, x: Tensor, *, labels: Tensor | None = None, noise: Noise | None = None, verifying: bool = False
    ) -> Tensor:
        """Logits ``[B, C]`` of ``x`` ``[B, ...]`` in [0, 1], float32 (float64 where ``x`` is); differentiable; counted.

        ``labels`` [B]: of a model that rejects, the logits whose largest is another than the label exactly where an
        error counts (see :mod:`robustatlas.models.classifier.rejection`); without labels they are [B, C + 1].

        ``verifying`` computes in true float32 (no autocast, no TF32), so that no success rests on reduced precision; a
        network in half precision is judged as it is. An empty batch never reaches the network.

        ``noise``: of a randomised model with ``draws``, the streams [B] that its draws come from; the logits are the
        mean over the draws.
        """
        if self.draws is None or not len(x):
            return self._one(x, labels, verifying)
        if noise is None:
            noise = Noise.for_samples(0, torch.arange(len(x), device=x.device), "draws")
        return torch.stack(self._several(x, labels, noise, self.draws, verifying)).mean(0)

    def searched(self, x: Tensor, labels: Tensor, noise: Noise) -> tuple[Tensor, Tensor | None]:
        """:meth:`logits` for a search, and how far below zero their margin must be to believe it, [B]: twice the
        standard error of its mean over the draws. None: any margin below zero is believed."""
        if self.draws is None or not len(x):
            return self._one(x, labels, False, self._searching), None
        drawn = self._several(x, labels, noise, self.draws, False)
        logits = torch.stack(drawn).mean(0)
        if self.draws == 1:
            return logits, None
        margins = torch.stack([margin_of(values.detach(), labels) for values in drawn])
        return logits, 2 * margins.std(0) / self.draws**0.5

    def judged(self, x: Tensor, labels: Tensor, noise: Noise) -> Verdict:
        """Whether ``x`` [B, ...] is misclassified, by a forward pass of its own, or by as many fresh draws from
        ``noise`` as it takes to be certain, at most the last of :data:`~robustatlas.outcomes.draws.LOOKS`."""
        with torch.no_grad():
            if self.draws is None or not len(x):
                logits = self._one(x, labels, True)
                prediction = logits.argmax(1)
                wrong = prediction != labels
                return Verdict(logits, prediction, wrong, wrong, wrong.long(), torch.ones_like(labels))

            def drawn(rows: Tensor, streams: Noise, count: int) -> Tensor:
                return torch.stack(self._several(x[rows], labels[rows], streams, count, True))

            return judged_by_draws(drawn, labels, noise, self.threshold)

    def _faster(self) -> Compiled | ChannelsLast | None:
        """The network in another form, for the search."""
        if self.compiled and isinstance(self.net, nn.Module):
            return Compiled(self.net)
        return ChannelsLast(self.net) if self.rounding and self.precision != "tf32" else None

    @property
    def _searching(self) -> Net:
        """What a search goes through; where an attack chooses the way back, its choice is not compiled in."""
        if self._way is not None:
            return self._way
        return self.net if self._fast is None or (self.compiled and chosen_here()) else self._fast

    def _one(self, x: Tensor, labels: Tensor | None, verifying: bool, net: Net | None = None) -> Tensor:
        if net is None and self._way is not None and x.requires_grad and torch.is_grad_enabled():
            net = self._way
        net = self.net if net is None else net  # not by its truth: an empty or a compiled module has none
        logits = self._counted_logits(x, verifying, net) if len(x) else self._logits_of_nothing(x)
        return logits if labels is None else for_labels(logits, labels, self.errors, self.rejection is not None)

    def _several(self, x: Tensor, labels: Tensor | None, noise: Noise, count: int, verifying: bool) -> list[Tensor]:
        one = partial(self._one, verifying=verifying)
        return drawn_logits(one, x, labels, noise, count, alone=self.batch_sizes == (1,))

    def _counted_logits(self, x: Tensor, verifying: bool, net: Net) -> Tensor:
        x = counted(x, [self._total, *listeners(self._total)])
        if self.kinks and net is not self._way and chosen_here() == "smoothed":
            net = smoothing(net, self.kinks)
        answers = net if net is self._way else answering(self._around(net), self.outputs, self.rejection)
        with surroundings(self.precision, self.device, verifying):
            logits = in_batches(self._columns.checked(answers), x, self.batch_sizes)
        return logits.to(x.dtype if x.dtype not in HALF else torch.float32)

    def answer(self, x: Tensor, net: Net | None = None) -> Any:
        """Whatever ``net`` (None: its own) returns for one batch; not counted. It never gets the memory of ``x``: a
        network may write into its input.

        Raises:
            UserError: ``prepare`` returned something else than a tensor.
        """
        return self._around(self.net if net is None else net)(x)

    def _around(self, net: Net) -> Net:
        """A network with all that is done to its inputs."""
        wrapped = casting(guarded(net), self.network_dtype) if self.casts else guarded(net)
        if self._normalisation:
            wrapped = normalising(wrapped, self._normalisation)
        if self.prepare is not None:
            return preparing(wrapped, self.prepare)
        return wrapped if self._normalisation else on_a_copy(wrapped)

    def _logits_of_nothing(self, x: Tensor) -> Tensor:
        """``[0, C]``, connected to ``x``; where no batch has shown C yet, a grey sample does."""
        if self._columns.count is None:
            with torch.no_grad():
                self.logits(torch.full((1, *x.shape[1:]), 0.5, dtype=x.dtype, device=x.device))
        dtype = x.dtype if x.dtype not in HALF else torch.float32
        return x.flatten(1).sum(1, keepdim=True).to(dtype).expand(0, self._columns.count or 0)

    @contextmanager
    def evaluating(self) -> Iterator[Classifier]:
        """Run the network in eval mode; the mode of each of its modules is restored at the end."""
        with in_eval_mode(self.net) if isinstance(self.net, nn.Module) else nullcontext():
            yield self

    def __getstate__(self) -> dict[str, Any]:
        """On the CPU, so that it can go to processes that have other devices."""
        state = {name: value for name, value in vars(self).items() if name not in ("_fast", "_last")}
        if self.casts and self.device.type != "cpu":
            state["net"] = copy_on(torch.device("cpu"), self.net)
        state["_normalisation"] = {what: values.cpu() for what, values in self._normalisation.items()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """On the device it had, or the one of :func:`arriving_on`."""
        vars(self).update(state)
        self.device = arriving() or self.device
        if self.casts and isinstance(self.net, nn.Module):
            self.net.to(self.device)
        self._fast, self._last = self._faster(), ChannelsLast(self.net)
        self._normalisation = {what: values.to(self.device) for what, values in self._normalisation.items()}

    def __repr__(self) -> str:
        return f"Classifier({self.name}, device={self.device}, precision={self.precision})"
