"""Full float32 for a while, whatever the caller has switched on; restored at the end."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import torch

from robustatlas.common.host import check_default_device

_EXACT = ("ieee", "none")
_PARENTS = ("", "cudnn", "mkldnn")
_LEAVES = ("cuda.matmul", "cudnn.conv", "cudnn.rnn", "mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn")
_HAS_LEVELS = hasattr(torch.backends, "fp32_precision")  # since torch 2.9: they inherit from one another
_AUTOCASTS = ("cpu", "cuda", "mps", "xpu")


@contextmanager
def true_float32() -> Iterator[None]:
    """Compute float32 as float32: no TF32, no autocast, no choice of kernels by trial.

    Matrix products and convolutions run in IEEE float32, and cuDNN takes deterministic kernels without trying which is
    fastest. The switches of precision and cuDNN belong to the process: while several threads are inside, they stay,
    and the last one to leave restores them. Autocast belongs to the thread.

    Example:
        >>> with torch.autocast("cpu", torch.bfloat16), true_float32():
        ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
        torch.float32
    """
    with ExitStack() as stack:
        for kind in _AUTOCASTS:
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        stack.enter_context(_SWITCHES.hold_exact())
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """Run a whole evaluation in :func:`true_float32` with gradients, even inside a caller's ``no_grad`` or
    ``inference_mode``.

    Example:
        >>> with torch.no_grad(), undisturbed():
        ...     torch.ones(1, requires_grad=True).mul(2).requires_grad
        True

    Raises:
        UserError: torch's default device holds no numbers.
    """
    check_default_device()
    with true_float32(), torch.inference_mode(False), torch.enable_grad():
        yield


def pass_precision(precision: str, device: torch.device, verifying: bool) -> AbstractContextManager[Any]:
    """Return the context of a forward pass: :func:`true_float32` if it verifies, otherwise its precision."""
    if verifying:
        return true_float32()
    if precision == "bfloat16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return products_in(precision)


def products_in(precision: str) -> AbstractContextManager[Any]:
    """Return the context of a backward pass.

    ``"tf32"`` rounds the factors of matrix products and convolutions, unless another thread of the process asks for
    :func:`true_float32`. (Autocast is for the forward pass alone.)
    """
    return _SWITCHES.allow_tf32() if precision == "tf32" else nullcontext()


@dataclass
class _Switches:
    """The process's switches of precision, set by the first who asks and restored by the last who leaves.

    ``holders``: how often each thread has asked; ``undo``: what was before; ``loose``: what :meth:`allow_tf32` changed.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    holders: Counter[int] = field(default_factory=Counter)
    undo: ExitStack = field(default_factory=ExitStack)
    loose: ExitStack = field(default_factory=ExitStack)

    @contextmanager
    def hold_exact(self) -> Iterator[None]:
        me = threading.get_ident()
        with self.lock:
            self.loose.close()
            if not self.holders:
                self._set()
            self.holders[me] += 1
        try:
            yield
        finally:
            with self.lock:
                self.holders[me] -= 1
                if not self.holders[me]:
                    del self.holders[me]
                if not self.holders:
                    self.undo.close()

    @contextmanager
    def allow_tf32(self) -> Iterator[None]:
        """TF32 inside, until someone asks for true float32; not where another thread has, or torch refuses."""
        with self.lock:
            if set(self.holders) <= {threading.get_ident()}:
                self._loosen()
        try:
            yield
        finally:
            with self.lock:
                self.loose.close()

    def _loosen(self) -> None:
        self.loose.close()
        with ExitStack() as undo, suppress(RuntimeError):  # torch refuses where older and newer switches contradict
            if _HAS_LEVELS:
                undo.callback(_restore, {path: _precision_of(path) for path in _LEAVES})
            for path in ("cuda.matmul", "cudnn"):
                _switch(undo, path, "allow_tf32", True)  # the older switches set the newer ones too, not the reverse
            self.loose = undo.pop_all()

    def _set(self) -> None:
        with ExitStack() as undo:
            for name, value in (("benchmark", False), ("deterministic", True)):
                _switch(undo, "cudnn", name, value)
            if _HAS_LEVELS:
                undo.callback(_restore, {path: _precision_of(path) for path in _LEAVES})
            _highest(undo)
            for path in (*_PARENTS, *_LEAVES) if _HAS_LEVELS else ():
                _exact(undo, path)
            self.undo = undo.pop_all()


def _place(path: str) -> Any:
    return attrgetter(path)(torch.backends) if path else torch.backends


def _switch(undo: ExitStack, path: str, name: str, value: object) -> None:
    place = _place(path)
    before = getattr(place, name)
    if before != value:
        setattr(place, name, value)
        undo.callback(setattr, place, name, before)


def _precision_of(path: str) -> str:
    return str(_place(path).fp32_precision)


def _exact(undo: ExitStack, path: str) -> None:
    if _precision_of(path) not in _EXACT:
        _switch(undo, path, "fp32_precision", "ieee")


def _restore(before: dict[str, str]) -> None:
    """Restore the levels that the older switches, which set several at once, did not bring back."""
    for path, value in before.items():
        if _precision_of(path) != value:
            _place(path).fp32_precision = value


def _highest(undo: ExitStack) -> None:
    """The older switches, each where torch can still read it: it refuses once the newer ones contradict them."""
    with suppress(RuntimeError):
        before = torch.get_float32_matmul_precision()
        if before != "highest":
            torch.set_float32_matmul_precision("highest")
            undo.callback(torch.set_float32_matmul_precision, before)
    with suppress(RuntimeError):
        _switch(undo, "cudnn", "allow_tf32", False)


_SWITCHES = _Switches()
