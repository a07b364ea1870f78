"""A study carried out: what its folder lacks is done step by step, by the functions behind the single commands."""

import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from robustatlas.common.errors import UserError
from robustatlas.common.files import parse_path, write_text
from robustatlas.common.wording import format_duration, list_names, pluralise
from robustatlas.data import load_dataset
from robustatlas.evaluation.auditing import evaluated_and_audited
from robustatlas.evaluation.progress import Announced, Progress, choose_display
from robustatlas.evaluation.workers.share import Share, parse_share
from robustatlas.models.classifier import Classifier
from robustatlas.results.result import Result
from robustatlas.studies.description import ModelEntry, Study
from robustatlas.studies.finished import Finished
from robustatlas.studies.identity import State, differences
from robustatlas.studies.planning import (
    Step,
    evaluation_request,
    reference_plan,
    select_steps,
    steps_of_share,
    training_request,
)
from robustatlas.training.display import TrainingDisplay
from robustatlas.training.references import make_reference

_STUDY = "study.txt"
"""File that says which study, at which size, a folder is of."""


class StudyDisplay:
    """Receives the course of a study; this base shows nothing."""

    def step(self, name: str, number: int, of: int) -> None:
        """Begin the step ``number`` (from 1) of ``of`` steps."""

    def share(self, share: float) -> None:
        """Receive the share of the step that is done, in [0, 1]."""

    def finish_step(self, seconds: float) -> None:
        """Finish the step, which took ``seconds``."""

    def say(self, sentence: str) -> None:
        """Show a sentence."""


class StudyLines(StudyDisplay):
    """A plain line for each step, for logs."""

    def __init__(self) -> None:
        self.name = ""

    def step(self, name: str, number: int, of: int) -> None:
        self.name = f"[{number}/{of}] {name}"

    def finish_step(self, seconds: float) -> None:
        self.say(f"{self.name}: {format_duration(seconds)}")

    def say(self, sentence: str) -> None:
        print(sentence, file=sys.stderr, flush=True)


class StudyBars(StudyLines):
    """Two bars in a terminal, one of all steps and one of the step at work, and a line above them for each step."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console
        columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=18))
        self.bars = Bars(*columns, TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn(), console=console)
        self.all = self.bars.add_task("all steps", total=None)
        self.one = self.bars.add_task("", total=1.0)

    def step(self, name: str, number: int, of: int) -> None:
        super().step(name, number, of)
        self.bars.update(self.all, total=of, completed=number - 1)
        self.bars.reset(self.one, description=name, total=1.0)

    def share(self, share: float) -> None:
        self.bars.update(self.one, completed=share)

    def say(self, sentence: str) -> None:
        self.console.print(sentence, highlight=False, markup=False, soft_wrap=True)


class _TrainingShare(TrainingDisplay):
    """The course of a training, handed on as the share of a step."""

    def __init__(self, display: StudyDisplay) -> None:
        self.display, self.steps, self.told = display, 1, 0.0

    def begin(self, name: str, steps: int, done: int) -> None:
        self.steps = max(steps, 1)

    def update(self, done: int, loss: float | None) -> None:
        """Tell the share, a few times a second."""
        if time.perf_counter() - self.told > 0.2:
            self.told = time.perf_counter()
            self.display.share(done / self.steps)


class _EvaluationShare(Progress):
    """The course of an evaluation, handed on as the share of a step."""

    def __init__(self, display: StudyDisplay) -> None:
        self.display, self.total = display, 1
        self.done: dict[str, int] = {}

    def begin(self, records: Sequence[Announced], samples: int) -> None:
        self.total = max(1, len(records) * samples)

    def update(self, record: Announced, settled: int) -> None:
        self._tell({**self.done, record.key: self.done.get(record.key, 0) + settled})

    def finish(self, record: Announced, columns: Mapping[str, NDArray[Any]]) -> None:
        self.done[record.key] = self.done.get(record.key, 0) + len(columns["index"])
        self._tell(self.done)

    def _tell(self, done: Mapping[str, int]) -> None:
        self.display.share(min(1.0, sum(done.values()) / self.total))


def steps_in_words(finished: Finished, steps: Sequence[Step]) -> str:
    """Return what becomes of these steps, in a sentence; empty where the folder has nothing of them.

    Raises:
        UserError: a training or a reference in it was another one: these are never replaced; or a step waits for one
            that is neither done nor asked for.
    """
    names: dict[State, list[str]] = {}
    asked = {step.name for step in steps}
    for step in steps:
        if step.kind == "outputs":
            continue
        state = finished.state(step)
        if state is State.REFUSED:
            before, _ = finished.identity_there(step)
            different = differences(before, finished.identities.step_identity(step))[0]
            raise UserError(
                f"{step.name} was done in {finished.folder} as something else ({different}), and nothing is replaced; "
                "give another folder (--out), or the entry another name."
            )
        lacking = [name for name in finished.missing_steps(step) if name not in asked]
        if lacking and state is not State.REUSED:
            raise UserError(f"{step.name} needs {list_names(lacking)}; leave --only out, or name that first.")
        names.setdefault(state, []).append(step.name)
    if not names.keys() - {State.NEW}:
        return ""
    said = (f"{state.value}: {pluralise(len(names[state]), 'step')} ({list_names(names[state], at_most=3)})"
            for state in (State.REUSED, State.NEW, State.CONTINUED, State.AGAIN) if state in names)  # fmt: skip
    return f"{'; '.join(said)}."


def plan_sentence(
    study: Study, out: str | Path, only: Sequence[str] = (), part: str | tuple[int, int] | Share | None = None
) -> str:
    """Return the sentence by which :func:`robustatlas.study` would say what becomes of the steps that ``out`` has.

    Args:
        study, out, only, part: as of :func:`robustatlas.study`.

    Raises:
        UserError: the folder is of another study, or a training or a reference in it was another one.
    """
    folder = parse_path(out)
    check_claim(folder, study)
    finished = Finished.open(study, folder)
    return steps_in_words(finished, steps_wanted(finished, only, parse_share(part)))


def steps_wanted(finished: Finished, only: Sequence[str], share: Share) -> list[Step]:
    """Return the trainings, evaluations and references that are asked for, of a share."""
    return [step for step in steps_of_share(select_steps(finished.steps, only), share) if step.kind != "outputs"]


def carry_out(
    study: Study,
    out: str | Path,
    *,
    only: Sequence[str] = (),
    part: str | tuple[int, int] | Share | None = None,
    device: str | None = None,
    progress: bool | StudyDisplay | None = None,
) -> Finished:
    """Do the trainings, evaluations and references that ``out`` lacks; what it holds then.

    Raises:
        UserError: the folder cannot be written or holds another study, a step is not known or waits for one that is
            neither done nor asked for, or whatever trainings and evaluations raise.
    """
    folder, share = parse_path(out), parse_share(part)
    finished = Finished.open(study, folder)
    wanted = steps_wanted(finished, only, share)
    check_claim(folder, study)
    reused = steps_in_words(finished, wanted)
    _claim(folder, study)
    todo = [step for step in wanted if not finished.is_done(step)]
    with choose_display(progress, StudyDisplay, StudyLines, StudyBars) as display:
        if reused:
            display.say(reused)
        for number, step in enumerate(todo, start=1):
            display.step(step.name, number, len(todo))
            begun = time.perf_counter()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                finished.begin(step)
                whole, result = _do(finished, step, share, device, display)
            if whole:
                finished.mark(step, list(dict.fromkeys(str(each.message) for each in caught)), result)
            display.finish_step(time.perf_counter() - begun)
    return finished


def _claim(folder: Path, study: Study) -> None:
    """Write into the folder which study it is of, and at which size."""
    if not (folder / _STUDY).is_file():
        write_text(folder / _STUDY, f"{_full_name(study)}\n")


def check_claim(folder: Path, study: Study) -> None:
    """Raise :class:`UserError` where the folder is of another study, or of another size of this one."""
    if (folder / _STUDY).is_file():
        there = (folder / _STUDY).read_text(encoding="utf-8").strip()
        if there != _full_name(study):
            raise UserError(f"{folder} holds the study {there}, not {_full_name(study)}; give another folder (--out).")


def _full_name(study: Study) -> str:
    return f"{study.name} {study.size}".strip()


def _do(
    finished: Finished, step: Step, share: Share, device: str | None, display: StudyDisplay
) -> tuple[bool, Result | None]:
    """Do a step; return whether all of it is done then, and the result of an evaluation."""
    place = finished.folder / step.place
    if step.kind == "models":
        _train(finished, step, place, device, display)
        return True, None
    if step.kind == "evaluations":
        return True, _evaluate(finished, step, place, device, display)
    entry = finished.study.references[step.entry]
    data = finished.study.data[finished.study.data_name(entry)]
    images = finished.images(data, "train"), finished.images(data, "test")
    made = make_reference(reference_plan(entry), *images, place, share, device, progress=_TrainingShare(display))
    return made is not None, None


def _train(finished: Finished, step: Step, place: Path, device: str | None, display: StudyDisplay) -> None:
    study, entry = finished.study, finished.study.models[step.entry]
    data = study.data[study.data_name(entry)]
    request = replace(training_request(entry), device=device, weights=_start(finished, step, entry))
    extra = None if entry.extra in (None, "none") else load_dataset(str(entry.extra), "train")
    assert step.seed is not None
    request.train(finished.images(data, "train"), place, step.seed, extra, _TrainingShare(display))


def _start(finished: Finished, step: Step, entry: ModelEntry) -> Path | Classifier | None:
    """Return where the weights are that a training begins with, or the model that has them."""
    if entry.start is None:
        return None
    if not step.needs:
        return finished.model(entry.start, None)
    return finished.folder / next(each for each in finished.steps if each.name == step.needs[0]).place


def _evaluate(finished: Finished, step: Step, place: Path, device: str | None, display: StudyDisplay) -> Result:
    study, entry = finished.study, finished.study.evaluations[step.entry]
    data = study.data[study.data_name(entry)]
    model = finished.model(step.model, step.seed, step.epoch, device)
    request = replace(evaluation_request(entry), run=place, progress=_EvaluationShare(display))
    if study.models[step.model].source is not None and step.seed is not None:
        request = replace(request, seed=step.seed)
    result = evaluated_and_audited(model, finished.images(data), request)
    result.describe({"trained_on": dict(finished.trained_on(step.model))})
    return result
