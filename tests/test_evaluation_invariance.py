"""What must not matter does not: batch size, order, shards, a resume, a second run. Float64 exactly, float32 nearly."""

from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import robustatlas as ra
from helpers_core import brief, digits_images, digits_network
from robustatlas.attacks.catalogue import catalogue
from robustatlas.attacks.definition import Attack
from robustatlas.attacks.search import SEARCHES
from robustatlas.common.host import sync_every
from robustatlas.outcomes import Run

SAMPLES = 8
STRENGTHS = {
    "linf": [0.04, 0.08, 0.12], "l2": [0.2, 0.4, 0.8], "l1": [0.5, 1.0, 2.0], "l0": [1.0, 2.0, 4.0],
    "square-linf": [0.05, 0.1], "cw-l2": [0.2, 0.4], "stadv": [0.02, 0.06], "elastic": [0.02, 0.1],
    "lpips": [0.2, 0.4], "fog": [10.0, 30.0],
}  # fmt: skip
EXACT = ("minimal_strength", "found_class", "forward", "backward", "fooled")
CLOSE = ("minimal_size", "margins")


def brief_named(name: str) -> Attack:
    return brief(catalogue()[name], STRENGTHS[name], {"inner_steps" if name == "cw-l2" else "steps": 5})


def evaluate(
    dtype: torch.dtype = torch.float64, attacks: tuple[str, ...] = ("linf", "l2"), count: int = SAMPLES, **options: Any
) -> ra.Result:
    return ra.evaluate(
        digits_network(dtype), digits_images(count, dtype), [brief_named(name) for name in attacks], **options
    )


def assert_same(
    a: ra.Result,
    b: ra.Result,
    attacks: tuple[str, ...],
    order: Any = slice(None),
    rtol: float = 1e-9,
    exact: tuple[str, ...] = EXACT,
) -> None:
    for name in attacks:
        ours, other = a.outcome(name), b.outcome(name)
        for column in exact:
            np.testing.assert_array_equal(getattr(ours, column)[order], getattr(other, column), f"{name} {column}")
        for column in CLOSE:
            np.testing.assert_allclose(
                getattr(ours, column)[order], getattr(other, column), rtol, 1e-9, err_msg=f"{name} {column}"
            )


@cache
def searched(search: Any, size: int, count: int) -> ra.Result:
    """By linf and l2."""
    return evaluate(count=count, search=search, batch_size=size)


@pytest.mark.parametrize("search", SEARCHES)
def test_searches_do_not_see_the_batch(search: Any) -> None:
    attacks = ("linf", "l2")
    whole = searched(search, 256, SAMPLES)
    for size, count in ((1, 2), (5, SAMPLES)):
        some = searched(search, size, count)
        assert_same(whole, some, attacks, slice(count))


@pytest.mark.parametrize("name", ["l1", "l0", "square-linf", "cw-l2", "stadv", "elastic", "lpips", "fog"])
def test_attacks_do_not_see_the_batch(name: str) -> None:
    whole = evaluate(attacks=(name,), batch_size=256)
    for size, count in ((1, 2), (5, SAMPLES)):
        assert_same(whole, evaluate(attacks=(name,), count=count, batch_size=size), (name,), slice(count))


FOUND = tuple(column for column in EXACT if column not in ("forward", "backward"))


@pytest.mark.parametrize("search", SEARCHES)
def test_searches_do_not_see_how_often_the_host_looks(search: Any) -> None:
    """Bit by bit where batches are of one sample, so that a network rounds alike."""
    attacks = ("linf", "l2")
    for size, steps, count in ((1, 3, 2), (5, 8, SAMPLES)):
        always = searched(search, size, count)
        with sync_every(steps):
            seldom = evaluate(attacks=attacks, count=count, search=search, batch_size=size)
        assert_same(always, seldom, attacks, exact=FOUND)
        for name in attacks:
            ours, other = always.outcome(name), seldom.outcome(name)
            assert (other.forward >= ours.forward).all()
            for column in CLOSE if size == 1 else ():
                np.testing.assert_array_equal(getattr(ours, column), getattr(other, column), f"{name} {column}")


@pytest.mark.parametrize("name", ["l1", "l0", "square-linf", "cw-l2", "stadv", "elastic", "lpips"])
def test_attacks_do_not_see_how_often_the_host_looks(name: str) -> None:
    for size, count in ((1, 2), (5, SAMPLES)):
        always = evaluate(attacks=(name,), count=count, batch_size=size)
        with sync_every(5):
            assert_same(always, evaluate(attacks=(name,), count=count, batch_size=size), (name,), exact=FOUND)


def test_order_does_not_matter() -> None:
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(1)).numpy()
    attacks = ("linf", "l1")
    whole, shuffled = evaluate(attacks=attacks), evaluate(attacks=attacks, samples=order, batch_size=5)
    assert_same(whole, shuffled, attacks, order)


def test_a_subset_gives_the_rows_of_the_whole() -> None:
    rows = np.array([3, 4, 7])
    assert_same(evaluate(), evaluate(samples=rows), ("linf", "l2"), rows)


def test_shards_do_not_matter(tmp_path: Path) -> None:
    one = evaluate(run=tmp_path / "one")
    three = evaluate(run=tmp_path / "three", shard_size=3)
    assert len(list((tmp_path / "three" / "outcomes").glob("linf-*/*.parquet"))) == 3
    assert_same(one, three, ("linf", "l2"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_resume_changes_nothing(tmp_path: Path, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = evaluate(dtype, run=tmp_path / "whole", shard_size=4)
    write, written = Run.write, []

    def write_three(*arguments: Any) -> None:
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(arguments[1])
        write(*arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Run, "write", write_three)
        evaluate(dtype, run=tmp_path / "broken", shard_size=4)
    resumed = evaluate(dtype, run=tmp_path / "broken", shard_size=4)
    for name in ("linf", "l2"):
        for field in fields(whole.outcome(name)):
            if field.name != "seconds":
                np.testing.assert_array_equal(
                    getattr(whole.outcome(name), field.name), getattr(resumed.outcome(name), field.name)
                )


def test_float32_differs_by_rounding_only() -> None:
    """Measured here: the same accuracies, sizes within a few in a thousand for nearly all samples."""
    count = 60
    results = [evaluate(torch.float32, count=count, batch_size=size) for size in (7, 25, 256)]
    for name in ("linf", "l2"):
        sizes = np.array([result.minimal_size(name) for result in results])
        spread = (sizes.max(0) - sizes.min(0)) / np.maximum(sizes.min(0), 1e-9)
        print(name, "relative spread over batch sizes: median", np.median(spread), "largest", spread.max())
        assert np.median(spread) < 1e-4
        accuracies = np.array([result.accuracies().values(name) for result in results])
        assert (accuracies.max(0) - accuracies.min(0)).max() <= 100 / count + 1e-9


def test_the_seed_matters_and_repeats() -> None:
    first, again, other = (evaluate(attacks=("square-linf",), seed=seed) for seed in (0, 0, 1))
    assert_same(first, again, ("square-linf",), rtol=0)
    assert (first.outcome("square-linf").margins != other.outcome("square-linf").margins).any()


@pytest.mark.parametrize("steps", [1, 8])
def test_passes_add_up_to_what_the_model_ran(steps: int) -> None:
    """Those of slots that wait for the host to look as well."""
    samples = 10  # more than the first 8, whose gradients tell data apart
    counted = {"forward": 0, "backward": 0}
    net = digits_network(torch.float64)

    def network(x: torch.Tensor) -> torch.Tensor:
        counted["forward"] += len(x)
        if x.requires_grad:
            x.register_hook(lambda gradient: counted.__setitem__("backward", counted["backward"] + len(gradient)))
        return net(x.to(torch.float64))

    model = ra.Classifier(network)
    with sync_every(steps):
        result = ra.evaluate(
            model, digits_images(samples, torch.float64), [brief_named("linf"), brief_named("l1")], diagnose=False
        )
    looks = 8 + 8 + 8  # what it returns, whether it writes into its input, and its ReLUs: these are not counted
    assert (model.forward_passes, model.backward_passes) == (counted["forward"] - looks, counted["backward"])
    forward = sum(result.outcome(name).forward.sum() for name in ("linf", "l1"))
    backward = sum(result.outcome(name).backward.sum() for name in ("linf", "l1"))
    comes_back = 2  # whether a backward pass comes to its end
    checks = looks + 4 * 8 + 1 + samples + comes_back  # of the model before the work
    probe = 8  # to tell the model from another
    pace = 2 * (8 if steps == 1 else samples)  # to size the parts: that of a batch counts where looking is not free
    kept = 2  # to see what a pass keeps
    gradients = 8 + samples  # of the first samples of the data, and of those that are evaluated
    assert forward == counted["forward"] - checks - probe - pace - kept - gradients
    assert backward == counted["backward"] - 8 - pace - gradients - comes_back


@pytest.mark.parametrize("name", ["linf", "l2", "l1", "l0", "stadv", "elastic"])
def test_accuracy_falls_and_sizes_are_inside(name: str) -> None:
    for search in SEARCHES:
        together = name in ("linf", "l2")
        result = searched(search, 256, SAMPLES) if together else evaluate(attacks=(name,), search=search)
        outcome = result.outcome(name)
        assert (np.diff([result.clean_accuracy, *outcome.accuracies()]) <= 0).all()
        reached = np.isfinite(outcome.minimal_strength)
        assert (outcome.minimal_size[reached] <= outcome.minimal_strength[reached] * (1 + 1e-5)).all()
