"""A field of models: one run each, and one that fails does not keep the others from being evaluated."""

from pathlib import Path

import numpy as np
import pytest

import robustatlas as ra
from command_line import entered
from robustatlas.evaluation.field import read_field

OPTIONS = ["--data", "digits", "--attacks", "linf", "--strengths", "linf=0.1,0.3", "--samples", "6"]


@pytest.fixture
def models(tmp_path: Path) -> Path:
    (tmp_path / "broken.py").write_text("def make():\n    raise RuntimeError('no such file')\n")
    file = tmp_path / "models.txt"
    file.write_text(
        f"builtin:digits-linf --name first   # ours\n\n{tmp_path}/broken.py:make --name broken\n"
        "builtin:digits-standard\nbuiltin:digits-lin\n"
    )
    return file


def evaluated(run: Path | None) -> ra.Result:
    model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
    return ra.evaluate(model, data, "linf", strengths={"linf": [0.1, 0.3]}, samples=6, run=run, progress=False)


def test_the_others_are_evaluated_and_failures_are_listed_at_the_end(models: Path, tmp_path: Path) -> None:
    store = tmp_path / "runs"
    said = entered("field", models, *OPTIONS, "--store", store, code=1, columns=300)
    ending = said.err.split("failed:")[-1]
    assert "2 of 4 models failed:" in said.err
    assert "broken: " in ending
    assert "no such file" in ending
    assert "'digits-lin'" in ending
    assert sorted(run.name for run in store.iterdir()) == ["builtin-digits-standard", "first"]
    alone = evaluated(None)
    assert np.array_equal(ra.load_result(store / "first").minimal_size("linf"), alone.minimal_size("linf"))
    assert f"leaderboard build {store}/first {store}/builtin-digits-standard" in said.out
    again = entered("field", models, *OPTIONS, "--store", store, code=1)
    assert again.err.count("Nothing to do") == 2


def test_a_forecast_is_of_what_is_missing_and_writes_nothing(models: Path, tmp_path: Path) -> None:
    store = tmp_path / "runs"
    models.write_text("builtin:digits-linf --name first\nbuiltin:digits-standard --name second\n")
    evaluated(store / "first")
    options = [*OPTIONS, "--store", store, "--dry-run", "--price", 3600]
    said = entered("field", models, *options, columns=200).out
    rows = {line.split()[0]: line.split() for line in said.splitlines() if line.strip()}
    assert rows["first"][1] == "0"
    assert rows["second"][1] == "6"
    assert " at 3600 an hour" in said
    assert [run.name for run in store.iterdir()] == ["first"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "lists no models"),
        ("# nothing", "lists no models"),
        ("builtin:a --weight b", "line 1 is not understood"),
        ("builtin:a\nbuiltin:a", "two models called 'builtin-a'"),
        ("builtin:a --set bits", "line 1 is not understood"),
    ],
)
def test_a_list_that_is_none_is_one_sentence(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "models.txt").write_text(text)
    with pytest.raises(ra.UserError, match=why):
        read_field(tmp_path / "models.txt")
    with pytest.raises(ra.UserError, match="cannot be read"):
        read_field(tmp_path / "nowhere.txt")


def test_options_of_a_model_are_those_of_evaluate(tmp_path: Path) -> None:
    (tmp_path / "models.txt").write_text(
        "net.py:make --weights a/b.safetensors --mean 0.5 --std 0.2,0.3,0.4 --set depth=3"
    )
    (entry,) = read_field(tmp_path / "models.txt")
    assert entry.name == "net.py-make-b"
    assert entry.options == {
        "weights": "a/b.safetensors", "mean": 0.5, "std": (0.2, 0.3, 0.4), "arguments": {"depth": 3},
    }  # fmt: skip
