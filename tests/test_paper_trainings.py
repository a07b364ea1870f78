"""The plan of every training of every paper, without training, beside the papers' numbers in paper_trainings.toml."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robustatlas.optimizers.pgd import PGD
from robustatlas.studies import read_study, shipped_studies, study_differences
from robustatlas.studies.planning import reference_plan, training_request
from robustatlas.training.recipes import Recipe
from robustatlas.training.settings import Settings

TABLE = tomllib.loads((Path(__file__).parent / "paper_trainings.toml").read_text(encoding="utf-8"))
DIGITS = 1e-5
"""Of the table, as a share of a number."""


def printed_settings(common: str) -> dict[str, Any]:
    """The settings of the trainer that a group of trainings shares."""
    found = dict(TABLE["common"][common])
    like = found.pop("like", None)
    return {**(printed_settings(like) if like else {}), **found} | {"source": found["source"]}


def check_settings(settings: Settings, common: str) -> None:
    for name, value in printed_settings(common).items():
        if name != "source":
            assert getattr(settings, name) == value, name


def check_crafting(recipe: Recipe, printed: Mapping[str, Any]) -> None:
    """`printed`: attack -> strength, and where they are printed steps and their length."""
    assert {o.name for o in recipe.against} == set(printed)
    for opponent in recipe.against:
        strength, *crafting = printed[opponent.name]
        assert opponent.epsilon == pytest.approx(strength, rel=DIGITS)
        if crafting:
            assert opponent.optimizer.steps == crafting[0]
        if len(crafting) > 1:
            assert isinstance(opponent.optimizer, PGD) and opponent.optimizer.length is None
            assert opponent.optimizer.rate == pytest.approx(crafting[1], rel=DIGITS)
        elif crafting:
            assert not isinstance(opponent.optimizer, PGD), "the table has no length of its steps"


def trainings() -> Iterator[Any]:
    for row in TABLE["training"]:
        for model, architecture in row["models"].items():
            yield pytest.param(row, model, architecture, id=f"{row['study']}-{model}")


@pytest.mark.parametrize(("row", "model", "architecture"), list(trainings()))
def test_a_training_has_the_numbers_of_its_paper(row: dict[str, Any], model: str, architecture: str) -> None:
    entry = read_study(row["study"], "paper").models[model]
    recipe, settings, _ = training_request(entry).plan(0)
    assert (entry.architecture, recipe.name) == (architecture, row["recipe"])
    check_settings(settings, row["common"])
    check_crafting(recipe, row.get("against", {}))
    for name, value in row.get("options", {}).items():
        found = getattr(recipe, name)
        assert list(found) == pytest.approx(value, rel=DIGITS) if isinstance(value, list) else found == value, name
    assert (len(entry.seeds), entry.keep) == (row.get("seeds", 1), row.get("keep", entry.keep))
    assert (entry.extra not in (None, "none")) == row.get("extra", False)


def strengths_of(row: dict[str, Any]) -> dict[str, list[float]]:
    """Attack -> the strengths trained at."""
    equal = {attack: np.linspace(*ends) for attack, ends in row.get("trained", {}).items()}
    doubled = {a: first * 2.0 ** np.arange(count) for a, (first, count) in row.get("doubled", {}).items()}
    return {attack: grid.tolist() for attack, grid in {**equal, **doubled}.items()}


@pytest.mark.parametrize("row", TABLE["reference"], ids=lambda row: f"{row['reference']}-{'-'.join(strengths_of(row))}")
def test_a_reference_is_trained_as_in_its_paper(row: dict[str, Any]) -> None:
    plan = reference_plan(read_study(row["study"], "paper").references[row["reference"]])
    assert (plan.architecture, plan.seeds) == (row["architecture"], row.get("seeds", 1))
    for attack, printed in strengths_of(row).items():
        at = [strength for name, strength, seed in plan.trainings() if name == attack and seed == 0]
        assert at == pytest.approx(printed, rel=DIGITS)
        crafting = [row["steps"], row["length"]] if "length" in row else [row["steps"]]
        recipe = plan.recipe_against(attack, at[0])
        assert recipe.name == row["recipe"]
        check_crafting(recipe, {attack: [at[0], *crafting]})
        check_settings(plan.course(attack).settings, row["common"])


@pytest.mark.parametrize("name", shipped_studies())
def test_every_training_of_a_paper_is_in_the_table(name: str) -> None:
    study = read_study(name, "paper")
    known = [model for row in TABLE["training"] if row["study"] == name for model in row["models"]]
    assert sorted(known) == sorted(model for model, entry in study.models.items() if entry.trained)
    attacks = [(row["reference"], a) for row in TABLE["reference"] if row["study"] == name for a in strengths_of(row)]
    assert sorted(attacks) == sorted((ref, a) for ref, entry in study.references.items() for a in entry.strengths)
    assert all(row["source"] for row in (*TABLE["training"], *TABLE["reference"], *TABLE["common"].values()))


@pytest.mark.parametrize("name", shipped_studies())
@pytest.mark.parametrize("size", ["paper", "small", "tiny"])
def test_every_training_reaches_its_strength(name: str, size: str) -> None:
    assert not study_differences(read_study(name, size)).warnings
