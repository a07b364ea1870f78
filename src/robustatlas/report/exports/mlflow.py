"""A run in MLflow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from robustatlas.common.tabular import framework
from robustatlas.report.exports.numbers import files_of, numbers_of, settings_of
from robustatlas.report.exports.trackers import taken_by
from robustatlas.report.facts import RunFacts, facts_of
from robustatlas.results.result import Result


def write(result: Result, path: Path | None) -> str:
    """Log a run as one of MLflow: accuracies as metrics with their intervals (``_low``, ``_high``), one step a
    strength, the strengths as metrics too, settings as parameters, the figure and the evidence as artifacts.

    Args:
        path: a folder that is the tracking store; None: where MLFLOW_TRACKING_URI says.

    Raises:
        UserError: MLflow is not installed, or does not take the run.
    """
    mlflow = framework("mlflow", "--to mlflow")
    with taken_by("MLflow", "give -o FOLDER for a store in files, or the address of a server as MLFLOW_TRACKING_URI"):
        if path is not None:
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
            mlflow.set_tracking_uri(path.resolve().as_uri())
        mlflow.set_experiment("robustatlas")
        with files_of(result) as files, mlflow.start_run(run_name=result.name) as run:
            mlflow.log_params(settings_of(result))
            _log(mlflow, facts_of(result))
            for file in files:
                mlflow.log_artifact(str(file))
        return f"run {run.info.run_id} of MLflow, experiment robustatlas, at {mlflow.get_tracking_uri()}"


def _log(mlflow: Any, facts: RunFacts) -> None:
    for number in numbers_of(facts):
        ends = {"": number.value.value, "_low": number.value.low, "_high": number.value.high}
        for end, value in ends.items():
            mlflow.log_metric(number.name.replace("accuracy", f"accuracy{end}"), value, step=number.step)
        if number.strength is not None:
            strength = number.name.replace("robust_accuracy", "strength").replace("accuracy", "strength")
            mlflow.log_metric(strength, number.strength, step=number.step)
    for warning in facts.warnings:
        mlflow.set_tag("warning", warning[:5000])
