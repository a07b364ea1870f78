"""What holds for all tests."""

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import typer.main
from hypothesis import settings

import robustatlas
from command_line import entered
from processes import alive
from robustatlas.common import registry
from robustatlas.evaluation.workers.pool import WorkerProcess

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


MARKED = {
    "device": ("test_gpu", "test_pretend"),
    "process": (
        "test_children", "test_interrupts", "test_outcomes_killed", "test_pool", "test_scale", "test_scale_ray",
        "test_training_processes", "test_training_shared_out",
    ),
    "slow": (
        "test_board", "test_by_itself", "test_callbacks", "test_calibration", "test_certificates_sound",
        "test_certification", "test_diagnosis_ends", "test_docs", "test_drop_in", "test_evaluation_peers",
        "test_everyday", "test_extending", "test_machinery", "test_only_like", "test_own_attacks",
        "test_piecewise", "test_search_strength", "test_seams", "test_seams_engine", "test_studies",
        "test_studies_papers", "test_studies_reuse", "test_training", "test_warnings_told",
    ),
}  # fmt: skip
"""Markers of whole files; tests of ``browser/`` have theirs."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker, files in MARKED.items():
            if item.path.stem in files:
                item.add_marker(marker)


def pytest_collection_finish() -> None:
    """What was imported stays: from here on garbage is looked for among what tests make, which is far less."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Process numbers of all workers that are started; none may survive."""
    numbers: list[int] = []
    start = WorkerProcess.start

    def started(process: WorkerProcess) -> None:
        start(process)
        numbers.append(process.pid or 0)

    monkeypatch.setattr(WorkerProcess, "start", started)
    yield numbers
    assert not [number for number in numbers if alive(number)]


@pytest.fixture(scope="session")
def bad_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder full of things that go wrong."""
    import bad_inputs

    folder = tmp_path_factory.mktemp("bad")
    bad_inputs.build(folder)
    return folder


@pytest.fixture
def here(bad_place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(bad_place)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("ROBUSTATLAS_DATA", str(bad_place / "nowhere"))
    return bad_place


@pytest.fixture(scope="session")
def evaluated_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three attacks on 16 digits that kept its adversarial examples; a test that writes to it copies it."""
    import robustatlas as ra

    path = tmp_path_factory.mktemp("evaluated") / "digits"
    model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
    strengths = {"linf": [0.05, 0.1], "l2": [0.2, 0.4], "rotation": [5, 15]}
    settings = {"effort": "low", "samples": 16, "shard_size": 8, "keep_adversarial": True, "audit": 0}
    ra.evaluate(model, data, list(strengths), strengths=strengths, run=path, progress=False, **settings)
    return path


@pytest.fixture
def copied_run(evaluated_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(evaluated_run, tmp_path / "run"))


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two made-up runs to read, the first the more robust."""
    from run_files import write_run

    folder = tmp_path_factory.mktemp("runs")
    return [
        write_run(folder / "a", "strong", 1.0, margins=True),
        write_run(folder / "b", "weak", 0.7, margins=True),
    ]


@pytest.fixture
def command() -> Callable[..., tuple[int, str]]:
    """The command line: exit code and output, which must fit the width and hold no traceback."""

    def run(*arguments: object, width: int = 80) -> tuple[int, str]:
        said = entered(*arguments, code=None, columns=width)
        assert max(map(len, said.out.splitlines()), default=0) <= width
        return said.code, said.out + said.err

    return run
