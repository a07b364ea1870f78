"""Networks on the digits that the defenses of this folder stand around, and how a defense is attacked adaptively."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.models.architectures import digits_cnn

Function = Callable[[Tensor], Tensor]
BATCH_SIZE = 64


def identity(x: Tensor) -> Tensor:
    return x


class Wrapped(nn.Module):
    """A network between a function of its inputs, `before`, and a function of its outputs, `after`."""

    def __init__(self, before: Function = identity, after: Function = identity, net: nn.Module | None = None) -> None:
        super().__init__()
        self.before, self.after = before, after
        self.net = shipped_network() if net is None else net

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.net(self.before(x)))


def shipped_network(name: str = "standard") -> nn.Sequential:
    """Return a network that comes with robustatlas, such as "linf" for ``builtin:digits-linf``."""
    net = ra.load_model(f"builtin:digits-{name}").net
    assert isinstance(net, nn.Sequential)
    return net.requires_grad_(False)


def trained_network(
    seed: int,
    make: Callable[[], nn.Module] = digits_cnn,
    transform: Function = identity,
    epochs: int = 25,
) -> nn.Module:
    """Train the network that `make` returns on transformed digits, by Adam; the random state is restored at the end."""
    data = ra.load_dataset("digits", "train")
    with torch.random.fork_rng([]), torch.enable_grad():
        torch.manual_seed(seed)
        net = make().train()
        optimizer = torch.optim.Adam(net.parameters(), 3e-3)
        for _ in range(epochs):
            for rows in torch.split(torch.randperm(len(data.images)), BATCH_SIZE):
                optimizer.zero_grad()
                loss = F.cross_entropy(net(transform(data.images[rows])), data.labels[rows])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
    return net.eval().requires_grad_(False)


def attackable(net: nn.Module, substitute: Function, attacked: bool) -> nn.Module | ra.Classifier:
    """Return the defense `net`, or where it is `attacked`, its outputs with the gradient of `substitute`."""
    net.eval()
    return ra.Classifier(ra.surrogate(net, substitute)) if attacked else net


def attackable_by_draws(net: nn.Module, attacked: bool) -> nn.Module | ra.Classifier:
    """Return the randomised defense `net`, or where it is `attacked`, one whose attacks average over 20 draws."""
    net.eval()
    return ra.Classifier(net, draws=20) if attacked else net
