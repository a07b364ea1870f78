"""The commands that print metrics: what they say of runs on disk, and that it is what the metrics say."""

import csv
import io
import json
import resource
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import robustatlas
import run_files
from command_line import entered
from robustatlas.cli._options import parse_attack_strengths
from robustatlas.cli.compare import compare
from robustatlas.cli.distances import distances
from robustatlas.cli.show import load_facts, print_facts
from robustatlas.common.errors import UserError
from robustatlas.common.wording import format_rough
from robustatlas.metrics import (
    AccuracyTable,
    competitiveness_in_out,
    competitiveness_ratio,
    interclass_distances,
    percent_seen,
    stability_constant,
)
from robustatlas.metrics.references import Reference, load_reference
from robustatlas.report.facts import fitting_reference
from robustatlas.results.result import Result, load_result
from run_files import GRIDS, made_up, write_run


def printed(
    result: Result, explain: bool = False, trained_on: dict[str, float] | None = None, width: int = 80, **options: Any
) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    print_facts(load_facts(result, trained_on=trained_on, **options), console, explain=explain, trained_on=trained_on)
    return console.export_text()


def test_show_prints_every_metric_and_explains_each(runs):
    result = load_result(runs[0])
    text = printed(result, explain=True, trained_on={"linf": 8 / 255})
    for name in ("clean accuracy", "average accuracy", "union accuracy", "AH", "CR ind-worst", "mUAR", "SC"):
        assert name in text
    reference = load_reference("multirobustbench-cifar10")
    ratio = competitiveness_ratio(result.accuracies(), reference, attacks=["linf", "l2"])
    assert f"{ratio:.1f} (" in text or f" {ratio:.1f} " in text
    assert "on 40 of its 180 ranked" in " ".join(text.split())
    assert "What the numbers mean" in text and "Kang et al. 2019" in text
    assert "What the numbers mean" not in printed(result)
    assert max(map(len, text.splitlines())) <= 80


def test_distances_prints_and_saves(tmp_path, capsys):
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (60, 3, 16, 16), dtype=np.uint8)
    images[1] = images[0]
    images[7] = 9
    labels = np.arange(60) % 3
    np.savez(tmp_path / "noise.npz", images=images, labels=labels)
    output = tmp_path / "distances.npz"
    distances(str(tmp_path / "noise.npz"), norms=["linf,l2"], samples=None, split="test", output=output, explain=True)
    text = " ".join(capsys.readouterr().out.split())
    found = interclass_distances(images, labels, "l2")
    assert f"{found.smallest:.4g}" in text and f"{found.largest:.4g}" in text
    assert "0 and 1" in text
    assert "Images of a single value, 1: 7" in text
    with np.load(output) as saved:
        np.testing.assert_allclose(saved["l2_distance"], found.per_sample)
        assert saved["linf_nearest"].shape == (60,)
    for options, message in (
        ({"norms": ["l3"]}, "linf, l2, l1"),
        ({"samples": 1}, "at least 2"),
        ({"split": "x"}, "test"),
    ):
        with pytest.raises(UserError, match=message):
            distances(str(tmp_path / "noise.npz"), **({"norms": ["l2"], "samples": None, "split": "test"} | options))


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
        assert rows[name].startswith(f"{format_rough(constant.value)} [") and rows[name].endswith(
            "], lower is steadier"
        )
        assert " and ".join(constant.pair) in text


def test_what_a_reference_and_a_run_do_not_share_is_named(runs):
    result = load_result(runs[0])
    entries = {"linf": {0.005: 80.0, 0.01 * (1 + 1e-9): 70.0, 0.2: 5.0}, "l2": {0.125: 0.0}, "fog": {1.0: 50.0}}
    reference = Reference("mine", "made up", AccuracyTable(95.0, entries), ranked=("linf", "l2", "fog"))
    text = " ".join(printed(result, reference=reference).split())
    assert "on 2 of its 5 ranked" in text
    assert "linf@0.2, fog" in text
    assert "linf@0.015, linf@0.02," in text
    assert "l2@0.125" in text
    nothing = Reference("mine", "made up", AccuracyTable(95.0, {"fog": {1.0: 50.0}}), ranked=("fog",))
    with pytest.raises(UserError, match="mine"):
        printed(result, reference=nothing)


def test_union_at_chosen_strengths(runs):
    result = load_result(runs[0])
    text = printed(result, union={"linf": 0.03, "l2": 0.5})
    alive = 100 * np.mean((result.minimal_strength("linf") > 0.03) & (result.minimal_strength("l2") > 0.5))
    assert f"union accuracy {alive:.1f} (" in " ".join(text.split())
    assert "L∞ at 0.03 and L2 at 0.5" in " ".join(text.split())
    assert parse_attack_strengths(["linf=8/255, l2=0.5"], "--union") == {"linf": 8 / 255, "l2": 0.5}
    for wrong in ("linf", "linf=x", "linf=1/0", "linf=-1", "linf=1,linf=2", "=1", "", "linf=nan"):
        with pytest.raises(UserError, match="--union"):
            parse_attack_strengths([wrong], "--union")
    with pytest.raises(UserError, match="fog"):
        printed(result, union={"fog": 1.0})
    with pytest.raises(UserError, match="linf"):
        printed(result, union={"linf": 0.001})
    with pytest.raises(UserError, match=r"not searched at 0\.0319"):
        printed(result, union={"linf": 0.0319})


def test_references_fit_the_very_data_set(runs):
    result = load_result(runs[0])
    for data, fits in (("cifar10", True), ("CIFAR-10 test", True), ("cifar100", False), ("digits", False)):
        assert (fitting_reference([replace(result, data=data)]) is not None) == fits, data


def test_what_cannot_be_compared_is_named(runs, tmp_path):
    result = load_result(runs[0])
    with pytest.raises(UserError, match="lunf"):
        printed(result, trained_on={"lunf": 1.0})
    with pytest.raises(UserError, match="fog"):
        compare(runs, union=["fog=1"])
    with pytest.raises(UserError, match="none"):
        compare(runs, save_reference=tmp_path / "none" / "mine.json")


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
    assert code == 0 and "--all" in text
    code, every = command("show", runs[0], "--all", width=width)
    assert code == 0
    accuracies = [f"{value:.1f}" for value in load_result(runs[0]).accuracies().values("linf")]
    assert all(value in every.split() for value in accuracies)
    code, short = command("show", runs[0], width=width)
    assert code == 0 and "withstand L∞ at 0.035" in " ".join(short.split())  # next to what papers give, at every width
    code, compared = command("compare", *runs, width=width)
    assert code == 0
    for line in (text + compared).splitlines():
        assert line.count("[") == line.count("]"), line
    wide = command("show", runs[0], "--explain", width=200)[1]
    assert "--all" not in wide


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


def test_a_reference_is_written_whole_or_not_at_all(tmp_path):
    """A limit on the size of files stands for a full disk: both fail in the middle of writing."""
    saved = tmp_path / "mine.json"
    saved.write_text("before")
    reference = load_reference("multirobustbench-cifar10")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, before[1]))
    try:
        with pytest.raises(UserError, match=r"mine\.json"):
            reference.to_json(saved)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert saved.read_text() == "before" and [path.name for path in tmp_path.iterdir()] == ["mine.json"]


def test_weights_and_difficulties_from_files(tmp_path):
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
    told = json.loads(entered(*args, "--weights", tmp_path / "w.json").out)["reference"]
    expected = competitiveness_ratio(ours, theirs, weights={"clean": 1, "linf": 2})
    assert told["numbers"]["CR ind-avg"]["value"] == pytest.approx(expected, abs=1e-4)
    told = json.loads(entered(*args, "--difficulty", "epsilon", "--alpha", 0.006).out)["reference"]
    whole = result.accuracies().restrict(["linf"])
    constant = stability_constant(
        whole, reference.accuracies.restrict(["linf"]), {"linf": 0.03}, 0.006, difficulty="epsilon"
    )
    assert told["SC"] == {"floor 0": pytest.approx(constant.value)}
    assert "--alpha" in entered(*args, "--difficulty", "epsilon", code=1).line
