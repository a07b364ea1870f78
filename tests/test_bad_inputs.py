"""Mistakes of every kind, over all commands and functions: one sentence, an exit code, and nothing written or lost."""

import os
import shlex
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bad_inputs import contents
from command_line import entered

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


def is_plain(text: str) -> bool:
    return not any(unicodedata.category(char) in ("Cc", "Cf", "Cs") for char in text.replace("\n", ""))


def test_the_table_is_long() -> None:
    assert len(SENTENCES) + len(USAGE) >= 400


@pytest.mark.parametrize(("line", "said"), SENTENCES, ids=[line for line, _ in SENTENCES])
def test_a_mistake_gets_a_sentence(here: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str) -> None:
    before = contents(here)
    if "locked" in line:
        _lock(monkeypatch)
    err = entered(*shlex.split(line), code=1).err
    sentences = [text for text in err.splitlines() if not text.startswith("Warning: ")]
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
def test_usage(here: Path, line: str) -> None:
    before = contents(here)
    assert "Traceback" not in entered(*shlex.split(line), code=2).err
    assert contents(here) == before


@pytest.mark.parametrize("command", ["show", "show --json", "show --csv", "report -o painted.html", "merge -o both",
                                     "query 'SELECT model FROM runs'", "compare run"])  # fmt: skip
def test_names_of_strangers_never_reach_the_terminal(here: Path, command: str) -> None:
    said = entered(*shlex.split(command), "painted")
    assert is_plain(said.out) and is_plain(said.err)
