"""``hf-clip:NAME`` and ``open_clip:ARCH/WEIGHTS``: classifiers whose weights are the names of the classes."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.common.errors import UserError, brief
from robustatlas.common.files import named, read_text
from robustatlas.models.classifier import Classifier, Origin
from robustatlas.models.resizing import Resizing
from robustatlas.models.sources.huggingface import (
    configuration_of,
    first_line_of,
    licence_of,
    preprocessing_in,
)
from robustatlas.models.sources.packages import optional, unreachable, version_of

PROMPT = "a photo of a {}"
"""Radford et al. 2021 (CLIP), section 3.1.4."""

_RANDOM = "{} has random weights, because none were asked for: its accuracies say nothing about any published model."
_AT_ONCE = 64
"""Texts that go through the text tower together."""


class ZeroShot(nn.Module):
    """An image tower (``features``, [B, C, H, W] to [B, D]) in front of the features ``texts`` [K, D], of length 1, of
    the classes' names; ``scale`` and ``bias`` of the logits."""

    texts: Tensor
    scale: Tensor
    bias: Tensor

    def __init__(self, features: nn.Module, texts: Tensor, scale: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.features = features
        for name, value in (("texts", texts), ("scale", scale), ("bias", bias)):
            self.register_buffer(name, value.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """Logits [B, K]: scaled cosines between the image and each class."""
        return self.scale * nn.functional.normalize(self.features(x), dim=1) @ self.texts.T + self.bias


def huggingface_clip(
    name: str,
    *,
    classes: str | Path | Sequence[str] | None = None,
    prompt: str | Sequence[str] = PROMPT,
    pretrained: bool = True,
) -> Classifier:
    """A zero-shot classifier by a CLIP or SigLIP of transformers. Texts are encoded once; the image tower is attacked.

    Args:
        name: a folder that ``save_pretrained`` wrote, with its tokenizer, or a repository of the hub.
        classes: their names, in the order of the labels, or a file with one a line.
        prompt: what a name stands in, as ``{}``; the features of several are averaged.
        pretrained: with its weights; otherwise random ones.
    """
    source = f"hf-clip:{name}"
    names = class_names(classes, source)
    prompts = prompts_of(prompt)
    transformers = optional("transformers", source, "clip")
    config, local = configuration_of(transformers, name, {})
    model, tokenizer = _two_towers(transformers, name, config, local, pretrained)
    texts = text_features(partial(_encoded, model, tokenizer), names, prompts)
    bias = getattr(model, "logit_bias", torch.zeros(()))
    net = ZeroShot(_Tower(model), texts, model.logit_scale.exp(), bias).eval()
    found = preprocessing_in(transformers, name, config, local, source)
    origin = Origin(
        source,
        licence=licence_of(transformers, name, local) if pretrained else None,
        home=str(Path(name).resolve()) if Path(name).is_dir() else f"https://huggingface.co/{name}",
        library=version_of("transformers"),
        notes=() if pretrained else (_RANDOM.format(source),),
    )
    mean, std, prepare = (found.mean, found.std, found.prepare) if found else (None, None, None)
    classifier = Classifier(net, mean, std, prepare=prepare, classes=names, origin=origin)
    if found is not None:
        found.check(classifier, source)
    return classifier


def _two_towers(transformers: Any, name: str, config: Any, local: dict[str, Any], pretrained: bool) -> tuple[Any, Any]:
    """A model with an image and a text tower, and its tokenizer; ``pretrained``: with its weights."""
    source = f"hf-clip:{name}"
    try:
        if pretrained:
            model = transformers.AutoModel.from_pretrained(name, config=config, use_safetensors=True, **local)
        else:
            model = transformers.AutoModel.from_config(config)
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **local)
    except OSError as error:
        raise unreachable(source, "Hugging Face", error) from error
    except (ValueError, ImportError) as error:
        raise UserError(f"{source} cannot be read by transformers: {first_line_of(error)}.") from error
    if not (hasattr(model, "get_text_features") and hasattr(model, "get_image_features")):
        raise UserError(f"{source} is a {type(model).__name__}; expected one with two towers, such as CLIP or SigLIP.")
    return model.eval(), tokenizer


def _encoded(model: Any, tokenizer: Any, texts: list[str]) -> Tensor:
    siglip = "siglip" in model.config.model_type
    longest = model.config.text_config.max_position_embeddings
    padding = "max_length" if siglip else True
    tokens = tokenizer(texts, padding=padding, max_length=longest, truncation=True, return_tensors="pt")
    seen = ("input_ids",) if siglip else ("input_ids", "attention_mask")  # SigLIP was trained to see its padding
    return pooled(model.get_text_features(**{key: tokens[key] for key in seen if key in tokens}))


def open_clip_model(
    name: str, *, classes: str | Path | Sequence[str] | None = None, prompt: str | Sequence[str] = PROMPT
) -> Classifier:
    """A zero-shot classifier by a model of open_clip. ``name``: ``ARCH/WEIGHTS`` of ``open_clip.list_pretrained()``, or
    ``ARCH`` alone with random weights. ``classes``, ``prompt``: as of ``hf-clip:``."""
    source = f"open_clip:{name}"
    names = class_names(classes, source)
    prompts = prompts_of(prompt)
    open_clip = optional("open_clip", source, "open-clip")
    architecture, _, weights = name.partition("/")
    try:
        model = open_clip.create_model(architecture, pretrained=weights or None).eval()
        tokenizer = open_clip.get_tokenizer(architecture)
    except ModuleNotFoundError as error:
        raise UserError(f"{source} needs {error.name} for its tokenizer: pip install {error.name}") from error
    except OSError as error:
        raise unreachable(source, "open_clip", error) from error
    except RuntimeError as error:
        raise UserError(f"{source} cannot be made by open_clip: {first_line_of(error)}.") from error
    texts = text_features(lambda asked: model.encode_text(tokenizer(asked)), names, prompts)
    bias = getattr(model, "logit_bias", None)
    net = ZeroShot(model.visual, texts, model.logit_scale.exp(), torch.zeros(()) if bias is None else bias)
    size, about = model.visual.image_size, getattr(model.visual, "preprocess_cfg", {})
    side = size if isinstance(size, tuple) else (size, size)
    squashed = about.get("resize_mode", "shortest") == "squash"
    resizing = Resizing(
        side if squashed else min(side), None if squashed else side, about.get("interpolation", "bicubic")
    )
    notes = () if weights else (_RANDOM.format(source),)
    origin = Origin(source, library=version_of("open_clip_torch"), notes=notes)
    mean, std = model.visual.image_mean, model.visual.image_std
    return Classifier(net, mean, std, prepare=resizing, classes=names, origin=origin)


class _Tower(nn.Module):
    """The image tower of a model of transformers, without that of texts."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        for name in [name for name, _ in model.named_children() if name.startswith("text")]:
            delattr(model, name)
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return pooled(self.model.get_image_features(pixel_values=x))


def class_names(given: str | Path | Sequence[str] | None, source: str) -> list[str]:
    """Names of classes, from a list or a file with one a line.

    >>> class_names(["cat", "dog"], "hf-clip:net")
    ['cat', 'dog']
    """
    if given is None:
        raise UserError(
            f"{source} needs the names of the classes; give --classes names.txt, one a line, in the order "
            "of the labels (classes in Python)."
        )
    if isinstance(given, (str, Path)):
        try:
            lines = read_text(named(given, "a file of names")).splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"The names of classes in {given} cannot be read ({error}); give a text file.") from error
        names = [line.strip() for line in lines if line.strip()]
    else:
        names = [str(name) for name in given]
    if len(names) < 2 or len(set(names)) < len(names):
        twice = next((name for name in names if names.count(name) > 1), None)
        raise UserError(
            f"The classes of {source} are {len(names)} names"
            + (f", {twice!r} twice" if twice else "")
            + "; expected at least two, each once."
        )
    return names


def prompts_of(given: str | Sequence[str]) -> list[str]:
    """Texts with a place for a name, each."""
    prompts = [given] if isinstance(given, str) else list(given)
    for prompt in prompts:
        if prompt.count("{}") != 1:
            raise UserError(
                f"The prompt {brief(prompt)!r} has no place for a name; write {{}} there, as in {PROMPT!r}."
            )
    return prompts


def text_features(encoded: Callable[[list[str]], Tensor], names: Sequence[str], prompts: Sequence[str]) -> Tensor:
    """``[K, D]`` of length 1: for each class the mean direction of its prompts (Radford et al. 2021, section 3.1.4)."""
    directions = []
    with torch.no_grad():
        for prompt in prompts:
            texts = [prompt.replace("{}", name) for name in names]
            parts = [encoded(texts[first : first + _AT_ONCE]) for first in range(0, len(texts), _AT_ONCE)]
            directions.append(nn.functional.normalize(torch.cat(parts).float(), dim=1))
    return nn.functional.normalize(torch.stack(directions).mean(0), dim=1)


def pooled(returned: Any) -> Tensor:
    """Features as transformers returns them: from version 5 on inside an object."""
    features: Tensor = returned if isinstance(returned, Tensor) else returned.pooler_output
    return features
