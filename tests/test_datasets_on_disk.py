"""Data that stays on disk until it is needed: the same numbers, fingerprints and results as in memory."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import robustatlas as ra
from robustatlas.data import Fingerprint, InMemory, Rows, of_torch, remembered
from robustatlas.data.dataset import Dataset

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 3, 8, 10), np.uint8)
LABELS = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUSTATLAS_DATA", str(tmp_path))
    monkeypatch.setattr(remembered, "cache_folder", lambda: tmp_path / "cache")


def picture_folder(root: Path, names: tuple[str, ...] = ("ant", "bee", "cat")) -> Path:
    for number, pixels in enumerate(PIXELS):
        file = root / names[LABELS[number]] / f"{number:02d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.transpose(1, 2, 0)).save(file)
    return root


def same(data: Dataset, other: Dataset) -> None:
    assert data.shape == other.shape
    assert torch.equal(data.images, other.images) and torch.equal(data.labels, other.labels)
    assert data.fingerprint == other.fingerprint
    assert data.take(5).fingerprint == other.fingerprint
    assert torch.equal(data.take(6, stratified=True).images, other.take(6, stratified=True).images)


def in_memory(images: Any = PIXELS) -> Dataset:
    return ra.Dataset.of(images, LABELS, "memory")


def test_folders_of_pictures(tmp_path: Path) -> None:
    data = ra.load_dataset(f"imagefolder:{picture_folder(tmp_path / 'pictures')}")
    same(data, in_memory())
    assert data.classes == ("ant", "bee", "cat") and data.name == "pictures"


def test_pictures_come_to_one_size(tmp_path: Path) -> None:
    root = picture_folder(tmp_path / "pictures")
    Image.fromarray(np.zeros((20, 30, 3), np.uint8)).save(root / "cat" / "99.png")
    with pytest.raises(ra.UserError, match=r"99.png has 30 x 20 pixels, and the first .* 10 x 8"):
        _ = ra.load_dataset(f"imagefolder:{root}").images
    data = ra.load_dataset(f"imagefolder:{root}", resize=8, crop=6)
    assert data.images.shape == (13, 3, 6, 6)
    with pytest.raises(ra.UserError, match="smaller than the 9 x 9"):
        ra.load_dataset(f"imagefolder:{root}", crop=9)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("imagefolder:nowhere", "no folder nowhere"),
        ("imagefolder:.", "has no pictures"),
        ("hf:nowhere", "datasets|no data set on disk"),
        ("nowhere.npy", "labels of nowhere.npy"),
        ("cifar10-c/fog/9", "severity from 1 to 5"),
        ("cifar10-c/fog/3", "ROBUSTATLAS_DATA"),
        ("imagenet", "ROBUSTATLAS_DATA"),
        ("imagenet-c/fog/3", "ROBUSTATLAS_DATA"),
    ],
)
def test_what_is_not_there(name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ra.UserError, match=said):
        ra.load_dataset(name)


def test_a_file_that_is_no_picture(tmp_path: Path) -> None:
    root = picture_folder(tmp_path / "pictures")
    (root / "ant" / "03.png").write_bytes(b"not a picture")
    with pytest.raises(ra.UserError, match=r"03.png cannot be read as a picture"):
        _ = ra.load_dataset(f"imagefolder:{root}").images


@pytest.mark.parametrize("images", [PIXELS, PIXELS.transpose(0, 2, 3, 1), (PIXELS / 255).astype(np.float32)])
def test_mapped_arrays(tmp_path: Path, images: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "mine.npy", images)
    np.save(tmp_path / "mine_labels.npy", LABELS)
    same(ra.load_dataset(tmp_path / "mine.npy"), in_memory(images))
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "mine.npz", images=images, labels=LABELS, classes=["ant", "bee", "cat"])
        small = ra.load_dataset(tmp_path / "mine.npz")
        monkeypatch.setattr("robustatlas.data.on_disk._LARGE", 0)
        large = ra.load_dataset(tmp_path / "mine.npz")
        same(large, small)
        assert not isinstance(large.rows, InMemory) and large.classes == ("ant", "bee", "cat")
        monkeypatch.undo()


def test_mapped_numbers_out_of_range(tmp_path: Path) -> None:
    np.save(tmp_path / "mine.npy", PIXELS.astype(np.float32))
    np.save(tmp_path / "labels.npy", LABELS)
    with pytest.raises(ra.UserError, match="divide by 255"):
        _ = ra.load_dataset(tmp_path / "mine.npy").fingerprint


class Pairs(torch.utils.data.Dataset[Any]):
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __len__(self) -> int:
        return len(PIXELS)

    def __getitem__(self, position: int) -> tuple[Any, int]:
        pixels = PIXELS[position]
        image = {
            "uint8": torch.from_numpy(pixels),
            "float": torch.from_numpy(pixels) / 255,
            "picture": Image.fromarray(pixels.transpose(1, 2, 0)),
        }[self.kind]
        return image, int(LABELS[position])


@pytest.mark.parametrize("kind", ["uint8", "float", "picture"])
def test_data_sets_of_torch(kind: str) -> None:
    same(of_torch(Pairs(kind)), in_memory())
    net = nn.Sequential(nn.Flatten(), nn.Linear(240, 3))
    found = [ra.evaluate(net, data, "linf", samples=4).minimal_size("linf") for data in (Pairs(kind), in_memory())]
    np.testing.assert_array_equal(*found)


def test_cifar_c_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "CIFAR-10-C"
    folder.mkdir()
    images = np.random.default_rng(1).integers(0, 256, (60, 4, 4, 3), np.uint8)
    np.save(folder / "fog.npy", images)
    np.save(folder / "labels.npy", np.tile(LABELS, 5))
    data = ra.load_dataset("cifar10-c/fog/3")
    same(data, ra.Dataset.of(images[24:36], LABELS, "c", data.classes))
    assert data.classes[0] == "airplane"


def test_imagenet_by_name(tmp_path: Path) -> None:
    names = tuple(f"n{number:04d}" for number in range(3))
    picture_folder(tmp_path / "imagenet" / "val", names)
    data = ra.load_dataset("imagenet")
    assert data.shape == (3, 224, 224) and data.classes == names
    assert len(ra.load_dataset("imagenet100")) == len(data), "a folder of a hundred classes is taken whole"
    picture_folder(tmp_path / "ImageNet-C" / "fog" / "2", names)
    assert ra.load_dataset("imagenet-c/fog/2", crop=8).shape == (3, 8, 8)


def test_cifar100_binary(tmp_path: Path) -> None:
    (tmp_path / "cifar-100-binary").mkdir()
    records = np.random.default_rng(2).integers(0, 100, (4, 2 + 3072)).astype(np.uint8)
    records.tofile(tmp_path / "cifar-100-binary" / "test.bin")
    data = ra.load_dataset("cifar100")
    assert data.labels.tolist() == records[:, 1].tolist()
    np.testing.assert_array_equal(data.images[2].flatten().numpy(), records[2, 2:].astype(np.float32) / np.float32(255))


def test_fingerprints_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = picture_folder(tmp_path / "pictures")
    first = ra.load_dataset(f"imagefolder:{root}").fingerprint

    def read(*_: Any) -> Any:
        raise AssertionError("computed again")

    with monkeypatch.context() as patch:
        patch.setattr(Fingerprint, "of", read)
        assert ra.load_dataset(f"imagefolder:{root}").fingerprint == first
    Image.fromarray(np.zeros((8, 10, 3), np.uint8)).save(root / "ant" / "00.png")
    assert ra.load_dataset(f"imagefolder:{root}").fingerprint != first


def test_rows_are_read_when_they_are_needed() -> None:
    read: list[int] = []

    class Drawn(Rows):
        shape = (1000, 1, 4, 4)

        def stored(self, positions: torch.Tensor) -> torch.Tensor:
            read.extend(positions.tolist())
            return torch.full((len(positions), 1, 4, 4), 7, dtype=torch.uint8)

    known = Fingerprint("0" * 64, "1" * 64)
    data = ra.Dataset.of_rows(Drawn(), np.zeros(1000, np.int64), "drawn", ["a", "b"], known)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    result = ra.evaluate(net, data, "linf", samples=[3, 900], strengths={"linf": [0.1]})
    beginning = range(8)  # by which gradients are known again
    assert set(read) == {*beginning, 3, 900} and result.index.tolist() == [3, 900]
    assert result.identity is not None and result.identity.data.images_sha256 == "0" * 64


def test_hugging_face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("datasets") is not None:
        from datasets import ClassLabel, Features
        from datasets import Dataset as Table
        from datasets import Image as Pixels

        features = Features({"image": Pixels(), "label": ClassLabel(names=["ant", "bee", "cat"])})
        rows = {"image": [Image.fromarray(p.transpose(1, 2, 0)) for p in PIXELS], "label": LABELS.tolist()}
        Table.from_dict(rows, features=features).save_to_disk(str(tmp_path / "table"))
    else:  # its form, without the library

        class Table(list):  # type: ignore[no-redef,type-arg]
            column_names = ("image", "label")
            features = {"label": SimpleNamespace(names=["ant", "bee", "cat"])}  # noqa: RUF012

            def __getitem__(self, key: Any) -> Any:
                return LABELS.tolist() if key == "label" else list.__getitem__(self, key)

        table = Table({"image": Image.fromarray(pixels.transpose(1, 2, 0))} for pixels in PIXELS)
        (tmp_path / "table").mkdir()
        library = SimpleNamespace(load_from_disk=lambda path: {"test": table})
        monkeypatch.setitem(sys.modules, "datasets", library)  # type: ignore[arg-type]
    data = ra.load_dataset(f"hf:{tmp_path / 'table'}")
    same(data, in_memory())
    assert data.classes == ("ant", "bee", "cat")
