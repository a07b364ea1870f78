"""Processes, seen from outside."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from robustatlas.evaluation.workers import start_fork_server


def alive(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def driver(function: Callable[..., None], *arguments: str) -> ForkServerProcess:
    """Start a process that calls a function and may be killed."""
    start_fork_server()
    process = multiprocessing.get_context("forkserver").Process(target=function, args=arguments)
    process.start()
    return process
