"""Mistakes of every kind, over all commands and functions: one sentence, an exit code, and nothing written or lost."""

from __future__ import annotations

import copy
import os
import random
import shlex
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

import bad_inputs
import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named
from robustatlas.cli import main
from robustatlas.drop_in import AutoAttack
from robustatlas.evaluation import forecast
from robustatlas.evaluation.until import evaluate_until
from robustatlas.models.classifier import seeded
from robustatlas.training import Settings
from robustatlas.training.callbacks import watch
from robustatlas.training.references import ReferencePlan, make_reference

LONG = "x" * 300
EVALUATE = "evaluate net.py:make --data digits --run out --samples 4 "
OTHER_DATA = "evaluate net.py:make --run out --data "
OTHER_MODEL = "evaluate --data digits --run out --samples 4 "

SENTENCES = [  # what is typed, and a word of the sentence that answers
    # Everyday changes, borders and pixels
    (EVALUATE + "--attacks jpeg-quality --strengths jpeg-quality=10,90", "falling numbers below 100"),
    (EVALUATE + "--attacks jpeg-quality --strengths jpeg-quality=100", "falling numbers below 100"),
    (EVALUATE + "--attacks jpeg-quality --strengths jpeg-quality=0.5", "give at least 1"),
    (EVALUATE + "--attacks rotation --strengths rotation=200", "at most 180"),
    (EVALUATE + "--attacks rotation --border white", "reflect"),
    (EVALUATE + "--attacks linf --border black", "none among linf"),
    (EVALUATE + "--attacks linf --pixels 16bit", "8bit"),
    (EVALUATE + "--attacks linf --pixels 8bit", "Give images as they are in their files"),
    (EVALUATE + "--attacks saturation-percent", "RGB"),
    ("check run --require typical-linf@0.1>=50", "everyday changes"),
    ("check run --require typical-nothing@0.1>=50", "nothing"),
    ("report run --require clean>90", "is not understood"),
    ("report run --require rotation@10>=90", "was not evaluated with"),
    # The model
    (OTHER_MODEL + "net.py:missing", "missing"),
    (OTHER_MODEL + "net.py:mkae", "did you mean 'make'"),
    (OTHER_MODEL + "nowhere.py:make", "nowhere.py"),
    (OTHER_MODEL + "net.py", "function"),
    (OTHER_MODEL + "net.py:", "function"),
    (OTHER_MODEL + "''", "function"),
    (OTHER_MODEL + "builtin:nothing", "nothing"),
    (OTHER_MODEL + "not.a.module:make", "not.a.module"),
    (OTHER_MODEL + "syntax.py:make", "syntax.py"),
    (OTHER_MODEL + "imports.py:make", "nowhere_to_be_found"),
    (OTHER_MODEL + "exits.py:make", "at import"),
    (OTHER_MODEL + "net.py:nothing", "nn.Module"),
    (OTHER_MODEL + "net.py:pair", "nn.Module"),
    (OTHER_MODEL + "net.py:odd_normalisation", "mean"),
    (OTHER_MODEL + "net.py:fails", "such"),
    (OTHER_MODEL + "net.py:needs", "--set size"),
    (OTHER_MODEL + "net.py:wrong_width", "shape"),
    (OTHER_MODEL + "net.py:one_class", "2 classes"),
    (OTHER_MODEL + "net.py:three_classes", "3 classes"),
    (OTHER_MODEL + "net.py:gives_nan", "NaN"),
    (OTHER_MODEL + "net.py:gives_text", "str"),
    (OTHER_MODEL + "net.py:gives_map", "logits"),
    (OTHER_MODEL + "net.py:fails_in_forward", "ZeroDivisionError"),
    (OTHER_MODEL + "folder:make", "folder"),
    (OTHER_MODEL + "net.py:complex_numbers", "complex64"),
    (OTHER_MODEL + "net.py:sparse", "sparse"),
    (OTHER_MODEL + "net.py:meta", "meta"),
    (OTHER_MODEL + "net.py:empty_pair", "tuple"),
    (OTHER_MODEL + "net.py:none_first", "NoneType"),
    (OTHER_MODEL + "leaves.py:make", "SystemExit"),
    (OTHER_MODEL + LONG + ".py:make", "255 bytes"),
    (EVALUATE + "--weights nowhere.safetensors", "nowhere.safetensors"),
    (EVALUATE + "--weights text.safetensors", "text.safetensors"),
    (EVALUATE + "--weights text.pt", "text.pt"),
    (EVALUATE + "--weights objects.pt", "pickled"),
    (EVALUATE + "--weights other.pt", "weight"),
    (EVALUATE + "--weights folder", "folder"),
    (EVALUATE + f"--weights {LONG}.pt", "255 bytes"),
    (EVALUATE + "--set bits", "NAME=VALUE"),
    (EVALUATE + "--set colour=red", "bits"),
    (EVALUATE + "--set bits=1 --set bits=2", "twice"),
    (EVALUATE + "--set '=3'", "NAME=VALUE"),
    (EVALUATE + "--mean grey", "grey"),
    (EVALUATE + "--mean 0.5,", "0.49,0.48,0.45"),
    (EVALUATE + "--mean nan", "nan"),
    (EVALUATE + "--std 0", "std"),
    (EVALUATE + "--std 1/0", "1/0"),
    (EVALUATE + "--mean 0.1,0.2,0.3,0.4", "mean"),
    (EVALUATE + "--name ''", "--name"),
    (EVALUATE + "--device tpu9", "tpu9"),
    (EVALUATE + "--device cuda:77", "cuda:77"),
    (EVALUATE + "--precision int4", "int4"),
    # The data
    (OTHER_DATA + "nonsense", "nonsense"),
    (OTHER_DATA + "CIFAR-10", "did you mean 'cifar10'"),
    (OTHER_DATA + "''", "data set"),
    (OTHER_DATA + "nowhere.npz", "nowhere.npz"),
    (OTHER_DATA + "text.npz", "text.npz"),
    (OTHER_DATA + "empty.npz", "empty.npz"),
    (OTHER_DATA + "folder", "folder"),
    (OTHER_DATA + "bright.npz", "[0, 1]"),
    (OTHER_DATA + "negative.npz", "[0, 1]"),
    (OTHER_DATA + "nan.npz", "NaN"),
    (OTHER_DATA + "integers.npz", "int64"),
    (OTHER_DATA + "objects.npz", "pickled"),
    (OTHER_DATA + "no-labels.npz", "labels"),
    (OTHER_DATA + "few-labels.npz", "2 labels"),
    (OTHER_DATA + "real-labels.npz", "integers"),
    (OTHER_DATA + "negative-labels.npz", "-1"),
    (OTHER_DATA + "table-labels.npz", "(3, 1)"),
    (OTHER_DATA + "large-labels.npz", "10 classes"),
    (OTHER_DATA + "no-images.npz", "non-empty"),
    (OTHER_DATA + "flat.npz", "shape"),
    (OTHER_DATA + "words.npz", "[N, ...]"),
    (OTHER_DATA + "strange-classes.npz", "1 classes"),
    (OTHER_DATA + "bits.npz", "is 1 white"),
    (OTHER_DATA + "truths.npz", "is 1 white"),
    (OTHER_DATA + "whole-bits.npz", "is 1 white"),
    (OTHER_DATA + "mapped-bits.npy", "is 1 white"),
    (OTHER_DATA + "mapped-objects.npy", "pickled"),
    (OTHER_DATA + "infinite.npz", "infinite"),
    (OTHER_DATA + "complex.npz", "complex64"),
    (OTHER_DATA + "above.npz", "clip"),
    (OTHER_DATA + "scalar.npz", "non-empty"),
    (OTHER_DATA + "dates.npz", "datetime64"),
    (OTHER_DATA + "huge-labels.npz", "1,000,000 classes"),
    (OTHER_DATA + "no-width.npz", "non-empty"),
    (OTHER_DATA + f"{LONG}.npz", "255 bytes"),
    (OTHER_DATA + f"imagefolder:{LONG}", "255 bytes"),
    (OTHER_DATA + "digits --samples 100000", "600"),
    # The attacks
    (EVALUATE + "--attacks lymph", "lymph"),
    (EVALUATE + "--attacks lnif", "did you mean 'linf'"),
    (EVALUATE + "--attacks LINF", "did you mean 'linf'"),
    (EVALUATE + "--attacks gaussian_noise", "corruption-gaussian-noise"),
    (EVALUATE + "--attacks multirobustbnch", "did you mean 'multirobustbench'"),
    (EVALUATE + "--attacks linf,linf", "twice"),
    (EVALUATE + "--attacks ,", "attacks"),
    (EVALUATE + "--attacks hue", "RGB"),
    (EVALUATE + "--attacks linf+", "There is no attack"),
    (EVALUATE + "--attacks linf+lq", "lq"),
    (EVALUATE + "--attacks 'l\x1b[31minf'", "There is no attack"),
    (EVALUATE + "--attacks '[bold]linf[/bold]'", "[bold]"),
    (EVALUATE + "--attacks nowhere.py:MINE", "nowhere.py"),
    (EVALUATE + "--attacks own.py:MINNE", "did you mean 'MINE'"),
    (EVALUATE + "--attacks own.py:NUMBER", "int"),
    (EVALUATE + "--attacks own.py:fails", "not today"),
    (EVALUATE + "--attacks own.py:gives_number", "int"),
    (EVALUATE + "--attacks own.py:", "has no"),
    (EVALUATE + "--attacks syntax.py:MINE", "syntax.py"),
    (EVALUATE + "--exclude fog", "fog"),
    (EVALUATE + "--exclude lnif", "did you mean 'linf'"),
    (EVALUATE + "--exclude linf,l2", "left out"),
    (EVALUATE + "--features alexnet=nowhere.pt", "lpips"),
    (EVALUATE + "--attacks lpips --features alexnet=nowhere.pt", "nowhere.pt"),
    (EVALUATE + "--attacks lpips --features resnet=other.pt", "resnet"),
    (EVALUATE + "--attacks lpips --features alexnet", "ARCHITECTURE=FILE"),
    (EVALUATE + "--attacks lpips --features alexnet=text.pt", "text.pt"),
    (EVALUATE + "--attacks lpips --features alexnet=other.pt", "alexnet"),
    (EVALUATE + "--search guess", "guess"),
    (EVALUATE + "--attacks corruption-fog --search descent", "descent"),
    (EVALUATE + "--protocol guess", "guess"),
    (EVALUATE + "--strengths linf", "linf"),
    (EVALUATE + "--strengths linf=", "not understood"),
    (EVALUATE + "--strengths =0.1", "not understood"),
    (EVALUATE + "--strengths linf=much", "much"),
    (EVALUATE + "--strengths linf=8/0", "8/0"),
    (EVALUATE + "--strengths linf=0.2,0.1", "increasing"),
    (EVALUATE + "--strengths linf=0.1,0.1", "increasing"),
    (EVALUATE + "--strengths linf=-0.1", "not understood"),
    (EVALUATE + "--strengths linf=nan", "not understood"),
    (EVALUATE + "--strengths linf=inf:3", "not understood"),
    (EVALUATE + "--strengths linf=0.1:0", "10,000"),
    (EVALUATE + "--strengths linf=0.1:2.5", "not understood"),
    (EVALUATE + "--strengths linf=0.1:99999999", "10,000"),
    (EVALUATE + "--strengths linf=1e300", "at most 1e+12"),
    (EVALUATE + "--strengths linf=0.1,1e39", "at most 1e+12"),
    (EVALUATE + f"--strengths linf=1{'0' * 400}", "not understood"),
    (EVALUATE + "--strengths l1=0.2", "l1"),
    (EVALUATE + "--strengths lnif=0.2", "did you mean 'linf'"),
    (EVALUATE + "--strengths linf=0.1 --strengths linf=0.2", "twice"),
    (EVALUATE + "--seed 99999999999999999999", "64 bits"),
    # Folders
    (EVALUATE.replace("out", "net.py/sub"), "net.py"),
    (EVALUATE.replace("out", "folder"), "not a run"),
    (EVALUATE.replace("out", "run"), "another evaluation"),
    (EVALUATE.replace("out", LONG), "255 bytes"),
    (EVALUATE.replace("out", "old-empty"), "format 1"),
    (EVALUATE.replace("out", "newer"), "newer"),
    (EVALUATE.replace("out", "cut"), "complete JSON"),
    # Reading runs
    *[
        (f"{command} {run}", said)
        for command in ("show", "compare run", "report", "leaderboard build", "query 'SELECT 1'", "merge -o joined")
        for run, said in (
            ("nowhere", "nowhere"),
            ("folder", "not a run"),
            ("newer", "newer"),
            ("no-format", "format_version"),
            ("cut", "complete JSON"),
            ("binary", "binary"),
            ("extra", "surprise"),
        )
    ],
    *[
        (f"{command} {run}", said)
        for command in ("show", "report", "query 'SELECT 1'", "leaderboard build", "compare run")
        for run, said in (
            ("begun", "no finished samples"),
            ("absurd", "spans"),
            ("hostile", "name"),
            ("nan-strengths", "strengths"),
            ("swapped", "samples"),
        )
    ],
    *[
        (f"{command} {run}", said)
        for command in ("show", "leaderboard build")
        for run, said in (
            ("no-content", "complete JSON"),
            ("null", "no JSON object"),
            ("a-list", "no JSON object"),
            ("deep", "complete JSON"),
            ("format-0", "format_version"),
            ("format-true", "format_version"),
            ("format-real", "format_version"),
            ("model-text", "model"),
            ("ragged-probe", "probe"),
            ("old-empty", "evaluate anew"),
            ("attack-list", "object"),
            ("attack-extra", "surprise"),
            ("attack-order", "increasing"),
            ("attack-huge", "1e+12"),
            ("attack-monotone", "monotone"),
            ("plan-back", "spans"),
            ("plan-twice", "spans"),
            ("plan-many", "spans"),
            ("plan-text", "spans"),
            ("no-rows", "no finished samples"),
            (LONG, "255 bytes"),
            ("-- -run", "is not a run"),
        )
    ],
    *[
        (f"merge -o joined {run}", said)
        for run, said in (
            ("null", "no JSON object"),
            ("absurd", "spans"),
            ("hostile", "name"),
            ("nan-strengths", "strengths"),
            ("attack-order", "increasing"),
            ("plan-twice", "spans"),
        )
    ],
    ("merge old-empty -o joined", "format 1, which was never released"),
    ("merge old-text -o joined", "format 1, which was never released"),
    ("merge deep -o joined", "complete JSON"),
    ("query \"COPY outcomes TO 'run/outcomes/more.parquet'\" run", "--unrestricted"),
    ("query \"SELECT * FROM 'run/run.json'\" run", "--unrestricted"),
    ("query \"ATTACH 'new.db'\" run", "--unrestricted"),
    ("query 'SET enable_external_access = true' run", "locked"),
    ("query 'LOAD httpfs' run", "--unrestricted"),
    ("show damaged", "no finished samples"),
    ("show run --json --csv", "one of them"),
    ("show run --latex --csv", "one of them"),
    ("show run --headline linf", "--headline"),
    ("evaluate net.py:make --data digits --headline linf", "such as linf@8/255,l2@0.5"),
    ("evaluate net.py:make --data digits --attacks linf --headline lnif@8/255", "did you mean 'linf'?"),
    ("evaluate net.py:make --data digits --attacks linf --headline linf@8", "for 8 of 255 give 8/255"),
    (
        "evaluate net.py:make --data digits --attacks corruption-fog --headline corruption-fog@2.5",
        "give one of 1, 2, 3",
    ),
    ("evaluate net.py:make --data digits --attacks linf --any-of 2 --headline linf@0.1", "leave one of them out"),
    ("evaluate net.py:make --data digits --workers none", "--workers none"),
    ("evaluate net.py:make --data digits --workers 0", "--workers 0"),
    ("show run --headline fog@1", "--headline names 'fog'"),
    ("show run --headline linf@9", "--headline linf@9 is beyond"),
    ("check run --require clean>=1 --headline fog@1", "--headline names 'fog'"),
    ("report run --headline linf@8/0", "--headline"),
    ("cite folder", "not a run"),
    ("cite run -o locked/methods.bib", "locked"),
    ("cite run --reference nowhere", "nowhere"),
    ("figure folder", "not a run"),
    ("figure run -o curves.exe", ".pdf"),
    ("figure run -o net.py/curves.pdf", "net.py"),
    ("figure run --attacks fog", "The runs share no attack fog"),
    ("study nowhere.toml", "nowhere.toml"),
    ("study text.json", "TOML"),
    ("study uar --size vast --out studied", "vast"),
    ("study uar --size tiny --out net.py", "net.py"),
    ("compare run other-model --json --latex", "one of them"),
    ("compare run other-model --headline fog@1", "--headline names 'fog'"),
    ("show run --union linf", "--union"),
    ("show run --union linf=0", "--union"),
    ("show run --union fog=0.1", "fog"),
    ("show run --trained-on linf=8/0", "--trained-on"),
    ("show run --trained-on linf=1,linf=2", "--trained-on"),
    ("show run --reference nowhere.json", "nowhere.json"),
    ("show run --reference text.json", "JSON"),
    ("show run --reference latin.json", "JSON"),
    ("show run --reference list.json", "reference is an object"),
    ("show run --reference twice.json", "twice"),
    ("show run --reference reference-empty.json", "missing"),
    ("show run --reference reference-type.json", "accuracies"),
    ("compare run", "two"),
    ("compare run run", "twice"),
    ("merge run other-model -o joined", "weights"),
    ("merge run -o folder", "not a run"),
    ("merge run -o net.py", "net.py"),
    ("query 'SELEC 1' run", "SQL"),
    ("query 'SELECT nothing FROM outcomes' run", "nothing"),
    ("query 'SELECT * FROM nowhere' run", "nowhere"),
    ("query '' run", "SQL"),
    ("report run --about text.json", "JSON"),
    ("report run --about list.json", "list.json"),
    ("report run --about about-unknown.json", "colour"),
    ("report run --about about-type.json", "weak"),
    ("report run --about about-negative.json", "linf"),
    ("report run --about about-nan.json", "linf"),
    ("report run --data nonsense", "nonsense"),
    ("report run -o folder", "folder"),
    ("report run -o net.py/report.html", "net.py"),
    ("report run -o locked/report.html", "locked"),
    ("report run run run run run run", "1 to 5"),
    ("leaderboard build run --reference nowhere", "nowhere"),
    ("leaderboard bild", "bild"),
    ("leaderboard build -o net.py", "net.py"),
    ("leaderboard build -o locked/site", "locked"),
    ("leaderboard build --about about-unknown.json", "colour"),
    ("leaderboard build --reference nowhere", "nowhere"),
    ("leaderboard serve folder", "no leaderboard"),
    # The other commands
    ("attacks fgo", "fog"),
    ("attacks [bold]", "There is no attack"),
    ("gallery net.py:make --data digits --attacks fgo", "fog"),
    ("gallery net.py:make --data digits --attacks hue", "fits"),
    ("gallery net.py:make --data digits --sample 99999", "99999"),
    ("gallery net.py:make --data digits -o gallery.exe", ".png"),
    ("gallery net.py:missing --data digits", "missing"),
    ("distances nonsense", "nonsense"),
    ("distances digits --norm l3", "l3"),
    ("distances digits --samples 1", "at least 2"),
    ("distances digits --split valid", "valid"),
    ("distances digits --samples 20 -o nowhere/d.npz", "nowhere"),
    ("distances digits --samples 20 -o locked/d.npz", "locked"),
    ("distances nan.npz", "NaN"),
]


def _at_other_doors() -> Iterator[tuple[str, str]]:
    """The models and data that ``evaluate`` refuses, at the other commands that take such."""
    for line, said in SENTENCES:
        if line.startswith(OTHER_MODEL):
            for door in ("certify --data digits --run out --samples 4 ", "diagnose --data digits --samples 4 "):
                yield door + line.removeprefix(OTHER_MODEL), said
        given = line.removeprefix(OTHER_DATA)
        if given != line and "--samples" not in given:
            yield "certify net.py:make --run out --data " + given, said
            yield "diagnose net.py:make --data " + given, said
            if given != "large-labels.npz":  # a reference trains networks of as many classes as the data have
                yield "reference digits-cnn --strengths linf=0.1 --out out --data " + given, said


SENTENCES += [
    *_at_other_doors(),
    ("certify net.py:make --run out --data digits --samples 100000", "600"),
    ("reference digits-cnn --strengths linf=0.1 --out out --data digits --samples 100000", "600"),
    (EVALUATE.replace("out", "run"), "--run DIR"),
    ("certify net.py:make --data digits --samples 4 --run run", "--run DIR"),
]

USAGE = [  # what typer itself refuses
    "evaluate",
    "evaluate net.py:make",
    "evaluate net.py:make --data digits --samples none",
    "evaluate net.py:make --data digits --samples 0",
    "evaluate net.py:make --data digits --batch-size 0",
    "evaluate net.py:make --data digits --shard-size -1",
    "evaluate net.py:make --data digits --threads 0",
    "evaluate net.py:make --data digits --seed one",
    "evaluate net.py:make --data digits --nonsense",
    "shwo run",
    "show",
    "query",
    "merge run",
    "gallery net.py:make --data digits --columns 99",
    "leaderboard serve --port 99999",
]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    bad_inputs.build(folder)
    (folder / "locked").mkdir()
    return folder


@pytest.fixture
def here(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(workplace)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("ROBUSTATLAS_DATA", str(workplace / "nowhere"))
    return workplace


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """When each file was written last, and its length; quickly, as it is asked a thousand times."""
    found = {}
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            found |= contents(Path(entry.path)) if entry.name != "__pycache__" else {}
        elif entry.is_file():
            found[entry.path] = (entry.stat().st_mtime_ns, entry.stat().st_size)
    return found


def typed(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and standard error of a command."""
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(line))
    code = ended.value.code
    assert isinstance(code, int)
    return code, capsys.readouterr().err


def is_plain(text: str) -> bool:
    return not any(unicodedata.category(char) in ("Cc", "Cf", "Cs") for char in text.replace("\n", ""))


def test_the_table_is_long() -> None:
    assert len(SENTENCES) + len(USAGE) + len(CALLS) + len(SAME) >= 400


@pytest.mark.parametrize(("line", "said"), SENTENCES, ids=[line for line, _ in SENTENCES])
def test_a_mistake_gets_a_sentence(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, said: str
) -> None:
    before = contents(here)
    if "locked" in line:
        _lock(monkeypatch)
    code, err = typed(line, capsys)
    sentences = [text for text in err.splitlines() if not text.startswith("Warning: ")]
    assert code == 1
    assert len(sentences) == 1 and sentences[0].startswith("Error: ")
    assert said in err
    assert "Traceback" not in err and "pydantic" not in err and "input_value" not in err
    assert is_plain(err)
    assert contents(here) == before


def _lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be written below ``locked``, as on a full disk (tests may run as a user who may write anywhere)."""

    def refuse(self: Path, *arguments: Any, **options: Any) -> Any:
        if "locked" in self.parts and any(flag in str(arguments[:1]) for flag in "wxa"):
            raise OSError(28, os.strerror(28))
        return path_open(self, *arguments, **options)

    def make(self: Path, *arguments: Any, **options: Any) -> None:
        if "locked" in self.parts[:-1]:
            raise OSError(30, os.strerror(30))
        mkdir(self, *arguments, **options)

    path_open, mkdir = Path.open, Path.mkdir
    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Path, "mkdir", make)
    monkeypatch.setattr(Path, "write_text", lambda self, text, **options: refuse(self, "w").write(text))


@pytest.mark.parametrize("line", USAGE)
def test_usage(here: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    before = contents(here)
    code, err = typed(line, capsys)
    assert code == 2
    assert "Traceback" not in err
    assert contents(here) == before


@pytest.mark.parametrize("command", ["show", "show --json", "show --csv", "report -o painted.html", "merge -o both",
                                     "query 'SELECT model FROM runs'", "compare run"])  # fmt: skip
def test_names_of_strangers_never_reach_the_terminal(
    here: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    name, *rest = shlex.split(command)
    with pytest.raises(SystemExit) as ended:
        main([name, *rest, "painted"])
    said = capsys.readouterr()
    assert not ended.value.code
    assert is_plain(said.out) and is_plain(said.err)


with seeded(3, torch.device("cpu")):
    NET = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    IMAGES, LABELS = torch.rand(5, 1, 2, 2), torch.tensor([0, 1, 2, 0, 1])
    IMAGES[0, 0, 0] = torch.tensor([0.0, 1.0])


def evaluate(**changes: Any) -> Any:
    given: dict[str, Any] = {"model": NET, "data": (IMAGES, LABELS), "attacks": "linf"}
    return ra.evaluate(**(given | changes))


STATISTICS = {"mean": ra.metrics.mean_statistic(np.ones(3))}
TABLE = ra.metrics.AccuracyTable(90, {"linf": {0.1: 60, 0.2: 40}})


def result() -> ra.Result:
    return ra.Result.from_arrays([0, 1], [0, 1], {"linf": [0.1, np.inf]}, {"linf": [0.1, 0.2]})


CALLS: list[tuple[str, Callable[[], Any]]] = [
    ("model", lambda: evaluate(model=3)),
    ("model", lambda: evaluate(model=None)),
    ("model", lambda: evaluate(model="builtin:digits-linf")),
    ("returned", lambda: evaluate(model=lambda x: "cat")),
    ("failed", lambda: evaluate(model=lambda x: 1 / 0)),
    ("returned", lambda: evaluate(model=lambda x: None)),
    ("data", lambda: evaluate(data=None)),
    ("data", lambda: evaluate(data=3)),
    ("data", lambda: evaluate(data=IMAGES)),
    ("data", lambda: evaluate(data=("images", "labels"))),
    ("data", lambda: evaluate(data=(None, None))),
    ("shape", lambda: evaluate(data=(3, 4))),
    ("shape", lambda: evaluate(data=(IMAGES, LABELS[:2]))),
    ("no samples", lambda: evaluate(data=(IMAGES[:0], LABELS[:0]))),
    ("255", lambda: evaluate(data=((IMAGES * 255).long(), LABELS))),
    ("[0, 1]", lambda: evaluate(data=(IMAGES * 255, LABELS))),
    ("[0, 1]", lambda: evaluate(data=(IMAGES - 1, LABELS))),
    ("NaN", lambda: evaluate(data=(IMAGES * torch.nan, LABELS))),
    ("integers", lambda: evaluate(data=(IMAGES, LABELS.float()))),
    ("integers", lambda: evaluate(data=(IMAGES, LABELS - 1))),
    ("classes", lambda: evaluate(data=(IMAGES, LABELS + 9))),
    ("attacks", lambda: evaluate(attacks=3)),
    ("attacks", lambda: evaluate(attacks=True)),
    ("attacks", lambda: evaluate(attacks=[])),
    ("attacks", lambda: evaluate(attacks=[3])),
    ("attacks", lambda: evaluate(attacks={"linf": 0.1})),
    ("attacks", lambda: evaluate(attacks=b"linf")),
    ("did you mean 'linf'", lambda: evaluate(attacks="lnif")),
    ("twice", lambda: evaluate(attacks=["linf", "linf"])),
    ("search", lambda: evaluate(search="guess")),
    ("search", lambda: evaluate(search=3)),
    ("protocol", lambda: evaluate(protocol=None)),
    ("strengths", lambda: evaluate(strengths=[0.1, 0.2])),
    ("strengths", lambda: evaluate(strengths=0.1)),
    ("strengths", lambda: evaluate(strengths={"linf": "much"})),
    ("strengths", lambda: evaluate(strengths={"linf": None})),
    ("strengths", lambda: evaluate(strengths={"linf": [0.2, 0.1]})),
    ("strengths", lambda: evaluate(strengths={"linf": [np.nan]})),
    ("Strengths", lambda: evaluate(strengths={3: [0.1]})),
    ("samples", lambda: evaluate(samples="all")),
    ("samples", lambda: evaluate(samples=0)),
    ("samples", lambda: evaluate(samples=6)),
    ("samples", lambda: evaluate(samples=2.5)),
    ("samples", lambda: evaluate(samples=True)),
    ("samples", lambda: evaluate(samples=[])),
    ("samples", lambda: evaluate(samples=[7])),
    ("samples", lambda: evaluate(samples=[0, [1, 2]])),
    ("twice", lambda: evaluate(samples=[1, 1])),
    ("mask", lambda: evaluate(samples=np.ones(3, bool))),
    ("seed", lambda: evaluate(seed="a")),
    ("seed", lambda: evaluate(seed=None)),
    ("seed", lambda: evaluate(seed=1.5)),
    ("seed", lambda: evaluate(seed=2**70)),
    ("run", lambda: evaluate(run=3)),
    ("run", lambda: evaluate(run="")),
    ("batch_size", lambda: evaluate(batch_size=0)),
    ("batch_size", lambda: evaluate(batch_size="all")),
    ("batch_size", lambda: evaluate(batch_size=True)),
    ("shard_size", lambda: evaluate(shard_size=-1)),
    ("shard_size", lambda: evaluate(shard_size=2.5)),
    ("exclude", lambda: evaluate(exclude="linf")),
    ("exclude", lambda: evaluate(exclude=3)),
    ("left out", lambda: evaluate(exclude=["fog"])),
    ("left out", lambda: evaluate(exclude=[3])),
    ("keep_adversarial", lambda: evaluate(keep_adversarial="yes")),
    ("progress", lambda: evaluate(progress="yes")),
    ("cuda:77", lambda: ra.Classifier(NET, device="cuda:77")),
    ("device", lambda: ra.Classifier(NET, device="nonsense")),
    ("precision", lambda: ra.Classifier(NET, precision="int4")),  # type: ignore[arg-type]
    ("mean", lambda: ra.Classifier(NET, mean="grey")),  # type: ignore[arg-type]
    ("std", lambda: ra.Classifier(NET, std=0.0)),
    ("name", lambda: ra.load_model(NET)),  # type: ignore[arg-type]
    ("nothing", lambda: ra.load_model("builtin:nothing")),
    ("bits", lambda: ra.load_model("net.py:make", arguments={"colour": 1})),
    ("nonsense", lambda: ra.load_dataset("nonsense")),
    ("split", lambda: ra.load_dataset("digits", "valid")),  # type: ignore[arg-type]
    ("samples", lambda: ra.load_dataset("digits").take(0)),
    ("samples", lambda: ra.load_dataset("digits").take(2.5)),  # type: ignore[arg-type]
    ("samples", lambda: ra.load_dataset("digits").take(True)),
    ("pixels", lambda: ra.load_dataset("digits", resize=2.5)),  # type: ignore[arg-type]
    ("data set", lambda: ra.load_dataset(3)),  # type: ignore[arg-type]
    ("255 bytes", lambda: ra.load_dataset("x" * 300 + ".npz")),
    ("255 bytes", lambda: ra.load_result("x" * 300)),
    ("255 bytes", lambda: ra.load_result("a\0b")),
    ("UTF-8", lambda: ra.load_result("\udcff")),
    ("run", lambda: ra.load_result(3)),  # type: ignore[arg-type]
    ("reference", lambda: ra.load_reference(None)),  # type: ignore[arg-type]
    ("weights", lambda: ra.load_model("builtin:digits-linf", weights=3)),  # type: ignore[arg-type]
    ("arguments", lambda: ra.load_model("builtin:digits-linf", arguments=3)),  # type: ignore[arg-type]
    ("UTF-8", lambda: evaluate(run="\udcff")),
    ("255 bytes", lambda: evaluate(run="a\0b")),
    ("seed", lambda: evaluate(seed=np.float64(3))),
    ("seed", lambda: evaluate(seed=np.True_)),
    ("64 bits", lambda: evaluate(seed=np.uint64(2**64 - 1))),
    ("batch_size", lambda: evaluate(batch_size=np.float32(2))),
    ("batch_size", lambda: evaluate(batch_size=np.int64(0))),
    ("workers", lambda: evaluate(workers=2.0)),
    ("samples", lambda: evaluate(samples=np.float64(2))),
    ("samples", lambda: evaluate(samples={1, 2})),
    ("part", lambda: evaluate(part=(0.5, 2))),
    ("part", lambda: evaluate(part=(np.inf, 2))),
    ("part", lambda: evaluate(part=(True, 2))),
    ("part", lambda: evaluate(part=3)),
    ("1e+12", lambda: evaluate(strengths={"linf": [1e300]})),
    ("1e+12", lambda: evaluate(strengths={"linf": [0.1, np.float64(1e39)]})),
    ("strengths", lambda: evaluate(strengths={"linf": [2**2000]})),
    ("strengths", lambda: evaluate(strengths={"linf": [True]})),
    ("strengths", lambda: evaluate(strengths={"linf": [0.1 + 1j]})),
    ("strengths", lambda: evaluate(strengths={"linf": [[0.1, 0.2]]})),
    ("1e+12", lambda: evaluate(attacks=replace(attack_named("linf"), strengths=(1e300,)))),
    ("increasing", lambda: replace(attack_named("linf"), strengths=(0.2, 0.1))),
    ("no strengths", lambda: replace(attack_named("linf"), strengths=())),
    ("name", lambda: replace(attack_named("linf"), name="../linf")),
    ("name", lambda: ra.compose(3, 4)),  # type: ignore[arg-type]
    ("strengths", lambda: ra.compose("linf", "l2", strengths=[1e300, 1])),
    ("not an array", lambda: evaluate(data=(IMAGES.numpy().astype(object), LABELS))),
    ("not an array", lambda: evaluate(data=([[1.0], [1.0, 2.0]], [0, 1]))),
    ("not an array", lambda: evaluate(data=(IMAGES, LABELS.numpy().astype(str)))),
    ("masked", lambda: evaluate(data=(np.ma.masked_array(IMAGES.numpy(), IMAGES.numpy() > 0.5), LABELS))),
    ("meta", lambda: evaluate(data=(IMAGES.to("meta"), LABELS))),
    ("complex64", lambda: evaluate(data=(IMAGES.to(torch.complex64), LABELS))),
    ("no pixels", lambda: evaluate(data=(IMAGES[..., :0], LABELS))),
    ("is 1 white", lambda: evaluate(data=((IMAGES > 0.5).byte(), LABELS))),
    ("is 1 white", lambda: evaluate(data=(IMAGES > 0.5, LABELS))),
    ("is 1 white", lambda: ra.Dataset.of((IMAGES > 0.5).byte(), LABELS)),
    ("is 1 white", lambda: evaluate(data=torch.utils.data.TensorDataset((IMAGES > 0.5).byte(), LABELS))),
    ("clip", lambda: evaluate(data=(IMAGES + 0.05, LABELS))),
    ("prepare", lambda: evaluate(model=ra.Classifier(NET, prepare=lambda x: x.numpy()))),  # type: ignore[arg-type, return-value]
    ("complex64", lambda: evaluate(model=lambda x: NET(x).to(torch.complex64))),
    ("sparse", lambda: evaluate(model=lambda x: NET(x).to_sparse())),
    ("shape", lambda: evaluate(model=lambda x: NET(x)[None])),
    ("draws", lambda: ra.Classifier(NET, draws=np.float64(3))),  # type: ignore[arg-type]
    ("draws", lambda: ra.Classifier(NET, draws=True)),
    ("threshold", lambda: ra.Classifier(NET, draws=3, threshold="half")),  # type: ignore[arg-type]
    ("batch_size", lambda: ra.Classifier(NET, batch_size=2.5)),  # type: ignore[arg-type]
    ("outputs", lambda: ra.Classifier(NET, outputs=["logits"])),  # type: ignore[arg-type]
    ("device", lambda: ra.Classifier(NET, device=2.5)),  # type: ignore[arg-type]
    ("budget", lambda: forecast(NET, (IMAGES, LABELS), "linf", budget=np.nan)),
    ("budget", lambda: ra.from_predictions(len, budget="all")),  # type: ignore[arg-type]
    ("per_second", lambda: ra.from_predictions(len, per_second=np.nan)),
    ("classes", lambda: ra.from_predictions(len, "labels", classes=2.5)),  # type: ignore[arg-type]
    ("confidence", lambda: result().curve("linf").band("95%")),  # type: ignore[arg-type]
    ("sizes", lambda: result().curve("linf").at("large")),
    ("shares", lambda: result().curve("linf").quantile("half")),
    ("area", lambda: result().curve("linf").area("a")),  # type: ignore[arg-type]
    ("strength", lambda: result().survivors({"linf": "a"})),  # type: ignore[dict-item]
    ("strength", lambda: result().survivors(["linf"])),  # type: ignore[arg-type]
    ("strengths", lambda: result().restrict({"linf": "a"})),
    ("alpha", lambda: ra.metrics.stability_constant(TABLE, TABLE, {"linf": 0.1}, alpha="3")),  # type: ignore[arg-type]
    ("training strength", lambda: ra.metrics.stability_constant(TABLE, TABLE, {"linf": "a"})),  # type: ignore[dict-item]
    ("trained_on", lambda: ra.metrics.percent_seen(TABLE, TABLE, ["linf"])),  # type: ignore[arg-type]
    ("result.accuracies()", lambda: ra.metrics.competitiveness_ratio(result(), TABLE)),  # type: ignore[arg-type]
    ("margins", lambda: ra.metrics.adversarial_hypervolume([[0.5], [0.2, 0.1]])),
    (
        "replicates",
        lambda: ra.metrics.bootstrap_intervals({"a": ra.metrics.mean_statistic(np.ones(3))}, replicates=1.5),
    ),  # type: ignore[arg-type]
    ("epochs", lambda: Settings(epochs=1.5)),  # type: ignore[arg-type]
    ("learning_rate", lambda: Settings(learning_rate=np.nan)),
    ("net", lambda: ra.train(len, ra.load_dataset("digits"))),  # type: ignore[arg-type]
    ("data", lambda: ra.train(NET, (IMAGES, LABELS))),  # type: ignore[arg-type]
    ("nowhere", lambda: ra.load_result("nowhere")),
    ("fog", lambda: ra.load_result("run", ["fog"])),
    ("nowhere", lambda: ra.load_reference("nowhere")),
    ("cannot be read", lambda: ra.load_result("other-archive").adversarial("linf")),
    ("l7", lambda: result().minimal_size("l7")),
    ("l7", lambda: result().curve("l7")),
    ("keep_adversarial", lambda: result().adversarial("linf")),
    ("sizes", lambda: ra.Result.from_arrays([0], [0], {"linf": [-1.0]}, {"linf": [0.1]})),
    ("l7", lambda: ra.compose("linf", "l7")),
    ("strengths", lambda: ra.compose("linf", "l2", strengths=[0.1])),
    ("not valid", lambda: attack_named("corruption-fog").searched_by("descent")),
]


@pytest.mark.parametrize(("said", "call"), CALLS, ids=[f"{number}-{said}" for number, (said, _) in enumerate(CALLS)])
def test_a_call_gets_a_sentence(here: Path, said: str, call: Callable[[], Any]) -> None:
    before = contents(here)
    with pytest.raises(ra.UserError) as caught:
        call()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert contents(here) == before


ARRAY, POSITIONS = IMAGES.numpy(), LABELS.numpy()


def flipped(array: Any) -> Any:
    """The same numbers, as a view with negative strides."""
    return np.ascontiguousarray(array[..., ::-1])[..., ::-1]


def read_only(array: Any) -> Any:
    array = array.copy()
    array.setflags(write=False)
    return array


def mapped(array: Any) -> Any:
    np.save("mapped.npy", array)
    return np.load("mapped.npy", mmap_mode="r")


SAME: list[tuple[str, Callable[[], dict[str, Any]]]] = [  # what a reasonable person expects to work
    ("seed of NumPy", lambda: {"seed": np.int64(0)}),
    ("seed of 8 bits", lambda: {"seed": np.uint8(0)}),
    ("seed in an array", lambda: {"seed": np.array(0)}),
    ("seed in a tensor", lambda: {"seed": torch.tensor(0)}),
    ("batch size of NumPy", lambda: {"batch_size": np.int64(2)}),
    ("shard size of NumPy", lambda: {"shard_size": np.int32(2)}),
    ("workers of NumPy", lambda: {"workers": np.int64(1)}),
    ("samples of NumPy", lambda: {"samples": np.int64(5)}),
    ("samples as a range", lambda: {"samples": range(5)}),
    ("part of NumPy", lambda: {"part": (np.int64(0), np.int64(1))}),
    ("flags of NumPy", lambda: {"keep_adversarial": np.False_, "progress": np.False_}),
    ("strengths in an array", lambda: {"strengths": {"linf": np.array([0.2, 0.4])}}),
    ("strengths back to front", lambda: {"strengths": {"linf": np.array([0.4, 0.2])[::-1]}}),
    ("strengths in a tensor", lambda: {"strengths": {"linf": torch.tensor([0.2, 0.4], dtype=torch.float64)}}),
    ("strengths of a graph", lambda: {"strengths": {"linf": torch.tensor([0.2, 0.4]).double().requires_grad_()}}),
    ("flipped images", lambda: {"data": (flipped(ARRAY), POSITIONS)}),
    ("flipped labels", lambda: {"data": (ARRAY, flipped(POSITIONS))}),
    ("Fortran order", lambda: {"data": (np.asfortranarray(ARRAY), POSITIONS)}),
    ("read-only", lambda: {"data": (read_only(ARRAY), read_only(POSITIONS))}),
    ("memory-mapped", lambda: {"data": (mapped(ARRAY), POSITIONS)}),
    ("foreign bytes", lambda: {"data": (ARRAY.astype(">f4"), POSITIONS.astype(">i8"))}),
    ("lists", lambda: {"data": (ARRAY.tolist(), POSITIONS.tolist())}),
    ("a list of arrays", lambda: {"data": (list(ARRAY), list(POSITIONS))}),
    ("sparse images", lambda: {"data": (IMAGES.to_sparse(), LABELS)}),
    ("images of a graph", lambda: {"data": (IMAGES.clone().requires_grad_(), LABELS)}),
    ("unsigned labels", lambda: {"data": (ARRAY, POSITIONS.astype(np.uint64))}),
    ("labels of 16 bits", lambda: {"data": (ARRAY, POSITIONS.astype(np.uint16))}),
    ("flipped in a data set", lambda: {"data": ra.Dataset.of(flipped(ARRAY), flipped(POSITIONS))}),
    ("a tuple of outputs", lambda: {"model": lambda x: (NET(x), "more")}),
    ("outputs in a dict", lambda: {"model": lambda x: {"logits": NET(x)}}),
    ("batch size of the model", lambda: {"model": ra.Classifier(NET, batch_size=np.int64(1))}),  # type: ignore[arg-type]
]


USUAL: dict[str, Any] = {"strengths": {"linf": [0.2, 0.4]}, "effort": "low"}


@pytest.fixture(scope="module")
def expected() -> NDArray[np.float64]:
    return evaluate(**USUAL).minimal_size("linf")


@pytest.mark.parametrize("given", [given for _, given in SAME], ids=[name for name, _ in SAME])
def test_what_says_the_same_finds_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: NDArray[np.float64], given: Callable[[], dict[str, Any]]
) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = evaluate(**(USUAL | given())).minimal_size("linf")
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("data", ["half-precision", "fortran", "foreign-bytes", "unsigned-labels", "rounded"])
@pytest.mark.parametrize("model", ["make", "half", "double_pair"])
def test_unusual_files_and_outputs_are_evaluated(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], data: str, model: str
) -> None:
    line = f"evaluate net.py:{model} --data {data}.npz --attacks linf --strengths linf=0.1 --run {tmp_path}/run"
    code, err = typed(line, capsys)
    assert code == 0
    assert ("1.00000012" in err) == (data == "rounded")


def test_images_beyond_the_edge_by_rounding_are_clamped_with_a_word() -> None:
    images = IMAGES.clone()
    images[0, 0, 0] = torch.tensor([1.0, 0.0])
    expected = evaluate(data=(images, LABELS)).minimal_size("linf")
    images[0, 0, 0] = torch.tensor([1.0000001, -1e-8])
    for data in ((images, LABELS), ra.Dataset, torch.utils.data.TensorDataset(images, LABELS)):
        with pytest.warns(UserWarning, match="1.00000012"):
            given = data.of(images, LABELS) if data is ra.Dataset else data
            found = evaluate(data=given).minimal_size("linf")
        np.testing.assert_array_equal(found, expected)
    assert float(images.max()) > 1  # the user's own stay as they are


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_evaluations_work_where_gradients_are_off(mode: Any) -> None:
    expected = evaluate(samples=3).minimal_size("linf")
    with mode():
        found = evaluate(samples=3).minimal_size("linf")
    np.testing.assert_array_equal(found, expected)


def test_a_builtin_model_leaves_random_numbers_alone() -> None:
    def states() -> tuple[list[int], str, object]:
        return torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()  # noqa: NPY002

    before = states()
    ra.load_model("builtin:digits-l2")
    assert states() == before


def test_numbers_of_numpy_train_and_measure(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    data = ra.load_dataset("digits", "train").take(np.int64(60))  # type: ignore[arg-type]
    settings = Settings(batch_size=np.int64(20), held_out=np.int64(10), learning_rate=np.float32(0.01))  # type: ignore[arg-type]
    given: Any = {"epochs": np.int64(1), "seed": np.int64(3), "against": {"linf": np.float32(0.05)}}
    trained = ra.train(net, data, "pgd", settings=settings, out=tmp_path / "t", progress=False, **given)
    assert trained.card.trained_on["linf"] == pytest.approx(0.05)
    table = ra.metrics.AccuracyTable(80, {"linf": {0.1: 50, 0.2: 10}})
    constants = [
        ra.metrics.stability_constant(table, TABLE, {"linf": kind(0.5)}, alpha=kind(30), floor=kind(0)).value
        for kind in (float, np.float32, np.float64)
    ]
    assert constants[0] == constants[1] == constants[2]
    curve = result().curve("linf")
    np.testing.assert_allclose(curve.band(np.float32(0.9)).high, curve.band(0.9).high, rtol=1e-6)  # type: ignore[arg-type]
    model = ra.Classifier(NET, draws=np.int64(2), threshold=np.float32(0.5))  # type: ignore[arg-type]
    assert evaluate(model=model, samples=2).samples == 2


# --- doors x inputs


def _autoattack(method: str) -> Callable[..., Any]:
    def door(model: Any, data: Any, batch_size: Any = 4, seed: Any = 0) -> Any:
        kind = {"version": "custom", "attacks_to_run": ["apgd-ce"], "device": "cpu", "verbose": False, "fast": True}
        adversary = AutoAttack(model, eps=0.1, seed=seed, **kind)
        adversary.apgd.n_iter = 2
        return getattr(adversary, method)(*data, bs=batch_size)

    return door


def _foolbox(model: Any, data: Any, **options: Any) -> Any:
    foolbox = pytest.importorskip("foolbox")
    bounded = foolbox.PyTorchModel(model.eval(), bounds=(0, 1), device="cpu")
    return ra.as_foolbox("linf", **options)(bounded, *data, epsilons=0.1)


def _watched(model: Any, data: Any, **options: Any) -> Any:
    """A look raises nothing: what it warns of counts as what it says."""
    strengths = {"linf": [0.1]}
    with TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        numbers = watch(data, "linf", share=None, folder=folder, strengths=strengths, **options)(model, epoch=1)
    if not numbers:
        raise ra.UserError(next(str(each.message) for each in said if "failed (UserError: " in str(each.message)))
    return numbers


def _trained(model: Any, data: Any, batch_size: Any = 4, seed: Any = 0) -> Any:
    settings = Settings(epochs=1, held_out=0, batch_size=batch_size, seed=seed)
    return ra.train(model, ra.Dataset.of(*data), settings=settings, progress=False, device="cpu")


def _referred(model: Any, data: Any, batch_size: Any = 4, seed: Any = 0) -> Any:
    settings = Settings(epochs=1, held_out=0, batch_size=batch_size, seed=seed)
    plan = ReferencePlan("digits-cnn", {"linf": [0.1]}, steps=1, settings=settings)
    measured = ra.Dataset.of(*data)
    training = ra.Dataset.of(measured.images.flip(-1), measured.labels)
    with TemporaryDirectory() as folder:
        return make_reference(plan, training, measured, f"{folder}/made", progress=False, device="cpu")


def _until(model: Any, data: Any, **options: Any) -> Any:
    return evaluate_until(model, data, "linf", until=49.0, strengths={"linf": [0.1]}, **options)


DOORS: dict[str, Callable[..., Any]] = {
    "evaluate": lambda model, data, **options: evaluate(model=model, data=data, **options),
    "forecast": lambda model, data, **options: forecast(model, data, "linf", budget=0.01, **options),
    "evaluate_until": _until,
    "certify": lambda model, data, **options: ra.certify(model, data, "linf", **options),
    "diagnose": lambda model, data, **options: ra.diagnose(model, data, **options),
    "AutoAttack": _autoattack("run_standard_evaluation"),
    "AutoAttack, each": _autoattack("run_standard_evaluation_individual"),
    "AutoAttack, clean": _autoattack("clean_accuracy"),
    "as_foolbox": _foolbox,
    "as_torchattacks": lambda model, data, **options: ra.as_torchattacks(model, eps=0.1, **options)(*data),
    "watch": _watched,
    "train": _trained,
    "reference": _referred,
}
UNSEEDED = ("AutoAttack, clean",)
UNBATCHED = ("diagnose", "watch")
OWN_NETWORK = ("reference",)

INPUTS: dict[str, tuple[dict[str, Any], str]] = {  # what is given, and what one sentence says of it
    "labels too few": ({"data": (IMAGES, LABELS[:2])}, "2"),
    "one label": ({"data": (IMAGES, LABELS[:1])}, "1"),
    "labels too many": ({"data": (IMAGES[:3], LABELS)}, "5"),
    "one-hot": ({"data": (IMAGES, torch.eye(3)[LABELS].long())}, "(5, 3)"),
    "one-hot as floats": ({"data": (IMAGES, torch.eye(3)[LABELS])}, "(5, 3)"),
    "a column": ({"data": (IMAGES, LABELS[:, None])}, "(5, 1)"),
    "negative labels": ({"data": (IMAGES, LABELS - 1)}, "-1"),
    "real labels": ({"data": (IMAGES, LABELS + 0.5)}, "float32"),
    "no labels": ({"data": (IMAGES, None)}, "abels"),
    "names": ({"data": (IMAGES, ["cat"] * 5)}, "abels"),
    "label C": ({"data": (IMAGES, LABELS + 1)}, "3 classes"),
    "label C alone": ({"data": (IMAGES, torch.full((5,), 3))}, "3 classes"),
    "label C as NumPy": ({"data": (IMAGES.numpy(), LABELS.numpy() + 1)}, "3 classes"),
    "no images": ({"data": (IMAGES[:0], LABELS[:0])}, "no"),
    "no pixels": ({"data": (IMAGES[..., :0], LABELS)}, "(5, 1, 2, 0)"),
    "from -2 to 2": ({"data": (IMAGES * 4 - 2, LABELS)}, "[0, 1]"),
    "from 0 to 255": ({"data": (IMAGES * 255, LABELS)}, "255"),
    "NaN": ({"data": (IMAGES * torch.nan, LABELS)}, "NaN"),
    "images without content": ({"data": (IMAGES.to("meta"), LABELS)}, "meta"),
    "batch size 0": ({"batch_size": 0}, "at least"),
    "batch size -1": ({"batch_size": -1}, "at least"),
    "batch size 2.5": ({"batch_size": 2.5}, "2.5"),
    "a large seed": ({"seed": 2**70}, "64 bits"),
    "a seed of text": ({"seed": "a"}, "seed"),
    "a real seed": ({"seed": 1.5}, "seed"),
    "weights without content": ({"model": nn.Sequential(nn.Flatten(), nn.Linear(4, 3, device="meta"))}, "meta"),
    "weights of NaN": ({"model": lambda: _filled(torch.nan)}, "NaN"),
    "one output": ({"model": nn.Sequential(nn.Flatten(), nn.Linear(4, 1)), "data": (IMAGES, LABELS * 0)}, "classes"),
    "another width": ({"model": nn.Sequential(nn.Flatten(), nn.Linear(5, 3))}, "5x3"),
    "two inputs": ({"model": nn.Bilinear(4, 4, 3)}, "input2"),
}
DATA_OF_CLASSES = ("label C", "label C alone", "label C as NumPy")
"""A reference trains networks of as many classes as the data have."""


def _filled(value: float) -> nn.Module:
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    nn.init.constant_(net[1].weight, value)  # type: ignore[arg-type]
    return net


def _asked(door: str, given: dict[str, Any]) -> dict[str, Any]:
    model = given.get("model", NET)
    model = model() if type(model).__name__ == "function" else model
    return {"data": (IMAGES, LABELS)} | given | {"model": copy.deepcopy(model)}


def _meets(door: str, name: str) -> bool:
    given, _ = INPUTS[name]
    return not (
        ("seed" in given and door in UNSEEDED)
        or ("batch_size" in given and door in UNBATCHED)
        or (door in OWN_NETWORK and ("model" in given or name in DATA_OF_CLASSES))
        or (door == "as_foolbox" and name == "weights without content")  # foolbox itself moves the network
    )


@pytest.mark.parametrize(("door", "name"), [(d, n) for d in DOORS for n in INPUTS if _meets(d, n)])
def test_every_door_says_it_in_a_sentence(door: str, name: str) -> None:
    given, said = INPUTS[name]
    with warnings.catch_warnings(), pytest.raises(ra.UserError) as caught:
        warnings.simplefilter("ignore")
        DOORS[door](**_asked(door, given))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("door", DOORS)
def test_no_door_computes_on_a_device_without_numbers(door: str) -> None:
    torch.set_default_device("meta")
    try:
        with pytest.raises(ra.UserError, match="default device of torch is 'meta'"):
            DOORS[door](**_asked(door, {}))
    finally:
        torch.set_default_device(None)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "given",
    [{"data": (IMAGES.numpy(), POSITIONS)}, {"data": (IMAGES, POSITIONS.astype(np.uint8))}, {"seed": -1}],
    ids=["NumPy", "labels of 8 bits", "seed -1"],
)
def test_every_door_takes_what_evaluate_takes(door: str, given: dict[str, Any]) -> None:
    asked = {} if "seed" in given and door in UNSEEDED else given
    if door == "reference":  # whose networks are too deep for four pixels
        asked = asked | {"data": (np.random.default_rng(0).random((5, 1, 8, 8), np.float32), POSITIONS)}
    assert DOORS[door](**_asked(door, asked)) is not None
