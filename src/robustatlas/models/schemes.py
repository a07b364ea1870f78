"""The sources of models: each name that may stand before the colon of a model's name."""

from collections.abc import Callable
from typing import Any

from robustatlas.common.registry import Registry

SCHEMES: Registry[Callable[..., Any]] = Registry(
    "source of models",
    "robustatlas.sources",
    {
        "builtin": "models.builtin:load_builtin",
        "timm": "models.sources.zoos:timm_model",
        "torchvision": "models.sources.zoos:torchvision_model",
        "hf": "models.sources.huggingface:huggingface_model",
        "robustbench": "models.sources.robustbench:robustbench_model",
        "onnx": "models.sources.files:onnx_model",
        "export": "models.sources.files:exported_model",
        "trained": "models.networks:load_trained",
        "hf-clip": "models.sources.clip:huggingface_clip",
        "open_clip": "models.sources.clip:open_clip_model",
        "defended": "models.sources.defended:defended_model",
    },
    "a function of the text behind the colon, which returns a network or a Classifier",
    callable,
)
"""Text before the colon -> function that makes a model of the text behind it.

If the function calls its first argument ``file``, the text behind the colon is a file whose bytes identify the model.
"""
