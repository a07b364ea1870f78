"""The log of a training: a JSON line an epoch, and TensorBoard's events where it is installed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from robustatlas.common.files import write_text

LOG = "log.jsonl"


def write_log(folder: Path, history: Sequence[Mapping[str, Any]]) -> None:
    """Write ``log.jsonl``: always the epochs of the checkpoint, whatever an interrupted run had written."""
    text = "".join(json.dumps(record) + "\n" for record in history)
    write_text(folder / LOG, text)


class Events:
    """TensorBoard's events in ``folder/tensorboard``; does nothing where TensorBoard is not installed."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self.writer: Any = None
        else:
            self.writer = SummaryWriter(str(folder / "tensorboard"))

    def add(self, record: Mapping[str, Any]) -> None:
        """The figures of an epoch."""
        if self.writer is not None:
            for name, value in record.items():
                if isinstance(value, float):
                    self.writer.add_scalar(name, value, record["epoch"])
            self.writer.flush()
