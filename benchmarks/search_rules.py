"""What each rule and each kind of run of the descent earns: it is taken away, the others stay.

A row is passes, and robust accuracy without it minus that by the default, in points: positive where what is missing
found something. Beside it stands by how much seeds of the default differ. What saves less than 3 % of the passes and
gains less than .1 points beyond what seeds differ by does not earn its place.

    python benchmarks/search_rules.py [--small] [--networks attention,one-hot-6,residual,attention-cifar]
        [--attacks linf,l2,l1,stadv,elastic,gabor,fog,snow,affine] [--samples 250] [--seeds 2] [--kept FOLDER]
        [--device cpu] [--output FILE.json]

Networks are those of subjects.py, trained where they are not kept; attention-cifar decided nothing of these attacks but
the draws of ``gabor``. ``--small``: the built-in digits network, two attacks and a few samples.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import Attack, AttackRun, Plan
from robustatlas.attacks.search.rules import MostPasses, Role, Rule, StopFruitless, StopLaggingRuns, StopSlowAscents
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE
from robustatlas.threats.base import UnsupportedInputError
from subjects import CHOSEN_ON, KEPT, correct, trained

Edit = Callable[[Plan], Plan]


def changed(plan: Plan, change: Callable[[AttackRun], AttackRun]) -> Plan:
    """The plan with each run changed."""
    return replace(plan, runs=tuple(change(run) for run in plan.runs))


def without_rule(kind: type[Rule]) -> Edit:
    return lambda plan: replace(plan, rules=tuple(rule for rule in plan.rules if not isinstance(rule, kind)))


def without_runs(unwanted: Callable[[AttackRun], bool]) -> Edit:
    return lambda plan: replace(plan, runs=tuple(run for run in plan.runs if not unwanted(run)))


def less_stubborn(plan: Plan) -> Plan:
    rules = (replace(rule, stubborn=rule.patience) if isinstance(rule, StopFruitless) else rule for rule in plan.rules)
    return replace(plan, rules=tuple(rules))


def by_logits(run: AttackRun) -> AttackRun:
    return replace(run, targets="logits") if run.targets == "distance" else run


def to_the_nearest(role: Role) -> Edit:
    """Runs of that role towards one class alone."""
    towards = ("distance", "logits")
    return lambda plan: changed(
        plan, lambda run: replace(run, count=1) if run.role == role and run.targets in towards else run
    )


def away(run: AttackRun) -> bool:
    return run.role == "restart" and run.targets is None


EDITS: dict[str, Edit] = {
    "default": lambda plan: plan,
    "`StopLaggingRuns`": without_rule(StopLaggingRuns),
    "`StopSlowAscents`": without_rule(StopSlowAscents),
    "`StopFruitless`": without_rule(StopFruitless),
    "its patience with stubborn samples": less_stubborn,
    "`MostPasses`": without_rule(MostPasses),
    "order by distance": lambda plan: changed(plan, by_logits),
    "the bound by another objective": without_runs(lambda run: run.role == "bound" and run.objective == "dlr"),
    "bounds towards further classes": to_the_nearest("bound"),
    "the walk along the boundary": without_runs(lambda run: run.role == "bound" and run.start == "best"),
    "restarts by DLR": without_runs(lambda run: run.role == "restart" and run.objective == "dlr"),
    "restarts by the margin": without_runs(lambda run: away(run) and run.objective == "margin"),
    "restarts towards the nearest classes": without_runs(lambda run: run.role == "restart" and not away(run)),
    "all restarts": without_runs(lambda run: run.role == "restart"),
    "ascents on the margin": without_runs(lambda run: run.role == "ascend" and run.objective == "margin"),
    "ascents on cross-entropy": without_runs(lambda run: run.role == "ascend" and run.objective == "cross-entropy"),
    "ascents towards further classes": to_the_nearest("ascend"),
    "ascents of samples without an example": without_runs(lambda run: run.role == "unbroken"),
}
"""What is taken away."""


def edited(attack: Attack, edit: Edit) -> Attack | None:
    """The attack without something; None: it has no such thing."""
    plan = edit(attack.plan("descent"))
    if plan == attack.plan("descent"):
        return None
    runs = tuple(replace(run, searches=("descent",)) for run in plan.runs)
    return replace(attack, runs=runs, rules=plan.rules, usual_rules=False, search_order=("descent",))


def found(model: ra.Classifier, data: ra.Dataset, attack: Attack, seed: int) -> dict[str, Any]:
    """Sizes and passes."""
    result = ra.evaluate(model, data, attack, search="descent", seed=seed, progress=False)
    sizes = [None if np.isinf(size) else round(float(size), 9) for size in result.minimal_size(attack.name)]
    return {"sizes": sizes, "passes": round(float(sum(result.passes(attack.name))), 1)}


def accuracies(sizes: list[float | None], strengths: NDArray[np.float64]) -> NDArray[np.float64]:
    known = np.array([np.inf if size is None else size for size in sizes])
    return 100 * (known[:, None] > strengths * (1 + STRENGTH_TOLERANCE)).mean(0)


def subjects(
    names: list[str], samples: int, kept: Path, device: str
) -> Iterator[tuple[str, ra.Classifier, ra.Dataset]]:
    """Networks, each with its first samples that it classifies correctly."""
    for name in names:
        if name.startswith("digits"):
            model, data = ra.load_model(f"builtin:{name}", name=name), ra.load_dataset("digits")
        else:
            model, data = trained(name, kept)
        model = ra.Classifier(model, device=device)
        index = torch.arange(min(2 * samples, len(data)))
        right = correct(model, data, index)[:samples]
        yield name, model, ra.Dataset.of_rows(data.rows.chosen(right), data.labels[right], name=data.name)


def measured(
    who: str, model: ra.Classifier, data: ra.Dataset, name: str, seeds: int, folder: Path | None
) -> Iterator[dict[str, Any]]:
    """A row for each thing that is taken away from an attack."""
    attack, default = attack_named(name).on_images(tuple(data.images.shape[2:])), list[dict[str, Any]]()
    strengths = np.array(attack.strengths)
    for what, edit in EDITS.items():
        other = attack if what == "default" else edited(attack, edit)
        if other is None:
            continue
        path = folder and folder / f"{who} {name} {len(data)} {what}.json"
        if path and path.exists():
            runs = json.loads(path.read_text())
        else:
            runs = [found(model, data, other, seed) for seed in range(seeds)]
        if path and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(runs))
        default = default or runs
        curves, usual = ([accuracies(run["sizes"], strengths) for run in every] for every in (runs, default))
        differences = [here - there for here, there in zip(curves, usual, strict=True)]
        yield {
            "network": who,
            "chosen on": who in CHOSEN_ON,
            "attack": name,
            "without": what,
            "samples": len(data),
            "seeds": seeds,
            "passes": round(float(np.mean([run["passes"] for run in runs])), 1),
            "usual passes": round(float(np.mean([run["passes"] for run in default])), 1),
            "mean": round(float(np.mean(differences)), 3),
            "largest": round(float(np.max(differences)), 2),
            "seeds differ": round(float(np.mean([abs(curve - usual[0]).mean() for curve in usual[1:]] or [0.0])), 3),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--networks", default="attention,one-hot-6,residual,attention-cifar")
    parser.add_argument("--attacks", default="linf,l2,l1,stadv,elastic,gabor,fog,snow,affine")
    parser.add_argument("--samples", type=int, default=250)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--trained", type=Path, default=KEPT, help="folder of the networks")
    parser.add_argument("--kept", type=Path, help="folder of what was found; what is in it is not searched again")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    if asked.small:
        asked.networks, asked.attacks, asked.samples = "digits-linf", "linf,elastic", 10
    rows: list[dict[str, Any]] = []
    for who, model, data in subjects(asked.networks.split(","), asked.samples, asked.trained, asked.device):
        for name in asked.attacks.split(","):
            try:
                attack_named(name).threat.check(data.images[:1])
            except UnsupportedInputError:
                continue
            for row in measured(who, model, data, name, asked.seeds, asked.kept):
                rows.append(row)
                print(json.dumps(row), flush=True)
            if asked.output:
                asked.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
