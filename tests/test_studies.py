"""Studies: their files are checked key by key, their steps are shared out, what is there is never done again."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import robustatlas as ra
from robustatlas.cli import main
from robustatlas.common.errors import UserError
from robustatlas.evaluation.workers.share import Share
from robustatlas.studies import OUTPUTS, forecast_study, read_study, shipped, steps_of
from robustatlas.studies.planning import chosen, mine
from robustatlas.studies.tables import Sheet
from robustatlas.studies.writing import Studied

SMALL = """
title = "A small study"

[data.digits]
name = "digits"
samples = 12
train_samples = 200

[training]
architecture = "digits-cnn"
settings = { epochs = 1, batch_size = 50, learning_rate = 0.02, held_out = 0 }

[models.plain]
recipe = "standard"
seeds = 2
[models.linf]
recipe = "pgd"
against = { linf = 0.1 }
steps = 1
seeds = [3, 4]
[models.bits]
of = "plain"
defense = "bits=3"

[evaluations.main]
attacks = ["linf"]
strengths = { linf = "0.2:2" }
effort = "low"
diagnose = false
audit = 0

[outputs.scores]
kind = "scores"
numbers = ["clean", "linf@0.1", "average"]

[outputs.tests]
kind = "tests-between-groups"
models = ["linf"]
first = "plain"
numbers = ["linf@0.1"]

[size.other]
differs = ["one more strength"]
without = ["models.bits"]
[size.other.evaluations.main]
strengths = { linf = "0.3:3" }
"""


def written(folder: Path, text: str = SMALL, *changes: tuple[str, str]) -> Path:
    """The file of a study, changed in places."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = folder / "mine.toml"
    file.write_text(text, encoding="utf-8")
    return file


def command(*words: object) -> int:
    """The exit code of ``robustatlas study``."""
    with pytest.raises(SystemExit) as raised:
        main(["study", *map(str, words)])
    return int(raised.value.code or 0)


def without_sizes(text: str) -> str:
    return text[: text.index("[size.other]")]


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
    assert float(row["L∞ 0.1, trainings high"]) == pytest.approx(np.mean(values) + half, rel=1e-4)
    assert float(row["L∞ 0.1, images low"]) <= np.mean(values) <= float(row["L∞ 0.1, images high"])
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


def test_the_same_again_does_nothing(studied: tuple[Path, Path, Studied], monkeypatch: pytest.MonkeyPatch) -> None:
    file, out, done = studied
    monkeypatch.setattr("robustatlas.studies.running._do", lambda *_: pytest.fail("nothing is to be done"))
    again = ra.study(file, out, progress=False)
    assert {name: sheet.markdown() for name, sheet in again.tables.items()} == {
        name: sheet.markdown() for name, sheet in done.tables.items()
    }


def test_a_changed_file_says_what_is_reused_new_and_grown(
    studied: tuple[Path, Path, Studied], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = studied
    more = '[models.more]\nrecipe = "standard"\n[models.bits]'
    grown = written(tmp_path, without_sizes(SMALL), ('"0.2:2"', '"0.1,0.2,0.3"'), ("[models.bits]", more))
    assert command(grown, "--out", shutil.copytree(out, tmp_path / "out")) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "Reused: 4 steps (models.plain.seed-0, models.plain.seed-1, models.linf.seed-3 and 1 more)" in said
    assert "new: 2 steps (models.more.seed-0, evaluations.main.more.seed-0)" in said
    assert "done again, as the file has changed: 6 steps" in said
    run = ra.load_result(tmp_path / "out" / "runs" / "main" / "linf" / "seed-3")
    assert run.strengths("linf").tolist() == pytest.approx([0.1, 0.2, 0.3])


def test_what_was_trained_is_never_replaced(studied: tuple[Path, Path, Studied], tmp_path: Path) -> None:
    _, out, _ = studied
    changed = written(tmp_path, without_sizes(SMALL), ("steps = 1", "steps = 2"))
    with pytest.raises(UserError, match=r"models.linf.seed-3 was done in .* \(model.steps: 1 there, 2 given\)"):
        ra.study(changed, out, progress=False)
    with pytest.raises(UserError, match="holds the study mine, not mine other"):
        ra.study(written(tmp_path), out, "other", progress=False)


def test_one_step_alone_and_what_it_waits_for(tmp_path: Path) -> None:
    file = written(tmp_path, without_sizes(SMALL))
    with pytest.raises(UserError, match=r"evaluations.main.plain.seed-0 needs models.plain.seed-0; leave --only out"):
        ra.study(file, tmp_path / "out", only=["evaluations"], progress=False)
    done = ra.study(file, tmp_path / "out", only=["models.plain", "outputs.scores"], progress=False)
    assert (tmp_path / "out/trainings/plain/seed-1/card.json").is_file()
    assert not (tmp_path / "out/trainings/linf").exists()
    assert not done.complete and done.outputs[0].waits[0] == "evaluations.main.plain.seed-0"
    with pytest.raises(UserError, match=r"--only 'models.plane' is no step; did you mean 'models.plain'\?"):
        ra.study(file, tmp_path / "out", only=["models.plane"], progress=False)


def test_parts_share_all_steps_and_none_waits_for_another(tmp_path: Path) -> None:
    steps = steps_of(read_study(written(tmp_path, without_sizes(SMALL))))
    parts = [{step.name for step in mine(steps, Share(number, 3))} for number in range(3)]
    once = [step.name for step in steps if step.kind in ("models", "evaluations")]
    assert sorted(once) == sorted(name for part in parts for name in part if not name.startswith("outputs"))
    for part in parts:
        assert all(
            need in part for step in steps if step.name in part and step.kind == "evaluations" for need in step.needs
        )
    assert len(chosen(steps, ["models"])) == 4


def test_a_step_that_is_interrupted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, out = written(tmp_path, without_sizes(SMALL)), tmp_path / "out"
    from robustatlas.studies import running

    whole = running._do

    def stopped(finished, step, *rest):
        if step.name == "evaluations.main.linf.seed-3":
            raise KeyboardInterrupt
        return whole(finished, step, *rest)

    monkeypatch.setattr(running, "_do", stopped)
    with pytest.raises(KeyboardInterrupt):
        ra.study(file, out, progress=False)
    kept = sorted(path.stem for path in (out / "done").glob("*.json"))
    assert "evaluations.main.plain.seed-1" in kept and "evaluations.main.linf.seed-3" not in kept
    done: list[str] = []
    monkeypatch.setattr(
        running, "_do", lambda finished, step, *rest: (done.append(step.name), whole(finished, step, *rest))[1]
    )
    assert ra.study(file, out, progress=False).complete
    assert set(done).isdisjoint(kept) and "evaluations.main.linf.seed-3" in done


MISTAKES = [
    (("seeds = 2", "seedss = 2"), "models.plain.seedss of study mine is not known; a misspelt entry?"),
    (("samples = 12", 'samples = "many"'), "data.digits.samples of study mine: input should be a valid integer"),
    (("samples = 12", "samples = 0"), "data.digits.samples of study mine: input should be greater than or equal to 1"),
    (("seeds = [3, 4]", "seeds = []"), r"models.linf.seeds of study mine: \[\]; expected how many trainings"),
    (("seeds = [3, 4]", ""), "outputs.tests of study mine compares groups of trainings, and models.linf has one"),
    (
        ("against = { linf = 0.1 }", "against = { linf = -1 }"),
        "models.linf.against.linf of study mine: -1 is no strength",
    ),
    (('"0.2:2"', '"0.2:x"'), "evaluations.main.strengths.linf of study mine: '0.2:x' is not understood"),
    (('recipe = "pgd"', 'recipe = "pdg"'), "models.linf: There is no recipe 'pdg'; did you mean 'pgd'?"),
    (('recipe = "pgd"', 'preset = "tradez"'), "models.linf: There is no preset 'tradez'; did you mean 'trades'?"),
    (
        ("epochs = 1,", "epoch = 1,"),
        "models.plain.settings: 'epoch' is no setting of the trainer; did you mean 'epochs'?",
    ),
    (("steps = 1", 'steps = 1\nstart = "plane"'), "models.linf.start names 'plane'; did you mean 'plain'?"),
    (
        ("steps = 1\nseeds = [3, 4]", 'steps = 1\nstart = "plain"\n[models.plain2]\nstart = "plain2"'),
        "models of study mine wait for each other in a circle: plain2 -> plain2",
    ),
    (('of = "plain"', 'of = "plane"'), "models.bits.of names 'plane'; did you mean 'plain'?"),
    (('defense = "bits=3"', 'defense = "bitz=3"'), "models.bits.defense: 'bitz=3' is no transformation"),
    (
        ('attacks = ["linf"]', 'attacks = ["lnif"]'),
        "evaluations.main.attacks of study mine: .*'lnif'.*did you mean 'linf'",
    ),
    (
        ('kind = "scores"', 'kind = "score"'),
        "outputs.scores.kind of study mine: There is no output 'score'; did you mean",
    ),
    (('kind = "scores"', ""), "outputs.scores of study mine has no kind; there are scores, "),
    (('numbers = ["clean", "linf@0.1", "average"]', "numbers = []"), "outputs.scores of study mine"),
    (('numbers = ["clean", "linf@0.1", "average"]', ""), "numbers of outputs.scores of study mine is missing"),
    (
        ('models = ["linf"]', 'models = ["lnif"]'),
        "outputs.tests of study mine: models names 'lnif'; did you mean 'linf'?",
    ),
    (("samples = 12", "samples = = 12"), "study mine is not TOML"),
    (("[data.digits]", "[date.digits]\n[data.digits]"), "date of study mine is not known"),
    (("[models.bits]", "[models]\nbits = 3\n[other]"), "is not TOML|models.bits of study mine is 3; expected a table"),
]


@pytest.mark.parametrize(("change", "sentence"), MISTAKES, ids=[sentence[:40] for _, sentence in MISTAKES])
def test_each_mistake_is_one_sentence_that_names_the_key(
    change: tuple[str, str], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=sentence) as raised:
        read_study(written(tmp_path, without_sizes(SMALL), change))
    assert "\n" not in str(raised.value)


def test_sizes_give_keys_anew_and_leave_entries_out(tmp_path: Path) -> None:
    file = written(tmp_path)
    study = read_study(file, "other")
    assert study.evaluations["main"].strengths == {"linf": (0.1, 0.2, 0.3)}
    assert study.evaluations["main"].effort == "low" and "bits" not in study.models
    assert study.size == "other" and study.differs == ["one more strength"]
    with pytest.raises(UserError, match=r"There is no size 'othr'; did you mean 'other'\?"):
        read_study(file, "othr")
    with pytest.raises(UserError, match="There is no size 'small'; the sizes of study mine are other"):
        read_study(file)
    with pytest.raises(UserError, match=r"size.other.without of study mine names 'models.bitz', which is not there"):
        read_study(written(tmp_path, SMALL, ('models.bits"]', 'models.bitz"]')), "other")
    with pytest.raises(UserError, match=r"There is no study 'uhr'; did you mean 'uar'\?"):
        read_study("uhr")


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").write_text("a file in the way")
    assert command(written(tmp_path, without_sizes(SMALL)), "--out", tmp_path / "out") == 1
    assert "Cannot write" in " ".join(capsys.readouterr().err.split())


def test_an_output_that_cannot_be_made_does_not_keep_the_others(
    studied: tuple[Path, Path, Studied], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = studied
    file = written(tmp_path, without_sizes(SMALL), ('numbers = ["linf@0.1"]', 'numbers = ["linf@0.7"]'))
    assert command(file, "--out", shutil.copytree(out, tmp_path / "out"), "--only", "outputs") == 1
    printed = capsys.readouterr()
    assert "linf 0.1" in printed.out and "was not evaluated with linf at 0.7" in " ".join(printed.err.split())


def test_the_command_lists_and_shows_those_that_come_along(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command("--list") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(shipped())
    assert command("uar", "--show") == 0
    copy = tmp_path / "copy.toml"
    copy.write_text(capsys.readouterr().out, encoding="utf-8")
    assert read_study(copy, "tiny").models == read_study("uar", "tiny").models


def test_what_it_will_take_is_told_and_nothing_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = written(tmp_path, without_sizes(SMALL)), tmp_path / "out"
    found = {each.name: each for each in forecast_study(read_study(file), out).entries}
    assert found["models.plain"].steps == 2 and found["models.plain"].passes == 2 * 2 * 200
    assert found["models.linf"].passes == 2 * 4 * 200  # forward and backward, of the step and of the update
    assert found["evaluations.main.bits"].passes > 12 and not any(each.why for each in found.values())
    assert command(file, "--out", out, "--dry-run") == 0
    assert "In all, of what is known, at most" in " ".join(capsys.readouterr().out.split())
    assert not out.exists()


@pytest.mark.parametrize("name", list(shipped()))
@pytest.mark.parametrize("size", ["tiny", "small", "paper"])
def test_the_four_papers_are_read_at_each_size_and_say_what_differs(name: str, size: str) -> None:
    study = read_study(name, size)
    assert study.differs and study.paper and steps_of(study)


@pytest.mark.parametrize("name", list(shipped()))
def test_each_paper_runs_to_all_of_its_tables_and_figures(name: str, tmp_path: Path) -> None:
    done = ra.study(name, tmp_path, "tiny", progress=False)
    assert done.complete, [written.why or written.waits for written in done.outputs if written.why or written.waits]
    for file, sheet in done.tables.items():
        assert sheet.rows, file
        assert all(cell.strip() for row in sheet.texts() for cell in row), file
        assert (tmp_path / "outputs" / f"{file}.csv").is_file()
    figures = [figure for written in done.outputs for figure in written.figures]
    assert figures
    for figure in figures:
        assert all((tmp_path / "outputs" / f"{figure}.{form}").stat().st_size > 1000 for form in ("png", "svg", "pdf"))
    assert all(written.sheets or written.figures or written.pages for written in done.outputs)


def test_a_sheet_spells_its_cells() -> None:
    sheet = Sheet("t", ("a|b", "c"), [("=x", 1.25), ("y", float("nan"))])
    assert sheet.markdown().splitlines()[0] == "| a\\|b | c |"
    assert sheet.csv().splitlines() == ["a|b,c", "'=x,1.25", "y,nan"]
    assert set(OUTPUTS) >= {"scores", "board"}


def test_marks_say_what_a_step_was(studied: tuple[Path, Path, Studied]) -> None:
    _, out, _ = studied
    said = json.loads((out / "done" / "models.linf.seed-3.json").read_text(encoding="utf-8"))
    assert said["seed"] == 3 and said["model"]["against"] == {"linf": 0.1}
