"""Runs at low and at high effort: the one rule by which the runs of a search become cheaper or stronger."""

from dataclasses import replace

from robustatlas.attacks.search.plan import AttackRun

_LOW = 0.6
"""Share of the steps, and of the targets or restarts, of a run at low effort (docs/searches.md has what each costs)."""

_HIGH = 2
"""Factor of the steps, and of the targets or starts, of what high effort adds to a run."""


def shorter(run: AttackRun) -> AttackRun:
    """Return the run of low effort."""
    fewer = run.targets in ("logits", "distance") or run.role == "restart"
    return replace(run.lengthened(_LOW), count=max(1, round(_LOW * run.count)) if fewer else run.count)


def longer(run: AttackRun) -> AttackRun:
    """Return the run that high effort adds: more steps, and more runs if these begin or go elsewhere."""
    lengthened = run.lengthened(_HIGH)
    if lengthened == run or not run.optimizer.needs_gradient or run.targets == "random":
        return lengthened
    if run.role in ("restart", "sweep") or (run.start == "neutral" and not run.optimizer.minimum_size):
        return lengthened
    if run.optimizer.minimum_size and run.targets is None:  # begins at the clean point: classes tell runs apart
        lengthened = replace(lengthened, targets="logits")
    return replace(lengthened, count=_HIGH * run.count)
