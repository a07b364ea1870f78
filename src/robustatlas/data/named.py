"""Data sets by name: their files, the folders that are searched for them, and downloads with a checksum."""

import functools
import os
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import pooch
from requests import RequestException
from rich.console import Console
from rich.progress import Progress, TaskID

from robustatlas.common.errors import UserError, shorten
from robustatlas.common.files import cache_folder, explain_write_errors, parse_path, write_atomically
from robustatlas.common.scalars import integer_or_none
from robustatlas.common.wording import suggestion
from robustatlas.data.dataset import Dataset
from robustatlas.data.folders import ClassOrder
from robustatlas.data.formats import read_cifar_binary, read_cifar_pickle, read_idx, read_npz
from robustatlas.data.on_disk import CIFAR10, CIFAR100, PictureOptions, load_on_disk
from robustatlas.data.pictures import Sizing
from robustatlas.data.unpacked import UNPACKED

Split = Literal["test", "train"]

_DIGITS = tuple("0123456789")
_CLOTHES = ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
_SYSTEM_FOLDER = Path("/usr/share/datasets")


class _Source(Protocol):
    @property
    def classes(self) -> tuple[str, ...]: ...
    @property
    def folders(self) -> tuple[str, ...]: ...
    def find(self, root: Path, split: Split) -> Dataset | None: ...
    def fetch(self, folder: Path, split: Split) -> None: ...


@dataclass(frozen=True)
class _Idx:
    """MNIST or a data set in its format: IDX files, compressed or not."""

    name: str
    classes: tuple[str, ...]
    folders: tuple[str, ...]
    address: str
    md5: dict[str, str]

    def _files(self, split: Split) -> tuple[str, str]:
        prefix = "t10k" if split == "test" else "train"
        return f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-labels-idx1-ubyte.gz"

    def find(self, root: Path, split: Split) -> Dataset | None:
        for folder in self.folders:
            for suffix in (".gz", ""):
                images, labels = (root / folder / name.removesuffix(".gz") for name in self._files(split))
                pair = images.with_name(images.name + suffix), labels.with_name(labels.name + suffix)
                if all(path.is_file() for path in pair):
                    return Dataset.from_arrays(read_idx(pair[0]), read_idx(pair[1]), self.name, self.classes)
        return None

    def fetch(self, folder: Path, split: Split) -> None:
        for name in self._files(split):
            download(f"{self.address}/{name}", folder / self.folders[0] / name, self.md5[name])


@dataclass(frozen=True)
class _Cifar:
    """CIFAR-10 or CIFAR-100, in the binary or in the Python version.

    The binary version has ``labels`` bytes of labels for each image, of which the last is used. The Python version has
    files in the folder ``pickled``; ``pickles`` gives the md5 of each, by split.
    """

    name: str
    classes: tuple[str, ...]
    folder: str
    test: tuple[str, ...]
    train: tuple[str, ...]
    address: str
    md5: str
    pickled: str
    pickles: Mapping[Split, Mapping[str, str]]
    labels: int = 1

    @property
    def folders(self) -> tuple[str, ...]:
        return self.folder, self.pickled

    def _files(self, split: Split) -> tuple[str, ...]:
        return self.test if split == "test" else self.train

    def find(self, root: Path, split: Split) -> Dataset | None:
        paths = [root / self.folder / name for name in self._files(split)]
        if all(path.is_file() for path in paths):
            return Dataset.from_arrays(*read_cifar_binary(paths, self.labels), self.name, self.classes)
        pickles = {root / self.pickled / name: md5 for name, md5 in self.pickles[split].items()}
        if all(path.is_file() for path in pickles):
            parts = [read_cifar_pickle(path, md5) for path, md5 in pickles.items()]
            images, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
            return Dataset.from_arrays(images, labels, self.name, self.classes)
        return None

    def fetch(self, folder: Path, split: Split) -> None:
        members = [f"{self.folder}/{name}" for name in [*self._files("train"), *self._files("test")]]
        download_members(self.address, folder, members, self.md5)


_SOURCES: dict[str, _Source] = {
    "mnist": _Idx(
        "mnist",
        _DIGITS,
        ("MNIST/raw", "mnist", "MNIST"),
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        {
            "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
    ),
    "fashion-mnist": _Idx(
        "fashion-mnist",
        _CLOTHES,
        ("FashionMNIST/raw", "fashion-mnist", "FashionMNIST"),
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        {
            "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
        },
    ),
    "cifar10": _Cifar(
        "cifar10",
        CIFAR10,
        "cifar-10-batches-bin",
        ("test_batch.bin",),
        tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d87530",
        "cifar-10-batches-py",
        {
            "test": {"test_batch": "40351d587109b95175f43aff81a1287e"},
            "train": {
                "data_batch_1": "c99cafc152244af753f735de768cd75f",
                "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
                "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
                "data_batch_4": "634d18415352ddfa80567beed471001a",
                "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            },
        },
    ),
    "cifar100": _Cifar(
        "cifar100",
        CIFAR100,
        "cifar-100-binary",
        ("test.bin",),
        ("train.bin",),
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "03b5dce01913d631647c71ecec9e9cb8",
        "cifar-100-python",
        {
            "test": {"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
            "train": {"train": "16019d7e3df5f24257cddd939b257f8d"},
        },
        labels=2,
    ),
}


def dataset_names() -> tuple[str, ...]:
    """Return the names that :func:`load_dataset` knows.

    Returns:
        the names, in the order of its documentation.

    Example:
        >>> "digits" in dataset_names()
        True
    """
    return ("digits", *_SOURCES, "imagenet", "imagenet100", *UNPACKED)


def load_dataset(
    name: str | Path,
    split: Split = "test",
    *,
    resize: int | None = None,
    crop: int | None = None,
    channels: int | None = None,
    classes: int | Sequence[str] | None = None,
) -> Dataset:
    """Load a data set by name, from a file, or from a folder.

    ===========================  =======================================================================================
    ``digits``, ``mnist``, ...   one of :func:`dataset_names`, see below
    ``FILE.npz``                 arrays ``images`` and ``labels`` (and perhaps ``classes``)
    ``FILE.npy``                 images; labels in ``FILE_labels.npy`` or ``labels.npy`` in its folder
    ``imagefolder:FOLDER``       a folder of pictures for each class
    ``hf:FOLDER``                a data set of Hugging Face on disk (``save_to_disk``, or the hub's Parquet files)
    ``cifar10-c/KIND/SEVERITY``  CIFAR-10-C, such as ``cifar10-c/fog/3``; also ``cifar100-c`` and ``imagenet-c``
    ``cifar-10-batches-py``      a folder with this name, anywhere (also ``cifar-100-python``, the binary versions)
    ``imagenet-c-100/...``       the classes of ImageNet-100 of ImageNet-C
    ``imagenet``                 the validation images in class folders; ``imagenet100``: every tenth class of it
    ``tiny-imagenet``, ...       the unpacked archives of Tiny ImageNet, ``gtsrb`` and ``har``
    ===========================  =======================================================================================

    Class folders are numbered in the order of ``classes``. Without ``classes``, folders named by integers have these
    numbers, from 0, or from 1 if all of 1, 2, ... exist; others are numbered in the order of their names. Pictures with
    more than 8 bits keep their precision; transparency is ignored.

    Pictures in folders, and arrays in ``.npy`` and uncompressed ``.npz`` files, stay on disk until they are used.

    ``digits`` is bundled: 1,797 handwritten digits of 8x8 pixels (E. Alpaydin and C. Kaynak, UCI machine learning
    repository, 1998; the edition of scikit-learn), here 1,197 for training and 600 for testing.

    ``mnist``, ``fashion-mnist``, ``cifar10`` and ``cifar100`` are searched in the folder named by the environment
    variable ROBUSTATLAS_DATA, in the folder of earlier downloads (~/.cache/robustatlas) and in /usr/share/datasets: as
    NAME_SPLIT.npz, in the layouts of torchvision, or as IDX files, compressed or not. If they are in none, they are
    downloaded from their publisher and checked. The Python version of CIFAR-10 and CIFAR-100 (``cifar-10-batches-py``,
    ``cifar-100-python``) is pickled: only numbers and texts are read from it, and code that it names is never run.

    Args:
        name: one of the above. Files and folders of pictures have no splits: all of their images are loaded.
        split: "test" or "train".
        resize, crop: bring pictures to one size: the shorter side to ``resize`` pixels, then the middle of ``crop``
            pixels (for ``imagenet``: 256 and 224).
        channels: of pictures, 1 or 3; default: 1 if the pictures are grey, else 3.
        classes: for ``imagefolder:``, the names of all classes in the order of their numbers; some may have no folder.
            Or the number of classes, which decides if folders named by numbers begin with 0 or with 1.

    Returns:
        the images in [0, 1], with their labels and the names of the classes.

    Raises:
        UserError: unknown name, files that are missing and cannot be downloaded, damaged files, images or labels out
            of range, class folders whose order is unknown, a folder of splits.

    Example:
        >>> data = load_dataset("digits")
        >>> data.images.shape, len(load_dataset("digits", "train"))
        (torch.Size([600, 1, 8, 8]), 1197)
    """
    if split not in ("test", "train"):
        raise UserError(f"The split must be 'test' or 'train', not {split!r}.")
    sizing = Sizing(*(_parse_pixels(what, value) for what, value in (("resize", resize), ("crop", crop))))
    options = PictureOptions(sizing, _parse_channels(channels), _parse_classes(classes))
    place = parse_path(name, "the name of a data set, or the file or folder of one")
    on_disk = load_on_disk(str(name), split, options, _search_folders())
    if on_disk is not None:
        return on_disk
    options.check_unused(str(name))
    if name == "digits":
        return _load_digits(split)
    source = _SOURCES.get(str(name))
    if source is None and place.is_dir():
        return _load_published_folder(place, split)
    if source is None:
        known = f"give {', '.join(dataset_names())}, a file FILE.npz or FILE.npy, imagefolder:FOLDER or hf:FOLDER"
        raise UserError(f"Unknown data set {str(name)!r}{suggestion(str(name).lower(), dataset_names(), known)}")
    return _find_or_fetch(str(name), source, split)


def _parse_pixels(what: str, value: object) -> int | None:
    count = integer_or_none(value)
    if value is not None and (count is None or count < 1):
        raise UserError(f"{what}={value!r}; expected a number of pixels of at least 1.")
    return count


def _parse_channels(channels: object) -> int | None:
    count = integer_or_none(channels)
    if channels is not None and count not in (1, 3):
        raise UserError(f"channels={channels!r}; expected 1 or 3.")
    return count


def _parse_classes(classes: int | Sequence[str] | None) -> ClassOrder:
    count = integer_or_none(classes)
    if classes is None or isinstance(classes, int) or count is not None:
        return ClassOrder(count=count)
    names = [classes] if isinstance(classes, str) else [str(name) for name in classes]
    if len(names) < 2 or len(set(names)) < len(names):
        raise UserError(
            f"classes={shorten(repr(classes))}; expected at least two names, each once, or how many there are."
        )
    return ClassOrder(tuple(names))


def _load_digits(split: Split) -> Dataset:
    with resources.files(__package__).joinpath("digits.npz").open("rb") as file, np.load(file) as archive:
        in_split = archive["is_test"] == (split == "test")
        images = archive["images"][in_split].astype(np.float32) / 16
        return Dataset.from_arrays(images, archive["labels"][in_split], "digits", _DIGITS)


def _load_published_folder(folder: Path, split: Split) -> Dataset:
    """Load a data set from a folder that still has its published name."""
    place = folder.resolve()
    for source in _SOURCES.values():
        if place.name in source.folders and (found := source.find(place.parent, split)) is not None:
            return found
    raise UserError(
        f"{shorten(str(folder))} is a folder; give imagefolder:{folder} where it holds a folder of pictures for each "
        f"class, hf:{folder} where it is a data set of Hugging Face, or the name of a data set in it with "
        f"ROBUSTATLAS_DATA={folder}."
    )


def _search_folders() -> list[Path]:
    given = os.environ.get("ROBUSTATLAS_DATA")
    return [*([parse_path(given)] if given else []), cache_folder(), _SYSTEM_FOLDER]


def _find_or_fetch(name: str, source: _Source, split: Split) -> Dataset:
    roots = _search_folders()
    found = _find(name, source, roots, split)
    if found is None:
        try:
            source.fetch(cache_folder(), split)
        except UserError as error:
            raise UserError(
                f"Data set {name!r} ({split}) is neither in {', '.join(map(str, roots))} "
                f"nor to be downloaded ({str(error).rstrip('.')}). "
                f"Put {name}_{split}.npz or the original files into a folder and set ROBUSTATLAS_DATA to it."
            ) from error
        found = _find(name, source, [cache_folder()], split)
    if found is None:
        raise UserError(f"Data set {name!r} was downloaded to {cache_folder()} but cannot be found there.")
    return found


def _find(name: str, source: _Source, roots: Sequence[Path], split: Split) -> Dataset | None:
    for root in roots:
        archive = root / f"{name}_{split}.npz"
        if archive.is_file():
            images, labels, _ = read_npz(archive)
            return Dataset.from_arrays(images, labels, name, source.classes)
        found = source.find(root, split)
        if found is not None:
            return found
    return None


_TIMEOUT_SECONDS = 20.0


def download(address: str, path: Path, md5: str) -> None:
    """Download ``address`` to ``path``, with a progress bar on standard error.

    Raises:
        UserError: the address cannot be reached, or the file has another MD5.
    """
    with (
        explain_write_errors(path),
        Progress(console=Console(stderr=True, highlight=False), transient=True) as progress,
    ):
        bar = _Bar(progress, progress.add_task(path.name))
        fetch = pooch.HTTPDownloader(progressbar=bar, timeout=_TIMEOUT_SECONDS)
        try:
            pooch.retrieve(address, f"md5:{md5}", path.name, path.parent, downloader=fetch)
        except RequestException as error:
            raise UserError(f"{address} cannot be reached: {_describe_failure(error)}.") from error
        except ValueError as error:
            raise UserError(f"{address} is not the file that it was: its MD5 is not {md5}; try again later.") from error


class _Bar:
    """Progress bar with the interface that pooch expects."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self.progress, self.task, self.total = progress, task, 0

    def update(self, count: int) -> None:
        self.progress.update(self.task, advance=count, total=self.total or None)

    def reset(self) -> None:
        self.progress.reset(self.task)

    def close(self) -> None:
        pass


def _describe_failure(error: RequestException) -> str:
    if error.response is not None:
        return f"{error.response.status_code} {error.response.reason}"
    cause = error.args[0] if error.args else error
    return str(getattr(cause, "reason", cause)).splitlines()[0].rstrip(".")


def download_members(address: str, folder: Path, members: Sequence[str], md5: str) -> None:
    """Download the archive at ``address`` and extract its regular files ``members`` below ``folder``."""
    archive = folder / Path(address).name
    download(address, archive, md5)
    with tarfile.open(archive) as files:
        for member in members:
            content = files.extractfile(member)
            if content is None:
                raise UserError(f"{address} holds no file {member}.")
            write_atomically(folder / member, functools.partial(_write_bytes, content.read()))
    archive.unlink()


def _write_bytes(content: bytes, path: Path) -> None:
    path.write_bytes(content)
