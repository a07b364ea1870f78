"""A run in Weights & Biases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from robustatlas.common.tabular import framework
from robustatlas.report.exports.numbers import files_of, numbers_of, settings_of
from robustatlas.report.exports.trackers import taken_by
from robustatlas.report.facts import RunFacts, facts_of
from robustatlas.results.result import Result


def write(result: Result, path: Path | None) -> str:
    """Log a run as one of Weights & Biases: a table of accuracies with their intervals, clean, average and union
    accuracy in its summary, settings as its configuration, the figure and the evidence as an artifact.

    Args:
        path: a folder for the files of an offline run (``wandb sync`` uploads it later); None: as WANDB_MODE says.

    Raises:
        UserError: wandb is not installed, or does not take the run.
    """
    wandb = framework("wandb", "--to wandb")
    facts = facts_of(result)
    offline = {} if path is None else {"mode": "offline", "dir": str(path)}
    if path is not None:
        path.mkdir(parents=True, exist_ok=True)
    with taken_by("Weights & Biases", "give -o FOLDER for an offline run, or log in by wandb login"):
        settings = wandb.Settings(console="off", silent=True)
        run = wandb.init(
            project="robustatlas", name=result.name, config=settings_of(result), settings=settings, **offline
        )
        _log(wandb, run, facts)
        artifact = wandb.Artifact("robustatlas-evidence", type="evaluation")
        with files_of(result) as files:
            for file in files:
                artifact.add_file(str(file))
            run.log_artifact(artifact)
            run.finish()
        return f"run {run.id} of Weights & Biases, project robustatlas, in {run.dir}"


def _log(wandb: Any, run: Any, facts: RunFacts) -> None:
    rows = []
    for number in numbers_of(facts):
        low, high = number.value.low, number.value.high
        rows.append([number.name, number.strength, number.value.value, low, high])
        if number.strength is None:
            run.summary.update(
                {number.name: number.value.value, f"{number.name}_low": low, f"{number.name}_high": high}
            )
    run.log({"accuracies": wandb.Table(columns=["name", "strength", "value", "low", "high"], data=rows)})
