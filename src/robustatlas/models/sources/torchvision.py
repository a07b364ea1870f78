"""``torchvision:NAME``: the classifiers of torchvision, with their own normalisation and size."""

from __future__ import annotations

from typing import Any

from robustatlas.common.errors import UserError
from robustatlas.common.wording import instead
from robustatlas.models.classifier import Classifier, Origin
from robustatlas.models.resizing import Resizing
from robustatlas.models.sources.packages import optional, unreachable, version_of


def torchvision_model(name: str, *, pretrained: bool = True, resize: bool | None = None, **settings: Any) -> Classifier:
    """A classifier of torchvision.

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
