"""The resumption of a run: only what it lacks of the tasks that are asked for is computed."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from robustatlas.evaluation.attack_task import AttackTask
from robustatlas.outcomes import Run
from robustatlas.outcomes.strengths import merged_strengths, strength_position


def missing_tasks(task: AttackTask, run: Run) -> list[AttackTask]:
    """Return the tasks that bring a run to what ``task`` asks for, without computing anything again.

    A run that has the attack at exactly these strengths goes on with it. If the run has it at other strengths, searched
    in the same way, only the new strengths are searched.
    """
    known = run.records()
    if task.record.key in known:
        return [replace(task, record=known[task.record.key])]
    alike = [
        record
        for record in known.values()
        if record.has_same_search(task.record)
        and any(strength_position(strength, record.strengths) is not None for strength in task.record.strengths)
    ]
    old = merged_strengths([np.array(record.strengths) for record in alike])
    new = tuple(strength for strength in task.record.strengths if strength_position(strength, old) is None)
    found = [replace(task, attack=replace(task.attack, strengths=r.strengths), record=r) for r in alike]
    if new:
        found.append(
            replace(
                task,
                attack=replace(task.attack, strengths=new),
                record=task.record.model_copy(update={"strengths": new}),
            )
        )
    return found


def notes_on_other_searches(tasks: Sequence[AttackTask], run: Run) -> list[str]:
    """Return a sentence for each task of which the run has only rows of another plan or another gradient."""
    known = run.records().values()
    said = []
    for record in (task.record for task in tasks):
        others = [old for old in known if old.has_same_threat(record) and old.origin == record.origin]
        if not others or any(old.has_same_search(record) for old in others):
            continue
        gradient = any(old.protocol == record.protocol for old in others)
        how = "another gradient of the model" if gradient else "another plan"
        said.append(f"What the run has of {record.name!r} was found by {how}; it counts, and is computed anew.")
    return said
