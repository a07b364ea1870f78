"""Bad models, data, attacks, options and runs: each function that reads one names what is wrong, and writes nothing."""

import shlex
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

import robustatlas as ra
from bad_inputs import contents
from command_line import entered
from robustatlas.attacks.suites import resolve_attacks
from robustatlas.attacks.wanted import requested_attacks
from robustatlas.cli._options import parse_attack_strengths, parse_statistic, parse_strengths
from robustatlas.models.settings import parse_settings
from robustatlas.outcomes.merge import merge
from robustatlas.report.facts.rows import read_about

LONG = "x" * 300

MODELS = [  # a source, and what the sentence names
    ("net.py", "function"),
    ("exits.py:make", "at import"),
    ("leaves.py:make", "SystemExit"),
    ("folder:make", "folder"),
    (LONG + ".py:make", "255 bytes"),
    ("net.py:odd_normalisation", "mean"),
]

OUTPUTS = [  # a function of net.py, and what is named once its network is asked
    ("wrong_width", "shape"),
    ("one_class", "2 classes"),
    ("gives_text", "str"),
    ("fails_in_forward", "ZeroDivisionError"),
    ("complex_numbers", "complex64"),
    ("sparse", "sparse"),
    ("meta", "meta"),
    ("empty_pair", "tuple"),
    ("none_first", "NoneType"),
]

WEIGHTS = [
    ("nowhere.safetensors", "nowhere.safetensors"),
    ("text.safetensors", "text.safetensors"),
    ("text.pt", "text.pt"),
    ("objects.pt", "pickled"),
    ("other.pt", "weight"),
    ("folder", "folder"),
]

DATA = [
    ("nonsense", "nonsense"),
    ("CIFAR-10", "did you mean 'cifar10'"),
    ("", "data set"),
    ("nowhere.npz", "nowhere.npz"),
    ("text.npz", "text.npz"),
    ("empty.npz", "empty.npz"),
    ("folder", "folder"),
    (LONG + ".npz", "255 bytes"),
    ("imagefolder:" + LONG, "255 bytes"),
    ("bright.npz", "[0, 1]"),
    ("negative.npz", "[0, 1]"),
    ("nan.npz", "NaN"),
    ("infinite.npz", "infinite"),
    ("integers.npz", "int64"),
    ("complex.npz", "complex64"),
    ("dates.npz", "datetime64"),
    ("words.npz", "[N, ...]"),
    ("objects.npz", "pickled"),
    ("mapped-objects.npy", "pickled"),
    ("no-labels.npz", "labels"),
    ("few-labels.npz", "2 labels"),
    ("real-labels.npz", "integers"),
    ("negative-labels.npz", "-1"),
    ("table-labels.npz", "(3, 1)"),
    ("huge-labels.npz", "1,000,000 classes"),
    ("no-images.npz", "non-empty"),
    ("scalar.npz", "non-empty"),
    ("no-width.npz", "non-empty"),
    ("flat.npz", "shape"),
    ("strange-classes.npz", "1 classes"),
    ("bits.npz", "is 1 white"),
    ("truths.npz", "is 1 white"),
    ("mapped-bits.npy", "is 1 white"),
    ("above.npz", "clip"),
]

ATTACKS = [
    ("lymph", "lymph"),
    ("lnif", "did you mean 'linf'"),
    ("gaussian_noise", "corruption-gaussian-noise"),
    ("multirobustbnch", "did you mean 'multirobustbench'"),
    ("linf+lq", "lq"),
    ("l\x1b[31minf", "There is no attack"),
    ("nowhere.py:MINE", "nowhere.py"),
    ("own.py:MINNE", "did you mean 'MINE'"),
    ("own.py:NUMBER", "int"),
    ("own.py:fails", "not today"),
    ("own.py:gives_number", "int"),
    ("syntax.py:MINE", "syntax.py"),
]

FEATURES = [
    ("alexnet=nowhere.pt", "nowhere.pt"),
    ("resnet=other.pt", "resnet"),
    ("alexnet", "ARCHITECTURE=FILE"),
    ("alexnet=text.pt", "text.pt"),
    ("alexnet=other.pt", "alexnet"),
]

STRENGTHS = [
    ("linf", "linf"),
    ("linf=", "not understood"),
    ("=0.1", "not understood"),
    ("linf=much", "much"),
    ("linf=8/0", "8/0"),
    ("linf=-0.1", "not understood"),
    ("linf=nan", "not understood"),
    ("linf=0.1:0", "10,000"),
    ("linf=0.1:2.5", "not understood"),
    ("linf=0.1:99999999", "10,000"),
    (f"linf=1{'0' * 400}", "not understood"),
]

RUNS = [  # a folder, and what of it is named
    ("nowhere", "nowhere"),
    ("folder", "not a run"),
    (LONG, "255 bytes"),
    ("newer", "newer"),
    ("no-format", "format_version"),
    ("format-0", "format_version"),
    ("format-true", "format_version"),
    ("format-real", "format_version"),
    ("cut", "complete JSON"),
    ("no-content", "complete JSON"),
    ("deep", "complete JSON"),
    ("null", "no JSON object"),
    ("a-list", "no JSON object"),
    ("binary", "binary"),
    ("extra", "surprise"),
    ("model-text", "model"),
    ("ragged-probe", "probe"),
    ("begun", "no finished samples"),
    ("no-rows", "no finished samples"),
    ("damaged", "no finished samples"),
    ("absurd", "spans"),
    ("plan-back", "spans"),
    ("plan-twice", "spans"),
    ("plan-many", "spans"),
    ("plan-text", "spans"),
    ("hostile", "name"),
    ("nan-strengths", "strengths"),
    ("swapped", "samples"),
    ("attack-list", "object"),
    ("attack-extra", "surprise"),
    ("attack-order", "increasing"),
    ("attack-huge", "1e+12"),
    ("attack-monotone", "monotone"),
]

REFERENCES = [
    ("nowhere.json", "nowhere.json"),
    ("text.json", "JSON"),
    ("latin.json", "JSON"),
    ("list.json", "object"),
    ("twice.json", "twice"),
    ("reference-empty.json", "missing"),
    ("reference-type.json", "accuracies"),
]

ABOUT = [
    ("text.json", "JSON"),
    ("list.json", "list.json"),
    ("about-unknown.json", "colour"),
    ("about-type.json", "weak"),
    ("about-negative.json", "linf"),
    ("about-nan.json", "linf"),
]

COMMANDS = [  # what is typed, and what the one sentence names
    ("evaluate net.py:mkae --data digits --run out --samples 4", "make"),
    ("evaluate net.py:gives_nan --data digits --run out --samples 4", "NaN"),
    ("evaluate net.py:make --data nan.npz --run out", "NaN"),
    ("evaluate net.py:make --data digits --run out --samples 100000", "600"),
    ("evaluate net.py:make --data digits --run out --samples 4 --attacks '[bold]linf[/bold]'", "[bold]"),
    ("evaluate net.py:make --data digits --run out --samples 4 --attacks linf --border black", "linf"),
    ("evaluate net.py:make --data digits --run net.py/sub --samples 4", "net.py"),
    ("evaluate net.py:make --data digits --run run --samples 4", "--run DIR"),
    ("certify net.py:make --data large-labels.npz --run out", "10 classes"),
    ("show run --json --csv", "--csv"),
    ("show hostile", "name"),
    ("compare run run", "twice"),
    ("query 'SELECT nothing FROM outcomes' run", "nothing"),
    ("report run -o net.py/report.html", "net.py"),
    ("leaderboard bild", "bild"),
]

USAGE = [  # what typer itself refuses
    "evaluate net.py:make",
    "evaluate net.py:make --data digits --samples 0",
    "evaluate net.py:make --data digits --nonsense",
    "shwo run",
]


def _raise_sentence(call: Callable[[], object], named: str, here: Path) -> None:
    before = contents(here)
    with pytest.raises(ra.UserError) as caught:
        call()
    assert named in str(caught.value) and "\n" not in str(caught.value)
    assert contents(here) == before


@pytest.mark.parametrize(("source", "named"), MODELS)
def test_models(here: Path, source: str, named: str) -> None:
    _raise_sentence(lambda: ra.load_model(source), named, here)


@pytest.mark.parametrize(("function", "named"), OUTPUTS)
def test_outputs_of_models(here: Path, function: str, named: str) -> None:
    model, data = ra.load_model(f"net.py:{function}"), ra.load_dataset("digits")
    _raise_sentence(lambda: ra.evaluate(model, data, "linf", samples=4, run="out", progress=False), named, here)


@pytest.mark.parametrize(("weights", "named"), WEIGHTS)
def test_weights(here: Path, weights: str, named: str) -> None:
    _raise_sentence(lambda: ra.load_model("net.py:make", weights), named, here)


@pytest.mark.parametrize(("name", "named"), DATA)
def test_data(here: Path, name: str, named: str) -> None:
    _raise_sentence(lambda: ra.load_dataset(name), named, here)


@pytest.mark.parametrize(("name", "named"), ATTACKS)
def test_attacks(here: Path, name: str, named: str) -> None:
    _raise_sentence(lambda: resolve_attacks(requested_attacks([name], "default", None), "default"), named, here)


@pytest.mark.parametrize(("features", "named"), FEATURES)
def test_features(here: Path, features: str, named: str) -> None:
    _raise_sentence(lambda: requested_attacks(["lpips"], "default", features), named, here)


@pytest.mark.parametrize(("text", "named"), STRENGTHS)
def test_strengths(here: Path, text: str, named: str) -> None:
    _raise_sentence(lambda: parse_strengths([text]), named, here)


@pytest.mark.parametrize("text", ["linf", "linf=0", "linf=8/0", "linf=1,linf=2"])
def test_strengths_of_one_option(here: Path, text: str) -> None:
    _raise_sentence(lambda: parse_attack_strengths([text], "--union"), "--union", here)


@pytest.mark.parametrize("text", ["grey", "0.5,", "nan", "1/0"])
def test_means(here: Path, text: str) -> None:
    _raise_sentence(lambda: parse_statistic(text, "--mean"), text, here)


@pytest.mark.parametrize(("items", "named"), [(["bits"], "bits"), (["=3"], "=3"), (["bits=1", "bits=2"], "twice")])
def test_settings(here: Path, items: list[str], named: str) -> None:
    _raise_sentence(lambda: parse_settings(items), named, here)


@pytest.mark.parametrize(("run", "named"), RUNS)
def test_runs(here: Path, run: str, named: str) -> None:
    _raise_sentence(lambda: ra.load_result(run), named, here)


def test_runs_of_other_models_are_not_merged(here: Path) -> None:
    _raise_sentence(lambda: merge([Path("run"), Path("other-model")], Path("joined")), "weights", here)


@pytest.mark.parametrize(("path", "named"), REFERENCES)
def test_references(here: Path, path: str, named: str) -> None:
    _raise_sentence(lambda: ra.load_reference(path), named, here)


@pytest.mark.parametrize(("path", "named"), ABOUT)
def test_what_is_said_about_models(here: Path, path: str, named: str) -> None:
    _raise_sentence(lambda: read_about(path), named, here)


def is_plain(text: str) -> bool:
    return not any(unicodedata.category(char) in ("Cc", "Cf", "Cs") for char in text.replace("\n", ""))


@pytest.mark.parametrize(("line", "named"), COMMANDS, ids=[line for line, _ in COMMANDS])
def test_a_command_prints_one_sentence(here: Path, line: str, named: str) -> None:
    before = contents(here)
    err = entered(*shlex.split(line), code=1).err
    (sentence,) = [text for text in err.splitlines() if not text.startswith("Warning: ")]
    assert sentence.startswith("Error: ") and named in sentence
    assert "Traceback" not in err and is_plain(err)
    assert contents(here) == before


@pytest.mark.parametrize("line", USAGE)
def test_usage(here: Path, line: str) -> None:
    before = contents(here)
    assert "Traceback" not in entered(*shlex.split(line), code=2).err
    assert contents(here) == before


@pytest.mark.parametrize("command", ["show", "show --json", "show --csv", "report -o painted.html",
                                     "query 'SELECT model FROM runs'", "compare run"])  # fmt: skip
def test_names_of_strangers_never_reach_the_terminal(here: Path, command: str) -> None:
    said = entered(*shlex.split(command), "painted")
    assert is_plain(said.out) and is_plain(said.err)
