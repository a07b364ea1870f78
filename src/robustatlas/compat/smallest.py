"""The smallest examples that an attack of ours finds, for calling conventions that hand them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from robustatlas import engine
from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import Attack
from robustatlas.checks.sanity import check_attacks, check_inputs, check_model
from robustatlas.common.bundle import per_sample
from robustatlas.common.errors import UserError, warn
from robustatlas.common.noise import Noise
from robustatlas.common.scalars import count_of, seed_of
from robustatlas.models.classifier import Classifier, undisturbed


@dataclass(frozen=True)
class Smallest:
    """An attack that is asked for the smallest examples, batch by batch. ``batch_size``: samples at work at once.
    ``told``: warnings that were given before."""

    attack: Attack
    seed: int
    batch_size: int
    told: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, attack: str | Attack, seed: int, batch_size: int) -> Smallest:
        """Of an attack or its name.

        Raises:
            UserError: it has no smallest example to return, there is none of that name, or numbers that are none.
        """
        found = attack_named(attack) if isinstance(attack, str) else attack
        if found.judges_last or not found.nested:
            raise UserError(f"{found.name!r} has no smallest example to return; use a nested attack.")
        return cls(found, seed_of(seed), count_of("batch_size", batch_size))

    def __call__(
        self, model: Classifier, images: Tensor, labels: Tensor, epsilons: Sequence[float | None], *scale: str
    ) -> tuple[Tensor, Tensor]:
        """The smallest examples [N, ...] of ``images`` [N, ...] in [0, 1] up to the largest epsilon, and their sizes
        [N].

        A misclassified image is its own example of size 0; where none is found the size is inf. ``epsilons`` are in the
        unit of the attack; None: whatever the size. ``scale``: what :func:`check_inputs` says of images outside of [0,
        1].
        """
        with undisturbed(), model.evaluating():
            x, labels = check_inputs(images, labels, *scale), labels.to(images.device).long()
            wanted = sorted({epsilon for epsilon in epsilons if epsilon is not None and epsilon > 0})
            strengths = tuple(wanted) if wanted and None not in epsilons else self.attack.strengths
            self.attack.threat.check(x[:1])
            for warning in check_attacks(model, [self.attack], x) + check_model(model, x, labels):
                if warning not in self.told:
                    self.told.add(warning)
                    warn(warning)
            bound = replace(self.attack, strengths=strengths).bound_to(model)
            noise = Noise.of(self.seed, torch.arange(len(x), device=x.device), bound.name)
            setting = engine.set_up(model, bound, bound.searches[0], x, labels, noise, self.batch_size)
            ledger = engine.run(setting)
            right = ledger.clean_prediction == labels
            found = bound.threat.apply(x, ledger.best_theta).detach()
            return torch.where(per_sample(right, x), found, x), torch.where(right, ledger.best_size, 0.0)
