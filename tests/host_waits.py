"""How often the loop of an attack waits for the device, how many kernels it launches, and how many steps it takes.

On every device the same code runs, so this is counted on the CPU, with the loop told to look as seldom as it does on an
accelerator. Counted are operations whose result, or whose result's shape, the host must know (by dispatch), and numbers
that the host sends, since a constant made inside the loop waits as well. Launches are operations that reach the
dispatcher and are no views, those of the network among them.
"""

import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import robustatlas as ra
from robustatlas import engine
from robustatlas.attacks.definition import Attack
from robustatlas.common.host import sync_every
from robustatlas.engine import batch

_aten = torch.ops.aten
WAITING = {_aten._local_scalar_dense.default, _aten.nonzero.default, _aten.masked_select.default, _aten.equal.default,
           _aten.is_nonzero.default, _aten.unique_dim.default, _aten._unique2.default, _aten.bincount.default,
           _aten.repeat_interleave.Tensor}  # fmt: skip
INDEXED = {_aten.index.Tensor, _aten.index_put_.default, _aten.index_put.default, _aten._index_put_impl_.default}
MADE = {_aten.empty.memory_format, _aten.empty_like.default, _aten.empty_strided.default, _aten.detach.default,
        _aten._unsafe_view.default, _aten.lift_fresh.default}  # fmt: skip
READING = {Tensor.tolist, Tensor.numpy, Tensor.cpu, Tensor.__array__}
SENDING = {torch.tensor, torch.as_tensor, torch.from_numpy, torch.scalar_tensor}


def waiting(operation: Any, arguments: Sequence[Any]) -> bool:
    """Whether the host must know the result of a dispatched operation, or the shape of that."""
    return operation in WAITING or (
        operation in INDEXED
        and any(isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in arguments[1])
    )


class Launches(TorchDispatchMode):
    """Counts the kernels that would be launched while it is entered: all but views and memory that is not filled."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not (func.is_view or func in MADE)
        return func(*args, **(kwargs or {}))


class Waits:
    """Counts what waits, by the line of the package that asks for it, the launches and the steps. ``listening`` gives a
    context in which its argument is called at every wait."""

    def __init__(self, listening: Callable[[Callable[[], None]], AbstractContextManager[None]] | None = None) -> None:
        self.lines: Counter[str] = Counter()
        self.steps, self.launches = 0, Launches()
        self.listening = listening or by_dispatch

    def note(self) -> None:
        """One more, asked for from here."""
        ours = [frame for frame in traceback.extract_stack() if "/robustatlas/" in frame.filename]
        ours = [frame for frame in ours if not frame.filename.endswith("/host.py")] or ours
        self.lines[f"{Path(ours[-1].filename).name}:{ours[-1].lineno} {ours[-1].line}" if ours else "?"] += 1

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Counts the engine's own loop only, not what stands around it."""
        run = engine.run

        def counted_run(*args: Any, **kwargs: Any) -> Any:
            with self.launches, self.listening(self.note):
                return run(*args, **kwargs)

        with mock.patch.object(engine, "run", counted_run), self.counting_steps():
            yield

    @contextmanager
    def counting_steps(self) -> Iterator[None]:
        """Counts the steps alone."""
        evaluate = batch.evaluate

        def counted_evaluate(*args: Any, **kwargs: Any) -> Any:
            self.steps += 1
            return evaluate(*args, **kwargs)

        with mock.patch.object(batch, "evaluate", counted_evaluate):
            yield


@contextmanager
def by_dispatch(note: Callable[[], None]) -> Iterator[None]:
    """Calls ``note`` at what would wait on an accelerator, on whatever device."""
    with _Dispatched(note), _Called(note):
        yield


class _Dispatched(TorchDispatchMode):
    def __init__(self, note: Callable[[], None]) -> None:
        super().__init__()
        self.note = note

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if waiting(func, args):
            self.note()
        return func(*args, **(kwargs or {}))


class _Called(TorchFunctionMode):
    """What never reaches the dispatcher on the CPU."""

    def __init__(self, note: Callable[[], None]) -> None:
        super().__init__()
        self.note = note

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in READING or func in SENDING:
            self.note()
        return func(*args, **(kwargs or {}))


def measured(model: ra.Classifier, data: Any, attack: str | Attack, batch_size: int, every: int) -> tuple[Waits, int]:
    """The waits of one attack that looks ``every`` so many steps, and its passes."""
    waits = Waits()
    with sync_every(every), waits.counting():
        alone: Any = {"shard_size": len(data[0]), "diagnose": False, "audit": 0, "progress": False}
        result = ra.evaluate(model, data, attack, batch_size=batch_size, **alone)
    outcome = result.outcome(attack if isinstance(attack, str) else attack.name)
    return waits, int(outcome.forward.sum() + outcome.backward.sum())
