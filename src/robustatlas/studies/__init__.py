"""Studies: one file, many trainings, evaluations, references, and the tables and figures of them."""

from collections.abc import Sequence
from pathlib import Path

from robustatlas.evaluation.workers.share import Share
from robustatlas.studies.description import Study
from robustatlas.studies.forecast import forecast_study
from robustatlas.studies.numbers import Sheet
from robustatlas.studies.outputs import OUTPUTS, Output
from robustatlas.studies.planning import Differences, select_steps, study_differences, study_steps
from robustatlas.studies.reading import read_study, shipped_studies, study_text
from robustatlas.studies.running import StudyDisplay, carry_out, plan_sentence
from robustatlas.studies.writing import Studied, write_outputs

__all__ = [
    "OUTPUTS",
    "Differences",
    "Output",
    "Sheet",
    "Studied",
    "Study",
    "StudyDisplay",
    "forecast_study",
    "plan_sentence",
    "read_study",
    "select_steps",
    "shipped_studies",
    "study",
    "study_differences",
    "study_steps",
    "study_text",
]


def study(
    file: str | Path | Study,
    out: str | Path,
    size: str | None = None,
    *,
    only: Sequence[str] = (),
    part: str | tuple[int, int] | Share | None = None,
    device: str | None = None,
    progress: bool | StudyDisplay | None = None,
) -> Studied:
    """Do what a folder lacks of a study, and make all of its tables and figures that have what they need.

    Args:
        file: of the study, or the name of one that comes with robustatlas, or one that was read.
        out: folder of all trainings, runs, references and outputs. What is there is not done again.
        size: one of the sizes in the file; by default "small".
        only: names of steps, or the beginnings of such, such as ``"models.linf"``; default: all.
        part: "I/N", with I from 0 to N - 1: this machine's share of the trainings and of what waits for them.
        device: where to train and evaluate; default: a GPU where there is one.
        progress: show bars or lines (default: bars where standard error is a terminal), or a display of your own.

    Returns:
        tables, figures and the page that lists them.

    Raises:
        UserError: a mistake in the file, a folder of another study, or whatever trainings and evaluations raise.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as out:  # doctest: +SKIP
        ...     print(study("uar", out, "tiny").tables["uar"].markdown())
    """
    what = file if isinstance(file, Study) else read_study(file, size)
    done = carry_out(what, out, only=only, part=part, device=device, progress=progress)
    return write_outputs(done)
