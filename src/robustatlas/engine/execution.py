"""An attack on some samples: its :class:`Setting`, and the state while it is carried out (:class:`Execution`)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.attacks.search import Schedule, Search, search_named
from robustatlas.common.host import to_host, true_rows
from robustatlas.common.noise import Noise
from robustatlas.engine.records import Records, open_records
from robustatlas.engine.reduced import RoughMargins
from robustatlas.engine.targets import TargetClasses
from robustatlas.models.classifier import Classifier


@dataclass(frozen=True)
class Setting:
    """The input of :func:`~robustatlas.engine.loop.run`: an attack on N samples by one of its searches.

    Attributes:
        model: the model under attack.
        attack: threat model and runs.
        search: one of the searches of the attack.
        x: [N, ...], in [0, 1].
        labels: int64 [N].
        noise: a stream of random numbers for each sample.
        slots: most runs in one batch.
        certified: [N], sizes up to which nothing can be found.
    """

    model: Classifier
    attack: Attack
    search: Search
    x: Tensor
    labels: Tensor
    noise: Noise
    slots: int
    certified: Tensor | None = None


@dataclass
class Execution:
    """The state of a setting while its schedule is carried out.

    Attributes:
        model, attack, slots, certified: those of the setting.
        records: what is known of the samples, and what it cost.
        schedule: which run of a sample comes next.
        targets: the order of the wrong classes of each sample.
        rough: margins of a search in reduced precision (None: full precision).
    """

    model: Classifier
    attack: Attack
    records: Records
    schedule: Schedule
    targets: TargetClasses
    rough: RoughMargins | None
    slots: int
    certified: Tensor | None = None


def begin(setting: Setting) -> Execution:
    """Return the execution of a setting before its first run, after one clean pass."""
    model, attack, x = setting.model, setting.attack, setting.x
    strengths = torch.tensor(attack.strengths, dtype=x.dtype, device=x.device)
    records = open_records(model, attack, x, setting.labels, setting.noise, strengths, setting.slots)
    right = records.clean_prediction == setting.labels
    todo = torch.ones_like(right) if attack.repairs else right
    classes, monotone = records.ranking.shape[1], attack.is_monotone(setting.search)
    plan = attack.plan(setting.search)
    schedule = search_named(setting.search)(plan, strengths, classes, todo, monotone=monotone)
    schedule.chooses = attack.threat.chooses
    return Execution(
        model=model,
        attack=attack,
        records=records,
        schedule=schedule,
        targets=TargetClasses(records.ranking),
        rough=RoughMargins.empty(records.margins) if model.rounding else None,
        slots=setting.slots,
        # An example of a run that certificates would spare serves later runs of a search that shares examples.
        certified=None if schedule.shares else setting.certified,
    )


def prepare(execution: Execution) -> None:
    """Order the classes of all samples by distance if a run asks for that, and tell the schedule where they begin."""
    schedule, records = execution.schedule, execution.records
    (count,) = to_host((~schedule.done).sum())
    todo = torch.split(true_rows(~schedule.done, count), execution.slots) if count else ()
    if any(run.targets == "distance" for run in schedule.kinds):
        execution.targets.order_by_distance(execution.model, execution.attack, records, todo)
    schedule.begin(records.best_theta)
