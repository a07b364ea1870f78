"""Settings that scripts make on AutoAttack's attacks, and the attacks of ours that carry them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from robustatlas.attacks.definition import Attack, AttackInfo
from robustatlas.attacks.lp import THREATS, UNITS
from robustatlas.attacks.search.plan import AttackRun
from robustatlas.common.errors import UserError
from robustatlas.common.wording import instead
from robustatlas.models.objectives import Objective
from robustatlas.optimizers.apgd import APGD
from robustatlas.optimizers.apgd_l1 import APGDL1, INSIDE, LARGE_RADIUS
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.fab import FAB
from robustatlas.optimizers.square import Square

Version = Literal["standard", "plus", "rand", "custom"]

ATTACKS = ("apgd-ce", "apgd-dlr", "fab", "square", "apgd-t", "fab-t")
"""Names that ``attacks_to_run`` can hold."""

NORMS = {"Linf": "linf", "L2": "l2", "L1": "l1"}


class AttackSettings:
    """Attributes that can be set after construction. An unknown name is refused in one sentence."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dataclass_fields__:  # type: ignore[attr-defined]
            known = tuple(self.__dataclass_fields__)  # type: ignore[attr-defined]
            raise UserError(
                f"{type(self).__name__} has no setting {name!r}" + instead(name, known, f"there are {', '.join(known)}")
            )
        super().__setattr__(name, value)


@dataclass
class APGDSettings(AttackSettings):
    """Settings of ``adversary.apgd`` and ``adversary.apgd_targeted``."""

    n_iter: int = 100
    n_restarts: int = 1
    n_target_classes: int = 9
    eot_iter: int = 1
    rho: float = 0.75
    use_largereps: bool = False
    loss: str = "ce"
    seed: int | None = None
    verbose: bool = False

    def optimizer(self, norm: str) -> Optimizer[Any]:
        """Return APGD in a norm."""
        if norm == "l1":
            return APGDL1(steps=self.n_iter, schedule=LARGE_RADIUS if self.use_largereps else INSIDE)
        return APGD(steps=self.n_iter, rho=self.rho)


@dataclass
class FABSettings(AttackSettings):
    """Settings of ``adversary.fab``."""

    n_iter: int = 100
    n_restarts: int = 1
    n_target_classes: int = 9
    alpha_max: float = 0.1
    eta: float = 1.05
    beta: float = 0.9
    targeted: bool = False
    seed: int | None = None
    verbose: bool = False


@dataclass
class SquareSettings(AttackSettings):
    """Settings of ``adversary.square``."""

    n_queries: int = 5000
    n_restarts: int = 1
    p_init: float = 0.8
    resc_schedule: bool = False
    seed: int | None = None
    verbose: bool = False


@dataclass
class Ensemble:
    """Attacks of AutoAttack with their settings."""

    norm: str
    apgd: APGDSettings
    apgd_targeted: APGDSettings
    fab: FABSettings
    square: SquareSettings

    @classmethod
    def with_defaults(cls, norm: str) -> Ensemble:
        """Return the settings as they are after construction, before a version is set."""
        return cls(norm, APGDSettings(n_restarts=5), APGDSettings(), FABSettings(n_restarts=5), SquareSettings())

    def set_version(self, version: Version) -> list[str]:
        """Make the settings of a version, and return the attacks that it runs (none for ``"custom"``).

        Source: Croce and Hein 2020, and the code of AutoAttack (fra31/auto-attack, ``set_version``).
        """
        if version == "standard":
            self.apgd.n_restarts = 5 if self.norm == "l1" else 1
            self.apgd.use_largereps = self.apgd_targeted.use_largereps = self.norm == "l1"
            self.apgd_targeted.n_target_classes = 5 if self.norm == "l1" else 9
            self.fab.n_restarts = self.apgd_targeted.n_restarts = 1
            self.fab.n_target_classes, self.square.n_queries = 9, 5000
            return ["apgd-ce", "apgd-t", "fab-t", "square"]
        if version == "plus":
            self.apgd.n_restarts = self.fab.n_restarts = 5
            self.apgd_targeted.n_restarts = 1
            self.fab.n_target_classes = self.apgd_targeted.n_target_classes = 9
            self.square.n_queries = 5000
            return ["apgd-ce", "apgd-dlr", "fab", "square", "apgd-t", "fab-t"]
        if version == "rand":
            self.apgd.n_restarts, self.apgd.eot_iter = 1, 20
            return ["apgd-ce", "apgd-dlr"]
        return []

    def attack(self, name: str, epsilon: float) -> Attack:
        """Return one of AutoAttack's attacks at one strength, by optimizers of ours that make the same steps."""
        if name not in ATTACKS:
            raise UserError(
                f"attacks_to_run names {name!r}" + instead(name, ATTACKS, f"there are {', '.join(ATTACKS)}")
            )
        about = AttackInfo(UNITS[self.norm], "Croce and Hein 2020 (AutoAttack)")
        runs, threat = self._runs(name), THREATS[self.norm]
        return Attack(self.norm, threat, runs, (epsilon,), about, search_order=("every",), unbounded=True)

    def _runs(self, name: str) -> tuple[AttackRun, ...]:
        if name == "apgd-ce" or name == "apgd-dlr":
            objective: Objective = "cross-entropy" if name == "apgd-ce" else "dlr"
            return (AttackRun(self.apgd.optimizer(self.norm), objective, count=self.apgd.n_restarts),)
        if name == "apgd-t":
            optimizer, classes = self.apgd_targeted.optimizer(self.norm), self.apgd_targeted.n_target_classes
            run = AttackRun(optimizer, "dlr", count=classes, targets="logits")
            return (run,) * self.apgd_targeted.n_restarts
        if name == "square":
            square = Square(steps=self.square.n_queries, share=self.square.p_init)
            return (AttackRun(square, "margin", count=self.square.n_restarts),)
        fab = FAB(self.fab.n_iter, self.fab.alpha_max, self.fab.eta, self.fab.beta, exact=True)
        restarts = 1 if name == "fab-t" else self.fab.n_restarts
        return (AttackRun(fab, "margin", count=self.fab.n_target_classes, targets="logits"),) * restarts
