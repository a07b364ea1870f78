"""``timm:NAME`` and ``torchvision:NAME``: published image models, with their own normalisation and size."""

import math
from collections.abc import Mapping
from typing import Any

from robustatlas.common.errors import UserError
from robustatlas.common.wording import instead
from robustatlas.models.classifier import Classifier, Origin
from robustatlas.models.classifier.columns import Classes
from robustatlas.models.resizing import Resizing
from robustatlas.models.sources.packages import optional, unreachable, version_of


def timm_model(name: str, *, pretrained: bool = True, resize: bool | None = None, **settings: Any) -> Classifier:
    """Load a model of timm.

    Args:
        name: as in ``timm.list_models()``, such as ``resnet18`` or ``resnet18.a1_in1k``.
        pretrained: with published weights, from timm's cache or fetched by timm; otherwise random ones.
        resize: bring images to the size that the weights were published for; default: where the weights are the
            published ones, or the network takes no other size.
        settings: of ``timm.create_model``, such as ``num_classes=10``.
    """
    source = f"timm:{name}"
    timm = optional("timm", source, "timm")
    if not timm.is_model(name.partition(".")[0]) and not name.startswith(("hf-hub:", "hf_hub:", "local-dir:")):
        there = instead(name, timm.list_models(), "timm.list_models() names all")
        raise UserError(f"timm has no model {name!r}{there}")
    try:
        net = timm.create_model(name, pretrained=pretrained, **settings)
    except OSError as error:  # what the hub and urllib raise without a network
        raise unreachable(source, "timm", error) from error
    about: Mapping[str, Any] = net.pretrained_cfg
    if resize is None:
        resize = pretrained or bool(about.get("fixed_input_size"))
    if "img_size" in settings and resize:
        side = settings["img_size"]
        about = dict(about) | {"input_size": (3, *((side, side) if isinstance(side, int) else side))}
    home = about.get("hf_hub_id") or about.get("url") or about.get("origin_url")
    return Classifier(
        net,
        about["mean"],
        about["std"],
        prepare=resizing_of(about) if resize else None,
        classes=_classes_of(net, about),
        origin=Origin(
            source,
            licence=about.get("license") if pretrained else None,
            home=home if pretrained else None,
            library=version_of("timm"),
        ),
    )


def _classes_of(net: Any, about: Mapping[str, Any]) -> Classes:
    """Return the names that the weights were published with, or the number of classes of the network."""
    count, names = int(getattr(net, "num_classes", 0)), about.get("label_names") or ()
    return tuple(map(str, names)) if count == len(names) > 1 else count if count > 1 else None


def resizing_of(about: Mapping[str, Any]) -> Resizing:
    """Return the resizing of timm's transforms for evaluation, by the ``pretrained_cfg`` of a model."""
    _, height, width = about["input_size"]
    share = about.get("crop_pct") or 0.875
    interpolation = about.get("interpolation", "bicubic")
    if interpolation not in ("bicubic", "bilinear", "nearest"):
        interpolation = "bicubic"
    if about.get("crop_mode") == "squash" or height != width:
        resize: int | tuple[int, int] = (math.floor(height / share), math.floor(width / share))
    else:
        resize = math.floor(height / share)
    return Resizing(resize, (height, width), interpolation)


def torchvision_model(name: str, *, pretrained: bool = True, resize: bool | None = None, **settings: Any) -> Classifier:
    """Load a classifier of torchvision.

    Args:
        name: as in ``torchvision.models.list_models()``, such as ``resnet18``.
        pretrained: with its default weights, from torch's cache or fetched by torchvision; otherwise random ones.
        resize: bring images to the size that the weights were published for; default: where they are used.
        settings: of ``torchvision.models.get_model``, such as ``num_classes=10`` or ``weights="IMAGENET1K_V1"``.
    """
    source = f"torchvision:{name}"
    models = optional("torchvision.models", source, "torchvision")
    if name not in models.list_models(models):
        there = instead(name, models.list_models(models), "torchvision.models.list_models() names all")
        raise UserError(f"torchvision has no classifier {name!r}{there}")
    published = models.get_model_weights(name)
    asked = settings.pop("weights", None)
    weights = published[asked] if asked else published.DEFAULT
    try:
        net = models.get_model(name, weights=weights if pretrained else None, **settings)
    except OSError as error:
        raise unreachable(source, "torch", error) from error
    transform = weights.transforms()
    height, width = transform.crop_size * 2 if len(transform.crop_size) == 1 else transform.crop_size
    (side,) = transform.resize_size
    return Classifier(
        net,
        transform.mean,
        transform.std,
        prepare=Resizing(side, (height, width), transform.interpolation.value)
        if (pretrained if resize is None else resize)
        else None,
        classes=weights.meta.get("categories") if pretrained else settings.get("num_classes"),
        origin=Origin(
            source,
            licence=weights.meta.get("license") if pretrained else None,
            home=weights.url if pretrained else None,
            library=version_of("torchvision"),
        ),
    )
