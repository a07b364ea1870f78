"""Small networks of several kinds, trained by a seed: what the defaults of the searches are chosen and reported on.

    python benchmarks/subjects.py [--names attention,gelu,...] [--kept FOLDER]

Each takes some minutes of one core and is kept in the folder, by its name. Needs MNIST, Fashion-MNIST and CIFAR-10
(``dataset-fashion-mnist`` of Debian, the other two in ROBUSTATLAS_DATA); of MNIST and CIFAR-10 the test images serve
for training but for those that :data:`KINDS` keeps apart to be attacked.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from safetensors.torch import save_file
from torch import Generator, Tensor, nn
from torch.ao.quantization import disable_observer, get_default_qat_qconfig_mapping
from torch.ao.quantization.quantize_fx import prepare_qat_fx
from torch.nn import functional
from torch.nn.utils import parametrize

import robustatlas as ra
from robustatlas.models.architectures import small_cnn
from robustatlas.models.gradients import straight_through
from robustatlas.models.weights import load_weights
from robustatlas.training import Settings, recipe_named

KEPT = Path("build/networks")


class PatchAttention(nn.Module):
    """Patches of 4x4 pixels, two blocks of self-attention, the mean of their tokens: a small vision transformer."""

    def __init__(self, channels: int, side: int, width: int = 64, patch: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, width, patch, stride=patch)
        self.places = nn.Parameter(0.02 * torch.randn(1, (side // patch) ** 2, width))
        block = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, activation="gelu", batch_first=True)
        self.blocks = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.places
        out: Tensor = self.head(self.blocks(tokens).mean(1))
        return out


def gelu_cnn(channels: int = 3, width: int = 32) -> nn.Module:
    """Four convolutions with GELU, two of them with stride 2, and a linear layer."""
    layers: list[nn.Module] = []
    for into, out, stride in ((channels, width, 1), (width, width, 2), (width, 2 * width, 1), (2 * width, 64, 2)):
        layers += [nn.Conv2d(into, out, 3, stride, 1), nn.BatchNorm2d(out), nn.GELU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64 * 16, 10))


class Residual(nn.Module):
    """A strided convolution and three residual blocks of ReLU, each of two convolutions."""

    def __init__(self, channels: int = 1, width: int = 32) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, width, 3, 2, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, 1, 1), nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1)
            )
            for _ in range(3)
        )
        self.head = nn.Linear(width * 16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.first(x))
        for block in self.blocks:
            x = functional.relu(x + block(x))
        out: Tensor = self.head(functional.adaptive_avg_pool2d(x, 4).flatten(1))
        return out


def fully_connected(hidden: int, width: int = 256, activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Module:
    """Return a network with a number of hidden layers on the pixels of MNIST."""
    layers: list[nn.Module] = [nn.Flatten()]
    for into in (784, *[width] * (hidden - 1)):
        layers += [nn.Linear(into, width), activation()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


class Mixer(nn.Module):
    """Patches of 4x4 pixels, three blocks that mix tokens and channels in turn (MLP-Mixer: Tolstikhin et al. 2021)."""

    def __init__(self, channels: int, side: int, width: int = 48, patch: int = 4) -> None:
        super().__init__()
        tokens = (side // patch) ** 2
        self.patches = nn.Conv2d(channels, width, patch, stride=patch)
        self.over_tokens = nn.ModuleList(_mixing(tokens) for _ in range(3))
        self.over_channels = nn.ModuleList(_mixing(width) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(6))
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        for number, (tokens, channels) in enumerate(zip(self.over_tokens, self.over_channels, strict=True)):
            x = x + tokens(self.norms[2 * number](x).transpose(1, 2)).transpose(1, 2)
            x = x + channels(self.norms[2 * number + 1](x))
        out: Tensor = self.head(x.mean(1))
        return out


def _mixing(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))


def narrow_cnn(width: int = 4) -> nn.Module:
    """The network of Wong and Kolter (2018) with a quarter of its channels."""
    first, second = nn.Conv2d(1, width, 4, 2, 1), nn.Conv2d(width, 2 * width, 4, 2, 1)
    hidden = nn.Sequential(nn.Flatten(), nn.Linear(2 * width * 49, 100), nn.ReLU(), nn.Linear(100, 10))
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), *hidden)


def pooled_cnn(channels: int, activation: Callable[[], nn.Module], width: int = 24) -> nn.Module:
    """Three convolutions, two of them strided and normalised by groups, and the largest of each ninth of the image."""
    layers: list[nn.Module] = []
    for into, out in ((channels, width), (width, 2 * width)):
        layers += [nn.Conv2d(into, out, 3, 2, 1), nn.GroupNorm(4, out), activation()]
    layers += [nn.Conv2d(2 * width, 2 * width, 3, 1, 1), activation()]
    return nn.Sequential(*layers, nn.AdaptiveMaxPool2d(3), nn.Flatten(), nn.Linear(18 * width, 10))


class BinaryWeights(nn.Module):
    """Weights of two values for each output, the gradient straight through (XNOR-Net: Rastegari et al. 2016)."""

    def forward(self, weights: Tensor) -> Tensor:
        return straight_through(lambda w: w.sign() * w.abs().flatten(1).mean(1).view(-1, *[1] * (w.dim() - 1)))(weights)


def binarised_cnn(width: int = 24) -> nn.Module:
    """Return three convolutions and two linear layers, the weights of all but the first and last of two values."""
    layers: list[nn.Module] = []
    for into, out, stride in ((1, width, 2), (width, 2 * width, 2), (2 * width, 2 * width, 1)):
        layers += [nn.Conv2d(into, out, 3, stride, 1), nn.BatchNorm2d(out), nn.ReLU()]
    layers += [nn.Flatten(), nn.Linear(2 * width * 49, 100), nn.BatchNorm1d(100), nn.ReLU(), nn.Linear(100, 10)]
    inner = [layer for layer in layers if isinstance(layer, (nn.Conv2d, nn.Linear))][1:-1]
    for layer in inner:
        parametrize.register_parametrization(layer, "weight", BinaryWeights())
    return nn.Sequential(*layers)


def quantised(net: nn.Module, images: Tensor) -> nn.Module:
    """Return ``net`` with weights and activations rounded to int8 as torch.ao does after training.

    The ranges are those of ``images``. The gradient goes straight through what is rounded and not clipped.
    """
    prepared = prepare_qat_fx(net.train(), get_default_qat_qconfig_mapping("x86", version=0), (images[:1],))
    with torch.no_grad():
        prepared(images)
    return prepared.apply(disable_observer).eval()


def _squared_error(logits: Tensor, labels: Tensor) -> Tensor:
    """To one-hot targets: logits stay between 0 and 1, and the gradient at an image says little."""
    return functional.mse_loss(logits, functional.one_hot(labels, logits.shape[1]).to(logits))


Split = Literal["test", "train"]


@dataclass(frozen=True)
class Kind:
    """Recipe of a network. Images ``first`` to ``first + count`` of a split train it, and test images from ``attacked``
    on are for attacks. ``epsilon``: it is trained on one step in linf from a random point (Wong et al. 2020), or by a
    ``recipe`` of ``robustatlas train`` against that size; 0: on the images themselves. ``int8``: it is quantised after
    training, by its first 256 training images."""

    net: Callable[[], nn.Module]
    data: str
    split: Split
    first: int
    count: int
    attacked: int
    loss: Callable[[Tensor, Tensor], Tensor] = functional.cross_entropy
    epochs: int = 12
    rate: float = 2e-3
    epsilon: float = 0.0
    recipe: str = ""
    int8: bool = False


HELD_OUT = (
    "tanh",
    "silu-adversarial",
    "conv-one-hot",
    "mixer",
    "conv-adversarial",
    "mixer-adversarial",
    "crown-ibp",
    "binary-weights",
    "int8",
)
"""Networks that no default was chosen on."""

KINDS = {
    "attention": Kind(lambda: PatchAttention(1, 28), "fashion-mnist", "train", 0, 20_000, attacked=0),
    "gelu": Kind(gelu_cnn, "cifar10", "test", 0, 8_000, attacked=8_000),
    "one-hot-4": Kind(lambda: fully_connected(4), "mnist", "test", 2_000, 8_000, 0, _squared_error, 20),
    "one-hot-6": Kind(lambda: fully_connected(6), "mnist", "test", 2_000, 8_000, 0, _squared_error, 20),
    "residual": Kind(Residual, "fashion-mnist", "train", 20_000, 20_000, attacked=0, epochs=5),
    "attention-cifar": Kind(lambda: PatchAttention(3, 32), "cifar10", "test", 0, 8_000, attacked=8_000, epochs=16),
    "tanh": Kind(lambda: fully_connected(3, 200, nn.Tanh), "mnist", "test", 2_000, 8_000, 0),
    "silu-adversarial": Kind(lambda: fully_connected(3, 200, nn.SiLU), "mnist", "test", 2_000, 8_000, 0, epsilon=0.1),
    "conv-one-hot": Kind(lambda: pooled_cnn(1, nn.ReLU), "fashion-mnist", "train", 0, 16_000, 0, _squared_error),
    "mixer": Kind(lambda: Mixer(1, 28), "fashion-mnist", "train", 40_000, 16_000, 0, epochs=8),
    "conv-adversarial": Kind(lambda: pooled_cnn(3, nn.SiLU), "cifar10", "test", 0, 8_000, 8_000, epsilon=4 / 255),
    "ibp": Kind(small_cnn, "mnist", "test", 2_000, 8_000, 0, epochs=6, epsilon=0.2, recipe="ibp"),
    "kw": Kind(narrow_cnn, "mnist", "test", 2_000, 4_000, 0, epochs=4, rate=5e-3, epsilon=0.1, recipe="kw"),
    "crown-ibp": Kind(small_cnn, "fashion-mnist", "train", 0, 10_000, 0, epochs=6, epsilon=0.1, recipe="crown-ibp"),
    "mixer-adversarial": Kind(lambda: Mixer(3, 32), "cifar10", "test", 0, 8_000, 8_000, epsilon=2 / 255),
    "binary-weights": Kind(binarised_cnn, "fashion-mnist", "train", 0, 10_000, 0, epochs=8),
    "int8": Kind(lambda: narrow_cnn(16), "fashion-mnist", "train", 0, 10_000, 0, epochs=8, int8=True),
}


def trained(name: str, folder: Path = KEPT) -> tuple[ra.Classifier, ra.Dataset]:
    """The network of that name, trained now or before, with the images that it is attacked on."""
    kind, path = KINDS[name], folder / f"{name}.safetensors"
    torch.manual_seed(0)
    net = kind.net()
    if not path.is_file():
        _train(net, kind)
        folder.mkdir(parents=True, exist_ok=True)
        save_file(net.state_dict(), path)
    load_weights(net, path)
    if kind.int8:
        net = quantised(net, ra.load_dataset(kind.data, kind.split).images[kind.first : kind.first + 256])
    data = ra.load_dataset(kind.data)
    rows = torch.arange(kind.attacked, kind.attacked + 2_000)
    return ra.Classifier(net.eval(), name=name), ra.Dataset.from_rows(
        data.rows.subset(rows), data.labels[rows], data.name
    )


def correct(model: ra.Classifier, data: ra.Dataset, rows: Tensor) -> Tensor:
    """Return the rows that the model classifies correctly."""
    with torch.no_grad():
        predicted = model.logits(data.images[rows].to(model.device)).argmax(1).cpu()
    return rows[predicted == data.labels[rows]]


def _train(net: nn.Module, kind: Kind, batch: int = 128) -> None:
    data, chance = ra.load_dataset(kind.data, kind.split), torch.Generator().manual_seed(0)
    rows = torch.arange(kind.first, kind.first + kind.count)
    if kind.recipe:
        settings = Settings(kind.epochs, batch_size=50, learning_rate=kind.rate, held_out=0)
        chosen = ra.Dataset.from_rows(data.rows.subset(rows), data.labels[rows], data.name)
        recipe = recipe_named(kind.recipe, {"linf": kind.epsilon}, warmup=0.5)
        ra.train(net, chosen, recipe, settings=settings, device="cpu", progress=False)
        return
    images, labels = data.images[rows], data.labels[rows]
    steps = kind.epochs * (len(rows) // batch)
    optimizer = torch.optim.AdamW(net.parameters(), lr=kind.rate, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, kind.rate, total_steps=steps)
    net.train()
    for _ in range(kind.epochs):
        order = torch.randperm(len(rows), generator=chance)
        for chosen in order[: batch * (len(rows) // batch)].split(batch):
            x = _attacked(net, kind, images[chosen], labels[chosen], chance)
            optimizer.zero_grad()
            kind.loss(net(x), labels[chosen]).backward()
            optimizer.step()
            schedule.step()


def _attacked(net: nn.Module, kind: Kind, x: Tensor, labels: Tensor, chance: Generator) -> Tensor:
    if not kind.epsilon:
        return x
    begun = x + kind.epsilon * (2 * torch.rand(x.shape, generator=chance) - 1)
    leaf = begun.clamp(0, 1).requires_grad_()
    (slope,) = torch.autograd.grad(kind.loss(net(leaf), labels), leaf)
    change = leaf.detach() - x + 1.25 * kind.epsilon * slope.sign()
    return (x + change.clamp(-kind.epsilon, kind.epsilon)).clamp(0, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", default=",".join(KINDS))
    parser.add_argument("--kept", type=Path, default=KEPT)
    asked = parser.parse_args()
    for name in asked.names.split(","):
        model, data = trained(name, asked.kept)
        with torch.no_grad():
            right = (model.logits(data.images[:1_000]).argmax(1) == data.labels[:1_000]).double().mean()
        print(f"{name}: {100 * right:.1f} % of the first 1,000 images right", flush=True)


if __name__ == "__main__":
    main()
