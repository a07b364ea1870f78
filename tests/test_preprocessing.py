"""Models of Hugging Face see pictures as their own image processors make them: compared with the processor and the
network on pictures of many sizes, since no key of a configuration is read here."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import robustatlas as ra
from robustatlas.common.errors import UserError
from robustatlas.models.resizing import Resizing

transformers = pytest.importorskip("transformers")

SMALL: dict[str, Any] = {"num_labels": 5}
TRANSFORMER: dict[str, Any] = SMALL | {
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
}  # fmt: skip


def _config(kind: str, side: int) -> Any:
    """The configuration of a small network of a kind, for images of a side."""
    makers: dict[str, Any] = {
        "ViT": lambda: transformers.ViTConfig(image_size=side, patch_size=side // 4, **TRANSFORMER),
        "DeiT": lambda: transformers.DeiTConfig(image_size=side, patch_size=side // 4, **TRANSFORMER),
        "Beit": lambda: transformers.BeitConfig(image_size=side, patch_size=side // 4, **TRANSFORMER),
        "Swin": lambda: transformers.SwinConfig(
            image_size=side, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[1, 2], window_size=4, **SMALL
        ),
        "ResNet": lambda: transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], **SMALL),
        "ConvNext": lambda: transformers.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, **SMALL),
        "Levit": lambda: transformers.LevitConfig(
            image_size=side, hidden_sizes=[16, 24, 32], num_attention_heads=[2, 2, 2], depths=[1, 1, 1],
            key_dim=[8, 8, 8], **SMALL,
        ),
        "MobileViT": lambda: transformers.MobileViTConfig(
            image_size=side, hidden_sizes=[16, 20, 24], neck_hidden_sizes=[8, 8, 8, 16, 16, 16, 16],
            num_attention_heads=2, **SMALL,
        ),
        "EfficientNet": lambda: transformers.EfficientNetConfig(
            image_size=side, width_coefficient=0.25, depth_coefficient=0.25, hidden_dim=320, **SMALL
        ),
        "MobileNetV2": lambda: transformers.MobileNetV2Config(depth_multiplier=0.35, **SMALL),
        "Segformer": lambda: transformers.SegformerConfig(
            hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1], num_attention_heads=[1, 1, 1, 1],
            decoder_hidden_size=8, **SMALL,
        ),
    }  # fmt: skip
    return makers[kind]()


def saved(folder: Path, kind: str, side: int, processor: Any) -> Path:
    """A folder with a small random network and its image processor, or the JSON of one, as ``save_pretrained`` leaves
    it. The weights are large enough for the logits to depend on the pictures."""
    torch.manual_seed(0)
    net = getattr(transformers, f"{kind}ForImageClassification")(_config(kind, side))
    for weight in net.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=(2 / weight[0].numel()) ** 0.5)
    net.save_pretrained(folder)
    if isinstance(processor, dict):
        (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    else:
        processor.save_pretrained(folder)
    return folder


# Of each: the kind of network, the side of the pictures it takes, the class of the processor, and its settings.
MODELS: dict[str, tuple[str, int, str, dict[str, Any]]] = {
    "MobileViT, blue first": (
        "MobileViT", 64, "MobileViTImageProcessor", {"size": {"shortest_edge": 72}, "crop_size": 64, "resample": 2}),
    "MobileViT, defaults (on black)": ("MobileViT", 256, "MobileViTImageProcessor", {}),
    "MobileViT, red first": (
        "MobileViT", 64, "MobileViTImageProcessor",
        {"size": {"shortest_edge": 72}, "crop_size": 64, "do_flip_channel_order": False}),
    "ResNet, one number": ("ResNet", 64, "ConvNextImageProcessor", {"size": 64, "crop_pct": 0.875}),
    "ResNet, odd middle": (
        "ResNet", 61, "CLIPImageProcessor", {"size": {"shortest_edge": 72}, "crop_size": {"height": 61, "width": 53}}),
    "CLIP's, one number": ("ViT", 64, "CLIPImageProcessor", {"size": 64, "crop_size": 64}),
    "Levit, one number": ("Levit", 224, "LevitImageProcessor", {"size": 224}),
    "ViT, defaults": ("ViT", 224, "ViTImageProcessor", {}),
    "ViT, one number": ("ViT", 32, "ViTImageProcessor", {"size": 32}),
    "ViT, nothing but scaled": ("ViT", 64, "ViTImageProcessor", {"size": 64, "do_normalize": False}),
    "ViT, not scaled": ("ViT", 64, "ViTImageProcessor", {"size": 64, "do_rescale": False, "image_mean": [120.0] * 3}),
    "EfficientNet, defaults": ("EfficientNet", 346, "EfficientNetImageProcessor", {}),
    "EfficientNet, from -1": (
        "EfficientNet", 64, "EfficientNetImageProcessor",
        {"size": {"height": 64, "width": 64}, "resample": 0, "rescale_offset": True, "rescale_factor": 1 / 127.5}),
    "EfficientNet, nearest": (
        "EfficientNet", 300, "EfficientNetImageProcessor", {"size": {"height": 300, "width": 300}, "resample": 0}),
    "Swin": ("Swin", 64, "ViTImageProcessor", {"size": {"height": 64, "width": 64}, "resample": 3}),
    "ConvNext, squeezed": ("ConvNext", 384, "ConvNextImageProcessor", {}),
    "ConvNext, cut": ("ConvNext", 64, "ConvNextImageProcessor", {"size": {"shortest_edge": 64}}),
    "Beit": ("Beit", 64, "BeitImageProcessor", {"size": {"height": 72, "width": 72}, "crop_size": 64}
             | {"do_center_crop": True}),
    "DeiT": ("DeiT", 64, "DeiTImageProcessor", {"size": {"height": 73, "width": 70}, "crop_size": 64}),
    "MobileNetV2": ("MobileNetV2", 64, "MobileNetV2ImageProcessor", {"size": {"shortest_edge": 72}, "crop_size": 64}),
    "Segformer": ("Segformer", 96, "SegformerImageProcessor", {"size": {"height": 64, "width": 96}}),
    "no resizing": ("ResNet", 64, "CLIPImageProcessor", {"do_resize": False, "crop_size": 64}),
    "shorter side alone": (
        "ConvNext", 64, "CLIPImageProcessor", {"size": {"shortest_edge": 64}, "do_center_crop": False}),
}  # fmt: skip

SIDES = [(150, 151), (97, 203), (301, 120), (70, 75), (33, 64)]


def picture(height: int, width: int) -> np.ndarray:
    """A picture with details of several sizes, none of them near black or white."""
    drawn = np.random.default_rng(height).random((1, 3, height // 3 + 1, width // 3 + 1))
    smooth = torch.nn.functional.interpolate(torch.from_numpy(drawn), (height, width), mode="bilinear")
    return (40 + 170 * smooth[0].numpy().transpose(1, 2, 0)).round().astype(np.uint8)


def as_input(pixels: np.ndarray) -> Tensor:
    return torch.from_numpy(pixels.transpose(2, 0, 1)[None].astype(np.float32) / 255)


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_behind_the_image_processor(tmp_path: Path, name: str) -> None:
    kind, side, made_by, settings = MODELS[name]
    saved(tmp_path, kind, side, getattr(transformers, made_by)(**settings))
    model = ra.load_model(f"hf:{tmp_path}")
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path, use_fast=False)
    net = transformers.AutoModelForImageClassification.from_pretrained(tmp_path).eval()
    spread, seen = [], []
    model.net.register_forward_pre_hook(  # type: ignore[union-attr]
        lambda _, given, named: seen.append(named.get("pixel_values", *given)), with_kwargs=True
    )
    for sides in SIDES:
        pixels = picture(*sides)
        values = processor(images=pixels, input_data_format="channels_last", return_tensors="pt")["pixel_values"]
        with torch.no_grad():
            ours, theirs = model.logits(as_input(pixels)), net(pixel_values=values).logits
            blue_first = net(pixel_values=values.flip(1)).logits
        level = float((values.max() - values.min()) / (pixels.max() - pixels.min()))
        assert float((seen[-1] - values).abs().max()) < 2.5 * level, "no more than two roundings to 8 bits"
        spread.append((float((ours - theirs).abs().max()), float((blue_first - theirs).abs().max())))
    found, exchanged = np.array(spread).T
    assert found.mean() < 0.25 * exchanged.mean(), "another order of the channels would show"


@pytest.mark.parametrize(("before", "after"), [(96, 300), (141, 346), (90, 100), (500, 224), (7, 7), (224, 448)])
def test_nearest_pixels_are_those_of_pillow(before: int, after: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (before, before + 31, 3), dtype=np.uint8)
    theirs = np.asarray(Image.fromarray(pixels).resize((after + 5, after), Image.Resampling.NEAREST))
    ours = Resizing((after, after + 5), None, "nearest")(as_input(pixels))
    torch.testing.assert_close(ours, as_input(theirs), rtol=0, atol=0)


def test_final_sizes_are_not_resized_again(tmp_path: Path) -> None:
    """Pictures that were resized and cut before, as ``imagenet`` is, keep their pixels, in the network's order."""
    processor = transformers.MobileViTImageProcessor(size={"shortest_edge": 72}, crop_size=64, resample=3)
    model = ra.load_model(f"hf:{saved(tmp_path, 'MobileViT', 64, processor)}")
    x = torch.rand(2, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(model.logits(x), model.net(x.flip(1)).logits)  # type: ignore[attr-defined]
    assert model.prepare == Resizing(72, (64, 64), "bicubic", "transformers", (2, 1, 0))


def test_keys_that_the_file_leaves_out_are_those_of_the_class(tmp_path: Path) -> None:
    model = ra.load_model(f"hf:{saved(tmp_path, 'ViT', 224, {'image_processor_type': 'ViTImageProcessor'})}")
    assert (model.mean, model.std) == (pytest.approx([0.5] * 3), pytest.approx([0.5] * 3))
    assert model.prepare == Resizing((224, 224), None, "bilinear")


def test_a_model_without_a_processor_takes_images_as_they_are(tmp_path: Path) -> None:
    saved(tmp_path, "ResNet", 32, {})
    (tmp_path / "preprocessor_config.json").unlink()
    model = ra.load_model(f"hf:{tmp_path}")
    assert model.prepare is None and model.mean is None
    assert any("says nothing of its preprocessing" in note for note in model.notes)


@pytest.mark.parametrize(
    ("made_by", "settings", "side", "said"),
    [
        ("PerceiverImageProcessor", {}, 224, "differ by up to"),
        ("ViTImageProcessor", {"size": 64, "resample": 1}, 64, "differ by up to"),
        ("ImageGPTImageProcessor", {"clusters": [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]}, 32, "fails on a picture"),
        ("ViTImageProcessor", {"size": 64, "image_std": [0.5, 0.0, 0.5]}, 64, "each channel|fails on"),
        ("ViTImageProcessor", {"size": 48}, 64, "fails at what its own image processor makes"),
    ],
)
def test_processors_that_do_something_else_are_refused(
    tmp_path: Path, made_by: str, settings: dict[str, Any], side: int, said: str
) -> None:
    saved(tmp_path, "ViT", side, getattr(transformers, made_by)(**settings))
    with pytest.raises(UserError, match=said) as caught:
        ra.load_model(f"hf:{tmp_path}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("about", [{"image_processor_type": "Nothing"}, {"size": "large"}])
def test_files_that_make_no_processor_get_a_sentence(tmp_path: Path, about: dict[str, Any]) -> None:
    saved(tmp_path, "ViT", 64, about)
    with pytest.raises(UserError, match="image processor") as caught:
        ra.load_model(f"hf:{tmp_path}")
    assert "\n" not in str(caught.value)
