"""What a broken defense is: a network on the shipped digits, why it only looks robust, and how it is attacked."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustatlas.data import load_dataset
from robustatlas.models.architectures import digits_cnn
from robustatlas.models.builtin import load_builtin
from robustatlas.models.classifier import Classifier, seeded
from robustatlas.models.gradients import surrogate

Net = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class BrokenDefense:
    """A network that only looks robust.

    Attributes:
        name: behind ``broken:``.
        make: the network, images [B, 1, 8, 8] of the digits to outputs [B, 10].
        mechanism: why attacks see more robustness than there is.
        source: where it was proposed or broken.
        adaptive: how it is attacked, in words.
        exposed: of the network, a function whose gradient stands for its own; None: other means are needed.
        draws: of a randomised network, over how many draws an attack averages.
    """

    name: str
    make: Callable[[], nn.Module]
    mechanism: str
    source: str
    adaptive: str
    exposed: Callable[[nn.Module], Net] | None = None
    draws: int | None = None

    def attacked(self) -> Classifier:
        """The network as an adaptive attack sees it: the same outputs, and a gradient that leads somewhere."""
        net = self.make().eval()
        if self.exposed is None:
            return Classifier(net, draws=self.draws, name=f"broken:{self.name}, attacked")
        through = surrogate(net, self.exposed(net))
        return Classifier(through, draws=self.draws, name=f"broken:{self.name}, attacked")


def _as_it_is(x: Tensor) -> Tensor:
    return x


class Behind(nn.Module):
    """A network (the shipped one) behind a function of its inputs, and before one of its outputs."""

    def __init__(self, before: Net = _as_it_is, after: Net = _as_it_is, net: nn.Module | None = None) -> None:
        super().__init__()
        self.before, self.after, self.net = before, after, digits() if net is None else net

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.net(self.before(x)))


def inner(net: nn.Module) -> Net:
    """The network itself, without what stands around it."""
    found = net.net
    assert isinstance(found, nn.Module)
    return found


@cache
def digits(name: str = "standard") -> nn.Sequential:
    """A network that comes with the package; it is shared, and nobody trains it."""
    net = load_builtin(f"digits-{name}")
    assert isinstance(net, nn.Sequential)
    return net.eval().requires_grad_(False)


_EPOCHS = 25
_BATCH = 64


@cache
def training_data() -> tuple[Tensor, Tensor]:
    """Images and labels of the training part of the digits."""
    data = load_dataset("digits", "train")
    return data.images, data.labels


def fitted(
    seed: int,
    make: Callable[[], nn.Module] = digits_cnn,
    transformed: Callable[[Tensor], Tensor] = lambda x: x,
    epochs: int = _EPOCHS,
) -> nn.Module:
    """A network, trained on ``transformed`` images by Adam; torch's own random numbers are left as they are."""
    images, labels = training_data()
    with seeded(seed), torch.enable_grad():
        net = make().train()
        optimizer = torch.optim.Adam(net.parameters(), 3e-3)
        for _ in range(epochs):
            for rows in torch.split(torch.randperm(len(images)), _BATCH):
                optimizer.zero_grad()
                loss = F.cross_entropy(net(transformed(images[rows])), labels[rows])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
    return net.eval().requires_grad_(False)


def features_of(net: nn.Sequential) -> nn.Sequential:
    """The network without its last layer."""
    return nn.Sequential(*list(net)[:-1])
