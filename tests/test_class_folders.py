"""Pictures in class folders: which count, which number their class has, and what becomes of their pixels."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import robustatlas as ra
from command_line import entered
from robustatlas.cli._models import load_data
from robustatlas.common.errors import RobustnessWarning
from robustatlas.data import of_torch, on_disk

GREY = np.random.default_rng(0).integers(0, 256, (8, 10), np.uint8)


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_disk, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.chdir(tmp_path)


def shade(number: int) -> Image.Image:
    """A picture that says its class: the value of its pixels."""
    return Image.new("L", (4, 4), 10 * number)


def made(root: Path, classes: Mapping[str, int] | Iterable[int], each: int = 3) -> Path:
    """A folder for each name, with pictures of the shade of its class."""
    numbers = classes if isinstance(classes, Mapping) else {str(number): number for number in classes}
    for name, number in numbers.items():
        (root / name).mkdir(parents=True)
        for position in range(each):
            shade(number).save(root / name / f"{position}.png")
    return root


class Shades(nn.Module):
    """Tells the shades of :func:`shade` apart."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.register_buffer("shades", torch.arange(count) * 10 / 255)

    def forward(self, x: Tensor) -> Tensor:
        return -1000 * (x.flatten(1).mean(1, keepdim=True) - self.shades) ** 2


def shown(data: ra.Dataset) -> list[int]:
    """The shade of each picture."""
    return (data.images.flatten(1).mean(1) * 25.5).round().long().tolist()


@pytest.mark.parametrize(
    ("classes", "model", "first"),
    [
        (range(12), None, 0),
        ([0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11], None, 0),  # one has no folder
        ({f"{number:02d}": number for number in range(12)}, None, 0),
        ({str(number + 1): number for number in range(12)}, None, 1),
        ({str(number + 1): number for number in (0, 2, 11)}, 12, 1),
        ([1, 4, 11], 12, 0),
    ],
)
def test_folders_called_by_numbers_have_these(tmp_path: Path, classes: Any, model: int | None, first: int) -> None:
    root = made(tmp_path / "mine", classes)
    if first == 0 and model == 12:  # 0 is not there, and 11 is the last of 12
        with pytest.raises(ra.UserError, match="not known whether 0 or 1 is the first"):
            ra.load_dataset(f"imagefolder:{root}", classes=model)
        return
    data = ra.load_dataset(f"imagefolder:{root}", classes=model)
    assert data.labels.tolist() == shown(data) and len(data.classes) == 12


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["1", "01"], "same number"),
        (["2", "3", "4"], "numbers from 2 to 4, and it is not known whether 0 or 1"),
        (["1001", "2002"], "not known whether 0 or 1"),
        (["0", "99999999999"], "not known whether"),
        (["1", "2", "10", "cat"], "by numbers and by names"),
        (["train", "val"], r"holds splits .*imagefolder:.*val\."),
        (["Train", "Test", "extra"], r"imagefolder:.*Test\."),
        (["training"], r"imagefolder:.*training\."),
    ],
)
def test_an_order_that_is_not_known_is_refused(tmp_path: Path, names: list[str], said: str) -> None:
    root = made(tmp_path / "mine", {name: number for number, name in enumerate(names)})
    with pytest.raises(ra.UserError, match=said):
        ra.load_dataset(f"imagefolder:{root}")


def test_a_split_for_training_is_named_where_training_asks(tmp_path: Path) -> None:
    root = made(tmp_path / "mine", {"train": 0, "val": 1})
    with pytest.raises(ra.UserError, match=r"imagefolder:.*train\."):
        ra.load_dataset(f"imagefolder:{root}", "train")


def test_names_decide_the_order_and_may_have_no_folder(tmp_path: Path) -> None:
    root = made(tmp_path / "mine", {"cat": 2, "ant": 0, "owl": 4})
    names = ["ant", "bee", "cat", "dog", "owl"]
    data = ra.load_dataset(f"imagefolder:{root}", classes=names)
    assert data.labels.tolist() == shown(data) and list(data.classes) == names
    with pytest.raises(ra.UserError, match=r"'owl' .*ant, cat"):
        ra.load_dataset(f"imagefolder:{root}", classes=["ant", "cat"])
    for given in (["ant"], ["ant", "ant"], "ant"):
        with pytest.raises(ra.UserError, match="two names"):
            ra.load_dataset(f"imagefolder:{root}", classes=given)
    with pytest.raises(ra.UserError, match="class"):
        ra.load_dataset("digits", classes=names)


def test_a_models_own_names_decide_the_order(tmp_path: Path) -> None:
    root = made(tmp_path / "mine", {"ant": 2, "bee": 0, "cat": 1})
    model = ra.Classifier(Shades(3), classes=["bee", "cat", "ant"])
    data = load_data(model, f"imagefolder:{root}")
    assert data.labels.tolist() == shown(data)
    assert ra.evaluate(model, data, "linf", diagnose=False).clean_accuracy == 100
    numbered = made(tmp_path / "numbered", {str(number + 1): number for number in (0, 1, 2, 4, 5, 6, 7, 8, 9)})
    data = load_data(ra.Classifier(Shades(10), classes=10), f"imagefolder:{numbered}")  # 10 tells that 1 is the first
    assert data.labels.tolist() == shown(data)
    other = ra.Classifier(Shades(3), classes=["x", "y", "z"])
    with pytest.warns(RobustnessWarning, match="No folder"):
        assert load_data(other, f"imagefolder:{root}").classes == ("ant", "bee", "cat")


def test_names_of_classes_on_the_command_line(tmp_path: Path) -> None:
    made(tmp_path / "mine", {"ant": 2, "bee": 0, "cat": 1})
    (tmp_path / "names.txt").write_text("bee\ncat\nant\n")
    source = (
        "import torch\nclass Shades(torch.nn.Module):\n    def forward(self, x):\n"
        "        return -100 * (x.flatten(1).mean(1, keepdim=True) - torch.arange(3) * 10 / 255).abs()\n"
        "def make():\n    return Shades()\n"
    )
    (tmp_path / "net.py").write_text(source)
    command = ["evaluate", "net.py:make", "--data", "imagefolder:mine", "--attacks", "linf", "--no-diagnose"]
    named = entered(*command, "--classes", "names.txt", "--run", "named")
    assert "(3 classes): 100.0 % clean accuracy" in named.line
    assert "0.0 % clean accuracy" in entered(*command, "--run", "plain").line


def test_what_is_no_picture_of_a_class_is_left_out_and_said(tmp_path: Path) -> None:
    root = made(tmp_path / "mine", {"ant": 0, "bee": 1})
    for copy in (
        root / "ant" / ".ipynb_checkpoints" / "0.png",
        root / "__MACOSX" / "._0.png",
        root / "bee" / "._1.png",
    ):
        copy.parent.mkdir(parents=True, exist_ok=True)
        shade(0).save(copy)
    (root / ".DS_Store").write_text("")
    with pytest.warns(RobustnessWarning, match="3 files") as told:
        data = ra.load_dataset(f"imagefolder:{root}")
    assert len(told) == 1 and len(data) == 6 and data.classes == ("ant", "bee")
    assert data.labels.tolist() == shown(data)
    (root / "bee" / "notes.txt").write_text("")
    shade(0).save(root / "loose.png")
    (root / "docs").mkdir()
    with pytest.warns(RobustnessWarning) as told:
        data = ra.load_dataset(f"imagefolder:{root}")
    said = " ".join(str(warning.message) for warning in told)
    assert "2 files" in said and "docs" in said
    assert data.classes == ("ant", "bee", "docs") and len(data) == 6


def saved(root: Path, pictures: Iterable[Image.Image], suffix: str = "png") -> Path:
    for number, picture in enumerate(pictures):
        (root / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        picture.save(root / "ab"[number % 2] / f"{number}.{suffix}")
    return root


WIDE = np.linspace(0, 65535, 80).reshape(8, 10).astype(np.uint16)
FLOATS = np.linspace(0, 1, 80).reshape(8, 10).astype(np.float32)
COLOURS = np.random.default_rng(1).integers(0, 256, (8, 10, 3), np.uint8)
PALETTE = Image.fromarray(COLOURS).quantize(16)


@pytest.mark.parametrize(
    ("picture", "suffix", "expected"),
    [
        (Image.fromarray(GREY), "png", GREY[None] / 255),
        (Image.fromarray(GREY > 100), "png", (GREY > 100)[None]),
        (Image.fromarray(WIDE), "png", WIDE[None] / 65535),
        (Image.fromarray(WIDE), "tif", WIDE[None] / 65535),
        (Image.fromarray(WIDE), "pgm", WIDE[None] / 65535),
        (Image.fromarray(FLOATS), "tif", FLOATS[None]),
        (PALETTE, "png", np.asarray(PALETTE.convert("RGB")).transpose(2, 0, 1) / 255),
        (Image.fromarray(np.dstack([COLOURS, GREY])), "png", COLOURS.transpose(2, 0, 1) / 255),
        (Image.fromarray(np.dstack([GREY, GREY // 2]), "LA"), "png", GREY[None] / 255),
        (Image.fromarray(COLOURS), "png", COLOURS.transpose(2, 0, 1) / 255),
    ],
    ids=["grey", "two values", "16 bits", "16 bits tif", "16 bits pgm", "floats", "palette", "rgba", "la", "rgb"],
)
def test_pixels_are_what_the_mode_says(tmp_path: Path, picture: Image.Image, suffix: str, expected: Any) -> None:
    root = saved(tmp_path / "mine", [picture] * 2, suffix)
    data = ra.load_dataset(f"imagefolder:{root}")
    np.testing.assert_allclose(data.images.numpy(), np.stack([expected] * 2), atol=1e-6)
    three = ra.load_dataset(f"imagefolder:{root}", channels=3)
    np.testing.assert_allclose(three.images[0].numpy(), np.broadcast_to(expected, (3, 8, 10)), atol=1e-6)
    assert ra.load_dataset(f"imagefolder:{root}", channels=1, resize=4).shape == (1, 4, 5)

    class Pairs(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, position: int) -> tuple[Image.Image, int]:
            return Image.open(root / "ab"[position] / f"{position}.{suffix}"), position

    np.testing.assert_allclose(of_torch(Pairs(), classes=["a", "b"]).images.numpy(), data.images.numpy(), atol=1e-6)


@pytest.mark.parametrize(
    ("picture", "said"),
    [
        (Image.fromarray(255 * FLOATS), r"0.tif: .* must lie in \[0, 1\], got 0..255"),
        (Image.fromarray(WIDE.astype(np.int32)), "0.tif: .* 32 bits, of which it is not known what is white"),
    ],
)
def test_pixels_of_which_white_is_not_known_are_refused(tmp_path: Path, picture: Image.Image, said: str) -> None:
    root = saved(tmp_path / "mine", [picture] * 2, "tif")
    with pytest.raises(ra.UserError, match=said):
        ra.load_dataset(f"imagefolder:{root}")


def test_channels_follow_the_pictures_or_the_first_layer(tmp_path: Path) -> None:
    grey = saved(tmp_path / "grey", [Image.fromarray(GREY)] * 4)
    one = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(96, 2))
    three = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(96, 2))
    assert load_data(ra.Classifier(one), f"imagefolder:{grey}").shape == (1, 8, 10)
    assert load_data(ra.Classifier(three), f"imagefolder:{grey}").shape == (3, 8, 10)
    assert load_data(ra.Classifier(three), f"imagefolder:{grey}", channels=1).shape == (1, 8, 10)
    assert load_data(ra.Classifier(nn.Flatten()), f"imagefolder:{grey}").shape == (1, 8, 10)
    colours = saved(tmp_path / "colours", [Image.fromarray(COLOURS)] * 2)
    assert load_data(ra.Classifier(one), f"imagefolder:{colours}").shape == (1, 8, 10)
    for net, data, taken in ((three, grey, 3), (one, colours, 1)):
        with pytest.raises(ra.UserError, match=f"--channels {taken}"):
            ra.evaluate(net, ra.load_dataset(f"imagefolder:{data}"), "linf")
    mixed = saved(tmp_path / "mixed", [Image.fromarray(GREY)] * 60)
    Image.fromarray(COLOURS).save(mixed / "a" / "0b.png")
    with pytest.raises(ra.UserError, match=r"0b\.png has colours, .*--channels 3"):
        _ = ra.load_dataset(f"imagefolder:{mixed}").images
    assert ra.load_dataset(f"imagefolder:{mixed}", channels=3).images.shape == (61, 3, 8, 10)
    with pytest.raises(ra.UserError, match="expected 1 or 3"):
        ra.load_dataset(f"imagefolder:{mixed}", channels=4)


def test_eight_bit_images_are_taken_in_every_form() -> None:
    images = torch.from_numpy(np.random.default_rng(2).integers(0, 256, (6, 1, 4, 4), np.uint8))
    labels = torch.tensor([0, 1, 0, 1, 0, 1])
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    results = [
        ra.evaluate(net, data, "linf", diagnose=False)
        for data in ((images, labels), (images.numpy(), labels.numpy()), (images / 255, labels))
    ]
    assert len({result.identity.data.images_sha256 for result in results if result.identity}) == 1
    assert all((result.minimal_size("linf") == results[2].minimal_size("linf")).all() for result in results)
    with pytest.raises(ra.UserError, match="divide by 255 or store them as uint8"):
        ra.evaluate(net, (images.long(), labels), "linf")


def test_numbers_of_classes_that_differ_are_said(tmp_path: Path) -> None:
    root = made(tmp_path / "mine", {"ant": 0, "bee": 1, "cat": 2})
    data = ra.load_dataset(f"imagefolder:{root}")
    pair = (data.images, data.labels)
    for given in (data, pair):
        with pytest.warns(RobustnessWarning, match="3 classes.* 5"):
            result = ra.evaluate(Shades(5), given, "linf", diagnose=False)
        assert any("the model answers 5" in warning for warning in result.warnings)
    model = ra.Classifier(Shades(3), classes=["ant", "cat", "bee"])
    with pytest.warns(RobustnessWarning, match="'bee' is 1 .* 2 "):
        ra.evaluate(model, data, "linf", diagnose=False)
    right = ra.Classifier(Shades(3), classes=["ant", "bee", "cat"])
    assert not any("class" in said for said in ra.evaluate(right, data, "linf", diagnose=False).warnings)
