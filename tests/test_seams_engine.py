"""What the engine really writes, read through every view: each attack by its own search, and by each other valid one an
attack of each form; both protocols."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import robustatlas as ra
from helpers_core import brief
from robustatlas.attacks.catalogue import catalogue
from robustatlas.attacks.definition import Attack, ProtocolName, Search
from robustatlas.outcomes import query
from test_seams import check_seams


def network_for(side: int) -> nn.Module:
    torch.manual_seed(1)
    conv = nn.Conv2d(3, 6, 3, stride=2)
    return nn.Sequential(conv, nn.ReLU(), nn.Flatten(), nn.Linear(6 * (side // 2 - 1) ** 2, 4)).double()


def images_for(network: nn.Module, side: int, count: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(count, 3, side, side, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    labels = network(x).argmax(1)
    labels[-2] = (labels[-2] + 1) % 4  # misclassified clean
    return x, labels


@pytest.fixture(scope="module")
def network() -> nn.Module:
    return network_for(32)


@pytest.fixture(scope="module")
def images(network: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    return images_for(network, 32)


SHORT = {"steps": 2, "inner_steps": 1, "search_steps": 1, "restarts": 1}
CASES: list[tuple[ProtocolName, Search | None]] = [
    ("default", None),
    ("default", "bisection"),
    ("default", "every"),
    ("default", "frontier"),
    ("paper", None),
    ("paper", "every"),
]


def form(attack: Attack, search: Search) -> Any:
    """What of an attack decides how the engine searches and what it writes; threat models of one form differ in images
    alone."""
    runs = tuple((run.role, type(run.optimizer), run.objective) for run in attack.plan(search).runs)
    threat = attack.threat
    return runs, threat.optimised, threat.chooses, threat.additive, bool(threat.levels), attack.unbounded


def one_of_each_form(attacks: list[Attack], search: Search) -> list[Attack]:
    return list({form(attack, search): attack for attack in attacks}.values())


@pytest.mark.parametrize(("protocol", "search"), CASES)
def test_every_view_of_every_attack_agrees(protocol: ProtocolName, search: Search | None, tmp_path: Path) -> None:
    side = 16 if protocol == "default" else 32
    network = network_for(side)
    images = images_for(network, side, count=3)
    attacks = [
        brief(attack, most=SHORT)
        for attack in catalogue(protocol).values()
        if search is None or search in attack.searches[1:]
        if protocol == "default" or attack.runs != catalogue()[attack.name].runs
    ]
    if search is not None:
        attacks = one_of_each_form(attacks, search)
    assert attacks
    result = ra.evaluate(
        network, images, attacks, search=search, protocol=protocol, run=tmp_path / "real", progress=False
    )
    check_seams(result, tmp_path)
    rows = query("SELECT attack, strengths, list(broken) FROM outcomes GROUP BY ALL", tmp_path / "real").rows
    assert len(rows) == len(attacks)
    for name, strengths, broken in rows:
        accuracies = 100 * (3 - np.array(broken).sum(0)) / 3
        assert dict(zip(strengths, accuracies.tolist(), strict=True)) == dict(result.accuracies().entries[name])


def test_sets_that_are_not_nested_are_judged_at_each_strength(network: nn.Module, images: Any) -> None:
    corruptions = [attack for name, attack in catalogue().items() if name.startswith("corruption-")]
    own = ra.evaluate(network, images, corruptions, progress=False)
    every = ra.evaluate(network, images, corruptions, search="every", progress=False)
    for attack in corruptions:
        np.testing.assert_array_equal(own.outcome(attack.name).fooled, every.outcome(attack.name).fooled)
        assert not own.outcome(attack.name).monotone
    with pytest.raises(ra.UserError, match=r"'descent' .*'corruption-gaussian-noise'"):
        ra.evaluate(network, images, ["linf", "corruption-gaussian-noise"], search="descent")


def columns(result: ra.Result, attack: str) -> dict[str, np.ndarray]:
    names = ("strengths", "minimal_size", "found_class", "margins", "fooled", "forward", "backward")
    return {name: getattr(result.outcome(attack), name) for name in names}


def evaluate(network: nn.Module, images: Any, attacks: list[Attack], **options: Any) -> ra.Result:
    """One sample at a time: then nothing but the settings can change a bit, not even the order of a matrix product."""
    return ra.evaluate(network, images, attacks, batch_size=1, **options)


def test_a_mixed_run_equals_separate_ones_and_a_grown_run_one_made_at_once(
    network: nn.Module, images: Any, tmp_path: Path
) -> None:
    names = ["linf", "elastic", "corruption-fog"]
    attacks = [brief(catalogue()[name]) for name in names]
    mixed = evaluate(network, images, attacks, run=tmp_path / "mixed")
    grown = tmp_path / "grown"
    evaluate(network, images, attacks[:1], samples=2, run=grown, shard_size=1)
    evaluate(network, images, attacks[2:], samples=[4, 2], run=grown)
    evaluate(network, images, attacks, samples=np.array([True, False, True, True, False]), run=grown)
    files = {path: path.stat().st_mtime_ns for path in grown.glob("outcomes/*/*.parquet")}
    evaluate(network, images, attacks, run=grown)
    assert all(path.stat().st_mtime_ns == time for path, time in files.items())
    for name, attack in zip(names, attacks, strict=True):
        alone = evaluate(network, images, [attack])
        for other in (alone, ra.load_result(grown), ra.load_result(tmp_path / "mixed")):
            for column, values in columns(mixed, name).items():
                np.testing.assert_array_equal(values, columns(other, name)[column], f"{name} {column}")


def test_added_strengths_are_searched_and_old_ones_kept(network: nn.Module, images: Any, tmp_path: Path) -> None:
    attack = brief(catalogue()["linf"])
    low, high = attack.strengths
    first = ra.evaluate(network, images, [attack], run=tmp_path)
    middle = (low + high) / 2
    more = ra.evaluate(network, images, [replace(attack, strengths=(low, middle, high))], run=tmp_path)
    assert more.strengths("linf").tolist() == [low, middle, high]
    assert (more.minimal_size("linf") <= first.minimal_size("linf")).all()
    alone = ra.evaluate(network, images, [replace(attack, strengths=(middle,))])
    found = np.minimum(first.minimal_size("linf"), alone.minimal_size("linf"))
    np.testing.assert_array_equal(more.minimal_size("linf"), found)
    again = ra.evaluate(network, images, [replace(attack, strengths=(low, middle, high))], run=tmp_path)
    np.testing.assert_array_equal(again.outcome("linf").forward, more.outcome("linf").forward, "computed once")
