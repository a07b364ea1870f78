"""Parts of the work: sized by time, bounded by memory, each sample in one of them."""

import ctypes
import itertools
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from live_tensors import Live
from robustatlas.attacks.definition import Attack, AttackRun, Search
from robustatlas.data import Beginning, Fingerprint, Rows
from robustatlas.evaluation.attack_task import AttackTask
from robustatlas.evaluation.chunks import Chunk, ChunkResult, ChunkSettings
from robustatlas.evaluation.cores import SMALLEST_CHUNK
from robustatlas.evaluation.costs import Costs
from robustatlas.evaluation.dispatcher import CHUNK_SECONDS, Dispatcher
from robustatlas.evaluation.progress import Progress
from robustatlas.evaluation.samples import ChosenSamples
from robustatlas.evaluation.workers.memory import hand_back
from robustatlas.optimizers.pgd import PGD
from robustatlas.outcomes import AttackRecord, DataRecord, Identity, ModelRecord, Run
from robustatlas.outcomes.tables import OUTCOME_COLUMNS, SAMPLE_COLUMNS
from robustatlas.report.gallery import examples
from robustatlas.report.page import build_report
from robustatlas.threats.lp import Linf

STRENGTHS = (0.1, 0.2, 0.3, 0.4)
ATTACK = Attack("linf", Linf(), (AttackRun(PGD(steps=1), "cross-entropy"),), STRENGTHS)
LARGE = (3, 256, 256)
BYTES = 96 * 2**20
HELD = BYTES // (4 * 3 * 256 * 256)
"""Large inputs, as floats, that a part may hold."""


class Drawn(Rows):
    """Inputs that are drawn when they are asked for, as 8-bit pixels."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape

    def read(self, positions: Tensor) -> Tensor:
        bright = (positions * 7 % 256).to(torch.uint8)
        return bright.view(-1, *[1] * (len(self.shape) - 1)).expand(-1, *self.shape[1:]).contiguous()


def dispatcher_of(
    count: int,
    shape: tuple[int, ...] = (1, 8, 8),
    *,
    expected: float = 1e-9,
    search: Search = "bisection",
    part: int | None = None,
    workers: int = 1,
) -> Dispatcher:
    """A dispatcher for one attack on so many samples, each of which is expected to take ``expected`` seconds."""
    rows, labels = Drawn(count, *shape), torch.zeros(count, dtype=torch.int64)
    work = ChosenSamples(
        rows, labels, np.arange(count), DataRecord(name="drawn"), Beginning.read(rows, labels, torch.arange(count))
    )
    task = AttackTask(ATTACK, search, AttackRecord(name="linf", strengths=STRENGTHS))
    run = Run(Identity(model=ModelRecord(name="net"), data=work.record))
    costs = Costs([1.0], pair=1.0)
    costs.expect(0, expected)
    mine = np.ones(count, np.bool_)
    return Dispatcher(
        run, [task], work, mine, ChunkSettings(0, 256), costs, workers, Progress(), samples_per_chunk=part
    )


def found_of(job: Chunk, seconds: float) -> ChunkResult:
    """Some outcome of a job that took so many seconds a sample."""
    count = len(job.index)
    columns = {
        name: np.zeros(column.shape(count, len(STRENGTHS)), column.kind) for name, column in OUTCOME_COLUMNS.items()
    }
    samples = {name: np.zeros(count, column.kind) for name, column in SAMPLE_COLUMNS.items()}
    index = {"index": job.index}
    return ChunkResult(columns | index, samples | index, None, {}, seconds * count, 256)


def jobs_of(dispatcher: Dispatcher, seconds: float = 1e-9) -> Iterator[Chunk]:
    """All jobs of a dispatcher, one after the other."""
    while (job := dispatcher.next()) is not None:
        yield job
        dispatcher.finish(job, found_of(job, seconds))
    assert dispatcher.unfinished_samples == 0


CASES: dict[str, tuple[dict[str, Any], float, int]] = {
    "a number that is given": ({"count": 1_000, "part": 300}, 1e-9, 250),
    "equal times": ({"count": 1_000, "expected": CHUNK_SECONDS / 100}, CHUNK_SECONDS / 100, 100),
    "never fewer than a few": ({"count": 160, "expected": 1e3}, 1e3, SMALLEST_CHUNK),
    "memory": ({"count": 400, "shape": LARGE}, 1e-9, HELD),
    "memory of a search that shares": ({"count": 100, "shape": LARGE, "search": "frontier"}, 1e-9, HELD // 5),
    "a number that is given, whatever the memory": ({"count": 600, "shape": LARGE, "part": 300}, 1e-9, 300),
}


@pytest.mark.parametrize("case", CASES)
def test_parts_cover_all_and_are_bounded(case: str) -> None:
    options, seconds, largest = CASES[case]
    index = [job.index for job in jobs_of(dispatcher_of(**options), seconds)]
    np.testing.assert_array_equal(np.concatenate(index), np.arange(options["count"]))
    sizes = [len(part) for part in index]
    assert max(sizes) <= largest
    assert max(sizes) >= largest // 2, "no smaller than it need be"
    assert max(sizes) - min(sizes) <= len(sizes), "equal parts, but for what rounding leaves"


def test_parts_follow_the_time_that_they_take() -> None:
    """Dearer than expected: at once smaller. Cheaper: larger by steps, for a few easy samples prove little."""
    dear = [len(job.index) for job in jobs_of(dispatcher_of(2_000, expected=CHUNK_SECONDS / 500), CHUNK_SECONDS / 50)]
    assert dear[0] >= 400 and max(dear[1:]) <= 50
    cheap = [
        len(job.index) for job in jobs_of(dispatcher_of(20_000, expected=CHUNK_SECONDS / 20), CHUNK_SECONDS / 1_000)
    ]
    assert cheap[0] == 20 and max(cheap) > 900
    assert all(later <= 4 * earlier for earlier, later in itertools.pairwise(cheap))


def test_several_hands_share_the_last_samples() -> None:
    dispatcher = dispatcher_of(1_000, expected=CHUNK_SECONDS / 500, workers=4)
    sizes = [len(job.index) for job in jobs_of(dispatcher, CHUNK_SECONDS / 500)]
    assert sum(sizes) == 1_000
    assert sizes[0] == 1_000 / 4 and sizes == sorted(sizes, reverse=True)
    assert SMALLEST_CHUNK <= sizes[-1] < 2 * SMALLEST_CHUNK


def test_no_part_is_more_than_half_of_what_parts_cost_whatever_their_length() -> None:
    dispatcher = dispatcher_of(2_000, expected=CHUNK_SECONDS / 500, workers=4)
    sizes = []
    while (job := dispatcher.next()) is not None:
        sizes.append(len(job.index))
        dispatcher.finish(job, found_of(job, 0.01 * (len(job.index) + 128) / len(job.index)))
    assert dispatcher.costs.fixed == 128 and dispatcher.costs.seconds_per_sample(0) == pytest.approx(0.01)
    assert sum(sizes) == 2_000 and min(sizes[2:]) >= 128


def test_a_job_holds_its_inputs_as_they_are_kept() -> None:
    job = next(jobs_of(dispatcher_of(200, LARGE)))
    assert job.stored.dtype == torch.uint8 and job.stored.nbytes <= BYTES / 4
    np.testing.assert_array_equal(job.stored[:, 0, 0, 0].numpy(), job.index * 7 % 256)


def test_memory_does_not_grow_with_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where parts are as large as memory allows: in all about three times a part's inputs, which are as many
    as a batch and its forward pass take, here twice a batch, and what a batch holds."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(48, 2))
    part, batch = (count * 4 * 3 * 32 * 32 for count in (64, 32))
    monkeypatch.setattr("robustatlas.evaluation.dispatcher.CHUNK_SECONDS", 1e6)  # however busy the machine is
    peaks = []
    for count in (384, 960):
        labels = np.arange(count) % 2
        data = ra.Dataset.from_rows(Drawn(count, 3, 32, 32), labels, "drawn", None, Fingerprint("0" * 64, "0" * 64))
        with Live() as live:
            ra.evaluate(net, data, ATTACK, "bisection", strengths={"linf": [0.1]}, batch_size=32)
        peaks.append(live.most)
    assert part < peaks[0] and peaks[1] <= 1.01 * peaks[0]
    assert peaks[1] <= 3 * part + 17 * batch


def test_fifty_thousand_large_images_are_never_all_in_memory(tmp_path: Path) -> None:
    """From the identity to the page, examples and all: a few are asked for at once, and let go."""
    asked: list[int] = []

    class Watched(Drawn):
        def read(self, positions: Tensor) -> Tensor:
            asked.append(len(positions))
            return super().read(positions)

    torch.manual_seed(0)
    net = nn.Sequential(nn.AvgPool2d(32), nn.Flatten(), nn.Linear(147, 2))
    rows, labels, image = Watched(50_000, 3, 224, 224), np.arange(50_000) % 2, 4 * 3 * 224 * 224
    data = ra.Dataset.from_rows(rows, labels, "drawn", None, Fingerprint("0" * 64, "0" * 64))
    options: dict[str, Any] = {"samples": 160, "strengths": {"linf": [0.1]}, "batch_size": 2, "progress": False}
    with Live(least=image) as live:
        result = ra.evaluate(net, data, ATTACK, run=tmp_path / "run", keep_adversarial=True, **options)
        ra.evaluate(net, data, ATTACK, run=tmp_path / "run", **options)
        assert len(examples(result, data)["linf"]) > 1
        build_report([result], tmp_path / "page.html", data=data)
    assert result.samples == 160 and sum(asked) > 160 and max(asked) <= 64
    assert live.most <= 130 * image, "less than what is evaluated, and than the largest part of larger batches"


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="another C library")
def test_large_pieces_are_handed_back_at_once() -> None:
    """Not so as the C library is with them once it has seen larger ones."""
    script = """
        import ctypes
        import numpy as np
        from robustatlas.evaluation.workers.memory import hand_back_at_once

        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * 4096

        def kept():
            before = resident()
            pieces = [(np.ones(20 * 2**20, np.uint8), bytes(2**18)) for _ in range(16)]
            held, small = resident() - before, [pair[1] for pair in pieces]
            assert held > 16 * 20 * 2**20
            del pieces
            return resident() - before, small

        hand_back_at_once()
        at_once, small = kept()
        ctypes.CDLL(None).mallopt(-3, 2**25)
        print(at_once, kept()[0])
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    at_once, usually = map(int, ended.stdout.split())
    assert at_once < 2**24 < 2**28 < usually


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="another C library")
def test_memory_that_is_free_is_handed_back() -> None:
    """Also what lies between pieces in use."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    pieces = [torch.zeros(2**14) for _ in range(2**11)]
    in_use = pieces[::16]
    held = resident()
    assert held - before > 2**26
    del pieces
    hand_back()
    assert held - resident() > 2**26, f"{len(in_use)} of 2048 pieces of 64 KiB are in use"
