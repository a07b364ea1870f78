"""UA2, from accuracies and from outcomes, and where it stands."""

import numpy as np
import pytest

import robustatlas as ra
from robustatlas.common.errors import UserError
from robustatlas.metrics import AccuracyTable, ua2
from robustatlas.metrics.references import published_ua2
from robustatlas.metrics.references.imagenet_ua import CIFAR10, CORE, IMAGENET, to_sound_units
from robustatlas.metrics.uar import level_positions
from robustatlas.report.facts.rows import Ground, run_row
from robustatlas.report.facts.run import facts_of
from robustatlas.report.facts.run_json import run_as_json
from robustatlas.report.gate.requirements import Requirement, required_number
from robustatlas.report.numbers.statistics import model_statistics

PUBLISHED = {
    "jpeg": 38.57, "elastic": 10.78, "wood": 19.16, "glitch": 8.86, "kaleidoscope": 0.20, "pixel": 6.35,
    "snow": 11.19, "gabor": 2.26,
}  # fmt: skip
"""A ResNet-50 trained against l2 of 3 on ImageNet, medium level, and its printed UA2."""
UA2_PUBLISHED = 12.17


def grids(levels: dict[str, tuple[float, float, float]] = CIFAR10) -> dict[str, list[float]]:
    return {f"ua-{name}": list(to_sound_units(name, levels[name])) for name in CORE}


def result() -> ra.Result:
    """Twelve samples; the k-th of them withstands an attack up to its k-th strength."""
    strengths = grids()
    sizes = {
        name: [0.0, *(0.999 * grid[k % 3] if k < 9 else np.inf for k in range(11))] for name, grid in strengths.items()
    }
    return ra.Result.from_arrays([0] * 12, [1] + [0] * 11, sizes, strengths, model="mine")


def test_it_is_the_published_number() -> None:
    entries = {f"ua-{name}": dict(zip(IMAGENET[name], (90, PUBLISHED[name], 0), strict=True)) for name in CORE}
    assert ua2(AccuracyTable(62.83, entries)) == pytest.approx(UA2_PUBLISHED, abs=0.005)


def test_levels_show_in_the_strengths() -> None:
    assert level_positions(grids()) is not None
    assert level_positions({f"ua-{name}": CIFAR10[name] for name in CORE}) is not None
    curve = {f"ua-{name}": [0.001, *IMAGENET[name], 999.0] for name in CORE}
    assert level_positions(curve) == {
        level: {f"ua-{name}": k for name in CORE} for k, level in enumerate(("low", "medium", "high"), 1)
    }
    assert level_positions(grids() | {"ua-snow": [9.0, 16.0]}) is None
    assert level_positions(grids() | {"ua-gabor": list(IMAGENET["gabor"])}) is None


def test_what_is_missing_is_said() -> None:
    with pytest.raises(UserError, match="imagenet-ua"):
        ua2(AccuracyTable(90, {"linf": {0.1: 50.0}}))
    with pytest.raises(UserError, match="'middle'"):
        ua2(result().accuracies(), "middle")  # type: ignore[arg-type]


def test_mean_and_worst_stand_apart() -> None:
    found = {name: statistic.value for name, statistic in model_statistics(result().select_judged()).items()}
    assert found["UA2 medium"] == pytest.approx(ua2(result().accuracies()))
    assert found["UA worst medium"] == pytest.approx(found["UA2 medium"])  # the same samples under every attack
    table = result().accuracies()
    assert found["UA2 low"] == pytest.approx(np.mean([table.values(f"ua-{name}")[0] for name in CORE]))
    assert model_statistics(ra.Result.from_arrays([0], [0], {"linf": [0.1]}, {"linf": [0.1]}).select_judged()) == {}


def test_where_it_stands() -> None:
    facts = facts_of(result())
    value = facts.model_numbers["UA2 medium"].value
    assert run_as_json(facts)["UA2 medium"]["value"] == pytest.approx(value)
    assert facts.model_numbers.keys() >= {"UA2 low", "UA2 medium", "UA worst high"}
    row = run_row(result(), Ground.from_results([result()]).reference)
    assert row.numbers.find("UA2 medium").value == pytest.approx(value)
    assert required_number(Requirement.parse("ua2-medium>=10"), result(), facts).value == pytest.approx(value)
    for given, meant in (("ua2-medium>=0.1", "ua2-medium>=10"), ("ua-worst-high<=0.25", "ua-worst-high<=25")):
        with pytest.raises(UserError, match=f"is in percent; for .* give {meant}"):
            required_number(Requirement.parse(given), result(), facts)


def test_published_numbers_are_those_of_the_source() -> None:
    """The means over ImageNet's models are printed: 23.2, 9.4 and 4.1 %, over 70 models."""
    models = published_ua2("imagenet").models
    for level, mean in zip(("low", "medium", "high"), (23.2, 9.4, 4.1), strict=True):
        assert np.mean([getattr(model, level) for model in models]) == pytest.approx(mean, abs=0.05)
    for data, count in (("imagenet", 70), ("cifar10", 58), ("imagenet100", 25)):
        table = published_ua2(data)
        assert len(table.models) == count and set(table.read) == {"low", "medium", "high"}
        assert all(100 >= m.clean >= m.low >= m.medium >= m.high >= 0 for m in table.models)
        assert [m.medium for m in table.models] == sorted((m.medium for m in table.models), reverse=True)
    with pytest.raises(ra.UserError, match="did you mean 'imagenet'"):
        published_ua2("imagnet")
