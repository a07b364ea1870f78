"""The records of attacks: all that determines their numbers, and what a reader wants to know of them."""

import math
from collections.abc import Iterable
from dataclasses import replace

from torch import Tensor

from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.counterparts import counterpart_name
from robustatlas.attacks.definition import Attack, Effort, Search
from robustatlas.attacks.description import to_plain_data
from robustatlas.attacks.everyday import with_edges
from robustatlas.attacks.search import search_named
from robustatlas.attacks.search.rules import MINIMUM_SIZE
from robustatlas.attacks.table import run_in_words
from robustatlas.engine.numerics import NUMERICS
from robustatlas.evaluation.request import EIGHT_BIT
from robustatlas.models.classifier import Classifier
from robustatlas.outcomes import AttackRecord
from robustatlas.outcomes.outcome import LOOKS
from robustatlas.outcomes.records import GradientRecord

PIXELS = "pixels"
"""Key in the recorded threat model of an attack; its value says which inputs count as found."""


def attack_record(
    attack: Attack,
    search: Search,
    seed: int,
    precision: str,
    model: Classifier | None = None,
    effort: Effort = "default",
    gradient: GradientRecord | None = None,
    first: Tensor | None = None,
) -> AttackRecord:
    """Return the record of an attack.

    It holds all that determines the numbers, with the draws of a randomised ``model`` and the gradients that it gives,
    and what a reader wants to know. ``first``: images [M, ...] of the data.
    """
    plan = attack.plan(search)
    protocol = {
        "search": search,
        "search_version": search_named(search).version,
        "plan": to_plain_data(plan),
        "repairs": attack.repairs,
        "seed": seed,
        "precision": precision,
        "engine": to_plain_data(NUMERICS),
    }
    if any(run.role in MINIMUM_SIZE for run in plan.runs):
        protocol["unbounded"] = attack.unbounded
    if model is not None and model.draws is not None:
        protocol["draws"] = {"search": model.draws, "looks": list(LOOKS), "threshold": model.threshold}
    if attack.typical:
        protocol["typical"] = {"draws": attack.typical}
    if attack.threat.chooses:
        protocol["draws_chosen"] = "per-run"  # each run that begins anew chooses among draws of its own
    if model is not None and model.remedy:
        protocol["remedy"] = model.remedy
    if attack.errors != "accepted":
        protocol["errors"] = attack.errors
    largest = math.inf if first is None else attack.threat.max_size(first)
    return AttackRecord(
        name=attack.name,
        strengths=attack.strengths,
        monotone=attack.is_monotone(search),
        threat=to_plain_data(attack.threat) | ({PIXELS: EIGHT_BIT} if attack.eight_bit else {}),
        protocol=protocol,
        gradient=gradient,
        unit=attack.about.unit,
        source=attack.about.source,
        note=attack.about.note,
        calibrated=attack.about.calibrated,
        effort="" if effort == "default" else effort,
        runs=tuple(run_in_words(run) for run in plan.runs),
        counterpart=counterpart_name(attack),
        largest=largest if math.isfinite(largest) else None,
    )


def recorded_attack(name: str, records: Iterable[AttackRecord]) -> Attack:
    """Return the attack of the catalogue with the pixels and the border that a run searched it with."""
    attack = attack_named(name)
    recorded = next((record.threat for record in records if record.name == name), {})
    if (border := recorded.get("border")) is not None:
        (attack,) = with_edges([attack], str(border))
    return replace(attack, eight_bit=recorded.get(PIXELS) == EIGHT_BIT)
