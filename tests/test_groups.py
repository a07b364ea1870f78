"""Trainings of several seeds as one row: numbers, intervals and tests, against closed forms and printed digits."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import run_files
from command_line import entered
from robustatlas.common.errors import UserError
from robustatlas.metrics import (
    adversarial_hypervolume,
    combine_trainings,
    mean_over_trainings,
    percentile_interval,
    rank_sum_test,
    share_statistic,
)
from robustatlas.metrics.bootstrap import bootstrap_replicates
from robustatlas.metrics.references import Reference
from robustatlas.outcomes import AccuracyTable, DataRecord, Identity, ModelRecord
from robustatlas.report.facts import facts_of
from robustatlas.report.numbers.groups import groups_of
from robustatlas.results.result import Result

GRID = {"linf": [0.1, 0.2]}


def training(share: float, seed: int, name: str = "net", samples: int = 200) -> Result:
    """A run on the same images whose sizes are exponential, with margins."""
    images = np.random.default_rng(0).exponential(0.2 * share, samples)
    sizes = images * np.random.default_rng(seed).uniform(0.8, 1.2, samples)
    margins = np.clip(1 - np.array(GRID["linf"])[None] / sizes[:, None], -1, 1)
    labels = np.arange(samples) % 10
    return Result.from_arrays(labels, labels, {"linf": sizes}, GRID, margins={"linf": margins}, model=name)


def test_the_interval_over_trainings_is_students():
    values = [54.1, 55.2, 55.4, 56.9]
    found = mean_over_trainings(values, 0.9)
    low, high = scipy.stats.t.interval(0.9, 3, np.mean(values), scipy.stats.sem(values))
    assert (found.value, found.low, found.high) == pytest.approx((np.mean(values), low, high))


@pytest.mark.parametrize("count", [2, 3, 5, 6, 9])
def test_equal_trainings_show_no_spread(count: int):
    """The sign test tells a median from the common value with p = 2 * (1/2) ** count."""
    found = mean_over_trainings([50.0] * count)
    decided = 2 * 0.5**count <= 0.05
    assert (found.low, found.high) == ((50.0, 50.0) if decided else (-np.inf, np.inf))


def of_weights(result: Result, weights: str) -> Result:
    """The result as if its run recorded these weights."""
    model = ModelRecord(name=result.name, weights_sha256=weights)
    return replace(result, identity=Identity(model=model, data=DataRecord(name=result.data)))


def test_copies_of_one_training_are_not_several():
    runs = [of_weights(training(1, seed), f"{seed}") for seed in (1, 2)]
    copies = [*runs, of_weights(training(1, 3), "1")]  # the third one is the first one, evaluated with another seed
    assert groups_of({"a": runs}).trainings("a") == 2
    for groups in ({"a": copies}, {"a": runs, "b": [copies[2]]}):
        with pytest.raises(UserError, match="one training"):
            groups_of(groups)


def test_a_group_of_one_has_the_intervals_of_its_run():
    reference = Reference("small", "made up", AccuracyTable(100.0, {"linf": {0.1: 80.0, 0.2: 60.0}}), ("linf",))
    alone, other = training(1, 1, samples=60), training(2, 4, samples=60)
    shown = {
        name: number.images for name, number in groups_of({"a": [alone], "b": [other]}, reference).numbers["a"].items()
    }
    facts = facts_of(alone, reference=reference)
    assert facts.reference is not None and facts.attacks[0].accuracy is not None
    expected = {
        "clean accuracy": facts.clean,
        "average accuracy": facts.average,
        "L∞ at 0.2": facts.attacks[0].accuracy[-1],
    }
    expected |= {name: facts.reference.numbers[name] for name in ("CR ind-avg", "mUAR")}
    expected |= {"UAR linf": facts.attacks[0].against["UAR"]}
    for name, number in expected.items():
        assert getattr(shown[name], "interval", shown[name]) == number.interval, name


def test_one_training_says_nothing_of_another():
    assert (mean_over_trainings([50.0]).low, mean_over_trainings([50.0]).high) == (-np.inf, np.inf)
    with pytest.raises(UserError, match="One finite number for each training"):
        mean_over_trainings([])


def test_the_interval_over_images_draws_the_same_images_for_all_trainings():
    rights = [np.arange(100) < 80, np.arange(100) >= 20]  # wrong on other images: the mean varies less than either
    seeds = [{"accuracy": share_statistic(right)} for right in rights]
    found = combine_trainings(seeds)["accuracy"]
    drawn = bootstrap_replicates([each["accuracy"] for each in seeds]).mean(axis=0)
    assert found.images == percentile_interval(80.0, drawn)
    assert found.images.high - found.images.low < 12


def test_ten_seeds_that_are_all_better_have_the_p_values_of_table_ii():
    """Guo et al. 2024: 0.0002 between two trainings of ten seeds, 0.0001 against a network that gives one number."""
    ours, theirs = np.linspace(55.0, 55.9, 10), np.linspace(57.0, 57.9, 10)
    assert f"{rank_sum_test(ours, theirs).p_value:.4f}" == "0.0002"
    assert f"{rank_sum_test(ours, np.full(10, 0.4292)).p_value:.4f}" == "0.0001"


def test_groups_are_the_numbers_of_their_runs():
    groups = groups_of({"a": [training(1, 1), training(1, 2), training(1, 3)], "b": [training(2, 4), training(2, 5)]})
    for name, seeds, share in (("a", (1, 2, 3), 1), ("b", (4, 5), 2)):
        runs = [training(share, seed) for seed in seeds]
        robust = [run.outcome("linf").accuracies()[-1] for run in runs]
        volumes = [100 * adversarial_hypervolume(run.outcome("linf").margins).mean for run in runs]
        found = groups.numbers[name]
        assert found["L∞ at 0.2"].values == pytest.approx(robust)
        assert found["L∞ at 0.2"].std == pytest.approx(np.std(robust, ddof=1))
        assert found["hypervolume linf, x 100"].values == pytest.approx(volumes, abs=1e-4)
    (tests,) = groups.tests().values()
    assert tests["L∞ at 0.2"].p_value == pytest.approx(0.2)  # 2 of the 10 ways to choose two of five
    assert tests["L∞ at 0.2"].effect == -1


def test_a_reference_holds_for_groups_too():
    reference = Reference("small", "made up", AccuracyTable(100.0, {"linf": {0.1: 80.0, 0.2: 60.0}}), ("linf",))
    runs = [training(1, 1), training(1, 2)]
    found = groups_of({"a": runs}, reference).numbers["a"]["mUAR"]
    expected = [100 * run.outcome("linf").accuracies().sum() / 140 for run in runs]
    assert found.values == pytest.approx(expected)


def test_groups_on_the_command_line(tmp_path: Path):
    for seed in (1, 2, 3):
        run_files.write(tmp_path / f"a-{seed}", training(1, seed))
        run_files.write(tmp_path / f"b-{seed}", training(2, 10 + seed))
    args = ["compare", "--group", f"a={tmp_path}/a-*", "--group", f"b={tmp_path}/b-*"]
    told = entered(*args, "--explain", columns=160).out
    values = [training(1, seed).outcome("linf").accuracies()[-1] for seed in (1, 2, 3)]
    row = next(line for line in told.splitlines() if line.strip().startswith("L∞ at 0.2"))
    assert f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}" in row
    assert "3 trainings" in told
    assert "a against b" in told
    assert "0.1000" in told
    for wrong, named in (
        ([f"a={tmp_path}/c-*"], "c-*"),
        (["a"], "--group"),
        ([f"a={tmp_path}/a-*", f"b={tmp_path}/a-1"], "twice"),
    ):
        groups = [part for one in wrong for part in ("--group", one)]
        assert named in entered("compare", *groups, code=1).err
    assert "--group" in entered(*args, tmp_path / "a-1", code=1).err
