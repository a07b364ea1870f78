"""Data as most disks hold it: torchvision's pickled CIFAR, and the Parquet files of Hugging Face's hub."""

import io
import json
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import robustatlas as ra

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 3, 32, 32), dtype=np.uint8)
LABELS = [3, 1, 4, 1, 5, 9]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROBUSTATLAS_DATA", str(tmp_path))
    return tmp_path


def by_python_2(images: np.ndarray, labels: list[int], key: bytes = b"labels") -> bytes:
    """As cPickle of Python 2 writes a dictionary of an array and a list (protocol 2, texts as short bytes)."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value if len(value) < 256 else b"T" + struct.pack("<i", len(value)) + value

    def number(value: int) -> bytes:
        return b"K" + bytes([value]) if value < 256 else b"J" + struct.pack("<i", value)

    shape = number(images.shape[0]) + number(images.shape[1]) + b"\x86"
    kind = b"cnumpy\ndtype\n(" + text(b"u1") + b"K\x00K\x01tR(K\x03" + text(b"|") + b"NNN"
    kind += b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85" + text(b"b") + b"tR"
    array += b"(K\x01" + shape + kind + b"\x89" + text(images.tobytes()) + b"tb"
    listed = b"](" + b"".join(map(number, labels)) + b"e"
    return b"\x80\x02}(" + text(b"data") + array + text(key) + listed + b"u."


def flat() -> np.ndarray:
    return IMAGES.reshape(len(IMAGES), -1)


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
@pytest.mark.parametrize("protocol", ["Python 2", 2, 4])
def test_pickled_cifar_is_read(folder: Path, name: str, protocol: Any) -> None:
    place, file = ("cifar-10-batches-py", "test_batch") if name == "cifar10" else ("cifar-100-python", "test")
    key = "labels" if name == "cifar10" else "fine_labels"
    (folder / place).mkdir()
    given = {"data": flat(), key: LABELS, "batch_label": "testing", "filenames": ["a.png"] * 6}
    content = by_python_2(flat(), LABELS, key.encode()) if protocol == "Python 2" else pickle.dumps(given, protocol)
    (folder / place / file).write_bytes(content)
    with pytest.warns(ra.RobustnessWarning, match="CIFAR"):
        data = ra.load_dataset(name)
    np.testing.assert_array_equal((data.images * 255).round().numpy(), IMAGES)
    assert data.labels.tolist() == LABELS and len(data.classes) == (10 if name == "cifar10" else 100)
    with pytest.warns(ra.RobustnessWarning, match="not the file"):
        assert ra.load_dataset(folder / place).name == name
    with pytest.raises(ra.UserError, match="is a folder; give imagefolder:"):
        ra.load_dataset(folder)


class Hostile:
    def __reduce__(self) -> Any:
        return (os.system, ("touch hostile",))


class Other(np.ndarray):
    pass


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (Hostile(), "system"),
        ({"data": Hostile()}, "system"),
        ({"data": np.array([{}], object)}, "'O8'"),
        ({"data": np.zeros(2, "datetime64[s]")}, "arrays of"),
        ({"data": np.zeros((2, 2)).view(Other)}, "Other"),
        ({"data": Path("x")}, "pathlib"),
        (slice(3), "slice"),
        ([1, 2], "expected 'data'"),
        ({"data": np.zeros((6, 3072), np.uint8), "labels": [1]}, "expected 'data'"),
        ({"data": np.zeros((6, 3072), np.float32), "labels": LABELS}, "expected 'data'"),
        ({"data": np.zeros((6, 3072), np.uint8), "labels": ["a"] * 6}, "expected 'data'"),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_nothing_that_a_pickle_names_is_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, held: Any, said: str, protocol: int
) -> None:
    monkeypatch.chdir(folder)
    (folder / "cifar-10-batches-py").mkdir()
    (folder / "cifar-10-batches-py" / "test_batch").write_bytes(pickle.dumps(held, protocol))
    with pytest.raises(ra.UserError) as refused:
        ra.load_dataset("cifar10")
    assert said in str(refused.value) or "nothing else is unpickled" in str(refused.value)
    assert not (folder / "hostile").exists()


@pytest.mark.parametrize("content", [b"", b"\x80", b"not a pickle", by_python_2(flat(), LABELS)[:-900]])
def test_damaged_pickles_get_a_sentence(folder: Path, content: bytes) -> None:
    (folder / "cifar-10-batches-py").mkdir()
    (folder / "cifar-10-batches-py" / "test_batch").write_bytes(content)
    with pytest.raises(ra.UserError, match="not a pickle of plain numbers"):
        ra.load_dataset("cifar10")


def encoded(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def write(path: Path, pictures: list[bytes], labels: list[int], image: str = "image", label: str = "label") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    features = {label: {"names": [f"class {k}" for k in range(10)], "_type": "ClassLabel"}}
    table = pa.table({image: [{"bytes": each, "path": None} for each in pictures], label: labels})
    told = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(table.replace_schema_metadata(told), path, row_group_size=2)


def test_pictures_of_parquet_files_are_read_where_they_are_needed(tmp_path: Path) -> None:
    pixels = IMAGES.transpose(0, 2, 3, 1)
    pictures = [encoded(each) for each in pixels]
    write(tmp_path / "plain_text" / "test-00000-of-00002.parquet", pictures[:4], LABELS[:4], "img")
    write(tmp_path / "plain_text" / "test-00001-of-00002.parquet", pictures[4:], LABELS[4:], "img")
    write(tmp_path / "plain_text" / "train-00000-of-00001.parquet", pictures[:1], [7], "img")
    data = ra.load_dataset(f"hf:{tmp_path}")
    assert data.labels.tolist() == LABELS and data.classes[3] == "class 3"
    np.testing.assert_array_equal((data.images * 255).round().numpy(), IMAGES)
    chosen = data.rows.read(torch.tensor([5, 0, 5])).numpy()
    np.testing.assert_array_equal(chosen, IMAGES[[5, 0, 5]])
    assert ra.load_dataset(f"hf:{tmp_path}", "train").labels.tolist() == [7]
    again = ra.load_dataset(f"hf:{tmp_path}")
    assert again.fingerprint == data.fingerprint


def test_grey_pictures_stay_grey_and_a_split_without_labels_is_passed_over(tmp_path: Path) -> None:
    pictures = [encoded(each[0]) for each in IMAGES]
    write(tmp_path / "data" / "test-00000-of-00001.parquet", pictures, [-1] * 6)
    write(tmp_path / "data" / "validation-00000-of-00001.parquet", pictures, LABELS)
    data = ra.load_dataset(f"hf:{tmp_path}")
    assert data.images.shape == (6, 1, 32, 32) and data.labels.tolist() == LABELS
    np.testing.assert_array_equal((data.images * 255).round().numpy()[:, 0], IMAGES[:, 0])


def test_a_folder_called_like_a_column_is_none(tmp_path: Path) -> None:
    write(tmp_path / "label=7" / "width=3" / "test-0.parquet", [encoded(each[0]) for each in IMAGES], LABELS)
    data = ra.load_dataset(f"hf:{tmp_path}")
    assert data.labels.tolist() == LABELS
    np.testing.assert_array_equal((data.images * 255).round().numpy()[:, 0], IMAGES[:, 0])


def test_pictures_of_different_sizes_need_one(tmp_path: Path) -> None:
    sizes = [(40, 30), (30, 50), (64, 64)]
    pictures = [encoded(np.full((*size, 3), 9, np.uint8)) for size in sizes]
    write(tmp_path / "validation-00000-of-00001.parquet", pictures, [0, 1, 2])
    assert ra.load_dataset(f"hf:{tmp_path}", resize=32, crop=24).images.shape == (3, 3, 24, 24)
    with pytest.raises(ra.UserError, match="different sizes"):
        assert ra.load_dataset(f"hf:{tmp_path}").images.shape


def test_parquet_files_of_something_else_get_a_sentence(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "test-0.parquet")
    with pytest.raises(ra.UserError, match=r"image and label.* text"):
        ra.load_dataset(f"hf:{tmp_path}")
    with pytest.raises(ra.UserError, match="no Parquet files of the split 'train'"):
        ra.load_dataset(f"hf:{tmp_path}", "train")
    (tmp_path / "test-0.parquet").write_text("text")
    with pytest.raises(ra.UserError, match="cannot be read as a Parquet file"):
        ra.load_dataset(f"hf:{tmp_path}")
    write(tmp_path / "test-0.parquet", [b"no picture"], [0])
    with pytest.raises(ra.UserError, match="Row 0 "):
        ra.load_dataset(f"hf:{tmp_path}")
