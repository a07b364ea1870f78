"""What ``compare`` says of runs on disk, and that it is what the metrics say."""

import csv
import io
import json
import re

import numpy as np
import pytest

import run_files
from robustatlas.cli.compare import compare
from robustatlas.common.errors import UserError
from robustatlas.metrics import (
    AccuracyTable,
    adversarial_hypervolume,
    average_accuracy,
    uar_matrix,
)
from robustatlas.metrics.references import Reference, load_reference
from robustatlas.report.page import build_report
from robustatlas.results.result import Result, load_result
from run_files import GRIDS, made_up, write_run
from test_metrics_cli import printed


def test_compare_says_who_is_more_robust(runs, capsys):
    compare(runs, reference=None, explain=True)
    text = " ".join(capsys.readouterr().out.split())
    assert "400 shared samples of cifar10" in text and "40 strengths: linf, l2" in text
    assert text.index("strong is the more robust under L2 at 0.5") < text.index("40 strengths, strong is ahead")
    assert text.count("strong is the more robust") == 1 and "weak is" not in text
    assert "Wilcoxon signed-rank p =" in text
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
        line = next(line for line in words.split("strong minus weak")[1].splitlines() if line.strip().startswith(name))
        assert f"{difference['value']:+.1f} (" in line
        assert ("< 0.001" if difference["p"] < 0.001 else f"{difference['p']:.3f}") in line
    _, text = command("compare", *runs, "--reference", "none", "--csv", width=400)
    rows = {(row["model"], row["against"], row["number"]): row for row in csv.DictReader(io.StringIO(text))}
    assert float(rows["strong", "weak", "average linf"]["p"]) == pair["differences"]["average linf"]["p"]
    assert float(rows["weak", "", "average linf"]["low"]) == found["models"][1]["numbers"]["average linf"]["low"]
    _, text = command("compare", *runs, "--reference", "none", "--latex", width=400)
    row = next(line for line in text.splitlines() if line.startswith("average linf & "))
    assert row.startswith(f"average linf & {ours['average linf']:.1f} (") and row.endswith(r"\\")
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    code, text = command("compare", *runs, "--json", "--latex")
    assert code == 1 and "--json and --latex" in text


def test_the_headline_decides_and_the_mean_comes_second(tmp_path, command):
    """A model that 9/255 breaks everywhere, and one that loses more images early and none later."""
    grid, labels = {"linf": np.array([4, 8, 16, 32, 64]) / 255}, np.zeros(100, int)
    sizes = {"wide": np.where(np.arange(100) < 40, 0.001, 1.0), "near": np.where(np.arange(100) < 5, 0.001, 9 / 255)}
    runs = []
    for name, size in sizes.items():
        one = Result.from_arrays(labels, labels, {"linf": size}, grid, model=name, data="cifar10")
        runs.append(run_files.write(tmp_path / name, one))
    _, text = command("compare", *runs, "--reference", "none", width=300)
    p_value = 2 * 0.5**35  # McNemar, exact: 35 images are right for one model alone
    assert p_value < 0.001
    _, lead, mean, *_ = text.splitlines()
    for part in ("near is the more robust under L∞ at 8/255", "95.0% (88.7 to 98.4)", "35.0 points", "p < 0.001"):
        assert part in lead
    assert "in the mean over its strengths, wide is ahead" in mean
    assert "wide minus near" in text and "60.0 (49.7 to 69.7)" in text
    for form in ("--json", "--csv", "--latex"):
        _, told = command("compare", *runs, "--reference", "none", form, width=400)
        assert told.index("wide") < told.index("near"), "as typed"
    found = json.loads(command("compare", *runs, "--reference", "none", "--json", width=400)[1])
    means = [model["numbers"]["average accuracy"]["value"] for model in found["models"]]
    assert means == pytest.approx([60.0, 38.0]), "the mean alone would turn it round"
    assert found["pairs"][0]["differences"]["L∞ at 8/255"]["p"] == pytest.approx(p_value)
    _, text = command("compare", *runs, "--reference", "none", "--headline", "linf@16/255", width=300)
    assert text.splitlines()[1].startswith("wide is the more robust under L∞ at 16/255")
    page = build_report([load_result(run) for run in runs], tmp_path / "report.html").read_text()
    assert lead.replace("<", "&lt;") in page
    (leader,) = re.findall(r'<tr class="leader">.*?</tr>', page, re.S)
    assert "near" in leader and "most robust" in leader


def test_without_a_shared_headline_the_mean_decides_and_says_over_what(tmp_path, command):
    """The same images under two names, of which one alone has a usual strength."""
    runs = []
    for name, scale, data in (("weak", 0.5, "cifar10"), ("strong", 1.0, "photos")):
        runs.append(run_files.write(tmp_path / name, made_up(name, scale, data=data), images_sha256="1" * 64))
    _, text = command("compare", *runs, "--reference", "none", width=300)
    assert text.splitlines()[1].startswith("strong is the more robust under L∞ and L2, in the mean over the strengths")
    assert "weak minus strong" in text


def test_every_pair_of_models_has_its_difference(runs, tmp_path, command):
    others = [
        write_run(tmp_path / name, name, scale, seed=k) for k, (name, scale) in enumerate([("c", 0.9), ("d", 0.2)])
    ]
    _, text = command("compare", *runs, *others, "--reference", "none", "--json")
    pairs = json.loads(text)["pairs"]
    assert len(pairs) == 6
    _, alone = command("compare", *runs, "--reference", "none", "--json", width=400)
    for name in ("clean accuracy", "average linf"):
        single = json.loads(alone)["pairs"][0]["differences"][name]["p"]
        assert pairs[0]["differences"][name]["p"] >= min(1, 6 * single) * (1 - 1e-9), "corrected for six pairs"
    for difference in (one for pair in pairs for one in pair["differences"].values()):
        assert (difference["p"] < 0.05) == (difference["low"] > 0 or difference["high"] < 0), "one rule"
    _, words = command("compare", *runs, *others, "--reference", "none", width=80)
    table = words.rpartition("p   ahead")[2]
    assert table.count(" -") >= 6 and "--explain" in words


def test_compare_takes_shared_samples_and_attacks_and_names_what_it_leaves_out(runs, tmp_path, capsys):
    fewer = write_run(tmp_path / "c", "small", 1.0, samples=120, seed=3)
    compare([runs[0], fewer], reference="none", explain=False)
    text = " ".join(capsys.readouterr().out.split())
    assert "120 shared samples" in text
    assert "CR" not in text and "hypervolume" not in text


def test_compare_refuses_what_cannot_be_compared(runs):
    with pytest.raises(UserError, match="two"):
        compare(runs[:1])
    with pytest.raises(UserError, match="twice"):
        compare([runs[0], runs[0]])


def test_strengths_up_to_rounding_are_the_same(tmp_path, monkeypatch, capsys):
    multiples = tuple(np.cumsum([0.024] * 10).tolist())
    rounded = tuple(round(s, 4) for s in multiples)
    assert rounded != multiples and 0.168 in rounded and 0.16799999999999998 in multiples
    folders = []
    for name, grid in (("a", rounded), ("b", multiples)):
        monkeypatch.setitem(GRIDS, "linf", list(grid))
        folders.append(write_run(tmp_path / name, name, 1.0, margins=True))
    compare(folders, reference="none", union=["linf=0.168"])
    text = " ".join(capsys.readouterr().out.split())
    assert "2 shared attacks at 30 strengths" in text and "Left out" not in text
    assert "L∞ at 0.168" in text and "1679" not in text and "hypervolume linf, x 100" in text


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
    assert f"{100 * ours.mean:.1f} (" in row and f"{100 * theirs.mean:.1f} (" in row
    assert "linf@0.01, linf@0.03" in text

    monkeypatch.setitem(GRIDS, "linf", [0.01, 0.05, *(0.01 * k for k in range(6, 12))])
    uneven = load_result(write_run(tmp_path / "c", "c", 1.0, margins=True))
    text = printed(uneven)
    assert "hypervolume of linf" in text
    volume = adversarial_hypervolume(uneven.margins("l2"), uneven.clean_margin)
    row = next(line.split() for line in text.splitlines() if line.startswith(" l2") and "<=" in line)
    assert row[1] == f"{volume.mean:.3f}" and row[5] == f"{volume.std:.3f}" and row[6] == "20"
    assert row[8] == f"{volume.error_bound:.3f}"


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


def test_runs_of_different_images_are_not_compared(tmp_path):
    folders = [
        run_files.write(tmp_path / name, made_up(name, 1.0), images_sha256=digest * 64)
        for name, digest in (("a", "0"), ("b", "1"))
    ]
    with pytest.raises(UserError, match="hold different images"):
        compare(folders)
    same = run_files.write(tmp_path / "c", made_up("c", 0.7, data="other name"), images_sha256="0" * 64)
    compare([folders[0], same], reference="none")


@pytest.mark.parametrize("width", [60, 80])
def test_long_names_leave_room_for_what_rows_are_called(command, tmp_path, width):
    """Names of 300 characters are told once, and shortened in tables and sentences, apart from each other."""
    names = ["x" * 300, "x" * 299 + "y", "模" * 100]
    folders = [write_run(tmp_path / str(k), name, 1.0 - 0.2 * k, margins=True) for k, name in enumerate(names)]
    code, text = command("compare", *folders, width=width)
    assert code == 0
    for line in text.splitlines():
        assert line.count("[") == line.count("]"), line  # no interval is broken over two lines
    for row in ("clean accuracy", "average accuracy", "union accuracy", "average linf"):
        assert sum(line.strip().startswith(row) for line in text.splitlines()) >= 4, row
    volumes = sum(line.strip().startswith("hypervolume l2, x 100") for line in text.splitlines())
    assert 1 <= volumes < 4, "upper bounds are shown of each model, and no pair is compared by them"
    assert all("".join(text.split()).count(name) == 1 for name in names)
    assert text.count("The hypervolume of") == 1  # a sentence for all pairs and attacks
    code, text = command("show", folders[0], "--explain", width=width)
    labels = [line.split()[0] for line in text.splitlines() if "<= " in line]
    assert code == 0 and labels == ["linf", "l2"]
