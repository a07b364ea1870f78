"""The commands that print metrics: what they say of runs on disk, and that it is what the metrics say."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import robustatlas
import run_files
from robustatlas.cli import main
from robustatlas.cli._options import parse_strength_of
from robustatlas.cli.compare import compare
from robustatlas.cli.distances import distances
from robustatlas.cli.show import chosen_facts, print_facts
from robustatlas.common.errors import UserError
from robustatlas.common.wording import rough
from robustatlas.metrics import (
    AccuracyTable,
    adversarial_hypervolume,
    average_accuracy,
    competitiveness_in_out,
    competitiveness_ratio,
    interclass_distances,
    percent_seen,
    stability_constant,
    uar_matrix,
)
from robustatlas.metrics.references import Reference, load_reference
from robustatlas.report.facts import fitting_reference
from robustatlas.results.result import Result, load_result

GRIDS = {"linf": [0.005 * k for k in range(1, 21)], "l2": [0.125 * k for k in range(1, 21)]}


def write_run(path: Path, name: str, scale: float, samples: int = 400, seed: int = 0, margins: bool = False) -> Path:
    """A run whose minimal sizes are exponential; the same seed draws the same difficulty for every sample."""
    return run_files.write(path, made_up(name, scale, samples, seed, margins))


def made_up(name: str, scale: float, samples: int = 400, seed: int = 0, margins: bool = False, **more: Any) -> Result:
    generator = np.random.default_rng(seed)
    wrong = generator.uniform(size=samples) < 0.1
    labels = np.arange(samples) % 10
    sizes, recorded = {}, {}
    for attack, grid in GRIDS.items():
        size = np.where(wrong, 0.0, scale * generator.exponential(grid[7], samples))
        size[size > grid[-1]] = np.inf
        levels = np.array(grid)[None, :]
        margin = np.where(size[:, None] == 0, -0.2, 0.9 * (1 - levels / np.maximum(size[:, None], 1e-9)))
        recorded[attack] = np.clip(margin, -1, 0.9) if margins else np.full((samples, len(grid)), np.nan)
        sizes[attack] = size
    return Result.from_arrays(
        labels=labels,
        clean_prediction=np.where(wrong, (labels + 1) % 10, labels),
        minimal_size=sizes,
        strengths=GRIDS,
        clean_margin=np.where(wrong, -0.2, 0.9),
        margins=recorded,
        model=name,
        **{"data": "cifar10"} | more,
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [
        write_run(folder / "a", "strong", 1.0, margins=True),
        write_run(folder / "b", "weak", 0.7, margins=True),
    ]


def printed(
    result: Result, explain: bool = False, trained_on: dict[str, float] | None = None, width: int = 80, **options: Any
) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    print_facts(chosen_facts(result, trained_on=trained_on, **options), console, explain=explain, trained_on=trained_on)
    return console.export_text()


def test_show_prints_every_metric_and_explains_each(runs):
    result = load_result(runs[0])
    text = printed(result, explain=True, trained_on={"linf": 8 / 255})
    for name in ("clean accuracy", "average accuracy", "union accuracy", "AH", "CR ind-worst", "mUAR", "SC"):
        assert name in text
    reference = load_reference("multirobustbench-cifar10")
    ratio = competitiveness_ratio(result.accuracies(), reference, attacks=["linf", "l2"])
    assert f"{ratio:.1f} [" in text
    assert "on 40 of its 180 ranked" in " ".join(text.split())
    assert "What the numbers mean" in text and "Kang et al. 2019" in text
    assert "What the numbers mean" not in printed(result)
    assert max(map(len, text.splitlines())) <= 80


def test_compare_says_who_is_more_robust(runs, capsys):
    compare(runs, reference=None, explain=True)
    text = " ".join(capsys.readouterr().out.split())
    assert "400 shared samples of cifar10, 2 shared attacks at 40 strengths: linf, l2." in text
    assert "In the mean over both attacks, strong is the more robust:" in text
    assert "On clean images, no clear difference shows." in text
    assert "linf: strong is right more often at" in text and "of 20 strengths, between" in text
    assert "strong keeps more confidence (Wilcoxon signed-rank p =" in text
    assert "CR ind-avg" in text and "on 40 of its 180 ranked" in text
    assert "What the numbers mean" in text


def test_compare_for_machines_and_papers_says_what_it_prints(runs, command):
    _, words = command("compare", *runs, "--reference", "none", width=120)
    _, text = command("compare", *runs, "--reference", "none", "--json", width=400)
    found = json.loads(text)
    (pair,) = found["pairs"]
    ours, theirs = ({name: value["value"] for name, value in model["numbers"].items()} for model in found["models"])
    assert (pair["first"], pair["second"], found["samples"]) == ("strong", "weak", 400)
    for name, difference in pair["differences"].items():
        assert difference["value"] == pytest.approx(ours[name] - theirs[name], abs=1e-3)
        line = next(line for line in words.split("strong less weak")[1].splitlines() if line.strip().startswith(name))
        assert f"{difference['value']:+.2f} [" in line
        assert ("< 0.001" if difference["p"] < 0.001 else f"{difference['p']:.3f}") in line
    _, text = command("compare", *runs, "--reference", "none", "--csv", width=400)
    rows = {(row["model"], row["against"], row["number"]): row for row in csv.DictReader(io.StringIO(text))}
    assert float(rows["strong", "weak", "average linf"]["p"]) == pair["differences"]["average linf"]["p"]
    assert float(rows["weak", "", "average linf"]["low"]) == found["models"][1]["numbers"]["average linf"]["low"]
    _, text = command("compare", *runs, "--reference", "none", "--latex", width=400)
    row = next(line for line in text.splitlines() if line.startswith("average linf & "))
    assert row.startswith(f"average linf & {ours['average linf']:.1f} [") and row.endswith(r"\\")
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    code, text = command("compare", *runs, "--json", "--latex")
    assert code == 1 and "--json and --latex are given; give one of them" in text


def test_every_pair_of_models_has_its_difference(runs, tmp_path, command):
    others = [
        write_run(tmp_path / name, name, scale, seed=k) for k, (name, scale) in enumerate([("c", 0.9), ("d", 0.2)])
    ]
    _, text = command("compare", *runs, *others, "--reference", "none", "--json")
    pairs = json.loads(text)["pairs"]
    assert len(pairs) == 6
    for name in ("clean accuracy", "average linf"):  # Holm: by steps, and never below the p-value of the pair alone
        _, alone = command("compare", *runs, "--reference", "none", "--json", width=400)
        single = json.loads(alone)["pairs"][0]["differences"][name]["p"]
        assert pairs[0]["differences"][name]["p"] >= single
    _, words = command("compare", *runs, *others, "--reference", "none", width=80)
    table = words.split("ahead")[1]
    assert table.count(" -") >= 6 and "Every number of each pair: --explain." in words


def test_compare_takes_shared_samples_and_attacks_and_names_what_it_leaves_out(runs, tmp_path, capsys):
    fewer = write_run(tmp_path / "c", "small", 1.0, samples=120, seed=3)
    compare([runs[0], fewer], reference="none", explain=False)
    text = " ".join(capsys.readouterr().out.split())
    assert "120 shared samples" in text
    assert "CR" not in text and "hypervolume" not in text


def test_compare_refuses_what_cannot_be_compared(runs):
    with pytest.raises(UserError, match="give two or more"):
        compare(runs[:1])
    with pytest.raises(UserError, match="given twice"):
        compare([runs[0], runs[0]])


def test_distances_prints_and_saves(tmp_path, capsys):
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (60, 3, 16, 16), dtype=np.uint8)
    images[1] = images[0]
    images[7] = 9
    labels = np.arange(60) % 3
    np.savez(tmp_path / "noise.npz", images=images, labels=labels)
    output = tmp_path / "distances.npz"
    distances(str(tmp_path / "noise.npz"), norms="linf,l2", samples=None, split="test", output=output, explain=True)
    text = " ".join(capsys.readouterr().out.split())
    found = interclass_distances(images, labels, "l2")
    assert f"{found.smallest:.4g}" in text and f"{found.largest:.4g}" in text
    assert "Identical images with different labels, passed over, 1 pair: 0 and 1" in text
    assert "Images of a single value, 1: 7" in text
    with np.load(output) as saved:
        np.testing.assert_allclose(saved["l2_distance"], found.per_sample)
        assert saved["linf_nearest"].shape == (60,)
    for options, message in (
        ({"norms": "l3"}, "linf, l2, l1"),
        ({"samples": 1}, "at least 2"),
        ({"split": "x"}, "test"),
    ):
        with pytest.raises(UserError, match=message):
            distances(str(tmp_path / "noise.npz"), **({"norms": "l2", "samples": None, "split": "test"} | options))


@pytest.fixture
def command(monkeypatch, capsys):
    """The command line: exit code and output, which must fit the width and hold no traceback."""

    def run(*arguments: object, width: int = 80) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["robustatlas", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", str(width))
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert max(map(len, out.splitlines()), default=0) <= width
        return int(ended.value.code or 0), out + err

    return run


def test_own_reference_from_runs(runs, tmp_path, capsys):
    """compare writes it, show holds another run against it, with what depends on the training."""
    saved = tmp_path / "mine.json"
    compare(runs, reference="none", save_reference=saved)
    assert f"Reference: {saved}" in capsys.readouterr().out
    reference = load_reference(saved)
    results = [load_result(run) for run in runs]
    for attack in GRIDS:
        best = np.maximum(*(result.accuracies().values(attack) for result in results))
        np.testing.assert_allclose(reference.accuracies.values(attack), best)

    training = {"linf": 0.03}
    table = results[1].accuracies()
    text = printed(results[1], reference=reference, trained_on=training)
    assert "on 40 of its 40 ranked" in " ".join(text.split())
    rows = {line[:15].strip(): line[15:].strip() for line in text.splitlines()}
    split = competitiveness_in_out(table, reference, training)
    assert rows["seen"] == f"{percent_seen(table, reference, training):.1f}"
    assert (rows["CR in"], rows["CR out"]) == (f"{split.inside:.1f}", f"{split.outside:.1f}")
    for name, floor in (("SC", 0.0), ("SC, floor 0.5", 0.5), ("SC, floor 1", 1.0)):
        constant = stability_constant(table, reference, training, floor=floor)
        assert rows[name].startswith(f"{rough(constant.value)} [") and rows[name].endswith("], lower is steadier")
        assert " and ".join(constant.pair) in text


def test_what_a_reference_and_a_run_do_not_share_is_named(runs):
    result = load_result(runs[0])
    entries = {"linf": {0.005: 80.0, 0.01 * (1 + 1e-9): 70.0, 0.2: 5.0}, "l2": {0.125: 0.0}, "fog": {1.0: 50.0}}
    reference = Reference("mine", "made up", AccuracyTable(95.0, entries), ranked=("linf", "l2", "fog"))
    text = " ".join(printed(result, reference=reference).split())
    assert "on 2 of its 5 ranked" in text
    assert "Missing in the run: linf@0.2, fog." in text
    assert "Not in the reference: linf@0.015, linf@0.02," in text
    assert "Left out, as the reference accuracy is 0: l2@0.125." in text
    nothing = Reference("mine", "made up", AccuracyTable(95.0, {"fog": {1.0: 50.0}}), ranked=("fog",))
    with pytest.raises(UserError, match="no attack at the same strength"):
        printed(result, reference=nothing)


def test_strengths_up_to_rounding_are_the_same(tmp_path, monkeypatch, capsys):
    multiples = tuple(np.cumsum([0.024] * 10).tolist())
    rounded = tuple(round(s, 4) for s in multiples)
    assert rounded != multiples and 0.168 in rounded and 0.16799999999999998 in multiples
    folders = []
    for name, grid in (("a", rounded), ("b", multiples)):
        monkeypatch.setitem(GRIDS, "linf", list(grid))
        folders.append(write_run(tmp_path / name, name, 1.0, margins=True))
    compare(folders, reference="none", union="linf=0.168")
    text = " ".join(capsys.readouterr().out.split())
    assert "2 shared attacks at 30 strengths" in text and "Left out" not in text
    assert (
        "union accuracy: all at once, at linf@0.168" in text
        and "1679" not in text
        and "hypervolume linf, x 100" in text
    )


def test_union_at_chosen_strengths(runs):
    result = load_result(runs[0])
    text = printed(result, union={"linf": 0.0319, "l2": 0.5})
    alive = 100 * np.mean((result.minimal_strength("linf") > 0.03) & (result.minimal_strength("l2") > 0.5))
    assert f"union accuracy {alive:.1f} [" in " ".join(text.split())
    assert "union accuracy: all at once, at linf@0.03, l2@0.5" in text
    assert parse_strength_of("linf=8/255, l2=0.5", "--union") == {"linf": 8 / 255, "l2": 0.5}
    for wrong in ("linf", "linf=x", "linf=1/0", "linf=-1", "linf=1,linf=2", "=1", "", "linf=nan"):
        with pytest.raises(UserError, match="is not understood"):
            parse_strength_of(wrong, "--union")
    with pytest.raises(UserError, match="'fog', which is not evaluated"):
        printed(result, union={"fog": 1.0})
    with pytest.raises(UserError, match="below the smallest strength of linf"):
        printed(result, union={"linf": 0.001})


def test_hypervolumes_are_compared_over_the_same_strengths(tmp_path, monkeypatch, capsys):
    """Of runs up to different sizes, only the common part counts; steps that are not equal have no hypervolume."""
    folders = []
    for name, last in (("a", 0.1), ("b", 0.2)):
        monkeypatch.setitem(GRIDS, "linf", [last * k / 10 for k in range(1, 11)])
        folders.append(write_run(tmp_path / name, name, 1.0, margins=True))
    compare(folders, reference="none")
    text = capsys.readouterr().out
    first, second = (load_result(folder) for folder in folders)
    ours = adversarial_hypervolume(first.margins("linf")[:, 1::2], first.clean_margin)
    theirs = adversarial_hypervolume(second.margins("linf")[:, :5], second.clean_margin)
    row = next(line for line in text.splitlines() if "hypervolume linf, x 100" in line)
    assert f"{100 * ours.mean:.1f} [" in row and f"{100 * theirs.mean:.1f} [" in row
    assert "linf@0.01, linf@0.03" in text

    monkeypatch.setitem(GRIDS, "linf", [0.01, 0.05, *(0.01 * k for k in range(6, 12))])
    uneven = load_result(write_run(tmp_path / "c", "c", 1.0, margins=True))
    text = printed(uneven)
    assert "No adversarial hypervolume of linf: the strengths are not equal steps." in text
    volume = adversarial_hypervolume(uneven.margins("l2"), uneven.clean_margin)
    row = next(line.split() for line in text.splitlines() if line.startswith(" l2") and "<=" in line)
    assert row[1] == f"{volume.mean:.3f}" and row[4] == f"{volume.std:.3f}" and row[5] == "20"
    assert row[7] == f"{volume.error_bound:.3f}"


def test_attacks_agree_over_three_models(runs, tmp_path, capsys):
    three = [*runs, write_run(tmp_path / "c", "third", 1.3, seed=5)]
    compare(three, reference="none", explain=True)
    text = capsys.readouterr().out
    averages = [[average_accuracy(load_result(run).accuracies(), [attack]) for attack in GRIDS] for run in three]
    assert (
        "Correlation of average accuracies of all 3 models" in text
        and f" {np.corrcoef(np.transpose(averages))[0, 1]:.2f} " in text
    )
    assert "agreement" in text
    compare(three, reference="none")  # of so few models only where it is asked for
    assert "Correlation" not in capsys.readouterr().out


def test_uar_of_each_defense_and_attack_and_their_correlation(tmp_path, capsys):
    """As figures 6a and 6b: undefended models are in the matrix alone, a pair is over those trained against neither."""
    trained = {"none": {}, "a": {"linf": 0.03}, "b": {"l1": 5}, "c": {"l1": 9}, "d": {"stadv": 0.1}}
    scales = {"none": 0.3, "a": 1.0, "b": 0.7, "c": 0.5, "d": 1.3}
    runs = [write_run(tmp_path / name, name, scale, seed=k) for k, (name, scale) in enumerate(scales.items())]
    told = {name: {"trained_on": strengths} for name, strengths in trained.items()}
    (tmp_path / "about.json").write_text(json.dumps(told))
    entries = {attack: dict.fromkeys(grid, 60.0) for attack, grid in GRIDS.items()}
    Reference("small", "made up", AccuracyTable(95.0, entries), tuple(GRIDS)).to_json(tmp_path / "r.json")
    compare(runs, reference=str(tmp_path / "r.json"), about=tmp_path / "about.json", explain=True)
    text = capsys.readouterr().out
    reference = load_reference(tmp_path / "r.json")
    matrix = uar_matrix([load_result(run).accuracies() for run in runs], reference)
    rows = {line.split()[0]: line.split()[1:] for line in text.split("UAR, %")[1].splitlines() if line.strip()}
    for name, scores in zip(scales, matrix, strict=True):
        assert rows[name] == [f"{score:.0f}" for score in scores]
    expected = np.corrcoef(matrix[2:].T)[0, 1]  # b, c, d: trained on other attacks than linf and l2
    assert f"{expected:.2f}" in text.split("Do the attacks agree?")[1]
    assert "UAR of 4 adversarially trained models" in text


def test_references_fit_the_very_data_set(runs):
    result = load_result(runs[0])
    for data, fits in (("cifar10", True), ("CIFAR-10 test", True), ("cifar100", False), ("digits", False)):
        assert (fitting_reference([replace(result, data=data)]) is not None) == fits, data


def test_runs_of_different_images_are_not_compared(tmp_path):
    folders = [
        run_files.write(tmp_path / name, made_up(name, 1.0), images_sha256=digest * 64)
        for name, digest in (("a", "0"), ("b", "1"))
    ]
    with pytest.raises(UserError, match="hold different images"):
        compare(folders)
    same = run_files.write(tmp_path / "c", made_up("c", 0.7, data="other name"), images_sha256="0" * 64)
    compare([folders[0], same], reference="none")


def test_commands_fit_80_columns_with_many_and_long_names(command, runs, tmp_path):
    long = write_run(tmp_path / "c", "a-model-of-a-very-long-name-wide-resnet-28-10", 1.2, margins=True)
    more = write_run(tmp_path / "d", "fourth", 0.9, margins=True)
    code, text = command("compare", *runs, long, more, "--explain")
    assert code == 0
    for line in text.splitlines():
        assert line.count("[") == line.count("]"), line  # no interval is broken over two lines
    assert "a-model-of-a-very-long-name-wide-resnet-28-10" in text
    assert command("show", long, "--explain", "--trained-on", "linf=8/255")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "{folder}/none"], "none is not a run"),
        (["show", "{run}", "--reference", "cifar"], "There is no reference 'cifar'"),
        (["show", "{run}", "--reference", "{broken}"], "broken.json: input should be a valid tuple; given: 3"),
        (["show", "{run}", "--reference", "none", "--trained-on", "linf=1"], "needs a reference"),
        (["show", "{run}", "--trained-on", "lunf=1"], "names 'lunf'"),
        (["show", "{run}", "--trained-on", "linf"], "--trained-on 'linf' is not understood"),
        (["compare", "{run}"], "One run is given"),
        (["compare", "{run}", "{other}", "--union", "fog=1"], "names 'fog'"),
        (["compare", "{run}", "{other}", "--reference", "{broken}"], "input should be a valid tuple; given: 3"),
        (["compare", "{run}", "{other}", "--save-reference", "{folder}/none/mine.json"], "there is no folder"),
        (["distances", "none"], "Unknown data set 'none'"),
        (["distances", "digits", "--output", "{folder}/none/d.npz"], "there is no folder"),
    ],
)
def test_mistakes_end_with_one_sentence(command, arguments, message, runs, tmp_path):
    broken = {"name": "x", "source": "y", "ranked": 3, "accuracies": {"clean": 90, "entries": {"linf": {"0.01": 80}}}}
    (tmp_path / "broken.json").write_text(json.dumps(broken))
    places = {"run": runs[0], "other": runs[1], "folder": tmp_path, "broken": tmp_path / "broken.json"}
    code, text = command(*(argument.format(**places) for argument in arguments))
    assert code == 1 and text.startswith("Error: ") and text.count("\n") == 1
    assert message in text


def test_hypervolume_suite_through_the_command_line(command, tmp_path):
    """The preset gives margins at ten levels, and show and compare their hypervolumes."""
    for name in ("linf", "l2"):
        options = ["--data", "digits", "--attacks", "hypervolume", "--samples", 6, "--run", tmp_path / name]
        assert command("evaluate", f"builtin:digits-{name}", *options, width=200)[0] == 0
    result = load_result(tmp_path / "linf")
    assert result.strengths("linf") == pytest.approx(8 / 255 * np.arange(1, 11) / 10)
    assert result.strengths("l2") == pytest.approx(0.5 * np.arange(1, 11) / 10)
    code, text = command("show", tmp_path / "linf", "--explain", width=200)
    assert code == 0
    for attack in ("linf", "l2"):
        volume = adversarial_hypervolume(result.margins(attack), result.clean_margin, result.strengths(attack))
        row = next(line.split() for line in text.splitlines() if line.strip().startswith(attack) and "<=" in line)
        assert row[1] == f"{volume.mean:.3f}" and row[5] == "10"
    code, text = command("compare", tmp_path / "linf", tmp_path / "l2", "--explain")
    assert code == 0 and "hypervolume linf, x 100" in text and "Wilcoxon signed-rank" in text


def test_numbers_for_machines(command, runs):
    code, text = command("show", runs[0], "--json", "--trained-on", "linf=8/255", width=200)
    found, result = json.loads(text), load_result(runs[0])
    assert code == 0
    assert [entry["value"] for entry in found["attacks"]["l2"]["accuracy"]] == result.accuracies().values("l2").tolist()
    assert found["reference"]["numbers"]["CR ind-avg"]["low"] < found["reference"]["numbers"]["CR ind-avg"]["value"]
    assert {"seen", "SC"} <= found["reference"].keys()
    code, text = command("show", runs[0], "--csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert code == 0 and len(rows) == 41
    assert float(rows[1]["accuracy"]) == result.accuracies().values("linf")[0]
    assert float(rows[1]["low"]) < float(rows[1]["accuracy"]) < float(rows[1]["high"])
    assert command("show", runs[0], "--csv", "--json")[0] == 1


@pytest.mark.parametrize("width", [60, 80])
def test_narrow_terminals(command, runs, width):
    """Every line fits, no interval is broken, and strengths that are left out are said to be."""
    code, text = command("show", runs[0], "--explain", "--trained-on", "linf=8/255", width=width)
    text = text.split("What the numbers mean")[0]
    assert code == 0 and "Some strengths are left out; --all shows all of them." in " ".join(text.split())
    code, every = command("show", runs[0], "--all", width=width)
    assert code == 0 and "left out" not in every
    accuracies = [f"{value:.1f}" for value in load_result(runs[0]).accuracies().values("linf")]
    assert all(value in every.split() for value in accuracies)
    code, short = command("show", runs[0], width=width)
    assert code == 0 and "withstand L∞ at 8/255" in " ".join(short.split())  # what papers give, at every width
    code, compared = command("compare", *runs, width=width)
    assert code == 0
    for line in (text + compared).splitlines():
        assert line.count("[") == line.count("]"), line
    wide = command("show", runs[0], "--explain", width=200)[1]
    assert "left out" not in wide


@pytest.mark.parametrize("width", [60, 80])
def test_long_names_leave_room_for_what_rows_are_called(command, tmp_path, width):
    """Names of 300 characters are told once, and shortened in tables and sentences, apart from each other."""
    names = ["x" * 300, "x" * 299 + "y", "模" * 100]
    folders = [write_run(tmp_path / str(k), name, 1.0 - 0.2 * k, margins=True) for k, name in enumerate(names)]
    code, text = command("compare", *folders, width=width)
    assert code == 0
    for row in ("clean accuracy", "average accuracy", "union accuracy", "average linf", "hypervolume l2, x 100"):
        assert sum(line.strip().startswith(row) for line in text.splitlines()) >= 4, row
    assert all("".join(text.split()).count(name) == 1 for name in names)
    assert text.count("The hypervolume of") == 1  # a sentence for all pairs and attacks
    code, text = command("show", folders[0], "--explain", width=width)
    labels = [line.split()[0] for line in text.splitlines() if "<= " in line]
    assert code == 0 and labels == ["linf", "l2"]


def test_names_of_others_do_no_harm(command, tmp_path):
    hostile = "\x1b[31mred[/] [bold]\x07\u202e"
    run = run_files.write(tmp_path / "run", made_up(hostile, 1.0, samples=40, data=hostile))
    other = run_files.write(tmp_path / "other", made_up("plain", 0.5, samples=40, data=hostile))
    for arguments in (["show", run], ["compare", run, other], ["query", "SELECT model FROM runs", run]):
        code, text = command(*arguments)
        assert code == 0
        assert not any(char in text for char in "\x1b\x07\u202e")
        assert "[bold]" in text
    code, text = command("show", tmp_path / "\x1b[31mnone")
    assert code == 1 and "\x1b" not in text


def test_merge_version_and_module(command, runs, tmp_path):
    more = run_files.write(tmp_path / "more", made_up("strong", 0.5, samples=400), seed=1)
    code, text = command("merge", runs[0], more, "-o", tmp_path / "both", width=300)
    assert code == 0 and "robustatlas show" in text
    sizes = [load_result(path).minimal_size("linf") for path in (runs[0], more)]
    np.testing.assert_array_equal(load_result(tmp_path / "both").minimal_size("linf"), np.minimum(*sizes))
    code, text = command("best-known", runs[0], more, "-o", tmp_path / "best", width=300)
    best = load_result(tmp_path / "best")
    for path in (runs[0], more):
        row = next(line.split() for line in text.splitlines() if line.strip().startswith(str(path)))
        assert code == 0 and row[1] == f"{load_result(path).optimality(best)['linf']:.4f}"
    code, text = command("--version")
    assert code == 0 and text == f"robustatlas {robustatlas.__version__}\n"
    done = subprocess.run([sys.executable, "-m", "robustatlas", "--version"], capture_output=True, text=True)
    assert done.stdout == text


def test_a_reference_is_written_whole_or_not_at_all(runs, tmp_path, monkeypatch):
    saved = tmp_path / "mine.json"
    saved.write_text("before")
    monkeypatch.setattr("robustatlas.common.files._flush", full_disk)
    with pytest.raises(UserError, match="No space left"):
        compare(runs, reference="none", save_reference=saved)
    assert saved.read_text() == "before" and [path.name for path in tmp_path.iterdir()] == ["mine.json"]


def full_disk(path: Path) -> None:
    raise OSError(28, "No space left on device")


def said(arguments: list[str], capsys: Any) -> str:
    """What a command prints."""
    with pytest.raises(SystemExit):
        main(arguments)
    return "".join(capsys.readouterr())


def test_weights_and_difficulties_from_files(tmp_path, capsys):
    run = write_run(tmp_path / "a", "a", 0.9)
    reference = Reference(
        "small", "made up", AccuracyTable(95.0, {a: dict.fromkeys(GRIDS[a], 60.0) for a in GRIDS}), tuple(GRIDS)
    )
    reference.to_json(tmp_path / "r.json")
    (tmp_path / "w.json").write_text('{"clean": 1, "linf": {"0.03": 2}}')
    result = load_result(run)
    ours = result.accuracies().restrict(["linf"], {"linf": [0.03]})
    theirs = reference.accuracies.restrict(["linf"], {"linf": [0.03]})
    args = ["show", str(run), "--reference", str(tmp_path / "r.json"), "--trained-on", "linf=0.03", "--json"]
    told = json.loads(said([*args, "--weights", str(tmp_path / "w.json")], capsys))["reference"]
    expected = competitiveness_ratio(ours, theirs, weights={"clean": 1, "linf": 2})
    assert told["numbers"]["CR ind-avg"]["value"] == pytest.approx(expected, abs=1e-4)
    told = json.loads(said([*args, "--difficulty", "epsilon", "--alpha", "0.006"], capsys))["reference"]
    whole = result.accuracies().restrict(["linf"])
    constant = stability_constant(
        whole, reference.accuracies.restrict(["linf"]), {"linf": 0.03}, 0.006, difficulty="epsilon"
    )
    assert told["SC"] == {"floor 0": pytest.approx(constant.value)}
    assert "give the largest difference with --alpha" in said([*args, "--difficulty", "epsilon"], capsys)
