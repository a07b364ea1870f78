"""The batched loop of every attack, whatever its threat model and its search."""

from robustatlas.engine.batch import evaluate
from robustatlas.engine.execution import Execution, Setting, begin
from robustatlas.engine.loop import run

__all__ = ["Execution", "Setting", "begin", "evaluate", "run"]
