"""What holds for all tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from hypothesis import settings

import robustatlas
from processes import alive
from robustatlas.common import registry
from robustatlas.evaluation.workers import process
from robustatlas.evaluation.workers.nursery import Nursery

# What tests find does not depend on the machine; those of a GPU run by `make test-gpu`.
if "ROBUSTATLAS_TEST_GPU" not in os.environ:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""

# A busy machine is not a failure.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# A command line is built from its functions once, and not for each command that is typed: that takes longer than most.
typer.main.get_command = cache(typer.main.get_command)

# Processes that tests start import the package and the helpers that the tests do, whatever is installed.
SHARED = [str(Path(robustatlas.__file__).parents[1]), str(Path(__file__).parent)]
os.environ["PYTHONPATH"] = os.pathsep.join([*SHARED, *filter(None, [os.environ.get("PYTHONPATH")])])

# The tests are about what this package brings, whatever is installed beside it.
registry.entry_points = lambda group: ()  # type: ignore[assignment]


def pytest_collection_finish() -> None:
    """What was imported stays: from here on garbage is looked for among what tests make, which is far less."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    made = Nursery(
        "robustatlas.evaluation.workers.serving",
        "robustatlas.evaluation",
        "robustatlas.training.shared_out",
        "test_scale",
    )
    yield made
    made.close()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, nursery: Nursery) -> Iterator[list[int]]:
    """Process numbers of all workers that are started, as children of the nursery; none may survive."""
    numbers: list[int] = []

    class Kept:
        def child(self, *given: Any, **options: Any) -> Any:
            worker = nursery.child(*given, **options)
            numbers.append(worker.pid)
            return worker

        def close(self) -> None:
            return

    monkeypatch.setattr(process, "Nursery", lambda *_, **__: Kept())
    yield numbers
    assert not [number for number in numbers if alive(number)]
