"""torch's own random numbers, set for a while."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch


@contextmanager
def seeded(seed: int, device: str | torch.device = "cpu") -> Iterator[None]:
    """Let randomised models draw the same numbers each time.

    torch's generators, that of the CPU and that of ``device``, start at ``seed`` and are restored at the end. They
    belong to the process: threads that draw at the same time disturb one another.

    Args:
        seed: at which the generators start.
        device: whose generator is seeded as well as the CPU's.

    Example:
        >>> with seeded(3):
        ...     first = torch.rand(2)
        >>> with seeded(3):
        ...     torch.equal(first, torch.rand(2))
        True
    """
    device = torch.device(device)
    if device.type == "cpu":
        with torch.random.fork_rng([]):
            torch.default_generator.manual_seed(seed)
            yield
        return
    module = torch.get_device_module(device)
    with torch.random.fork_rng([device], device_type=device.type):
        torch.default_generator.manual_seed(seed)
        with getattr(module, "device", nullcontext)(device):  # manual_seed is for the current one
            module.manual_seed(seed)
        yield
