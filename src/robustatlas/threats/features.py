"""Activations of a network as features: where a perceptual distance looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from robustatlas.common.errors import UserError
from robustatlas.common.files import named
from robustatlas.models.architectures import IMAGENET_MEAN, IMAGENET_STD
from robustatlas.models.checkpoints import content_of
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.backward import requested_backward

Features = Callable[[Tensor], Sequence[Tensor]]
"""From images ``[B, C, H, W]`` in [0, 1] to activations: maps ``[B, c, h, w]``, tokens ``[B, n, c]`` or vectors."""

_MANY = 6
_LINEAR = (
    nn.Conv1d,
    nn.Conv2d,
    nn.Linear,
    nn.modules.batchnorm._NormBase,
    nn.GroupNorm,
    nn.LayerNorm,
    nn.modules.pooling._MaxPoolNd,
    nn.modules.pooling._AvgPoolNd,
    nn.modules.pooling._AdaptiveAvgPoolNd,
    nn.modules.pooling._AdaptiveMaxPoolNd,
    nn.modules.dropout._DropoutNd,
    nn.Identity,
    nn.Flatten,
)


@contextmanager
def _recording(modules: Mapping[str, nn.Module]) -> Iterator[dict[str, Tensor]]:
    """Outputs of ``modules`` by name, in the order of computation (the last one where a module runs twice)."""
    outputs: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor):
                outputs[name] = output

        return hook

    handles = [module.register_forward_hook(keep(name)) for name, module in modules.items()]
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()


def _network_of(model: Classifier) -> nn.Module:
    if not isinstance(model.net, nn.Module):
        raise UserError(
            f"The model {model.name} is a plain function; activations can only be read from an nn.Module. "
            "Give the perceptual distance features of another network, or wrap the model in an nn.Module."
        )
    return model.net


def find_layers(model: Classifier, x: Tensor) -> tuple[str, ...]:
    """Names of the layers to compare images by: the stages of a CNN, or its nonlinearities where it has no stages.

    Stages are the children of the network (or of the one child that does nearly everything) that are made of several
    layers and put out feature maps for ``x`` [B, C, H, W], such as ``layer1 .. layer4`` of a ResNet. Among more than
    six, the last of each resolution is taken. A network without feature maps is compared by its hidden vectors.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(10))
        >>> find_layers(Classifier(net), torch.rand(2, 1, 8, 8))
        ('1',)
    """
    network = _network_of(model)
    named = {name: module for name, module in network.named_modules() if name}
    with torch.no_grad(), model.evaluating(), _recording(named) as outputs:
        model.logits(x[:1], verifying=True)
    shapes = {name: out.shape[1:] for name, out in outputs.items() if out.dim() == 4 and out.shape[2:].numel() > 1}
    if not shapes:
        shapes = {name: out.shape[1:] for name, out in list(outputs.items())[:-1] if out.dim() == 2}
    names = _stages(network, "", shapes)
    if len(names) > _MANY:
        names = list({shapes[name][1:]: name for name in names}.values())
    if not names:
        raise UserError(
            f"No activations to compare images by were found in {model.name}; name its layers: "
            "ActivationFeatures(model, layers=['features.3', ...])."
        )
    return tuple(names)


def _stages(module: nn.Module, prefix: str, shapes: Mapping[str, torch.Size]) -> list[str]:
    children = {prefix + name: child for name, child in module.named_children()}
    stages = [name for name, child in children.items() if name in shapes and len(list(child.children()))]
    if len(stages) > 1:
        return sorted(stages, key=list(shapes).index)
    inside = {name: sum(other.startswith(f"{name}.") for other in shapes) for name in children}
    busiest = max(inside, key=lambda name: inside[name], default="")
    if inside.get(busiest, 0) > 1:
        return _stages(children[busiest], f"{busiest}.", shapes)
    leaves = [name for name in shapes if name in children]
    return [name for name in leaves if not isinstance(children[name], _LINEAR)] or leaves


class ActivationFeatures:
    """The activations of a network at some of its layers.

    Args:
        model: the network, as a :class:`Classifier`: with its normalisation, and its passes counted.
        layers: names as in ``net.named_modules()``; by default those of :func:`find_layers`.
    """

    def __init__(self, model: Classifier, layers: Sequence[str] | None = None) -> None:
        self.model = model
        self.layers = tuple(layers) if layers is not None else None
        known = dict(_network_of(model).named_modules())
        for name in self.layers or ():
            if name not in known:
                raise UserError(
                    f"{model.name} has no layer {name!r}; its layers are {', '.join(n for n in known if n)}."
                )

    def on(self, device: torch.device) -> ActivationFeatures:
        """The same activations, of a copy of the network on ``device``."""
        return ActivationFeatures(Classifier(self.model, device=device), self.layers)

    def __call__(self, x: Tensor) -> Sequence[Tensor]:
        """The activations at :attr:`layers` for ``x`` [B, C, H, W] in [0, 1]."""
        if self.layers is None:
            self.layers = find_layers(self.model, x)
        with self.model.evaluating(), self._recorded(self.layers) as activations:
            self.model.logits(x, verifying=True)
        return activations()

    @contextmanager
    def of_passes(self, model: Classifier) -> Iterator[Callable[[], Sequence[Tensor]] | None]:
        """Yields what gives the activations of the last pass that ``model`` made inside. None where that pass differs
        from one made here: another network, reduced precision (TF32 is the default of convolutions on accelerators), or
        one of several draws."""
        same = model.net is self.model.net and model.prepare is self.model.prepare
        full = model.precision == "float32" and model.device.type == "cpu"
        plain = full and model.draws is None and requested_backward() is None
        if self.layers is None or not (same and plain):
            yield None
            return
        with self._recorded(self.layers) as activations:
            yield activations

    @contextmanager
    def _recorded(self, layers: tuple[str, ...]) -> Iterator[Callable[[], Sequence[Tensor]]]:
        modules = dict(_network_of(self.model).named_modules())
        with _recording({name: modules[name] for name in layers}) as outputs:

            def activations() -> Sequence[Tensor]:
                if missing := [name for name in layers if name not in outputs]:
                    raise UserError(
                        f"The layers {missing} of {self.model.name} put out no tensor; choose other layers."
                    )
                return [outputs[name] for name in layers]

            yield activations

    def to_record(self) -> dict[str, Any]:
        """What determines the activations, for the record of a run."""
        return {"network": self.model, "layers": self.layers}

    def __repr__(self) -> str:
        return f"activations of {self.model.name} at {', '.join(self.layers or ('its stages',))}"


Backbone = Literal["alexnet", "alexnet_cifar", "vgg16"]
_Layer = tuple[int, int, int, int] | int  # a convolution (channels, kernel, stride, padding) or a max pooling (kernel)


def _vgg(*stages: tuple[int, int]) -> list[_Layer]:
    layers: list[_Layer] = []
    for count, channels in stages:
        layers += [(channels, 3, 1, 1)] * count + [2]
    return layers


_LAYERS: dict[str, list[_Layer]] = {
    "alexnet": [(64, 11, 4, 2), 3, (192, 5, 1, 2), 3, (384, 3, 1, 1), (256, 3, 1, 1), (256, 3, 1, 1)],
    "alexnet_cifar": [(64, 3, 2, 1), 2, (192, 3, 1, 1), 2, (384, 3, 1, 1), (256, 3, 1, 1), (256, 3, 1, 1)],
    "vgg16": _vgg((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))[:-1],
}


def _backbone(architecture: str) -> nn.Sequential:
    network, channels = nn.Sequential(), 3
    for layer in _LAYERS[architecture]:
        if isinstance(layer, int):
            network.append(nn.MaxPool2d(layer, 2))
        else:
            width, kernel, stride, padding = layer
            network.append(nn.Conv2d(channels, width, kernel, stride, padding)).append(nn.ReLU())
            channels = width
    return network


def _read_weights(path: Path) -> dict[str, Tensor]:
    """Convolution weights ``features.*`` of a file, whatever the checkpoint is wrapped in."""
    content = content_of(path)
    while isinstance(content, Mapping) and not any(isinstance(value, Tensor) for value in content.values()):
        inner = [value for value in content.values() if isinstance(value, Mapping) and value]
        if not inner:
            break
        content = inner[0]
    if not isinstance(content, Mapping):
        raise UserError(f"{path} holds a {type(content).__name__}; expected a state dict.")
    return {key.rpartition("features.")[2]: value for key, value in content.items() if "features." in key}


def load_features(architecture: Backbone, weights: str | Path) -> ActivationFeatures:
    """Features of an AlexNet or VGG16 whose weights are in a local file.

    Args:
        architecture: ``"alexnet"`` or ``"vgg16"`` (layout of torchvision's ImageNet models), or ``"alexnet_cifar"``
            (Laidlaw et al. 2021).
        weights: ``.safetensors``, or a file that ``torch.load(weights_only=True)`` reads, with keys that end in
            ``features.N.weight``.

    Layers are the outputs of all nonlinearities (AlexNet), or of the last before each pooling (VGG16). Images are
    normalised by the mean and deviation of ImageNet.
    """
    if architecture not in _LAYERS:
        raise UserError(f"architecture={architecture!r} is not known; expected one of {', '.join(_LAYERS)}.")
    network = _backbone(architecture)
    wanted = network.state_dict()
    found = _read_weights(named(weights))
    wrong = [key for key, value in wanted.items() if key not in found or found[key].shape != value.shape]
    if wrong:
        raise UserError(
            f"{weights} does not fit {architecture}: features.{wrong[0]} is missing or has another shape "
            f"(expected {list(wanted[wrong[0]].shape)}). Choose the architecture that the weights belong to."
        )
    network.load_state_dict({key: found[key] for key in wanted})
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    nonlinear = [i for i, layer in enumerate(network) if isinstance(layer, nn.ReLU)]
    if architecture == "vgg16":
        nonlinear = [i for i in nonlinear if i + 1 == len(network) or isinstance(network[i + 1], nn.MaxPool2d)]
    model = Classifier(network, IMAGENET_MEAN, IMAGENET_STD, name=architecture)
    return ActivationFeatures(model, [str(i) for i in nonlinear])
