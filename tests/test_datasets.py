import functools
import gzip
import hashlib
import http.server
import io
import os
import struct
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from robustatlas.common.errors import UserError
from robustatlas.data import Dataset, Fingerprint, load_dataset, named
from robustatlas.data.named import download, download_members

IMAGES = np.zeros((3, 8, 8), np.uint8)


def no_network(address: str, *_: object) -> None:
    raise UserError(f"{address} cannot be reached: no network.")


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in which data sets are looked for; downloads fail."""
    monkeypatch.setenv("ROBUSTATLAS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(named, "_SYSTEM_FOLDER", tmp_path / "system")
    monkeypatch.setattr(named, "download", no_network)
    monkeypatch.setattr(named, "download_members", no_network)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


@pytest.mark.oracle
def test_digits_are_those_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits

    train, test = load_dataset("digits", "train"), load_dataset("digits", "test")
    reference = load_digits()
    assert (len(train), len(test)) == (1197, 600)
    ours = torch.cat([train.images, test.images]).numpy()[:, 0] * 16
    rows = np.column_stack([ours.reshape(-1, 64), torch.cat([train.labels, test.labels]).numpy()])
    theirs = np.column_stack([reference.data, reference.target])
    np.testing.assert_array_equal(rows[np.lexsort(rows.T)], theirs[np.lexsort(theirs.T)])


def test_digits_split_is_stratified() -> None:
    counts = load_dataset("digits", "test").labels.bincount()
    assert counts.min() >= 58
    assert counts.max() <= 62


def test_form() -> None:
    data = load_dataset("digits")
    assert data.images.dtype == torch.float32
    assert data.labels.dtype == torch.int64
    assert data.images.shape == (600, 1, 8, 8)
    assert (float(data.images.min()), float(data.images.max())) == (0.0, 1.0)
    assert data.classes == tuple("0123456789")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((3, 8, 8), (3, 1, 8, 8)),
        ((3, 8, 9, 3), (3, 3, 8, 9)),
        ((3, 3, 8, 9), (3, 3, 8, 9)),
        ((3, 8, 9, 1), (3, 1, 8, 9)),
    ],
)
@pytest.mark.parametrize("kind", [np.uint8, np.float64])
def test_layouts(shape: tuple[int, ...], expected: tuple[int, ...], kind: type) -> None:
    white = 255 if kind is np.uint8 else 1
    assert Dataset.from_arrays(np.full(shape, white, kind), [0, 1, 2]).images.shape == expected


def test_tables_of_numbers_stay_as_they_are() -> None:
    assert Dataset.from_arrays(torch.rand(3, 5), torch.tensor([0, 1, 1])).images.shape == (3, 5)


def test_labels_beyond_the_classes() -> None:
    with pytest.raises(UserError, match=r"0\.\.1 \(2 classes\), got 0\.\.2"):
        Dataset.from_arrays(IMAGES, [0, 1, 2], "pets", ["cat", "dog"])


def test_first_samples() -> None:
    data = load_dataset("digits")
    part = data.take(7)
    assert torch.equal(part.images, data.images[:7])
    assert part.index.tolist() == list(range(7))
    assert data.take(None) is data


@pytest.mark.parametrize("count", [0, -1, 601])
def test_more_samples_than_there_are(count: int) -> None:
    with pytest.raises(UserError, match=f"600.*{count}"):
        load_dataset("digits").take(count)


@given(st.integers(1, 600), st.integers(0, 5))
@settings(max_examples=25)
def test_stratified_subsets(count: int, seed: int) -> None:
    data = load_dataset("digits")
    part = data.take(count, stratified=True, seed=seed)
    assert len(part) == count
    assert torch.equal(part.index, part.index.unique())
    assert torch.equal(part.labels, data.labels[part.index])
    share = data.labels.bincount(minlength=10) * count / len(data)
    assert float((part.labels.bincount(minlength=10) - share).abs().max()) <= 1
    bigger = data.take(min(count + 50, 600), stratified=True, seed=seed)
    assert set(part.index.tolist()) <= set(bigger.index.tolist())


def test_seeds_choose_different_subsets() -> None:
    data = load_dataset("digits")
    first, second = (data.take(100, stratified=True, seed=seed).index.tolist() for seed in (0, 1))
    assert first != second


def test_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "pets.npz", images=IMAGES, labels=np.array([0, 1, 0]), classes=np.array(["cat", "dog"]))
    data = load_dataset(tmp_path / "pets.npz")
    assert (data.name, data.classes, len(data)) == ("pets", ("cat", "dog"), 3)


def test_bad_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=IMAGES)
    with pytest.raises(UserError, match="'x'"):
        load_dataset(tmp_path / "x.npz")
    names = np.array(["cat", None], object)
    np.savez(tmp_path / "names.npz", images=IMAGES, labels=np.array([0, 1, 1]), classes=names)
    with pytest.raises(UserError, match="pickled"):
        load_dataset(tmp_path / "names.npz")


@given(st.integers(0, 10**6), st.integers(0, 255))
@example(6920, 10)  # a line break in a name
@settings(max_examples=40)
def test_damaged_npz(tmp_path_factory: pytest.TempPathFactory, place: int, byte: int) -> None:
    """Whatever a flipped byte does, it is one sentence or the same data."""
    path = tmp_path_factory.mktemp("npz") / "x.npz"
    pixels = np.random.default_rng(0).integers(0, 9, (6, 8, 8)).astype(np.uint8)
    np.savez_compressed(path, images=pixels, labels=np.arange(6))
    content = bytearray(path.read_bytes())
    content[place % len(content)] = byte
    path.write_bytes(content)
    try:
        assert load_dataset(path).images.shape == (6, 1, 8, 8)
    except UserError as error:
        assert "\n" not in str(error)


def test_fingerprints_are_of_the_numbers() -> None:
    data = load_dataset("digits")
    again = load_dataset("digits")
    assert data.fingerprint == again.fingerprint
    assert data.fingerprint is data.fingerprint
    assert data.take(600).fingerprint == data.fingerprint
    strided = torch.stack([data.images, data.images], -1)[..., 0]
    assert Fingerprint.compute(strided, data.labels.int()) == data.fingerprint
    assert data.take(599).fingerprint == data.fingerprint  # a subset is a part of the whole
    labels = data.labels.clone()
    labels[0] = (labels[0] + 1) % 10
    changed = Fingerprint.compute(data.images, labels)
    assert changed.images_sha256 == data.fingerprint.images_sha256
    assert changed.labels_sha256 != data.fingerprint.labels_sha256


def test_unknown_name() -> None:
    with pytest.raises(UserError, match=r"'zebras'.*digits"):
        load_dataset("zebras")
    with pytest.raises(UserError, match=r"'imagenot'; did you mean 'imagenet'\?"):
        load_dataset("imagenot")
    with pytest.raises(UserError, match="'test' or 'train', not 'val'"):
        load_dataset("digits", "val")  # type: ignore[arg-type]


@pytest.mark.parametrize("folder", ["MNIST/raw", "mnist"])
@pytest.mark.parametrize("zipped", [True, False])
def test_idx_files(data_folder: Path, folder: str, zipped: bool) -> None:
    images, labels = np.random.default_rng(0).integers(0, 256, (5, 28, 28)), np.arange(5)
    (data_folder / folder).mkdir(parents=True)
    for name, array in (("t10k-images-idx3-ubyte", images), ("t10k-labels-idx1-ubyte", labels)):
        path = data_folder / folder / (name + ".gz" * zipped)
        path.write_bytes(gzip.compress(idx(array)) if zipped else idx(array))
    data = load_dataset("mnist")
    np.testing.assert_allclose(data.images[:, 0].numpy(), images / 255, rtol=1e-6)
    assert data.labels.tolist() == labels.tolist()


@pytest.mark.parametrize("content", [b"", b"\0\0\x08\x01\0\0\0\x05abc", b"\0\0\x0d\x01\0\0\0\x03abc"])
def test_damaged_idx_files(data_folder: Path, content: bytes) -> None:
    (data_folder / "mnist").mkdir()
    for name in ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
        (data_folder / "mnist" / name).write_bytes(content)
    with pytest.raises(UserError, match="t10k-images-idx3-ubyte"):
        load_dataset("mnist")


def cifar_record(label: int) -> bytes:
    return bytes([label]) + bytes([255]) * 1024 + bytes([0]) * 1024 + bytes([51]) * 1024


def test_cifar_binary(data_folder: Path) -> None:
    folder = data_folder / "cifar-10-batches-bin"
    folder.mkdir()
    (folder / "test_batch.bin").write_bytes(cifar_record(3) + cifar_record(9))
    for number in range(1, 6):
        (folder / f"data_batch_{number}.bin").write_bytes(cifar_record(number))
    data = load_dataset("cifar10")
    assert data.labels.tolist() == [3, 9]
    torch.testing.assert_close(data.images[0, :, 5, 7], torch.tensor([1.0, 0.0, 0.2]))
    assert load_dataset("cifar10", "train").labels.tolist() == [1, 2, 3, 4, 5]
    (folder / "test_batch.bin").write_bytes(cifar_record(3)[:-1])
    with pytest.raises(UserError, match="not a whole file"):
        load_dataset("cifar10")


def test_archive_in_the_data_folder(data_folder: Path) -> None:
    np.savez(data_folder / "cifar10_test.npz", images=np.zeros((2, 32, 32, 3), np.uint8), labels=np.array([1, 2]))
    data = load_dataset("cifar10")
    assert data.images.shape == (2, 3, 32, 32)
    assert data.classes[1] == "automobile"


def test_neither_here_nor_to_be_downloaded(data_folder: Path) -> None:
    with pytest.raises(UserError, match="ROBUSTATLAS_DATA"):
        load_dataset("mnist")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "www").mkdir()
    handler = functools.partial(_Quiet, directory=str(tmp_path / "www"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def test_download(tmp_path: Path, server: str) -> None:
    (tmp_path / "www" / "file").write_bytes(b"content")
    download(f"{server}/file", tmp_path / "got", hashlib.md5(b"content").hexdigest())
    assert (tmp_path / "got").read_bytes() == b"content"
    with pytest.raises(UserError, match="0123"):
        download(f"{server}/file", tmp_path / "other", "0123")
    with pytest.raises(UserError, match=r"nothing.*404"):
        download(f"{server}/nothing", tmp_path / "other", "0123")
    with pytest.raises(UserError, match=r"cannot be reached: .*refused"):
        download("http://127.0.0.1:9/file", tmp_path / "other", "0123")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["got", "www"]


def test_download_of_an_archive(tmp_path: Path, server: str) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name in ("a/one.bin", "a/two.bin"):
            entry = tarfile.TarInfo(name)
            entry.size = 3
            archive.addfile(entry, io.BytesIO(b"abc"))
    (tmp_path / "www" / "x.tar.gz").write_bytes(content.getvalue())
    md5 = hashlib.md5(content.getvalue()).hexdigest()
    download_members(f"{server}/x.tar.gz", tmp_path / "cache", ["a/two.bin"], md5)
    assert (tmp_path / "cache" / "a" / "two.bin").read_bytes() == b"abc"
    assert len(list((tmp_path / "cache").rglob("*.*"))) == 1


@pytest.mark.parametrize(("name", "shape"), [("mnist", (1, 28, 28)), ("cifar10", (3, 32, 32))])
def test_the_real_ones(name: str, shape: tuple[int, ...]) -> None:
    folder = os.environ.get("ROBUSTATLAS_DATA")
    if not folder or not (Path(folder) / f"{name}_test.npz").is_file():
        pytest.skip(f"ROBUSTATLAS_DATA has no {name}_test.npz")
    data = load_dataset(name)
    assert data.images.shape == (10000, *shape)
    assert data.labels.bincount().tolist() == ([1000] * 10 if name == "cifar10" else data.labels.bincount().tolist())


def test_fashion_mnist_of_debian() -> None:
    if not Path("/usr/share/datasets/fashion-mnist").is_dir():
        pytest.skip("Debian's package dataset-fashion-mnist is not installed")
    data = load_dataset("fashion-mnist")
    assert data.images.shape == (10000, 1, 28, 28)
    assert data.labels.bincount().tolist() == [1000] * 10
