"""Studies carried out: numbers are those of their runs, and what is there is never done again."""

import csv
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import robustatlas as ra
from command_line import entered
from robustatlas.common.errors import UserError
from robustatlas.metrics.references import Reference
from robustatlas.outcomes import AccuracyTable
from robustatlas.studies import Sheet, forecast_study, read_study
from robustatlas.studies.numbers import RunNumbers, study_number
from robustatlas.studies.running import StudyDisplay
from robustatlas.studies.writing import Studied
from study_files import SMALL, without_sizes, written


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Studied]:
    """A study that was carried out: its file, its folder, and what it came to."""
    folder = tmp_path_factory.mktemp("study")
    file = written(folder, without_sizes(SMALL))
    return file, folder / "out", ra.study(file, folder / "out", progress=False)


def test_its_numbers_are_those_of_its_runs(studied: tuple[Path, Path, Studied]) -> None:
    _, out, done = studied
    assert done.complete
    runs = [ra.load_result(out / "runs" / "main" / "linf" / f"seed-{seed}") for seed in (3, 4)]
    values = [run.accuracies().at("linf", 0.1) for run in runs]
    with (out / "outputs" / "scores.csv").open(encoding="utf-8") as file:
        rows = {row["model"]: row for row in csv.DictReader(file)}
    row = rows["linf 0.1"]
    assert float(row["L∞ 0.1"]) == pytest.approx(np.mean(values), abs=1e-3)
    assert float(row["L∞ 0.1, std over trainings"]) == pytest.approx(np.std(values, ddof=1), abs=1e-3)
    half = 12.706205 * np.std(values, ddof=1) / 2**0.5  # Student's t at 97.5 %, one degree of freedom
    high = min(100.0, np.mean(values) + half) if values[0] != values[1] else 100.0  # equal ones show no spread
    assert float(row["L∞ 0.1, trainings high"]) == pytest.approx(high, rel=1e-4)
    assert row["L∞ 0.1, images low"] == row["L∞ 0.1, images high"] == "", "one interval a number"
    assert row["L∞ 0.1, trainings"] == "2"
    assert runs[0].about["trained_on"] == {"linf": 0.1}


def test_a_defended_model_is_that_of_the_same_seed(studied: tuple[Path, Path, Studied]) -> None:
    _, out, _ = studied
    data = ra.load_dataset("digits").take(12)
    model = ra.load_model(f"defended:bits=3,trained:{out / 'trainings' / 'plain' / 'seed-1'}")
    found = ra.load_result(out / "runs" / "main" / "bits" / "seed-1").clean_prediction
    assert found.tolist() == model.logits(data.images).argmax(1).tolist()


def test_the_page_lists_tables_figures_and_what_differs(studied: tuple[Path, Path, Studied]) -> None:
    _, out, done = studied
    text, page = (out / "study.md").read_text(encoding="utf-8"), done.page.read_text(encoding="utf-8")
    assert "| linf 0.1 |" in text and "[scores.csv](outputs/scores.csv)" in text
    assert "<h1>A small study</h1>" in page and 'href="outputs/tests.csv"' in page


def files_of(out: Path) -> dict[Path, int]:
    """When each file of the trainings and runs of a study was written."""
    made = (
        path for part in ("trainings", "runs", "done") for path in (out / part).rglob("*") if "locks" not in path.parts
    )
    return {path: path.stat().st_mtime_ns for path in made if path.is_file()}


def test_the_same_again_does_nothing(studied: tuple[Path, Path, Studied]) -> None:
    file, out, done = studied
    before = files_of(out)
    again = ra.study(file, out, progress=False)
    assert before and files_of(out) == before
    assert {name: sheet.markdown() for name, sheet in again.tables.items()} == {
        name: sheet.markdown() for name, sheet in done.tables.items()
    }


def test_a_changed_file_says_what_is_reused_new_and_grown(studied: tuple[Path, Path, Studied], tmp_path: Path) -> None:
    _, out, _ = studied
    more = '[models.more]\nrecipe = "standard"\n[models.bits]'
    copy = shutil.copytree(out, tmp_path / "out")
    ra.study(written(tmp_path, without_sizes(SMALL)), copy, progress=False)
    grown = written(tmp_path, without_sizes(SMALL), ('"0.2:2"', '"0.1,0.2,0.3"'), ("[models.bits]", more))
    said = " ".join(entered("study", grown, "--out", copy).err.split())
    assert "4 steps (models.plain.seed-0, models.plain.seed-1, models.linf.seed-3" in said
    assert "2 steps (models.more.seed-0, evaluations.main.more.seed-0)" in said
    assert "6 steps" in said
    run = ra.load_result(tmp_path / "out" / "runs" / "main" / "linf" / "seed-3")
    assert run.strengths("linf").tolist() == pytest.approx([0.1, 0.2, 0.3])
    runs = [ra.load_result(copy / "runs" / "main" / "linf" / f"seed-{seed}") for seed in (3, 4)]
    with (copy / "outputs" / "scores.csv").open(encoding="utf-8") as file:
        averages = {row["model"]: float(row["average"]) for row in csv.DictReader(file)}
    expected = np.mean([run.accuracies().values("linf").mean() for run in runs])  # of what has grown, not of before
    assert averages["linf 0.1"] == pytest.approx(expected, abs=1e-3)


def test_what_was_warned_of_is_on_the_page_of_every_later_call(tmp_path: Path) -> None:
    file = written(tmp_path, without_sizes(SMALL), ("learning_rate = 0.02", "learning_rate = 1e-9"))
    first, again = (ra.study(file, tmp_path / "out", progress=False) for _ in range(2))
    assert "no better than chance" in " ".join(first.warnings) and again.warnings == first.warnings
    assert "no better than chance" in again.page.read_text(encoding="utf-8")


def test_what_was_trained_is_never_replaced(studied: tuple[Path, Path, Studied], tmp_path: Path) -> None:
    _, out, _ = studied
    changed = written(tmp_path, without_sizes(SMALL), ("steps = 1", "steps = 2"))
    with pytest.raises(UserError, match=r"models\.linf\.seed-3 .*model\.steps: 1 "):
        ra.study(changed, out, progress=False)
    with pytest.raises(UserError, match="holds the study mine, not mine other"):
        ra.study(written(tmp_path), out, "other", progress=False)


def test_one_step_alone_and_what_it_waits_for(tmp_path: Path) -> None:
    file = written(tmp_path, without_sizes(SMALL))
    for carry_out in (ra.study, forecast_study):
        study = read_study(file)
        with pytest.raises(UserError, match=r"evaluations\.main\.plain\.seed-0 .*models\.plain\.seed-0"):
            carry_out(study, tmp_path / "out", only=["evaluations"])
        with pytest.raises(UserError, match=r"evaluations\.main\.linf\.seed-3 .*models\.linf\.seed-3"):
            carry_out(study, tmp_path / "out", only=["models.plain", "evaluations"])
    assert not (tmp_path / "out").exists(), "nothing is done before it is known that all can be"
    done = ra.study(file, tmp_path / "out", only=["models.plain", "outputs.scores"], progress=False)
    assert (tmp_path / "out/trainings/plain/seed-1/card.json").is_file()
    assert not (tmp_path / "out/trainings/linf").exists()
    assert not done.complete and done.outputs[0].waits[0] == "evaluations.main.plain.seed-0"
    with pytest.raises(UserError, match=r"'models\.plane'.*'models\.plain'"):
        ra.study(file, tmp_path / "out", only=["models.plane"], progress=False)


def test_two_machines_make_what_one_makes(studied: tuple[Path, Path, Studied], tmp_path: Path) -> None:
    file, _, whole = studied
    first = ra.study(file, tmp_path / "out", part="0/2", progress=False)
    assert not first.complete
    second = ra.study(file, tmp_path / "out", part="1/2", progress=False)
    assert second.complete
    assert {name: sheet.csv() for name, sheet in second.tables.items()} == {
        name: sheet.csv() for name, sheet in whole.tables.items()
    }


def test_a_step_that_is_interrupted_goes_on(tmp_path: Path) -> None:
    file, out = written(tmp_path, without_sizes(SMALL)), tmp_path / "out"

    class Stops(StudyDisplay):
        def step(self, name: str, number: int, of: int) -> None:
            if name == "evaluations.main.linf.seed-3":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ra.study(file, out, progress=Stops())
    kept = files_of(out)
    done = {path.stem for path in kept if path.parent.name == "done"}
    assert "evaluations.main.plain.seed-1" in done and "evaluations.main.linf.seed-3" not in done
    assert ra.study(file, out, progress=False).complete
    assert files_of(out).items() >= kept.items()


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file in the way")
    file = written(tmp_path, without_sizes(SMALL))
    assert str(tmp_path / "out") in entered("study", file, "--out", tmp_path / "out", code=1).line


def test_an_output_that_cannot_be_made_does_not_keep_the_others(
    studied: tuple[Path, Path, Studied], tmp_path: Path
) -> None:
    _, out, _ = studied
    file = written(tmp_path, without_sizes(SMALL), ('numbers = ["linf@0.1"]', 'numbers = ["linf@0.7"]'))
    printed = entered("study", file, "--out", shutil.copytree(out, tmp_path / "out"), "--only", "outputs", code=1)
    assert "linf 0.1" in printed.out and "linf at 0.7" in " ".join(printed.err.split())


def test_what_it_will_take_is_told_and_nothing_written(tmp_path: Path) -> None:
    file, out = written(tmp_path, without_sizes(SMALL)), tmp_path / "out"
    found = {each.name: each for each in forecast_study(read_study(file), out).expected}
    assert found["models.plain"].number == 2 and found["models.plain"].passes == 2 * 2 * 200
    assert found["models.linf"].passes == 2 * 4 * 200  # forward and backward, of the step and of the update
    assert found["evaluations.main.bits"].passes > 12 and not any(each.unknown for each in found.values())
    assert all(each.seconds > 0 for each in found.values())
    passes = sum(each.passes for each in found.values())
    told = entered("study", file, "--out", out, "--dry-run", "--device-throughput", passes / 3600, columns=200).out
    assert "In all about 1 h on a device of" in told and f"{passes:,.0f} passes" in told
    assert not out.exists()


def test_what_a_run_holds_already_is_not_forecast_again(studied: tuple[Path, Path, Studied], tmp_path: Path) -> None:
    """Of an evaluation that goes on to more samples, the new ones alone count, under each attack."""
    _, out, _ = studied
    shutil.copytree(out, tmp_path / "out")
    grown = read_study(written(tmp_path, without_sizes(SMALL), ("samples = 12", "samples = 18")))
    fresh, left = (
        {each.name: each for each in forecast_study(grown, folder, "1").expected if each.name.startswith("eval")}
        for folder in (tmp_path / "empty", tmp_path / "out")
    )
    assert left.keys() == fresh.keys() and left
    for name, whole in fresh.items():
        assert left[name].passes == pytest.approx(whole.passes * 6 / 18), name
        assert left[name].seconds == pytest.approx(whole.seconds * 6 / 18), name


def test_marks_say_what_a_step_was(studied: tuple[Path, Path, Studied]) -> None:
    _, out, _ = studied
    said = json.loads((out / "done" / "models.linf.seed-3.json").read_text(encoding="utf-8"))
    assert said["seed"] == 3 and said["model"]["against"] == {"linf": 0.1}


CLAIM = """
[outputs.claims]
kind = "claims"
[[outputs.claims.claims]]
claim = "attacked in training is better"
printed = [60.0, 50.0]
printed_on = "digits"
more = { model = "linf", number = "linf@0.1" }
less = { model = "plain", number = "linf@0.1" }
"""


def test_a_claim_is_decided_by_the_trainings_of_the_same_seeds(tmp_path: Path) -> None:
    text = without_sizes(SMALL).replace("seeds = [3, 4]", "seeds = 2") + CLAIM
    done = ra.study(written(tmp_path, text), tmp_path / "out", progress=False)
    runs = {
        model: [ra.load_result(tmp_path / f"out/runs/main/{model}/seed-{seed}") for seed in (0, 1)]
        for model in ("linf", "plain")
    }
    values = {model: np.array([run.accuracies().at("linf", 0.1) for run in each]) for model, each in runs.items()}
    gaps = values["linf"] - values["plain"]
    half = 12.706205 * gaps.std(ddof=1) / 2**0.5  # Student's t at 97.5 %, one degree of freedom
    row = dict(zip(done.tables["claims"].columns, done.tables["claims"].rows[0], strict=True))
    assert row["printed"] == "60 > 50"
    assert row["difference"] == f"{gaps.mean():+.1f} ({gaps.mean() - half:+.1f} to {gaps.mean() + half:+.1f})"
    verdict = "shown" if gaps.mean() > half else "not reproduced at this size" if gaps.mean() <= 0 else "not decided"
    assert row["verdict"] == verdict
    counts = [int(one.split(" ")[0]) for one in done.answer.split(": ")[1].split(", ")]
    assert counts == [verdict == each for each in ("shown", "not reproduced at this size", "not decided")]
    page = done.page.read_text(encoding="utf-8")
    assert page.index(done.answer) < page.index(verdict) < page.index("Tables and figures"), "the answer comes first"


def test_a_claim_of_other_seeds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="linf and plain"):
        read_study(written(tmp_path, without_sizes(SMALL) + CLAIM))


def test_a_claim_of_two_comparisons_holds_if_both_do(tmp_path: Path) -> None:
    """No number is larger than another one and smaller too; both differences are those of the trainings."""
    turned = (
        CLAIM
        + """
[outputs.claims.claims.then]
more = { model = "plain", number = "linf@0.1" }
less = { model = "linf", number = "linf@0.1" }
"""
    )
    text = without_sizes(SMALL).replace("seeds = [3, 4]", "seeds = 2") + turned
    table = ra.study(written(tmp_path, text), tmp_path / "out", progress=False).tables["claims"]
    row = dict(zip(table.columns, map(str, table.rows[0]), strict=True))
    first, second = row["difference"].split("; ")
    assert float(first.split(" ")[0]) == pytest.approx(-float(second.split(" ")[0]))
    assert row["verdict"] != "shown" and row["printed"] == "60 > 50; none"


PUBLISHED = """
[outputs.published]
kind = "published"
printed_on = "cifar10"
values = [
    { model = "linf", number = "linf@0.1", printed = 54.7, source = "table 1" },
    { model = "plain", number = "clean", printed = 90.15, source = "table 1", printed_on = "digits" },
]
"""


def test_what_is_printed_of_other_images_has_a_column_with_their_name(
    studied: tuple[Path, Path, Studied], tmp_path: Path
) -> None:
    _, out, _ = studied
    file = written(tmp_path, without_sizes(SMALL) + PUBLISHED)
    sheet = ra.study(file, shutil.copytree(out, tmp_path / "out"), progress=False).tables["published"]
    assert sheet.columns == ("model", "number", "printed", "ours", "source", "printed for cifar10")
    printed = [
        (row["printed"], row["printed for cifar10"])
        for row in (dict(zip(sheet.columns, r, strict=True)) for r in sheet.texts())
    ]
    assert sheet.is_beside_paper
    assert printed == [("none", "54.7"), ("90.2", "none")]
    with pytest.raises(UserError, match="printed_on = 'cifar10'"):
        read_study(written(tmp_path, without_sizes(SMALL) + PUBLISHED, ('printed_on = "cifar10"\n', "")))


def far_apart(strengths: dict[float, float]) -> Reference:
    """Accuracies whose differences are beyond what a stability constant looks at."""
    return Reference("mine", "", AccuracyTable(90.0, {"linf": strengths}), ("linf",))


def test_a_stability_constant_without_a_pair_says_so(tmp_path: Path) -> None:
    """No two of 90, 60 and 30 are within 3 points; of 90, 60 and 58 two are."""
    result = ra.Result.from_arrays([0, 1, 1, 0], [0, 1, 1, 0], {"linf": [0.15, 0.3, 0.05, 0.3]}, {"linf": [0.1, 0.2]})
    number = study_number(
        "SC", [RunNumbers(result), RunNumbers(result)], far_apart({0.1: 60.0, 0.2: 30.0}), {"linf": 0.1}
    )
    assert number.text == "no pair" and np.isnan(number.mean) and not number.has_interval
    sheet = Sheet("numbers", ("model", "SC"), [("linf", number)])
    assert sheet.texts() == [["linf", "no pair"]] and sheet.legend == ()
    assert next(iter(csv.DictReader(io.StringIO(sheet.csv()))))["SC"] == "no pair"
    found = study_number("SC", [RunNumbers(result)], far_apart({0.1: 60.0, 0.2: 58.0}), {"linf": 0.1})
    assert found.mean == pytest.approx(25 / 2)  # 75 and 50 percent right, 2 points apart
