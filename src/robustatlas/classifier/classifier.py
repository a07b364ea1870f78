"""Any classifier as one thing: inputs in [0, 1] to logits, on its device, in eval mode, with its passes counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from robustatlas.classifier.backward import backward_here
from robustatlas.classifier.batches import batch_sizes, in_batches
from robustatlas.classifier.compiled import Compiled
from robustatlas.classifier.draws import Drawing, Verdict, judged_by_draws
from robustatlas.classifier.identity import ModelIdentity, Origin, tensors_of
from robustatlas.classifier.knowledge import Knowledge, queries_of
from robustatlas.classifier.layout import ChannelsLast
from robustatlas.classifier.modes import in_eval_mode
from robustatlas.classifier.normalisation import Given, Statistic, normalised, statistic
from robustatlas.classifier.outputs import Outputs, as_logits, check_outputs, logits_in
from robustatlas.classifier.passes import Passes, counted, counting, listeners
from robustatlas.classifier.placement import arriving, copy_on, first_float, held_in, usable
from robustatlas.classifier.precision import true_float32
from robustatlas.classifier.rejection import Errors, Rejection, folded, looks_rejecting, with_score
from robustatlas.errors import UserError, first_line
from robustatlas.noise import Noise
from robustatlas.objectives import margin_of
from robustatlas.outcomes import sha256_of_tensors
from robustatlas.scalars import real, whole

Precision = Literal["float32", "bfloat16"]
Net = Callable[[Tensor], Any]

_HALF = {torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}
"""Half precision, and how far, relative to the largest logit, its logits vary with the rest of the batch."""


_ROWS = 1024
"""Rows of a batch up to which several draws go through a network together."""


class Classifier:
    """A network that maps inputs in [0, 1] to logits.

    Args:
        net: an ``nn.Module`` or any callable from ``[B, ...]`` in [0, 1] to logits ``[B, C]`` (also a dict or object
            with ``logits``). Another :class:`Classifier` is taken over, with all that is not given here.
        prepare: what is done to the inputs before all else, ``[B, ...]`` to ``[B, ...]``, such as resizing. It is part
            of the model: attacks change the inputs that it gets. Where it has no gradient, see
            :func:`straight_through`.
        mean, std: normalisation applied before ``net``, a number or one per channel (``None``: the network takes
            [0, 1]).
        device: where to run; by default where the parameters of ``net`` are. Another device gets a copy; ``net``
            itself stays.
        precision: ``"float32"`` (default); ``"bfloat16"`` runs the search under autocast and on images channels-last,
            and what counts is always verified in float32 or the network's own float64. A network whose parameters are
            float16 or bfloat16 computes in that and gets its inputs in it, in search and verification alike.
        compiled: search through ``torch.compile`` (default False): worth its minute on long runs. What counts is
            verified by the network itself. Where compiling fails the search goes on without, and says so.
        outputs: what ``net`` returns: ``"logits"`` (default; log-probabilities are such), ``"probabilities"``, or,
            where it has one number a sample, the ``"logit"`` or ``"probability"`` of class 1 of two.
        batch_size: the only size of batch that ``net`` takes, or several: batches are cut into such, and the last one
            is filled up. By default batches are as they come.
        dtype: float32 (default) or float64, what a ``net`` without parameters computes in.
        knowledge: what an attacker can learn: ``"gradients"`` (default), ``"scores"``, or ``"labels"`` alone.
        queries: of a model that has no gradient: at most so many questions (forward passes) about one sample by each
            attack, those about the clean sample and the one that verifies an example among them.
        rejection: of a model that may refuse to answer: ``"class"`` (the last of its logits says so) or ``"score"``
            (``net`` returns (logits [B, C], score [B], threshold) and rejects where the score is above the threshold).
            Logits then are [B, C + 1], the last for rejection; an error is what is accepted and wrong.
        draws: of a ``net`` that draws random numbers with torch: over how many draws its logits, and so its gradients,
            are averaged. Each draw belongs to the sample and the step, so results repeat; a success is judged by fresh
            draws only.
        threshold: of such a model: how often, from 0 to 1, an input must be misclassified to count (default 0.5, the
            majority). What is not certain by the exact binomial test does not.
        name: what reports call it.
        origin: where it came from, as :func:`load_model` says it.

    ``net`` is never changed: it runs in eval mode inside :meth:`evaluating`, which restores every module's mode.

    Attributes:
        net, prepare, mean, std, device, precision, compiled, outputs, batch_sizes, knowledge, queries, rejection,
            draws, threshold, name, origin: as above.
        dtype: of the inputs that a search should hold, float32 or float64. Logits come in the dtype of the inputs.
        network_dtype: of the network's parameters, in which it computes.
        casts: whether there are such, so that inputs are cast to that.
        errors: of a model that rejects: what counts as an error, see :meth:`judged_by`.

    Raises:
        UserError: ``net`` is not callable, ``mean`` or ``std`` are no numbers, the device cannot be used, the
            precision is not known.

    Example:
        >>> net = torch.nn.Linear(4, 3)
        >>> model = Classifier(net)
        >>> model.logits(torch.rand(5, 4)).shape, model.forward_passes
        (torch.Size([5, 3]), 5)
    """

    net: Callable[[Tensor], Any]
    prepare: Callable[[Tensor], Tensor] | None
    mean: Statistic | None
    std: Statistic | None
    device: torch.device
    precision: Precision
    compiled: bool
    dtype: torch.dtype
    network_dtype: torch.dtype
    casts: bool
    outputs: Outputs
    batch_sizes: tuple[int, ...]
    knowledge: Knowledge
    queries: int | None
    rejection: Rejection | None
    errors: Errors
    draws: int | None
    threshold: float
    name: str
    origin: Origin | None

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
        name: str | None = None,
        origin: Origin | None = None,
    ) -> None:
        if isinstance(net, Classifier):
            mean = net.mean if mean is None else mean
            std = net.std if std is None else std
            prepare, outputs = prepare or net.prepare, outputs or net.outputs
            rejection, draws = rejection or net.rejection, draws or net.draws
            queries = queries or net.queries
            threshold = net.threshold if threshold is None else threshold
            batch_size = (net.batch_sizes or None) if batch_size is None else batch_size
            device, precision = device or net.device, precision or net.precision
            compiled = net.compiled if compiled is None else compiled
            dtype, knowledge = dtype or (None if net.casts else net.dtype), knowledge or net.knowledge
            name, origin, net = name or net.name, origin or net.origin, net.net
        if not callable(net):
            raise UserError(
                f"The model is a {type(net).__name__}; expected an nn.Module or a function from images to logits."
            )
        if prepare is not None and not callable(prepare):
            raise UserError(
                f"prepare is a {type(prepare).__name__}; expected a function of inputs [B, ...], such as one that "
                "resizes images."
            )
        own = first_float(net)
        self.precision = precision or "float32"
        if self.precision not in ("float32", "bfloat16"):
            raise UserError(f"precision={precision!r} is not known; expected 'float32' or 'bfloat16'.")
        if self.precision == "bfloat16" and own is not None and own.dtype in _HALF:
            raise UserError(
                f"precision='bfloat16' is for networks in float32; the parameters of this one are {own.dtype} already: "
                "leave the precision out."
            )
        home = own.device if own is not None else torch.device("cpu")
        self.device = usable(device) if device is not None else home
        self.outputs = outputs or "logits"
        check_outputs(self.outputs)
        self.batch_sizes = batch_sizes(batch_size)
        self.knowledge = knowledge or "gradients"
        if self.knowledge not in get_args(Knowledge):
            expected = ", ".join(map(repr, get_args(Knowledge)))
            raise UserError(f"knowledge={knowledge!r} is not known; expected one of {expected}.")
        self.queries = queries_of(queries, self.knowledge)
        self.rejection, self.errors = rejection, "accepted"
        if rejection is not None and (rejection not in get_args(Rejection) or self.outputs != "logits"):
            expected = ", ".join(map(repr, get_args(Rejection)))
            raise UserError(
                f"rejection={rejection!r} with outputs={self.outputs!r} does not fit; expected one of {expected}, with "
                "outputs='logits'."
            )
        self.draws, self.threshold = whole(draws), 0.5 if threshold is None else real(threshold)
        if draws is not None and (self.draws is None or self.draws < 1):
            raise UserError(f"draws={draws!r} does not fit; expected a whole number of at least 1, such as 20.")
        if not 0 < self.threshold < 1:
            raise UserError(f"threshold={threshold!r} does not fit; expected a probability between 0 and 1.")
        if draws is not None and self.batch_sizes not in ((), (1,)):
            raise UserError(f"draws={draws} goes with batch_size=1 or any; given {self.batch_sizes}.")
        if compiled and (draws is not None or not isinstance(net, nn.Module)):
            what = f"draws={draws}" if draws is not None else f"a {type(net).__name__}"
            raise UserError(f"compiled=True goes with an nn.Module that draws no random numbers, not with {what}.")
        self.prepare = prepare
        self.net = net if own is None or self.device == home else copy_on(self.device, net)
        self.compiled = bool(compiled)
        self.dtype = held_in(own, dtype)
        self.network_dtype = own.dtype if own is not None else self.dtype
        self.casts = own is not None
        self._fast = self._faster()
        self.name = str(name or getattr(net, "__name__", type(net).__name__))
        self.origin = origin
        self.mean, self.std = statistic(mean, "mean"), statistic(std, "std")
        self._normalisation = {
            what: torch.tensor(value, dtype=self.dtype, device=self.device)
            for what, value in (("mean", self.mean), ("std", self.std))
            if value is not None
        }
        self._total = Passes()
        self._classes: int | None = None

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
        normalisation = {f"normalisation.{name}": value for name, value in self._normalisation.items()}
        tensors = tensors_of(self.net) | normalisation
        origin = self.origin
        return ModelIdentity(
            source=origin.source if origin is not None else None,
            code_sha256=origin.code_sha256 if origin is not None else None,
            weights_sha256=sha256_of_tensors(tensors) if tensors else None,
        )

    def normalisation(self) -> dict[str, Tensor]:
        """``mean`` and ``std`` where they are given, as tensors."""
        return dict(self._normalisation)

    @property
    def rounding(self) -> float:
        """How far, relative to the largest logit, search and verification may differ."""
        return _HALF[torch.bfloat16] if self.precision == "bfloat16" else _HALF.get(self.network_dtype, 0.0)

    def judged_by(self, errors: Errors) -> Classifier:
        """This model with another idea of an error, for models that reject: ``"accepted"`` and wrong, ``"wrong"``
        whether rejected or not, or ``"refused"`` or wrong. Passes are counted together."""
        view = object.__new__(type(self))  # not copy.copy, which would send the network to the CPU and back
        vars(view).update(vars(self), errors=errors)
        return view

    def logits(
        self, x: Tensor, *, labels: Tensor | None = None, noise: Noise | None = None, verifying: bool = False
    ) -> Tensor:
        """Logits ``[B, C]`` of ``x`` ``[B, ...]`` in [0, 1], float32 (float64 where ``x`` is); differentiable; counted.

        ``labels`` [B]: of a model that rejects, the logits whose largest is another than the label exactly where an
        error counts (see :mod:`robustatlas.classifier.rejection`); without labels they are [B, C + 1].

        ``verifying`` computes in true float32 (no autocast, no TF32), so that no success rests on reduced precision; a
        network in half precision is judged as it is. An empty batch never reaches the network.

        ``noise``: of a randomised model with ``draws``, the streams [B] that its draws come from; the logits are the
        mean over the draws.
        """
        if self.draws is None or not len(x):
            return self._one(x, labels, verifying)
        return torch.stack(self._several(x, labels, self._streams(x, noise), self.draws, verifying)).mean(0)

    def searched(self, x: Tensor, labels: Tensor, noise: Noise) -> tuple[Tensor, Tensor | None]:
        """:meth:`logits` for a search, and how far below zero their margin must be to believe it, [B] (None: no more
        than that): twice the standard error of its mean over the draws."""
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
        return ChannelsLast(self.net) if self.rounding else None

    @property
    def _searching(self) -> Net:
        """What a search goes through; where an attack chooses the way back, its choice is not compiled in."""
        return self.net if self._fast is None or (self.compiled and backward_here(None)) else self._fast

    def _one(self, x: Tensor, labels: Tensor | None, verifying: bool, net: Net | None = None) -> Tensor:
        logits = self._counted_logits(x, verifying, net or self.net) if len(x) else self._logits_of_nothing(x)
        return logits if self.rejection is None or labels is None else folded(logits, labels, self.errors)

    def _several(self, x: Tensor, labels: Tensor | None, noise: Noise, count: int, verifying: bool) -> list[Tensor]:
        """Logits of ``count`` draws."""
        if self.batch_sizes == (1,):
            truth = torch.split(labels, 1) if labels is not None else [None] * len(x)
            rows = [noise.take(torch.tensor([k], device=x.device)) for k in range(len(x))]
            parts = zip(torch.split(x, 1), truth, rows, strict=True)
            single = [self._drawn(part, label, row, count, verifying) for part, label, row in parts]
            return [torch.cat(draws) for draws in zip(*single, strict=True)]
        return self._drawn(x, labels, noise, count, verifying)

    def _drawn(self, x: Tensor, labels: Tensor | None, noise: Noise, count: int, verifying: bool) -> list[Tensor]:
        at_once = 1 if self.batch_sizes else max(1, _ROWS // len(x))
        found: list[Tensor] = []
        for numbers in torch.split(torch.arange(count, device=x.device), at_once):
            number = numbers.repeat_interleave(len(x))
            streams = Noise(noise.keys.repeat(len(numbers))).child(number)
            truth = None if labels is None else labels.repeat(len(numbers))
            with Drawing(streams):
                logits = self._one(x.repeat(len(numbers), *(1,) * (x.dim() - 1)), truth, verifying)
            found += logits.chunk(len(numbers))
        return found

    def _streams(self, x: Tensor, noise: Noise | None) -> Noise:
        return noise if noise is not None else Noise.of(0, torch.arange(len(x), device=x.device), "draws")

    def _counted_logits(self, x: Tensor, verifying: bool, net: Net) -> Tensor:
        x = counted(x, [self._total, *listeners(self._total)])
        with self._surroundings(verifying):
            logits = in_batches(partial(self._forward, net), x, self.batch_sizes)
        if logits.dim() == 2:
            self._classes = logits.shape[1]
        return logits.to(x.dtype if x.dtype not in _HALF else torch.float32)

    def raw(self, x: Tensor) -> tuple[Tensor, bool]:
        """What ``net`` itself returns for ``x`` [B, ...] in [0, 1], before it is taken for logits, and whether that
        looks like (logits, rejection score, threshold); not counted."""
        rejecting = True

        def returned(part: Tensor) -> Tensor:
            nonlocal rejecting
            answer = self.answer(part)
            rejecting &= looks_rejecting(answer)
            return logits_in(answer)

        with true_float32():
            return in_batches(returned, x, self.batch_sizes), rejecting

    def _forward(self, net: Net, x: Tensor) -> Tensor:
        if self.rejection == "score":
            return with_score(self.answer(x, net))
        return as_logits(logits_in(self.answer(x, net)), self.outputs)

    def answer(self, x: Tensor, net: Net | None = None) -> Any:
        """Whatever ``net`` (None: its own) returns for one batch; not counted. It never gets the memory of ``x``: a
        network may write into its input.

        Raises:
            UserError: ``prepare`` returned something else than a tensor.
        """
        prepared = x if self.prepare is None else self._run(self.prepare, x.clone())
        if not isinstance(prepared, Tensor):
            raise UserError(f"prepare returned {type(prepared).__name__}; expected inputs as a tensor [B, ...].")
        network_input = normalised(prepared, self._normalisation)
        if self.casts:
            network_input = network_input.to(self.network_dtype)
        return self._run(net or self.net, x.clone() if network_input is x else network_input)

    def _surroundings(self, verifying: bool) -> AbstractContextManager[Any]:
        if verifying:
            return true_float32()
        if self.precision == "bfloat16":
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return nullcontext()

    def _logits_of_nothing(self, x: Tensor) -> Tensor:
        """``[0, C]``, connected to ``x``; where no batch has shown C yet, a grey sample does."""
        if self._classes is None:
            with torch.no_grad():
                self.logits(torch.full((1, *x.shape[1:]), 0.5, dtype=x.dtype, device=x.device))
        dtype = x.dtype if x.dtype not in _HALF else torch.float32
        return x.flatten(1).sum(1, keepdim=True).to(dtype).expand(0, self._classes or 0)

    def _run(self, part: Callable[[Tensor], Any], x: Tensor) -> Any:
        try:
            return part(x)
        except (UserError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            raise UserError(
                f"The model{' (its prepare)' if part is self.prepare else ''} failed on a batch of shape "
                f"{tuple(x.shape)}: {first_line(error)}. "
                "Try it on such a batch by itself; one that takes batches of a single size is given as "
                "Classifier(net, batch_size=that size). Finished shards of the run are kept."
            ) from error

    @contextmanager
    def evaluating(self) -> Iterator[Classifier]:
        """Run the network in eval mode; the mode of each of its modules is restored at the end."""
        with in_eval_mode(self.net) if isinstance(self.net, nn.Module) else nullcontext():
            yield self

    def __getstate__(self) -> dict[str, Any]:
        """On the CPU, so that it can go to processes that have other devices."""
        state = {name: value for name, value in vars(self).items() if name != "_fast"}
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
        self._fast = self._faster()
        self._normalisation = {what: values.to(self.device) for what, values in self._normalisation.items()}

    def __repr__(self) -> str:
        return f"Classifier({self.name}, device={self.device}, precision={self.precision})"
