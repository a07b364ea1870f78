"""Arguments of a training: their checks, and its images as batches."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from robustatlas.checks.sanity import check_inputs
from robustatlas.common.errors import UserError, shorten
from robustatlas.data import Dataset
from robustatlas.data.rows import InMemory
from robustatlas.models.classifier import Classifier, kind_of_outputs
from robustatlas.models.classifier.network import check_inputs_of
from robustatlas.models.classifier.placement import check_numbers
from robustatlas.models.classifier.settings import HALF
from robustatlas.training.against import Against
from robustatlas.training.recipes import Recipe, recipe_named
from robustatlas.training.settings import Settings

_MAX_HELD_OUT = 1024
_SHARED_TOLERANCE = 0.01
"""Share of the measured images that may be training images: published splits have some pictures twice."""


def parse_settings(settings: Settings | None, epochs: int | None, seed: int | None) -> Settings:
    """Return the settings for the arguments ``settings``, ``epochs`` and ``seed`` of ``train``."""
    if not isinstance(settings, Settings | None):
        raise UserError(f"settings={shorten(repr(settings))}; expected Settings(epochs=20, ...).")
    given = settings or Settings()
    given = replace(given, epochs=given.epochs if epochs is None else epochs, seed=given.seed if seed is None else seed)
    if given.selection == "best" and given.held_out == 0:
        raise UserError("selection='best' needs held-out images to choose by; give held_out more than 0.")
    return given


def parse_recipe(recipe: str | Recipe, against: Against | None) -> Recipe:
    """Return the recipe for the arguments ``recipe`` and ``against`` of ``train``."""
    if isinstance(recipe, Recipe):
        if against is not None:
            raise UserError("against= belongs to a recipe given by name; this recipe has its own threat models.")
        return recipe
    return recipe_named(recipe, against)


def bind_threats(recipe: Recipe, net: nn.Module) -> Recipe:
    """Return the recipe with threat models bound to the network, whose activations lpips compares."""
    classifier = Classifier(net)
    return replace(recipe, against=tuple(replace(o, threat=o.threat.for_model(classifier)) for o in recipe.against))


def network_dtype(net: nn.Module) -> torch.dtype:
    """Return the dtype of a network's parameters, which its training images must have."""
    return next(p for p in net.parameters() if p.is_floating_point()).dtype


def check_weights(net: nn.Module) -> None:
    """Raise :class:`UserError` if the weights of ``net`` cannot be trained on any device."""
    check_numbers(net)
    trained = [p for p in net.parameters() if p.requires_grad]
    if not trained:
        raise UserError("The network has no parameters that require a gradient; there is nothing to train.")
    if half := next((p.dtype for p in trained if p.dtype in HALF), None):
        raise UserError(
            f"The network's parameters are {half}, in which small updates are lost: train it in float32, net.float(), "
            "with settings=Settings(precision='bfloat16') for its forward passes, and cast it afterwards."
        )
    if any(p.is_inference() for p in trained):
        raise UserError("The network was made inside torch.inference_mode, which takes no gradients; make it outside.")
    for name, value in net.state_dict().items():
        if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_quantized:
            kind = "a sparse or quantised tensor" if isinstance(value, Tensor) else f"a {type(value).__name__}"
            raise UserError(
                f"The network keeps {kind} in its state ({name!r}), which a file of weights cannot hold: keep it "
                "outside of the state, by register_buffer(..., persistent=False) or without get_extra_state, and train "
                "then."
            )


def check_net(net: nn.Module, data: Dataset, device: torch.device) -> int:
    """Return the number of classes of ``net``; raise :class:`UserError` if its output does not fit the labels."""
    mode = net.training
    try:
        with torch.no_grad():
            logits = net.eval()(data.rows[:2].to(device, network_dtype(net)))
    except UserError:
        raise
    except Exception as error:
        check_inputs_of(net)
        raise UserError(
            f"The network fails on images of shape {data.shape}: {type(error).__name__}: {error}"
        ) from error
    finally:
        net.train(mode)
    if not isinstance(logits, Tensor) or logits.dim() != 2 or logits.shape[1] < 2:
        shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise UserError(f"The network returns {shape}; expected logits [B, C] of at least 2 classes.")
    if not bool(logits.isfinite().all()):
        raise UserError("The network returns NaN or infinite logits before any update; check its initial weights.")
    highest = int(data.labels.max())
    if highest >= logits.shape[1]:
        raise UserError(
            f"Labels of {data.name} go up to {highest}, but the network has {logits.shape[1]} classes (0 to "
            f"{logits.shape[1] - 1}); build it with {highest + 1} classes."
        )
    if int(data.labels.min()) == highest:
        raise UserError(f"All images of {data.name} are of class {highest}; expected at least 2 classes to tell apart.")
    return int(logits.shape[1])


_LOOKS_LIKE = {
    "probabilities": "are not negative and sum to 1, so it looks as if it ended in a softmax",
    "sigmoids": "lie in [0, 1] and do not sum to 1, so it looks as if it ended in a sigmoid for each class",
}


def output_warnings(net: nn.Module, data: Dataset, device: torch.device) -> list[str]:
    """Return a warning if the outputs of ``net`` look like something other than logits; its mode is unchanged."""
    mode = net.training
    with torch.no_grad():
        kind = kind_of_outputs(net.eval()(data.rows[:8].to(device, network_dtype(net))))
    net.train(mode)
    if kind not in _LOOKS_LIKE:
        return []
    return [
        f"The outputs of the network {_LOOKS_LIKE[kind]}. The losses of training take logits, and learn slowly or "
        "nothing behind it; leave it out of the network."
    ]


def check_options(
    recipe: Recipe, settings: Settings, data: Dataset, extra: Dataset | None, keep: int | None, out: object
) -> None:
    """Raise :class:`UserError` if settings do not fit the recipe, or extra images do not fit the data."""
    if settings.cutmix and not recipe.mixes:
        raise UserError(f"The recipe {recipe.name!r} takes one class an image, so no cutmix; leave it out.")
    drawn = [f"augmentation={settings.augmentation!r}"] if settings.augmentation != "none" else []
    drawn += [f"cutmix={settings.cutmix:g}"] if settings.cutmix else []
    if drawn and len(data.shape) != 3:
        raise UserError(
            f"{' and '.join(drawn)} is for images [C, H, W]; the data have shape {data.shape}, so leave it out "
            "(--with augmentation=none)."
        )
    if extra is not None:
        if extra.shape != data.shape or len(extra.classes) > len(data.classes):
            raise UserError(
                f"The extra data {extra.name} have shape {extra.shape} and {len(extra.classes)} classes, {data.name} "
                f"has {data.shape} and {len(data.classes)}; give images of the same size and classes."
            )
        if not 1 <= int(settings.ratio * settings.batch_size) < settings.batch_size:
            raise UserError(
                f"ratio={settings.ratio:g} of {settings.batch_size} images a batch leaves no image of one of both data "
                "sets; take another ratio or larger batches."
            )
    if keep is not None and (keep < 1 or out is None):
        raise UserError(f"keep={keep}; expected a number of epochs of at least 1, and out= to keep their weights in.")


def check_apart(measured: Dataset, training: Dataset, remedy: str) -> None:
    """Raise :class:`UserError`, which ends with ``remedy``, if measured images are also training images."""
    shared = measured.count_shared_images(training)
    if shared > _SHARED_TOLERANCE * len(measured):
        raise UserError(
            f"{shared} of the {len(measured)} images of {measured.name} that would be measured are training images "
            f"({training.name}), and accuracies on what was trained on say nothing: {remedy}."
        )


def choose_held_out(data: Dataset, settings: Settings) -> Tensor:
    """``[N]`` bool: images kept for measuring, evenly from all classes."""
    count = min(_MAX_HELD_OUT, len(data) // 10) if settings.held_out is None else settings.held_out
    if count >= len(data):
        raise UserError(f"held_out={count} of {len(data)} images leaves none to train on; hold fewer out.")
    if not count:
        return torch.zeros(len(data), dtype=torch.bool)
    positions = replace(data, index=torch.arange(len(data))).take(count, stratified=True, seed=settings.seed).index
    return torch.zeros(len(data), dtype=torch.bool).index_fill(0, positions, True)


class Images:
    """Images at some positions of a data set on a device, with their labels and their positions."""

    def __init__(self, data: Dataset, chosen: Tensor, device: torch.device, dtype: torch.dtype) -> None:
        self.labels, self.index = (t[chosen].to(device) for t in (data.labels, data.index))
        self.device, self.dtype = device, dtype
        self.rows = data.rows.subset(chosen)
        self.in_memory = self.rows[:].to(device, dtype) if isinstance(self.rows, InMemory) else None

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, positions: Tensor) -> Tensor:
        """Return the images ``[B, ...]`` at ``positions`` [B]."""
        if self.in_memory is not None:
            return self.in_memory[positions]
        return self.rows[positions.cpu()].to(self.device, self.dtype)


def check_images(data: Dataset) -> None:
    """Raise :class:`UserError` if images or labels cannot be used for training; of data on disk check the first
    ones.
    """
    count = len(data) if isinstance(data.rows, InMemory) else min(len(data), 8)
    check_inputs(data.rows[:count], data.labels[:count])
