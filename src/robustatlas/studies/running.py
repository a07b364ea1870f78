"""A study carried out: what its folder lacks is done step by step, by the functions behind the single commands."""

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from robustatlas.attacks.definition import Attack
from robustatlas.attacks.suites import attacks_of, uar_attack
from robustatlas.attacks.wanted import requested_attacks
from robustatlas.common.errors import UserError, brief
from robustatlas.common.files import named, write_text
from robustatlas.common.wording import counted, some
from robustatlas.data import Dataset, load_dataset
from robustatlas.evaluation.auditing import evaluated_and_audited
from robustatlas.evaluation.progress import display_for
from robustatlas.evaluation.request import Request
from robustatlas.evaluation.workers.share import Share, share_of
from robustatlas.studies.description import DataEntry, EvaluationEntry, ModelEntry, ReferenceEntry, Study
from robustatlas.studies.finished import Finished, images_of
from robustatlas.studies.planning import Step, chosen, mine, request_of
from robustatlas.studies.progress import OfEvaluation, OfTraining, StudyBars, StudyDisplay, StudyLines
from robustatlas.training.references import ReferencePlan, make_reference
from robustatlas.training.settings import Settings


def _reused(finished: Finished, steps: Sequence[Step]) -> str:
    """What the folder has of these steps, in a sentence; empty where it has nothing.

    Raises:
        UserError: a training or a reference in it was another one: runs only grow, so these are never replaced.
    """
    reused, new, changed = [], [], []
    for step in steps:
        if step.kind == "outputs":
            continue
        before = finished.before(step)
        if before is None:
            new.append(step.name)
        elif before == finished.what[step.name]:
            reused.append(step.name)
        elif step.kind == "evaluations" and before["needs"] == finished.what[step.name]["needs"]:
            changed.append(step.name)  # runs grow
        else:
            different = _first_difference(before, finished.what[step.name])
            raise UserError(
                f"{step.name} was done in {finished.folder} as something else ({different}), and nothing is replaced; "
                "give another folder (--out), or the entry another name."
            )
    if not reused and not changed:
        return ""
    kinds = {"Reused": reused, "new": new, "done again, as the file has changed": changed}
    said = (f"{kind}: {counted(len(n), 'step')} ({some(n, at_most=3)})" for kind, n in kinds.items() if n)
    return f"{'; '.join(said)}."


def _first_difference(before: object, now: object, place: str = "") -> str:
    """'model.settings.epochs: 2 there, 5 given'."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in [*now, *(key for key in before if key not in now)]:
            if before.get(key) != now.get(key):
                return _first_difference(before.get(key), now.get(key), f"{place}.{key}".lstrip("."))
    return f"{place}: {brief(repr(before))} there, {brief(repr(now))} given"


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
    folder, share = named(out), share_of(part)
    finished = Finished.of(study, folder)
    wanted = [step for step in mine(chosen(finished.steps, only), share) if step.kind != "outputs"]
    reused = _reused(finished, wanted)
    _claim(folder, study)
    todo = [step for step in wanted if not finished.done(step)]
    with display_for(progress, StudyDisplay, StudyLines, StudyBars) as display:
        if reused:
            display.say(reused)
        for number, step in enumerate(todo, start=1):
            if missing := finished.missing(step):
                raise UserError(f"{step.name} needs {some(missing)}; leave --only out, or name that first.")
            display.step(step.name, number, len(todo))
            begun = time.perf_counter()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                whole = _do(finished, step, share, device, display)
            if whole:
                finished.mark(step, list(dict.fromkeys(str(each.message) for each in caught)))
            display.through(time.perf_counter() - begun)
    return finished


def _claim(folder: Path, study: Study) -> None:
    """Have the folder be of this study, at this size."""
    path, who = folder / "study.txt", f"{study.name} {study.size}".strip()
    if path.is_file():
        there = path.read_text(encoding="utf-8").strip()
        if there != who:
            raise UserError(f"{folder} holds the study {there}, not {who}; give another folder (--out).")
        return
    write_text(path, f"{who}\n")


def _do(finished: Finished, step: Step, share: Share, device: str | None, display: StudyDisplay) -> bool:
    """Do a step; whether all of it is done then."""
    place = finished.folder / step.place
    if step.kind == "models":
        _train(finished, step, place, device, display)
        return True
    if step.kind == "evaluations":
        _evaluate(finished, step, place, device, display)
        return True
    entry = finished.study.references[step.entry]
    data = finished.study.data[finished.study.data_of(entry)]
    images = _images(data, "train"), _images(data, "test")
    return make_reference(plan_of(entry), *images, place, share, device, progress=OfTraining(display)) is not None


@lru_cache(4)
def _images(entry: DataEntry, split: str) -> Dataset:
    return images_of(entry, split)


def _train(finished: Finished, step: Step, place: Path, device: str | None, display: StudyDisplay) -> None:
    study, entry = finished.study, finished.study.models[step.entry]
    data = study.data[study.data_of(entry)]
    request = replace(request_of(entry), device=device, weights=_start(finished, step, entry))
    extra = None if entry.extra in (None, "none") else load_dataset(str(entry.extra), "train")
    assert step.seed is not None
    request.train(_images(data, "train"), place, step.seed, extra, OfTraining(display))


def _start(finished: Finished, step: Step, entry: ModelEntry) -> Path | None:
    """Where the weights are that a training begins with."""
    if entry.start is None:
        return None
    if not step.needs:
        source = finished.study.models[entry.start]
        if source.weights is None:
            raise UserError(f"{step.name} begins with {entry.start}, which has no file of weights; give it `weights`.")
        return named(source.weights)
    return finished.folder / next(each for each in finished.steps if each.name == step.needs[0]).place


def _evaluate(finished: Finished, step: Step, place: Path, device: str | None, display: StudyDisplay) -> None:
    study, entry = finished.study, finished.study.evaluations[step.entry]
    data = study.data[study.data_of(entry)]
    model = finished.model(step.model, step.seed, step.epoch, device)
    request = replace(evaluation_request(entry), run=place, progress=OfEvaluation(display))
    if study.models[step.model].source is not None and step.seed is not None:
        request = replace(request, seed=step.seed)
    result = evaluated_and_audited(model, _images(data, "test"), request)
    result.describe({"trained_on": dict(finished.trained_on(step.model))})


def evaluation_request(entry: EvaluationEntry) -> Request:
    """What an evaluation is asked for."""
    attacks: list[str | Attack] = requested_attacks(entry.attacks, entry.protocol, entry.features)
    if entry.steps is not None:
        if entry.protocol != "paper":
            raise UserError("steps are for UAR's attacks as published; give protocol = 'paper' beside them.")
        found = attacks_of(attacks, "paper")
        attacks = [uar_attack(attack.name, attack.strengths, "paper", entry.steps) for attack in found]
    return Request(
        attacks=attacks,
        search=entry.search,
        protocol=entry.protocol,
        strengths=entry.strengths,
        samples=entry.samples,
        seed=entry.seed,
        effort=entry.effort,
        exclude=entry.exclude,
        diagnose=entry.diagnose,
        audit=entry.audit,
    )


def plan_of(entry: ReferenceEntry) -> ReferencePlan:
    """What a reference takes."""
    taken = ("architecture", "strengths", "rule", "trained", "seeds", "recipe", "steps", "rate", "samples", "search",
             "protocol", "features", "presets", "evaluation_steps")  # fmt: skip
    return ReferencePlan(
        **{key: getattr(entry, key) for key in taken},
        recipe_settings=entry.options,
        per_attack=entry.attack or None,
        settings=Settings(**entry.settings),
    )
