"""The batched loop of every attack, whatever its threat model and its search."""

from robustatlas.engine.lanes import evaluate
from robustatlas.engine.loop import run
from robustatlas.engine.setting import Setting, set_up

__all__ = ["Setting", "evaluate", "run", "set_up"]
