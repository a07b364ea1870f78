"""A folder full of things that go wrong, for the table of mistakes."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

import outcomes_examples as examples
from robustatlas.outcomes.tables import read_parquet, write_parquet

NET = """
import torch
from torch import nn

def make(bits=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

def wrong_width():
    return nn.Sequential(nn.Flatten(), nn.Linear(65, 10))

def one_class():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 1))

def odd_normalisation():
    return make(), "mean", "std"

class Broken(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.linear, self.value = nn.Linear(64, 10), value

    def forward(self, x):
        return self.value(self.linear(x.flatten(1)))

def gives_nan():
    return Broken(lambda logits: logits * float("nan"))

def gives_text():
    return Broken(lambda logits: "cat")

def fails_in_forward():
    return Broken(lambda logits: 1 / 0)

def complex_numbers():
    return Broken(lambda logits: logits.to(torch.complex64))

def sparse():
    return Broken(lambda logits: logits.to_sparse())

def meta():
    return Broken(lambda logits: logits.to("meta"))

def empty_pair():
    return Broken(lambda logits: ())

def none_first():
    return Broken(lambda logits: (None, logits))

def half():
    return Broken(lambda logits: logits.half())

def double_pair():
    return Broken(lambda logits: (logits.double(), "more"))
"""

ATTACKS = """
import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named

NUMBER = 3
MINE = attack_named("pgd-linf")

def fails():
    raise RuntimeError("not today")

def gives_number():
    return 3
"""


def build(folder: Path) -> None:
    """Fill ``folder``: models, attacks, weights, data, runs, references and notes, most of them bad."""
    texts = {
        "net.py": NET,
        "own.py": ATTACKS,
        "syntax.py": "def make(:\n",
        "exits.py": "raise ValueError('at import')\n",
        "text.safetensors": "not weights",
        "text.pt": "not weights",
        "leaves.py": "import sys\nsys.exit(3)\n",
        "text.npz": "not an archive",
        "empty.npz": "",
        "text.json": "{",
        "list.json": "[1, 2]",
        "twice.json": '{"a": 1, "a": 2}',
        "about-unknown.json": json.dumps({"net": {"colour": "red"}}),
        "about-type.json": json.dumps({"net": {"trained_on": {"linf": "weak"}}}),
        "about-negative.json": json.dumps({"net": {"trained_on": {"linf": -1}}}),
        "about-nan.json": '{"net": {"trained_on": {"linf": NaN}}}',
        "reference-empty.json": "{}",
        "reference-type.json": json.dumps({"name": "r", "description": "d", "accuracies": 3, "ranked": ["linf"]}),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "latin.json").write_bytes(b'{"a": "\xff"}')
    (folder / "folder").mkdir()
    (folder / "folder" / "file.txt").write_text("mine")
    torch.save({"weight": torch.zeros(3)}, folder / "other.pt")
    torch.save({"weight": Path("objects")}, folder / "objects.pt")
    _arrays(folder)
    _runs(folder)


def _arrays(folder: Path) -> None:
    images, labels = np.zeros((3, 1, 8, 8), np.float32), np.array([0, 1, 2])
    drawn = np.random.default_rng(0).random((3, 1, 8, 8)).astype(np.float32)
    white = np.where(drawn > 0.9, np.float32(1), drawn)
    for name, arrays in {
        "bright": {"images": images + 200, "labels": labels},
        "negative": {"images": images - 1, "labels": labels},
        "nan": {"images": images + np.nan, "labels": labels},
        "integers": {"images": images.astype(np.int64), "labels": labels},
        "objects": {"images": images, "labels": np.array([{}, 1, 2], object)},
        "no-labels": {"images": images},
        "few-labels": {"images": images, "labels": labels[:2]},
        "real-labels": {"images": images, "labels": labels / 2},
        "negative-labels": {"images": images, "labels": labels - 1},
        "table-labels": {"images": images, "labels": labels[:, None]},
        "large-labels": {"images": images, "labels": labels + 9},
        "no-images": {"images": images[:0], "labels": labels[:0]},
        "flat": {"images": images[:, 0, 0, 0], "labels": labels},
        "words": {"images": np.array(["a", "b", "c"]), "labels": labels},
        "strange-classes": {"images": images, "labels": labels, "classes": np.array(["cat"])},
        "bits": {"images": (drawn > 0.5).astype(np.uint8), "labels": labels},
        "truths": {"images": drawn > 0.5, "labels": labels},
        "infinite": {"images": np.where(drawn > 0.9, np.inf, drawn), "labels": labels},
        "complex": {"images": drawn.astype(np.complex64), "labels": labels},
        "above": {"images": white + np.float32(0.001), "labels": labels},
        "scalar": {"images": np.float32(1), "labels": np.int64(0)},
        "dates": {"images": drawn, "labels": labels.astype("datetime64[s]")},
        "huge-labels": {"images": drawn, "labels": np.array([0, 1, 2**62])},
        "no-width": {"images": drawn[..., :0], "labels": labels},
        "rounded": {
            "images": np.where(white == 1, np.nextafter(np.float32(1), np.float32(2)), white),
            "labels": labels,
        },
        "half-precision": {"images": drawn.astype(np.float16), "labels": labels},
        "fortran": {"images": np.asfortranarray(drawn), "labels": labels},
        "foreign-bytes": {"images": drawn.astype(">f4"), "labels": labels.astype(">i8")},
        "unsigned-labels": {"images": drawn, "labels": labels.astype(np.uint64)},
    }.items():
        np.savez(folder / f"{name}.npz", **arrays)  # type: ignore[arg-type]
    for name, array in {
        "mapped-bits": (drawn > 0.5).astype(np.uint8),
        "mapped-objects": np.array([{}], object),
    }.items():
        np.save(folder / f"{name}.npy", array)
        np.save(folder / f"{name}_labels.npy", labels)


def _runs(folder: Path) -> None:
    examples.fill(examples.begin(folder / "run"))
    examples.begin(folder / "begun")
    examples.fill(examples.begin(folder / "other-model", weights_sha256="fedcba"))
    for name in (
        "newer",
        "no-format",
        "cut",
        "binary",
        "extra",
        "absurd",
        "hostile",
        "nan-strengths",
        "damaged",
        "swapped",
    ):
        shutil.copytree(folder / "run", folder / name)
    _edit(folder / "newer" / "run.json", format_version=99)
    _edit(folder / "no-format" / "run.json", format_version="new")
    _edit(folder / "extra" / "run.json", surprise=1)
    (folder / "cut" / "run.json").write_text('{"format_version": 1, "model"')
    (folder / "binary" / "run.json").write_bytes(b"\xff\xfe\x00")
    _edit(next((folder / "absurd" / "plans").iterdir()), spans=[[0, 10**15]])
    _edit(next((folder / "hostile" / "attacks").iterdir()), name="../../etc/passwd")
    _edit(next((folder / "nan-strengths" / "attacks").iterdir()), strengths=["NaN", 0.2])
    for part in (folder / "damaged" / "outcomes").rglob("*.parquet"):
        part.write_bytes(part.read_bytes()[:100])
    for part in (folder / "swapped" / "samples").rglob("*.parquet"):
        part.unlink()
    shutil.copytree(folder / "run", folder / "painted")
    content = json.loads((folder / "painted" / "run.json").read_text())
    content["model"]["name"] = "net\x1b[31m[bold]red\x07"
    (folder / "painted" / "run.json").write_text(json.dumps(content))

    _more_runs(folder)


def _more_runs(folder: Path) -> None:
    """Runs of which one file is not what it should be."""
    bare = {"name": "n"}
    identities = {
        "no-content": "",
        "null": "null",
        "a-list": "[]",
        "deep": "[" * 100_000,
        "format-0": {"format_version": 0},
        "format-true": {"format_version": True},
        "format-real": {"format_version": 1.0},
        "model-text": {"format_version": 1, "model": "net", "data": bare},
        "ragged-probe": {"format_version": 1, "model": bare | {"probe": [[1, 2], [3]]}, "data": bare},
    }
    for name, content in identities.items():
        (folder / name).mkdir()
        (folder / name / "run.json").write_text(content if isinstance(content, str) else json.dumps(content))
    files: dict[str, tuple[str, dict[str, Any]]] = {
        "attack-list": ("attacks", {}),
        "attack-extra": ("attacks", {"surprise": 1}),
        "attack-order": ("attacks", {"strengths": [0.4, 0.2, 0.1]}),
        "attack-huge": ("attacks", {"strengths": [0.1, 0.2, 1e300]}),
        "attack-monotone": ("attacks", {"monotone": "perhaps"}),
        "plan-back": ("plans", {"spans": [[7, 3]]}),
        "plan-twice": ("plans", {"spans": [[0, 5], [3, 7]]}),
        "plan-many": ("plans", {"spans": [[0, 10**9]]}),
        "plan-text": ("plans", {"spans": "all"}),
    }
    for name, (kind, changes) in files.items():
        shutil.copytree(folder / "run", folder / name)
        path = next((folder / name / kind).iterdir())
        if changes:
            _edit(path, **changes)
        else:
            path.write_text("[]")
    shutil.copytree(folder / "run", folder / "no-rows")
    for part in (folder / "no-rows" / "outcomes").rglob("*.parquet"):
        columns = read_parquet(part)
        part.unlink()
        write_parquet(part, {name: values[:0] for name, values in columns.items()})


def _edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """When each file was written last, and its length; quickly, as it is asked a thousand times."""
    found = {}
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            found |= contents(Path(entry.path)) if entry.name != "__pycache__" else {}
        elif entry.is_file():
            found[entry.path] = (entry.stat().st_mtime_ns, entry.stat().st_size)
    return found
