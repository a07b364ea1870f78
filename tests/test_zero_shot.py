"""Zero-shot classifiers: CLIP and SigLIP of transformers, with random weights, since none can be fetched here."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import robustatlas as ra
from command_line import entered
from robustatlas.models.sources.clip import PROMPT, prompts_of, text_features

NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
X = torch.rand(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module", params=["clip", "siglip"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What save_pretrained leaves of a small model."""
    transformers = pytest.importorskip("transformers")
    place = tmp_path_factory.mktemp(request.param)
    letters = [chr(code) for code in range(33, 127)]
    words = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{letter}</w>" for letter in letters)]
    (place / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    (place / "merges.txt").write_text("#version: 0.2\n")
    text = {"vocab_size": len(words), "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    text |= {"num_attention_heads": 2, "max_position_embeddings": 40, "bos_token_id": 0, "eos_token_id": 1}
    image = {"image_size": 16, "patch_size": 8, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    image |= {"num_attention_heads": 2}
    torch.manual_seed(0)
    if request.param == "clip":
        config = transformers.CLIPConfig(text_config=text, vision_config=image, projection_dim=8)
        model = transformers.CLIPModel(config)
    else:
        config = transformers.SiglipConfig(text_config=text | {"pad_token_id": 1}, vision_config=image)
        model = transformers.SiglipModel(config)
        torch.nn.init.normal_(model.logit_bias), torch.nn.init.normal_(model.logit_scale)
    model.save_pretrained(place)
    transformers.CLIPTokenizer.from_pretrained(place).save_pretrained(place)
    about = {"do_resize": True, "size": {"height": 16, "width": 16}, "do_normalize": True, "resample": 3}
    about |= {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4], "do_rescale": True, "do_center_crop": False}
    (place / "preprocessor_config.json").write_text(json.dumps(about))
    return place


def test_logits_are_those_of_the_whole_model(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    model = ra.load_model(f"hf-clip:{folder}", arguments={"classes": NAMES})
    whole = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    longest = {"padding": "max_length", "max_length": 40} if "siglip" in folder.name else {"padding": True}
    tokens = tokenizer([PROMPT.format(name) for name in NAMES], return_tensors="pt", **longest)
    if "siglip" in folder.name:
        del tokens["attention_mask"]
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in ([0.5, 0.4, 0.3], [0.2, 0.3, 0.4]))
    with torch.no_grad():
        expected = whole(pixel_values=(X - mean) / std, **tokens).logits_per_image
    torch.testing.assert_close(model.logits(X).detach(), expected, atol=1e-4, rtol=1e-4)
    assert model.logits(torch.rand(2, 3, 20, 24)).shape == (2, 10)
    assert not any("text" in name for name in dict(model.net.named_parameters()))  # type: ignore[union-attr]


def test_the_image_tower_is_attacked(folder: Path, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("\n".join(NAMES) + "\n")
    model = ra.load_model(f"hf-clip:{folder}", arguments={"classes": names, "prompt": [PROMPT, "the digit {}"]})
    labels = model.logits(X).argmax(1)
    np.savez(tmp_path / "data.npz", images=X.numpy(), labels=labels.numpy())
    command = ["evaluate", f"hf-clip:{folder}", "--classes", str(names), "--data", str(tmp_path / "data.npz")]
    command += ["--attacks", "pgd-linf", "--strengths", "pgd-linf=0.5", "--run", str(tmp_path / "run")]
    entered(*command, "--prompt", PROMPT, "--prompt", "the digit {}")
    assert ra.load_result(tmp_path / "run").passes("pgd-linf")[1] > 1
    other = ra.load_model(f"hf-clip:{folder}", arguments={"classes": NAMES, "prompt": "the digit {}"})
    assert other.identity() != model.identity()


def test_random_weights_are_said_to_be_random(folder: Path) -> None:
    model = ra.load_model(f"hf-clip:{folder}", arguments={"classes": NAMES, "pretrained": False})
    assert "random weights" in model.notes[0]


def test_several_prompts_are_averaged() -> None:
    def encoded(texts: list[str]) -> torch.Tensor:
        return torch.tensor([[float(len(text)), float(text.count("a"))] for text in texts])

    one, other = (text_features(encoded, ["b", "aa"], [prompt]) for prompt in ("{}", "a large {}"))
    both = text_features(encoded, ["b", "aa"], ["{}", "a large {}"])
    torch.testing.assert_close(both, torch.nn.functional.normalize(one + other, dim=1))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "needs the names of the classes; give --classes"),
        ({"classes": ["cat", "cat"]}, "'cat' twice"),
        ({"classes": ["cat"]}, "at least two"),
        ({"classes": "nowhere.txt"}, "nowhere.txt cannot be read"),
        ({"classes": ["cat", "dog"], "prompt": "a photo"}, "no place for a name"),
    ],
)
@pytest.mark.parametrize("source", ["hf-clip:nowhere", "open_clip:ViT-B-32"])
def test_what_cannot_be_gets_one_sentence(source: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ra.UserError, match=said):
        ra.load_model(source, arguments=settings)
    assert prompts_of(["{}", "a {}"]) == ["{}", "a {}"]


def test_options_of_zero_shot_models_are_for_these(tmp_path: Path) -> None:
    said = entered("evaluate", "builtin:digits-linf", "--data", "digits", "--prompt", "a {}", code=1)
    assert "hf-clip:" in said.err


@pytest.fixture(scope="module")
def open_clip(request: pytest.FixtureRequest) -> Any:
    """The package, which imports torchvision; beside a torch that its library does not fit, without its operators."""
    pytest.importorskip("transformers")
    if find_spec("torchvision") is None or find_spec("open_clip") is None:
        pytest.skip("torchvision or open_clip is not installed")
    try:
        import torchvision
    except RuntimeError:  # an operator does not exist, for which torchvision declares a substitute when it is imported
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.library, "register_fake", lambda name, **_: lambda function: function)
            import torchvision  # noqa: F401
    return pytest.importorskip("open_clip")


def test_open_clip_gives_the_logits_of_the_whole_model(open_clip: Any) -> None:
    name, x = "ViT-S-32-alt", torch.rand(2, 3, 224, 224)
    torch.manual_seed(0)
    model = ra.load_model(f"open_clip:{name}", arguments={"classes": NAMES})
    assert "random weights" in model.notes[0]
    torch.manual_seed(0)
    whole = open_clip.create_model(name).eval()
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (whole.visual.image_mean, whole.visual.image_std))
    texts = open_clip.get_tokenizer(name)([PROMPT.format(each) for each in NAMES])
    with torch.no_grad():
        expected = whole.get_logits((x - mean) / std, texts)[0]
    torch.testing.assert_close(model.logits(x).detach(), expected, atol=1e-4, rtol=1e-4)
    assert model.logits(torch.rand(2, 3, 40, 48)).shape == (2, 10)
    labels = model.logits(x).argmax(1)
    result = ra.evaluate(model, (x, labels), "pgd-linf", strengths={"pgd-linf": [0.1]}, progress=False, diagnose=False)
    assert result.passes("pgd-linf")[1] > 1


def test_open_clip_without_such_a_model_gets_one_sentence(open_clip: Any) -> None:
    with pytest.raises(ra.UserError, match="nothing-B-32"):
        ra.load_model("open_clip:nothing-B-32", arguments={"classes": NAMES})
