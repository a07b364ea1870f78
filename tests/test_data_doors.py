"""Every door of data gives labels and pixels as they are, or says in one sentence what to change: tables of inputs."""

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import nn

import robustatlas as ra
from robustatlas.data import of_torch
from robustatlas.data.labels import MOST_CLASSES, class_numbers
from robustatlas.evaluation.samples import choose_samples
from test_datasets_hub import encoded, write

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
IMAGES = PIXELS.transpose(0, 3, 1, 2).astype(np.float32) / 255
NAMES = ["ant", "bee", "cat"]


def from_arrays(folder: Path, labels: Any) -> list[int]:
    return ra.Dataset.of(PIXELS, labels, "mine").labels.tolist()


def from_pair(folder: Path, labels: Any) -> list[int]:
    return choose_samples((IMAGES, labels)).labels.tolist()


def from_npz(folder: Path, labels: Any) -> list[int]:
    np.savez(folder / "mine.npz", images=PIXELS, labels=np.asarray(labels))
    return ra.load_dataset(folder / "mine.npz").labels.tolist()


def from_npy(folder: Path, labels: Any) -> list[int]:
    np.save(folder / "mine.npy", PIXELS)
    np.save(folder / "labels.npy", np.asarray(labels))
    return ra.load_dataset(folder / "mine.npy").labels.tolist()


def from_parquet(folder: Path, labels: Any) -> list[int]:
    told = np.asarray(labels)
    column = pa.array(told.tolist() if told.ndim > 1 or told.dtype.byteorder == ">" else told)
    pictures = [{"bytes": encoded(each), "path": None} for each in PIXELS]
    pq.write_table(pa.table({"image": pictures, "label": column}), folder / "test-0.parquet")
    return ra.load_dataset(f"hf:{folder}").labels.tolist()


def from_items(folder: Path, labels: Any) -> list[int]:
    return of_torch(list(zip(IMAGES, labels, strict=True))).labels.tolist()  # type: ignore[arg-type]


DOORS: dict[str, Callable[[Path, Any], list[int]]] = {
    "arrays": from_arrays,
    "pair": from_pair,
    "npz": from_npz,
    "npy": from_npy,
    "parquet": from_parquet,
    "torch items": from_items,
}

TAKEN: dict[str, Any] = {
    "int64": np.array([2, 0, 1, 2]),
    "uint8": np.array([2, 0, 1, 2], np.uint8),
    "uint64": np.array([2, 0, 1, 2], np.uint64),
    "big-endian": np.array([2, 0, 1, 2], ">i4"),
    "booleans": np.array([True, False, True, True]),
}

REFUSED: dict[str, tuple[Any, str]] = {
    "whole floats": (np.array([2.0, 0.0, 1.0, 2.0]), r"astype\(int\)|int\(label\)"),
    "fractions": (np.array([1.7, 0.0, 1.0, 2.0]), r"1\.7"),
    "not a number": (np.array([np.nan, 0.0, 1.0, 2.0]), "nan"),
    "nulls": (np.array([0, None, 1, 2], object), r"missing \(null\)|None|pickled"),
    "names": (np.array(["ant", "bee", "cat", "ant"]), "position of (each|the) name"),
    "numbers as text": (np.array(["2", "0", "1", "2"]), r"astype\(int\)|position of the name"),
    "a column": (np.array([[2], [0], [1], [2]]), r"labels\[:, 0\]|are \[2\]|is \[2\]|shape \(4, 1\)"),
    "one-hot": (np.eye(3, dtype=np.int64)[[2, 0, 1, 2]], r"argmax"),
    "several": (np.array([[1, 1, 0]] * 4), "several labels|expected"),
    "below 0": (np.array([0, 1, -1, 2]), "got -1|to -1|with labels"),
    "far too large": (np.array([0, 1, 2**62, 2]), f"{2**62}|classes"),
    "beyond int64": (np.array([0, 1, 2**63 + 1, 2], np.uint64), "expected|classes"),
    "complex": (np.array([0, 1, 2, 1], complex), "expected|complex|not an array"),
    "dates": (np.array([0, 1, 2, 1], "datetime64[s]"), "expected|datetime|not an array"),
}


@pytest.mark.parametrize("kind", TAKEN)
@pytest.mark.parametrize("door", DOORS)
def test_whole_numbers_are_taken_as_they_are(tmp_path: Path, door: str, kind: str) -> None:
    assert DOORS[door](tmp_path, TAKEN[kind]) == TAKEN[kind].astype(int).tolist()


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("door", DOORS)
def test_labels_that_are_no_class_numbers_get_a_sentence(tmp_path: Path, door: str, kind: str) -> None:
    labels, said = REFUSED[kind]
    if door == "parquet" and kind == "complex":
        pytest.skip("Parquet has no complex numbers")
    if door == "torch items" and kind == "a column":
        assert DOORS[door](tmp_path, labels) == [2, 0, 1, 2], "an array of one number is that number"
        return
    with pytest.raises(ra.UserError, match=said) as caught:
        DOORS[door](tmp_path, labels)
    assert "\n" not in str(caught.value)


def test_names_are_numbered_only_where_their_order_is_told(tmp_path: Path) -> None:
    data = ra.Dataset.of(PIXELS, ["cat", "ant", "bee", "cat"], "mine", NAMES)
    assert data.labels.tolist() == [2, 0, 1, 2]
    with pytest.raises(ra.UserError, match="'dog' is none of the 3 classes"):
        ra.Dataset.of(PIXELS, ["cat", "dog", "bee", "cat"], "mine", NAMES)
    pictures = [encoded(each) for each in PIXELS]
    write(tmp_path / "test-0.parquet", pictures, [f"class {k}" for k in (9, 0, 1, 9)])  # type: ignore[misc]
    assert ra.load_dataset(f"hf:{tmp_path}").labels.tolist() == [9, 0, 1, 9]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.integers(0, MOST_CLASSES - 1) | st.floats() | st.text(max_size=3) | st.booleans() | st.none(), max_size=5
    )
)
def test_no_label_is_ever_changed(labels: list[Any]) -> None:
    """Whatever a list holds: whole numbers stay these, and all else is refused."""
    try:
        numbers = class_numbers(labels, "Labels")
    except ra.UserError:
        assert not all(type(label) in (int, bool) for label in labels)
    else:
        assert numbers.tolist() == [int(label) for label in labels]
        assert all(isinstance(label, (int, bool)) for label in labels)


# Parquet files of a repository


def shard(path: Path, first: int = 0, count: int = 4) -> None:
    write(path, [encoded(each) for each in PIXELS[:count]], list(range(first, first + count)))


def test_folders_called_like_columns_are_none(tmp_path: Path) -> None:
    for part in range(2):
        shard(tmp_path / "label=3" / "image=x" / f"test-0000{part}-of-00002.parquet", 4 * part)
    assert ra.load_dataset(f"hf:{tmp_path}").labels.tolist() == list(range(8))


def test_a_missing_part_and_two_copies_are_said(tmp_path: Path) -> None:
    shard(tmp_path / "train-00000-of-00003.parquet")
    shard(tmp_path / "train-00002-of-00003.parquet", 4)
    with pytest.raises(ra.UserError, match=r"2 of the 3 parts of train; part 00001 is missing"):
        ra.load_dataset(f"hf:{tmp_path}", "train")
    shard(tmp_path / "train-00001-of-00003.parquet", 2)
    assert len(ra.load_dataset(f"hf:{tmp_path}", "train")) == 12
    shard(tmp_path / "train-00000-of-00001.parquet")
    with pytest.raises(ra.UserError, match="several copies"):
        ra.load_dataset(f"hf:{tmp_path}", "train")


def test_a_column_of_bytes_holds_pictures_as_one_of_bytes_and_paths(tmp_path: Path) -> None:
    table = pa.table({"image": pa.array([encoded(each) for each in PIXELS], pa.binary()), "label": [0, 1, 2, 0]})
    pq.write_table(table, tmp_path / "test-0.parquet")
    np.testing.assert_array_equal((ra.load_dataset(f"hf:{tmp_path}").images * 255).round().numpy(), IMAGES * 255)


def test_configurations_are_not_joined_and_hidden_folders_not_read(tmp_path: Path) -> None:
    for name in ("blurred", "sharp", ".cache"):
        shard(tmp_path / name / "test-00000-of-00001.parquet")
    with pytest.raises(ra.UserError, match=r"2 folders \(blurred, sharp\).*hf:.*blurred"):
        ra.load_dataset(f"hf:{tmp_path}")
    assert len(ra.load_dataset(f"hf:{tmp_path / 'sharp'}")) == 4


def test_a_split_without_any_label_or_row_is_passed_over_or_said(tmp_path: Path) -> None:
    pictures = [{"bytes": encoded(each), "path": None} for each in PIXELS]
    nothing = pa.array([None] * 4, pa.int64())
    pq.write_table(pa.table({"image": pictures, "label": nothing}), tmp_path / "test-0.parquet")
    with pytest.raises(ra.UserError, match="no Parquet files of the split 'test' with labels"):
        ra.load_dataset(f"hf:{tmp_path}")
    shard(tmp_path / "validation-0.parquet")
    assert ra.load_dataset(f"hf:{tmp_path}").labels.tolist() == [0, 1, 2, 3]
    empty = pa.table({"image": pictures, "label": nothing}).slice(0, 0)
    pq.write_table(empty, tmp_path / "train-0.parquet")
    with pytest.raises(ra.UserError, match="has no rows"):
        ra.load_dataset(f"hf:{tmp_path}", "train")


def test_pictures_of_the_hub_stand_upright(tmp_path: Path) -> None:
    """The library datasets turns them as their EXIF entry says; so do we there."""
    turned, buffer = Image.Exif(), io.BytesIO()
    turned[0x0112] = 6
    Image.fromarray(PIXELS[0, :4]).save(buffer, "PNG", exif=turned)
    write(tmp_path / "test-0.parquet", [buffer.getvalue()], [0])
    expected = np.rot90(PIXELS[0, :4], -1).transpose(2, 0, 1)
    np.testing.assert_array_equal((ra.load_dataset(f"hf:{tmp_path}").images[0] * 255).round().numpy(), expected)


# Pictures in folders


def picture(path: Path, shade: int = 9) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((4, 4, 3), shade, np.uint8)).save(path)


def test_linked_folders_hold_pictures_as_others_do(tmp_path: Path) -> None:
    for number in range(3):
        picture(tmp_path / "store" / "cats" / "deep" / f"{number}.png", number)
        picture(tmp_path / "data" / "dog" / f"{number}.png", 100 + number)
    (tmp_path / "data" / "cat").mkdir()
    (tmp_path / "data" / "cat" / "linked").symlink_to(tmp_path / "store" / "cats")
    (tmp_path / "data" / "kitten").symlink_to(tmp_path / "store" / "cats" / "deep")
    (tmp_path / "data" / "dog" / "circle").symlink_to(tmp_path / "data")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = ra.load_dataset(f"imagefolder:{tmp_path / 'data'}")
    assert data.classes == ("cat", "dog", "kitten") and torch.bincount(data.labels).tolist() == [3, 3, 3]
    shades = (data.images[:, 0, 0, 0] * 255).round().int().tolist()
    assert shades == [0, 1, 2, 100, 101, 102, 0, 1, 2]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("cut.jpg", lambda whole: whole[: len(whole) // 2], r"cut\.jpg cannot be read as a picture"),
        ("empty.png", lambda whole: b"", r"empty\.png cannot be read as a picture"),
        ("text.png", lambda whole: b"text", r"text\.png cannot be read as a picture"),
    ],
)
def test_damaged_pictures_are_named(tmp_path: Path, name: str, content: Callable[[bytes], bytes], said: str) -> None:
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(buffer, "JPEG")
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / name).write_bytes(content(buffer.getvalue()))
    with pytest.raises(ra.UserError, match=said):
        assert ra.load_dataset(f"imagefolder:{tmp_path}", channels=3).images.shape
    opened = Image.open(io.BytesIO(buffer.getvalue()[: len(buffer.getvalue()) // 2]))
    with pytest.raises(ra.UserError, match=r"Item 0 .*cannot be read as a picture"):
        of_torch([(opened, 0)])  # type: ignore[arg-type]


def test_pictures_of_one_name_and_hidden_ones(tmp_path: Path) -> None:
    picture(tmp_path / "cat" / "1.png", 1)
    picture(tmp_path / "cat" / "1.bmp", 2)
    picture(tmp_path / "cat" / ".1.png", 3)
    picture(tmp_path / "dog" / "._1.png", 4)
    picture(tmp_path / "dog" / "1.png", 5)
    with pytest.warns(Warning, match="2 files that are hidden"):
        data = ra.load_dataset(f"imagefolder:{tmp_path}")
    assert data.labels.tolist() == [0, 0, 1]
    assert sorted((data.images[:, 0, 0, 0] * 255).round().int().tolist()) == [1, 2, 5]


# Pixels of arrays

FLAWED: dict[str, tuple[Any, str]] = {
    "not a number": (np.where(IMAGES > 0.9, np.nan, IMAGES), "NaN or infinite"),
    "infinite": (np.where(IMAGES > 0.9, np.inf, IMAGES), "NaN or infinite"),
    "0 to 255 as floats": (IMAGES * 255, "divide by 255"),
    "normalised": ((IMAGES - 0.5) / 0.2, "mean and std"),
    "16 bits": ((IMAGES * 65535).astype(np.uint16), "uint8"),
    "signed": (PIXELS.astype(np.int16), "uint8"),
    "with transparency": (np.concatenate([PIXELS, PIXELS[..., :1]], 3), "alpha"),
    "grey with transparency": (PIXELS[..., :2], "alpha"),
    "empty": (IMAGES[:0], "non-empty|no samples"),
    "no pixels": (IMAGES[..., :0], "non-empty|no pixels"),
    "texts": (np.array(["a"] * 4), "uint8|not an array|non-empty"),
    "complex": (IMAGES.astype(complex), "uint8|floats|complex"),
}


@pytest.mark.parametrize("kind", FLAWED)
@pytest.mark.parametrize("door", ["arrays", "npz", "npy"])
def test_pixels_that_are_none_get_a_sentence(tmp_path: Path, door: str, kind: str) -> None:
    images, said = FLAWED[kind]
    labels = np.zeros(len(images), int)
    with pytest.raises(ra.UserError, match=said) as caught:
        if door == "arrays":
            ra.Dataset.of(images, labels)
        elif door == "npz":
            np.savez(tmp_path / "mine.npz", images=images, labels=labels)
            assert ra.load_dataset(tmp_path / "mine.npz").images.shape
        else:
            np.save(tmp_path / "mine.npy", images)
            np.save(tmp_path / "labels.npy", labels)
            assert ra.load_dataset(tmp_path / "mine.npy").images.shape
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "images",
    [PIXELS, PIXELS.transpose(0, 3, 1, 2), IMAGES, IMAGES.astype(">f8"), np.asfortranarray(IMAGES)],
    ids=["HWC", "CHW", "floats", "big-endian", "columns first"],
)
@pytest.mark.parametrize("door", ["arrays", "npz", "npy"])
def test_pixels_in_other_layouts_are_the_same(tmp_path: Path, door: str, images: Any) -> None:
    labels = np.array([0, 1, 2, 0])
    np.savez(tmp_path / "mine.npz", images=images, labels=labels)
    np.save(tmp_path / "mine.npy", images)
    np.save(tmp_path / "labels.npy", labels)
    made = ra.Dataset.of(images, labels) if door == "arrays" else ra.load_dataset(tmp_path / f"mine.{door}")
    np.testing.assert_allclose(made.images.numpy(), IMAGES, atol=1e-7)


# Data sets of torch


class Drawn(torch.utils.data.Dataset[Any]):
    """50,000 images drawn from their positions, in classes of ``labels``; counts what is read."""

    def __init__(self, labels: np.ndarray, **declared: Any) -> None:
        self.labels_of_items, self.reads = labels, 0
        vars(self).update(declared)

    def __len__(self) -> int:
        return len(self.labels_of_items)

    def __getitem__(self, position: int) -> Any:
        self.reads += 1
        drawn = np.random.default_rng(position).random((1, 4, 4), dtype=np.float32)
        return torch.from_numpy(drawn), int(self.labels_of_items[position])


MIXED = np.random.default_rng(0).integers(0, 3, 50_000)
SORTED = np.sort(MIXED)


@pytest.mark.parametrize(
    ("labels", "declared"),
    [(MIXED, {}), (MIXED, {"targets": MIXED.tolist()}), (SORTED, {"targets": torch.from_numpy(SORTED)})],
    ids=["mixed", "declared", "sorted and declared"],
)
def test_three_samples_of_fifty_thousand_read_few(tmp_path: Path, labels: np.ndarray, declared: Any) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    asked: dict[str, Any] = {"strengths": {"linf": [0.1]}, "progress": False, "run": tmp_path / "run"}
    data = Drawn(labels, **declared)
    few = ra.evaluate(net, data, "linf", samples=3, **asked)
    assert data.reads < 1000
    more = ra.evaluate(net, data, "linf", samples=10, **asked)
    expected = ra.Dataset.of(np.zeros((50_000, 1, 1, 1), np.float32), labels).take(10)
    np.testing.assert_array_equal(more.index, expected.index)
    np.testing.assert_array_equal(more.labels, expected.labels)
    assert set(few.index) <= set(more.index)
    reads = data.reads
    ra.audit(more, data, model=net, samples=2)
    assert data.reads < reads + 1000
    reads = data.reads
    ra.diagnose(net, data, samples=3)
    assert data.reads < reads + 1000


def test_items_that_are_not_what_the_data_set_declares_are_said() -> None:
    """Items that are looked at first agree; another one does not, and is refused when it is read."""
    labels = MIXED.copy()
    told = labels.copy()
    told[200] = (labels[200] + 1) % 3
    data = Drawn(labels, targets=told)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    with pytest.raises(ra.UserError, match=r"Item 200 .*declares"):
        ra.evaluate(net, data, "linf", samples=[199, 200], strengths={"linf": [0.1]}, progress=False)


# Answers of models


class Excluding(nn.Module):
    """A network of which two of five classes are never answered."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.linear, self.way = nn.Linear(16, 5), way
        self.excluded = torch.tensor([False, True, False, True, False])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.linear(x.flatten(1))
        if self.way == "fill":
            return logits.masked_fill(self.excluded, -torch.inf)
        if self.way == "add":
            return logits + torch.where(self.excluded, -torch.inf, 0.0)
        if self.way == "index":
            logits = logits.clone()
            logits[:, self.excluded] = -torch.inf
            return logits
        if self.way == "low":
            return torch.where(self.excluded, logits.detach().amin() - 50, logits)
        return (1000 * logits).softmax(1).log()


def excluding(way: str) -> Excluding:
    torch.manual_seed(0)
    return Excluding(way)


@pytest.mark.parametrize("way", ["fill", "add", "index"])
def test_classes_that_are_never_right_may_be_excluded(way: str) -> None:
    """What is found is what is found where these classes are only very improbable."""
    x = torch.from_numpy(np.random.default_rng(1).random((12, 1, 4, 4), np.float32))
    labels = excluding("low")(x).argmax(1)
    asked: dict[str, Any] = {"progress": False, "audit": 0, "diagnose": False}
    found = ra.evaluate(excluding(way), (x, labels), ["linf", "l2"], **asked)
    same = ra.evaluate(excluding("low"), (x, labels), ["linf", "l2"], **asked)
    assert found.clean_accuracy == 100
    for attack in ("linf", "l2"):
        np.testing.assert_allclose(found.minimal_size(attack), same.minimal_size(attack), rtol=1e-4)
    assert not any("answers 5" in said for said in found.warnings)


def test_a_part_of_the_classes_may_be_evaluated_by_a_model_of_these() -> None:
    """Also where the first samples of the whole data set are of a class that the model lacks."""
    data = ra.Dataset.of(np.random.default_rng(1).random((6, 1, 4, 4), np.float32), [7, 0, 1, 2, 3, 4], "mine")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 5))
    result = ra.evaluate(net, data.chosen(torch.arange(1, 6)), "linf", strengths={"linf": [0.1]}, progress=False)
    assert result.samples == 5


def test_logarithms_of_zero_are_no_excluded_classes() -> None:
    x = torch.from_numpy(np.random.default_rng(1).random((12, 1, 4, 4), np.float32))
    labels = excluding("low")(x).argmax(1)
    with pytest.raises(ra.UserError, match=r"before (the|a) softmax"):
        ra.evaluate(excluding("logarithm"), (x, labels), "linf", progress=False)


@pytest.mark.parametrize(
    ("answers", "function", "said"),
    [
        ("probabilities", lambda x: x.sum((1, 2, 3)).astype(int) % 3, "answers='labels'"),
        ("logits", lambda x: (x.sum((1, 2, 3)).astype(int) % 3)[:, None], "answers='labels'"),
        ("probabilities", lambda x: x.mean((1, 2, 3)), "1 - p"),
        ("labels", lambda x: (x.sum((1, 2, 3)).astype(int) % 3)[:, None], r"answer\[:, 0\]"),
        ("labels", lambda x: np.eye(3)[x.sum((1, 2, 3)).astype(int) % 3], "answers='probabilities'"),
    ],
)
def test_answers_of_another_kind_than_said_name_the_remedy(answers: Any, function: Any, said: str) -> None:
    model = ra.from_predictions(function, answers, classes=3)
    with pytest.raises(ra.UserError, match=said):
        model.logits(torch.rand(5, 1, 4, 4))
