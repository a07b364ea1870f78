"""An attack set up on some samples: all that the loop needs."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.attacks.search import Schedule, Search, search_named
from robustatlas.common.host import indices, to_host
from robustatlas.common.noise import Noise
from robustatlas.engine.ledger import Ledger, open_ledger
from robustatlas.engine.reduced import RoughMargins
from robustatlas.engine.targets import TargetClasses
from robustatlas.models.classifier import Classifier


@dataclass
class Setting:
    """``model`` under ``attack``, at most ``lanes`` samples at once; ``rough``: where the search is in reduced
    precision; ``certified`` [N]: sizes up to which nothing can be found."""

    model: Classifier
    attack: Attack
    ledger: Ledger
    schedule: Schedule
    targets: TargetClasses
    rough: RoughMargins | None
    lanes: int
    certified: Tensor | None = None


def set_up(
    model: Classifier,
    attack: Attack,
    search: Search,
    x: Tensor,
    labels: Tensor,
    noise: Noise,
    lanes: int,
    certified: Tensor | None = None,
) -> Setting:
    """``attack`` on ``x`` [N, ...] by one of its searches, after one clean pass."""
    strengths = torch.tensor(attack.strengths, dtype=x.dtype, device=x.device)
    ledger = open_ledger(model, attack, x, labels, noise, strengths, lanes)
    right = ledger.clean_prediction == labels
    todo = torch.ones_like(right) if attack.repairs else right
    classes, monotone = ledger.ranking.shape[1], attack.is_monotone(search)
    schedule = search_named(search)(attack.plan(search), strengths, classes, todo, monotone=monotone)
    schedule.chooses = attack.threat.chooses
    rough = RoughMargins.none(ledger.margins) if model.rounding else None
    return Setting(model, attack, ledger, schedule, TargetClasses(ledger.ranking), rough, lanes, certified)


def prepare(setting: Setting) -> None:
    """What is made once, before the first run."""
    schedule, ledger = setting.schedule, setting.ledger
    (count,) = to_host((~schedule.done).sum())
    todo = torch.split(indices(~schedule.done, count), setting.lanes) if count else ()
    if any(stage.targets == "distance" for stage in schedule.stages):
        setting.targets.order_by_distance(setting.model, setting.attack, ledger, todo)
    schedule.begin(ledger.best_theta)
