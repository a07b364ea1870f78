"""On a pretend accelerator: the CPU's answers to the last bit, and at most one wait of the host in four steps."""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

import pretend
import pretend_cases as cases
from pretend_cases import Arrays, Both
from robustatlas.attacks.catalogue import catalogue
from robustatlas.attacks.definition import Effort
from robustatlas.threats.everyday.change import Change
from robustatlas.training import RECIPES

pytestmark = pytest.mark.skipif(not pretend.AVAILABLE, reason="this torch takes no device written in Python")

Ask = Callable[..., Any]


def ours(thing: type) -> bool:
    """Whether a class is this package's own, and no plugin's."""
    return thing.__module__.split(".")[0] == "robustatlas"


ATTACKS = [name for name, attack in catalogue().items() if ours(type(attack.threat))]
PUBLISHED = [
    name
    for name, attack in catalogue("paper").items()
    if name in ATTACKS and (attack.threat, attack.runs) != (catalogue()[name].threat, catalogue()[name].runs)
]
PATTERNED = ["square-l2", "square-l1"]  # send constants once, for which a few steps do not make up
SWEPT = [
    name for name in ATTACKS if isinstance(catalogue()[name].threat, Change)
]  # send the table of their points once
RIGID = [name for name in ATTACKS if not catalogue()[name].threat.optimised]
SEARCHES = list(dict.fromkeys(search for name in ATTACKS for search in catalogue()[name].searches))
OWN_RECIPES = [name for name, recipe in RECIPES.items() if ours(recipe)]


@pytest.fixture(scope="module")
def there() -> Iterator[Ask]:
    """Calls a function where there is the device: in a process of its own, which keeps it."""
    with ProcessPoolExecutor(1, get_context("spawn"), cases.begin) as pool:
        yield lambda function, *arguments, **options: pool.submit(function, *arguments, **options).result()


def same(first: Arrays, second: Arrays, besides: tuple[str, ...] = ()) -> None:
    assert first.keys() == second.keys()
    for name in first:
        if not name.endswith(besides or ("-",)):
            np.testing.assert_array_equal(first[name], second[name], name, strict=True)


def seldom(both: Both, once: int = 0) -> None:
    """Beside so many waits at the beginning."""
    assert both.steps > 0
    assert sum(both.waits.values()) - once <= both.steps / 4, (both.steps, both.waits)


def test_the_device_refuses_what_an_accelerator_refuses(there: Ask) -> None:
    *mixed, numpy = there(cases.refused_by_the_device)
    assert all("Expected all tensors to be on the same device" in message for message in mixed)
    assert numpy


def test_the_device_says_when_the_host_waits(there: Ask) -> None:
    never = ("arithmetic", "index", "dtype", "made")
    counts = there(cases.said_by_the_device)
    assert counts == {name: int(name not in never) for name in counts}


def test_the_process_of_the_tests_has_no_such_device(there: Ask) -> None:
    with pytest.raises(RuntimeError):
        torch.empty(1, device=pretend.NAME)


@pytest.mark.parametrize("attack", [*ATTACKS, "recolor+stadv+linf"])
def test_every_attack_finds_the_same_and_waits_at_most_once_in_four_steps(there: Ask, attack: str) -> None:
    # Perceptual distances take passes of their own on accelerators, so that they are in full precision.
    same_but_for_passes = (" forward",) if attack == "lpips" else ()
    # Four samples at work, whose places four others take; each leg runs once.
    both = there(cases.evaluated, [attack], most=cases.LONG, runs=1, count=8, batch_size=4)
    same(both.cpu, both.accelerator, same_but_for_passes)
    if attack not in (*RIGID, *PATTERNED, "jpeg-quality"):  # whose files the host writes
        seldom(both, once=2 * (attack in SWEPT))  # the table, and the end of what is a dozen steps long


@pytest.mark.parametrize("attack", PUBLISHED)
def test_every_published_protocol_finds_the_same(there: Ask, attack: str) -> None:
    both = there(cases.evaluated, [attack], "paper", side=32)
    same(both.cpu, both.accelerator, (" forward",) if attack == "lpips" else ())


@pytest.mark.parametrize("attack", ["linf", *PATTERNED])
def test_samples_that_take_the_place_of_others_wait_no_more(there: Ask, attack: str) -> None:
    seldom(there(cases.further, attack))


@pytest.mark.parametrize("search", SEARCHES)
def test_every_search_finds_the_same(there: Ask, search: str) -> None:
    able = [name for name in ("l1", "elastic") if search in catalogue()[name].searches]
    both = there(cases.evaluated, able, search=search)
    same(both.cpu, both.accelerator)


@pytest.mark.parametrize("effort", get_args(Effort))
def test_every_effort_finds_the_same(there: Ask, effort: str) -> None:
    both = there(cases.evaluated, ["l2", "elastic"], effort=effort)
    same(both.cpu, both.accelerator)


@pytest.mark.parametrize("model", [name for name in cases.MODELS if name != "plain"])
def test_every_kind_of_model_is_attacked_alike(there: Ask, model: str) -> None:
    attacks = ["hop-skip-jump-l2"] if model == "labels alone" else ["linf", "l2"]
    both = there(cases.evaluated, attacks, model=model, diagnose=True)
    same(both.cpu, both.accelerator)


def test_a_defense_is_attacked_alike_by_every_way_back(there: Ask) -> None:
    both = there(cases.behind_a_defense)
    same(both.cpu, both.accelerator)


def test_the_batch_size_can_be_found_there(there: Ask) -> None:
    both = there(cases.evaluated, ["linf"], batch_size="auto")
    same(both.cpu, both.accelerator)


def test_features_of_a_file_come_to_the_model(there: Ask, tmp_path: Path) -> None:
    both = there(cases.by_features_of_a_file, tmp_path)
    same(both.cpu, both.accelerator)


def test_a_run_of_the_cpu_goes_on_there(there: Ask, tmp_path: Path) -> None:
    whole, resumed = there(cases.resumed, tmp_path)
    same(whole, resumed)


def test_examples_of_others_are_judged_alike(there: Ask) -> None:
    both = there(cases.verified)
    same(both.cpu, both.accelerator)
    assert both.cpu["verified"].any() and not both.cpu["verified"].all()


def test_the_gallery_shows_the_same(there: Ask, tmp_path: Path) -> None:
    both = there(cases.gallery, tmp_path)
    same(both.cpu, both.accelerator)


@pytest.mark.parametrize("recipe", OWN_RECIPES)
def test_every_recipe_comes_to_the_same_weights_and_seldom_waits(there: Ask, recipe: str) -> None:
    both = there(cases.trained, recipe)
    same(both.cpu, both.accelerator)
    seldom(both)


def test_random_states_of_the_device_are_put_back(there: Ask) -> None:
    states = there(cases.kept_generators)
    np.testing.assert_array_equal(states["before"], states["after"])
