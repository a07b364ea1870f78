"""A run in a tracker: MLflow, or Weights & Biases."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from robustatlas.common.errors import UserError, first_line
from robustatlas.common.tabular import framework
from robustatlas.report.exports.numbers import files_of, numbers_of, settings_of
from robustatlas.report.facts import facts_of
from robustatlas.results.result import Result


def write_mlflow(result: Result, path: Path | None) -> str:
    """Log a run as one of MLflow, one step a strength.

    Metrics are the strengths and the accuracies with their intervals (``_low``, ``_high``). Settings are parameters,
    the figure and the evidence artifacts.

    ``path``: a folder that is the tracking store; None: where MLFLOW_TRACKING_URI says.
    """
    mlflow = framework("mlflow", "--to mlflow")
    with taken_by("MLflow", "give -o FOLDER for a store in files, or the address of a server as MLFLOW_TRACKING_URI"):
        if path is not None:
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
            mlflow.set_tracking_uri(path.resolve().as_uri())
        mlflow.set_experiment("robustatlas")
        with files_of(result) as files, mlflow.start_run(run_name=result.name) as run:
            mlflow.log_params(settings_of(result))
            facts = facts_of(result)
            for number in numbers_of(facts):
                ends = {"": number.value.value, "_low": number.value.low, "_high": number.value.high}
                for end, value in ends.items():
                    mlflow.log_metric(number.name.replace("accuracy", f"accuracy{end}"), value, step=number.step)
                if number.strength is not None:
                    strength = number.name.replace("robust_accuracy", "strength").replace("accuracy", "strength")
                    mlflow.log_metric(strength, number.strength, step=number.step)
            for warning in facts.warnings:
                mlflow.set_tag("warning", warning[:5000])
            for file in files:
                mlflow.log_artifact(str(file))
        return f"run {run.info.run_id} of MLflow, experiment robustatlas, at {mlflow.get_tracking_uri()}"


def write_wandb(result: Result, path: Path | None) -> str:
    """Log a run as one of Weights & Biases, with a table of accuracies and their intervals.

    Its summary has clean, average and union accuracy, its configuration the settings. The figure and the evidence are
    an artifact.

    ``path``: a folder for the files of an offline run (``wandb sync`` uploads it later); None: as WANDB_MODE says.
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
        rows = []
        for number in numbers_of(facts):
            value, low, high = number.value.value, number.value.low, number.value.high
            rows.append([number.name, number.strength, value, low, high])
            if number.strength is None:
                run.summary.update({number.name: value, f"{number.name}_low": low, f"{number.name}_high": high})
        run.log({"accuracies": wandb.Table(columns=["name", "strength", "value", "low", "high"], data=rows)})
        artifact = wandb.Artifact("robustatlas-evidence", type="evaluation")
        with files_of(result) as files:
            for file in files:
                artifact.add_file(str(file))
            run.log_artifact(artifact)
            run.finish()
        return f"run {run.id} of Weights & Biases, project robustatlas, in {run.dir}"


@contextmanager
def taken_by(tracker: str, otherwise: str) -> Iterator[None]:
    """What is done within is done by a tracker; ``otherwise``: what to do where it does not take a run. Raises
    :class:`UserError`: it does not, for a reason of its own: no account, no connection, a package that it lacks.

    >>> with taken_by("MLflow", "give -o FOLDER"):
    ...     raise OSError("no route")
    Traceback (most recent call last):
    robustatlas.common.errors.UserError: MLflow does not take the run (OSError: no route); give -o FOLDER.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # a tracker may raise anything
        raise UserError(f"{tracker} does not take the run ({first_line(error)}); {otherwise}.") from error
