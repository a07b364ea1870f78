"""The ways in which a model computes the logits of one batch. A classifier chooses one when it is constructed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from robustatlas.models.classifier.backward import requested_backward
from robustatlas.models.classifier.compiled import ChannelsLast, CompiledNetwork
from robustatlas.models.classifier.network import InputSteps, Net
from robustatlas.models.classifier.outputs import Logits, OutputReader
from robustatlas.models.classifier.settings import ClassifierSettings
from robustatlas.models.classifier.smoothing import smoothing


class Backend(ABC):
    """Maps a batch [B, ...] in [0, 1] to logits [B, C], for results and for searches."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Return the logits that count: those of the network itself."""

    @abstractmethod
    def gradient(self, x: Tensor) -> Tensor:
        """Return the logits that a search follows: autograd takes their gradient on this backend's way."""


@dataclass(frozen=True)
class PlainBackend(Backend):
    """One function for results and searches. A function of another framework brings its gradient along."""

    logits: Logits

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits that count."""
        return self.logits(x)

    def gradient(self, x: Tensor) -> Tensor:
        """Return the logits that a search follows."""
        return self.logits(x)


@dataclass(frozen=True)
class LayoutBackend(Backend):
    """The network itself for results, and on images channels-last for searches in reduced precision."""

    logits: Logits
    channels_last: Logits

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits that count."""
        return self.logits(x)

    def gradient(self, x: Tensor) -> Tensor:
        """Return the logits that a search follows."""
        return self.channels_last(x)


@dataclass(frozen=True)
class CompiledBackend(Backend):
    """The network itself for results, and its compiled form for searches."""

    logits: Logits
    compiled: Logits

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits that count."""
        return self.logits(x)

    def gradient(self, x: Tensor) -> Tensor:
        """Return the logits that a search follows."""
        # An attack chooses its kind of gradient anew for each pass, so a compiled pass cannot hold the choice.
        return self.logits(x) if requested_backward() else self.compiled(x)


@dataclass(frozen=True)
class SmoothedGradient(Backend):
    """Another backend, whose ReLUs go back smoothed in passes for which an attack asks for that."""

    usual: Backend
    smoothed: Backend

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits that count."""
        return (self.smoothed if requested_backward() == "smoothed" else self.usual).forward(x)

    def gradient(self, x: Tensor) -> Tensor:
        """Return the logits that a search follows."""
        return (self.smoothed if requested_backward() == "smoothed" else self.usual).gradient(x)


@dataclass(frozen=True)
class StandInGradient(Backend):
    """Another backend for results, and a stand-in with the same logits and a gradient of its own for searches."""

    usual: Backend
    stand_in: Logits

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits that count."""
        # Whoever asks for a gradient of the logits, inside a search or not, gets that of the stand-in.
        follows = x.requires_grad and torch.is_grad_enabled()
        return self.stand_in(x) if follows else self.usual.forward(x)

    def gradient(self, x: Tensor) -> Tensor:
        """Return the logits that a search follows."""
        return self.stand_in(x)


@dataclass(frozen=True)
class Network:
    """A network on its device, with the forms of it that searches use.

    Attributes:
        net: the network itself.
        channels_last: the network on images channels-last.
        compiled: the compiled network (None: the settings do not ask for it).
    """

    net: Net
    channels_last: ChannelsLast
    compiled: CompiledNetwork | None


def network_in_forms(net: Net, settings: ClassifierSettings) -> Network:
    """Return a network with the forms that its settings ask for."""
    compiled = CompiledNetwork(net) if settings.compiled and isinstance(net, nn.Module) else None
    return Network(net, ChannelsLast(net), compiled)


def choose_backend(
    network: Network, inputs: InputSteps, outputs: OutputReader, settings: ClassifierSettings
) -> Backend:
    """Return the backend of a network that its settings ask for."""

    def logits_of(net: Net) -> Logits:
        return lambda x: outputs.read(inputs.call(net, x), len(x))

    def backend_of(change: Callable[[Net], Net]) -> Backend:
        if network.compiled is None and settings.rounding and settings.precision != "tf32":
            return LayoutBackend(logits_of(change(net)), logits_of(change(network.channels_last)))
        return PlainBackend(logits_of(change(net)))

    net = network.channels_last if settings.channels_last else network.net
    backend = backend_of(lambda each: each)
    if network.compiled is not None:
        backend = CompiledBackend(logits_of(net), logits_of(network.compiled))
    if settings.kinks:
        backend = SmoothedGradient(backend, backend_of(lambda each: smoothing(each, settings.kinks)))
    if settings.stand_in is not None:
        backend = StandInGradient(backend, settings.stand_in.logits)
    return backend
