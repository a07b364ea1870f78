"""Data that stays on disk until it is needed: the same numbers, fingerprints and results as in memory."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.cli.distances import distances
from robustatlas.common.errors import UserError
from robustatlas.data import Fingerprint, InMemory, Rows, from_torch, on_disk
from robustatlas.data.dataset import Dataset
from robustatlas.evaluation import samples

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 3, 8, 10), np.uint8)
LABELS = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUSTATLAS_DATA", str(tmp_path))
    monkeypatch.setattr(on_disk, "cache_folder", lambda: tmp_path / "cache")


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
    return ra.Dataset.from_arrays(images, LABELS, "memory")


def test_folders_of_pictures(tmp_path: Path) -> None:
    data = ra.load_dataset(f"imagefolder:{picture_folder(tmp_path / 'pictures')}")
    same(data, in_memory())
    assert data.classes == ("ant", "bee", "cat") and data.name == "pictures"


def test_pictures_come_to_one_size(tmp_path: Path) -> None:
    root = picture_folder(tmp_path / "pictures")
    Image.fromarray(np.zeros((20, 30, 3), np.uint8)).save(root / "cat" / "99.png")
    with pytest.raises(ra.UserError, match=r"99\.png .*30 x 20.*10 x 8"):
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
        ("hf:nowhere", "no folder nowhere"),
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
        monkeypatch.setattr("robustatlas.data.on_disk._LARGE_ARCHIVE_BYTES", 0)
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
    same(from_torch(Pairs(kind)), in_memory())
    net = nn.Sequential(nn.Flatten(), nn.Linear(240, 3))
    found = [ra.evaluate(net, data, "linf", samples=4).minimal_size("linf") for data in (Pairs(kind), in_memory())]
    np.testing.assert_array_equal(*found)


class Items(torch.utils.data.Dataset[Any]):
    """Whatever ``make`` makes of a position; counts how often each is read."""

    def __init__(self, make: Callable[[int], Any], count: int = len(PIXELS), **declared: Any) -> None:
        self.make, self.count = make, count
        self.reads = np.zeros(count, int)
        vars(self).update(declared)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, position: int) -> Any:
        self.reads[position] += 1
        return self.make(position)


IMAGES = torch.from_numpy(PIXELS).float() / 255


def pair(position: int) -> tuple[Any, Any]:
    return IMAGES[position], int(LABELS[position])


@pytest.mark.parametrize("declared", [{"targets": [0] * len(PIXELS)}, {"labels": None}, {"targets": "unknown"}])
def test_labels_are_those_that_a_data_set_returns(declared: dict[str, Any]) -> None:
    """As with a target_transform: what is declared is not what is returned."""
    data = Items(pair, classes=("ant", "bee", "cat"), **declared)
    found = from_torch(data)
    reads = data.reads.copy()
    assert reads.max() <= 5, "the shape, two looks at some, the scale, and once for labels and fingerprint"
    _ = found.fingerprint
    np.testing.assert_array_equal(data.reads, reads)
    same(found, ra.Dataset.from_arrays(PIXELS, LABELS, "mine", ["ant", "bee", "cat"]))


def test_all_items_are_gone_through_once_for_an_evaluation_and_its_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    monkeypatch.setattr(samples, "from_torch", lambda data, **how: opened.append(data) or from_torch(data, **how))
    net = nn.Sequential(nn.Flatten(), nn.Linear(240, 3))
    ra.evaluate(net, Items(pair), "linf", strengths={"linf": [0.1]}, audit=4, progress=False)
    assert len(opened) == 1


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("part", [0, 1])
def test_items_that_change_are_refused(share: float, part: int) -> None:
    """Also where few do: what the looks at some items miss is noticed when an item is read again."""
    generator = torch.Generator().manual_seed(0)

    def drawn(position: int) -> tuple[Any, Any]:
        image, label = pair(position % len(PIXELS))
        if float(torch.rand(1, generator=generator)) >= share:
            return image, label
        if part == 0:
            return image * torch.rand(1, generator=generator), label
        return image, int(torch.randint(3, (1,), generator=generator))

    net = nn.Sequential(nn.Flatten(), nn.Linear(240, 3))
    with pytest.raises(ra.UserError, match="another one each time that it is read"):
        ra.evaluate(net, Items(drawn, 60), "linf", strengths={"linf": [0.1]}, progress=False)


def picture(mode: str) -> Callable[[int], tuple[Any, int]]:
    return lambda k: (Image.fromarray(PIXELS[k].transpose(1, 2, 0)).convert(mode), int(LABELS[k]))


ITEMS: dict[str, tuple[Callable[[int], Any], str]] = {
    "two inputs": (lambda k: ((IMAGES[k], IMAGES[k]), 0), "has 2 inputs"),
    "inputs by name": (lambda k: ({"image": IMAGES[k], "mask": IMAGES[k]}, 0), "has 2 inputs"),
    "three parts": (lambda k: (IMAGES[k], IMAGES[k], 0), r"shape \(3, 8, 10\) for a label"),
    "the other way round": (lambda k: (int(LABELS[k]), IMAGES[k]), r"shape \(3, 8, 10\) for a label"),
    "one-hot": (lambda k: (IMAGES[k], torch.eye(3)[LABELS[k]]), r"give label\.argmax\(\)"),
    "several labels": (lambda k: (IMAGES[k], [1, 1, 0]), r"\[1, 1, 0\]; expected a class number"),
    "names": (lambda k: (IMAGES[k], "cat"), "position of the name"),
    "none": (lambda k: (IMAGES[k], None), "label None"),
    "real numbers": (lambda k: (IMAGES[k], 1.5), "label 1.5"),
    "boxes": (lambda k: (IMAGES[k], {"boxes": []}), "expected a class number"),
    "a dict": (lambda k: {"image": IMAGES[k], "label": 0}, "is a dict; expected a pair"),
    "an image alone": (lambda k: IMAGES[k], "is a Tensor; expected a pair"),
    "no image": (lambda k: (None, 0), "not an array of numbers"),
    "no item": (lambda k: pair(k) if k < 5 else {}[k], "Item 6 .* cannot be read: KeyError"),
    "alpha in an array": (lambda k: (np.asarray(picture("RGBA")(k)[0]), 0), "alpha"),
    "waves": (lambda k: (IMAGES[k].to(torch.complex64), 0), "complex64"),
    "two types": (lambda k: (torch.from_numpy(PIXELS[k]) if k % 2 else IMAGES[k], 0), "one size and type"),
}


@pytest.mark.parametrize("kind", ITEMS)
def test_items_of_other_kinds_get_a_sentence(kind: str) -> None:
    make, said = ITEMS[kind]
    with pytest.raises(ra.UserError, match=said) as caught:
        from_torch(Items(make))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("mode", ["P", "RGBA", "HSV", "CMYK"])
def test_pictures_of_other_modes_are_read_in_red_green_and_blue(mode: str) -> None:
    made = [picture(mode)(k)[0].convert("RGB") for k in range(len(PIXELS))]
    turned = torch.from_numpy(np.stack([np.asarray(each).transpose(2, 0, 1) for each in made])) / 255
    assert torch.equal(from_torch(Items(picture(mode))).images, turned)


@pytest.mark.parametrize(
    ("declared", "names"),
    [
        (5, ("0", "1", "2", "3", "4")),
        (torch.tensor(3), ("0", "1", "2")),
        ({"cat": 2, "ant": 0, "bee": 1}, ("ant", "bee", "cat")),
        (lambda: 5, ("0", "1", "2")),
        (None, ("0", "1", "2")),
    ],
)
def test_declared_classes(declared: Any, names: tuple[str, ...]) -> None:
    assert from_torch(Items(pair, classes=declared)).classes == names


def test_fewer_classes_than_labels_are_refused() -> None:
    with pytest.raises(ra.UserError, match=r"0\.\.1 \(2 classes\), got 0\.\.2"):
        from_torch(Items(pair, classes=2))
    with pytest.raises(ra.UserError, match="classes"):
        ra.Dataset.from_arrays(PIXELS, LABELS, "mine", "ant")


def test_pictures_in_grey_and_items_in_one_buffer() -> None:
    grey = from_torch(Items(picture("L")))
    assert grey.shape == (1, 8, 10)
    buffer = torch.empty(3, 8, 10)

    def reused(position: int) -> tuple[Tensor, int]:
        return buffer.copy_(IMAGES[position]), int(LABELS[position])

    assert torch.equal(from_torch(Items(reused)).images, IMAGES)


def test_cifar_c_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "CIFAR-10-C"
    folder.mkdir()
    images = np.random.default_rng(1).integers(0, 256, (60, 4, 4, 3), np.uint8)
    np.save(folder / "fog.npy", images)
    np.save(folder / "labels.npy", np.tile(LABELS, 5))
    data = ra.load_dataset("cifar10-c/fog/3")
    same(data, ra.Dataset.from_arrays(images[24:36], LABELS, "c", data.classes))
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
        patch.setattr(Fingerprint, "compute", read)
        assert ra.load_dataset(f"imagefolder:{root}").fingerprint == first
    Image.fromarray(np.zeros((8, 10, 3), np.uint8)).save(root / "ant" / "00.png")
    assert ra.load_dataset(f"imagefolder:{root}").fingerprint != first


def test_rows_are_read_when_they_are_needed() -> None:
    read: list[int] = []

    class Drawn(Rows):
        shape = (1000, 1, 4, 4)

        def read(self, positions: torch.Tensor) -> torch.Tensor:
            read.extend(positions.tolist())
            return torch.full((len(positions), 1, 4, 4), 7, dtype=torch.uint8)

    known = Fingerprint("0" * 64, "1" * 64)
    data = ra.Dataset.from_rows(Drawn(), np.zeros(1000, np.int64), "drawn", ["a", "b"], known)
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


# --- data sets in the folders of their archives


def _picture(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (64, 64)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


def test_tiny_imagenet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUSTATLAS_DATA", str(tmp_path))
    folder = tmp_path / "tiny-imagenet-200"
    for number, name in enumerate(("n02", "n01")):  # wnids.txt is in no order; classes are in that of their IDs
        for k in range(2):
            _picture(folder / f"train/{name}/images/{name}_{k}.JPEG", (255 * number, 0, 0))
    (folder / "wnids.txt").write_text("n02\nn01\n")
    _picture(folder / "val/images/val_0.JPEG", (0, 0, 255))
    (folder / "val/val_annotations.txt").write_text("val_0.JPEG\tn02\t0\t0\t62\t62\n")
    train, test = ra.load_dataset("tiny-imagenet", "train"), ra.load_dataset("tiny-imagenet")
    assert (train.classes, train.labels.tolist(), train.shape) == (("n01", "n02"), [0, 0, 1, 1], (3, 64, 64))
    assert train.images[:, 0].amax((1, 2)).round().tolist() == [1, 1, 0, 0]
    assert (test.labels.tolist(), test.images[0, 2].mean().item()) == ([1], pytest.approx(1, abs=0.02))
    (folder / "val/val_annotations.txt").unlink()
    with pytest.raises(UserError, match=r"val_annotations\.txt"):
        ra.load_dataset("tiny-imagenet")


def test_traffic_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUSTATLAS_DATA", str(tmp_path))
    folder = tmp_path / "GTSRB"
    for number in range(43):
        _picture(folder / f"Final_Training/Images/{number:05d}/00000_00000.ppm", (number, 0, 0), (40, 50))
    _picture(folder / "Final_Test/Images/00000.ppm", (0, 255, 0), (30, 29))
    (folder / "GT-final_test.csv").write_text("Filename;Width;Height;ClassId\n00000.ppm;30;29;16\n")
    train, test = ra.load_dataset("gtsrb", "train"), ra.load_dataset("gtsrb")
    assert (train.shape, train.labels.tolist()) == ((3, 32, 32), list(range(43)))
    assert (test.shape, test.labels.tolist(), len(test.classes)) == ((3, 32, 32), [16], 43)
    assert ra.load_dataset("gtsrb", resize=16, crop=16).shape == (3, 16, 16)
    (folder / "GT-final_test.csv").unlink()
    with pytest.raises(UserError, match=r"put GT-final_test.csv into"):
        ra.load_dataset("gtsrb")


def test_human_activities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUSTATLAS_DATA", str(tmp_path))
    folder = tmp_path / "UCI HAR Dataset/test"
    folder.mkdir(parents=True)
    (folder / "X_test.txt").write_text("  1.0000e+000 -1.0000e+000 0.0\n -0.5 0.5 0.25\n")
    (folder / "y_test.txt").write_text("5\n1\n")
    data = ra.load_dataset("har")
    assert data.images.tolist() == [[1.0, 0.0, 0.5], [0.25, 0.75, 0.625]]
    assert (data.labels.tolist(), data.classes[4]) == ([4, 0], "standing")
    with pytest.raises(UserError, match=r"X_train\.txt is missing"):
        ra.load_dataset("har", "train")
    with pytest.raises(UserError, match="are for folders of pictures"):
        ra.load_dataset("har", resize=8)


def test_imagenet_c_100_has_the_classes_of_imagenet100(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kang et al. 2019, F: 'the 100-class subset of ImageNet-C with the same classes as ImageNet-100'."""
    monkeypatch.setenv("ROBUSTATLAS_DATA", str(tmp_path))
    names = [f"n{number:08d}" for number in range(0, 1010, 10)]
    for name in names:
        _picture(tmp_path / f"ImageNet-C/fog/2/{name}/a.JPEG", (0, 0, 0), (8, 8))
        _picture(tmp_path / f"imagenet/val/{name}/a.JPEG", (0, 0, 0), (8, 8))
    corrupted = ra.load_dataset("imagenet-c-100/fog/2")
    assert corrupted.classes == tuple(names[::10]) == ra.load_dataset("imagenet100").classes
    with pytest.raises(UserError, match="imagenet-c-100"):
        ra.load_dataset("imagenet-c-100/fog")


def test_distances_bring_pictures_to_one_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, level in (("a", 0), ("b", 255)):
        _picture(tmp_path / f"{name}/1.png", (level, level, level), (20, 30 if name == "a" else 20))
    distances(f"imagefolder:{tmp_path}", norms=["linf,l1"], resize=4, crop=4)
    rows = {line.split()[0]: line.split()[1] for line in capsys.readouterr().out.splitlines() if len(line.split()) > 1}
    assert (rows["linf"], float(rows["l1"])) == ("1", 48)
