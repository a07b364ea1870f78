"""Threads and processes that an evaluation takes by itself."""

import importlib
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.evaluation import cores as measured
from robustatlas.evaluation.completion import WorthOfWorkers
from robustatlas.evaluation.cores import Cores, choose_cores
from robustatlas.evaluation.evaluating import evaluate_request
from robustatlas.evaluation.memory import bytes_kept
from robustatlas.evaluation.request import Request
from robustatlas.models.classifier import Classifier
from test_evaluation_parts import dispatcher_of, found_of
from test_scale import ATTACKS, COUNT, Alike, Seen, assert_same, digits_images

TWO = Cores(2, threads=1, speedup=1.0)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def classifier(net: nn.Module | None = None) -> Classifier:
    return Classifier(Alike() if net is None else net)


def shared(net: nn.Module | None = None, display: Seen | None = None) -> ra.Result:
    request = Request(attacks=ATTACKS, shard_size=3, cores=TWO, progress=display or False, diagnose=False, audit=0)
    return evaluate_request(classifier(net), digits_images(COUNT, torch.float64), request)


@pytest.fixture
def any_work_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "WORTH_WORKERS", 0.0)
    monkeypatch.setattr(measured, "SMALLEST_CHUNK", 1)


@pytest.mark.usefixtures("any_work_is_worth_it")
def test_processes_that_start_by_themselves_find_what_one_finds(watched: list[int]) -> None:
    display = Seen()
    found = shared(display=display)
    assert len(watched) == 2 and display.notes[-1] == "2 processes share the rest."
    whole = ra.evaluate(Alike(), digits_images(COUNT, torch.float64), ATTACKS, progress=False)
    assert_same(found, whole)


@pytest.mark.usefixtures("any_work_is_worth_it")
def test_a_model_that_cannot_be_sent_is_evaluated_here(watched: list[int]) -> None:
    class Held(Alike):
        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.Lock()

    display = Seen()
    assert shared(Held(), display).samples == COUNT
    assert not watched and display.notes[-1].endswith("So one process does all of it.")


SWITCHED = """
import torch

STRAIGHT = False

class Rounding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient if STRAIGHT else -gradient

class Net(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight)

    def forward(self, x):
        return (Rounding.apply(x).flatten(1)[:, None] * self.weight).sum(2) - (self.weight**2).sum(1) / 2
"""


@pytest.fixture
def switched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[nn.Module]:
    """A network of a module whose flag was set after the import: with another value its backward pass is wrong."""
    (tmp_path / "a_switched_module.py").write_text(SWITCHED)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("a_switched_module")
    module.STRAIGHT = True
    yield module.Net(Alike().weight.detach().clone())
    del sys.modules["a_switched_module"]


def test_a_worker_with_another_gradient_is_refused(switched: nn.Module, watched: list[int]) -> None:
    with pytest.raises(ra.UserError, match=r"gradients .*workers=1"):
        ra.evaluate(switched, digits_images(COUNT, torch.float64), ATTACKS, workers=2, diagnose=False, audit=0)
    assert len(watched) == 2


@pytest.mark.usefixtures("any_work_is_worth_it")
def test_the_work_goes_on_here_where_workers_have_another_gradient(switched: nn.Module, watched: list[int]) -> None:
    display = Seen()
    found = shared(switched, display)
    assert len(watched) == 2 and display.notes[-1].endswith("So one process does all of it.")
    assert_same(found, ra.evaluate(switched, digits_images(COUNT, torch.float64), ATTACKS, workers=1, audit=0))


def test_little_work_is_done_here(watched: list[int]) -> None:
    assert shared().samples == COUNT
    assert not watched


def test_what_was_measured_decides() -> None:
    """The plan's upper bound is worth a tenth; after a part, its seconds count."""
    dispatcher = dispatcher_of(1_000, expected=0.05, part=100)
    sharing = WorthOfWorkers(Cores(8, threads=1, speedup=1.0), dispatcher, memory=1e9)
    assert sharing.processes() == 1, "5 of the 50 seconds that the plan allows"
    job = dispatcher.next()
    assert job is not None
    dispatcher.finish(job, found_of(job, 0.05))
    assert sharing.processes() == 8, "45 seconds are left"
    as_good = WorthOfWorkers(Cores(8, threads=8, speedup=7.5), dispatcher, memory=1e9)
    assert as_good.processes() == 1


def test_there_are_no_more_than_memory_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "usable_bytes", lambda: 20 * 10**9)
    many = Cores(64, threads=1, speedup=1.0)
    assert many.processes(seconds=1e4, samples=10_000, memory=2e9) == 7, "14 of 20 GB, 2 GB each"
    assert many.processes(seconds=1e4, samples=10_000, memory=2e10) == 1


def test_what_a_forward_pass_keeps_is_counted() -> None:
    """Of a sample: the inputs of all three layers, but not the weights."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 1000), nn.Softplus(), nn.Linear(1000, 10))
    model, x = Classifier(net), ra.load_dataset("digits").rows[:3]
    assert bytes_kept(model, x) == 4 * (64 + 1000 + 1000)
    assert bytes_kept(Classifier(net, knowledge="scores"), x) == 0


def test_few_samples_take_few_processes() -> None:
    assert Cores(64, threads=1, speedup=1.0).processes(seconds=1e4, samples=100, memory=1e8) == 6


@pytest.mark.parametrize("slow", [1, 2])
def test_threads_are_those_that_were_faster(slow: int, two_threads: None) -> None:
    class Slow(Alike):
        def forward(self, x: Tensor) -> Tensor:
            time.sleep(0.3 if torch.get_num_threads() == slow else 0.01)
            return super().forward(x)

    found = choose_cores(classifier(Slow()), ra.load_dataset("digits").rows)
    assert (found.count, found.threads) == (2, 3 - slow) and (found.speedup > 2) == (slow == 1)
    with found.limit_threads():
        assert torch.get_num_threads() == 3 - slow
    assert torch.get_num_threads() == 2


def test_the_number_of_threads_of_the_caller_is_restored(two_threads: None) -> None:
    seen: set[int] = set()

    class Watching(Alike):
        def forward(self, x: Tensor) -> Tensor:
            seen.add(torch.get_num_threads())
            return super().forward(x)

    with pytest.raises(ra.UserError, match="not possible"):
        choose_cores(classifier(), ra.load_dataset("digits").rows, threads=0)
    ra.evaluate(Watching(), digits_images(4, torch.float64), "linf", progress=False)
    assert seen <= {1, 2} and torch.get_num_threads() == 2


def test_who_can_only_be_asked_is_not_asked_for_its_pace() -> None:
    asked: list[int] = []

    def answer(x: Tensor) -> Tensor:
        asked.append(len(x))
        return x.flatten(1)[:, :10].detach()

    choose_cores(Classifier(answer, knowledge="scores"), ra.load_dataset("digits").rows)
    assert not asked


def test_a_network_without_memory_for_the_measure_is_not_measured(two_threads: None) -> None:
    class Small(Alike):
        def forward(self, x: Tensor) -> Tensor:
            if len(x) > 4:
                raise torch.OutOfMemoryError("out of memory")
            return super().forward(x)

    assert choose_cores(classifier(Small()), ra.load_dataset("digits").rows) == Cores(1, threads=2, speedup=1.0)
