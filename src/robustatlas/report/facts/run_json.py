"""The facts of a run as plain data for JSON."""

from dataclasses import asdict
from typing import Any

from robustatlas.common.typed_strengths import unit_as_typed, value_as_typed
from robustatlas.common.wording import MASKED, masked_reason
from robustatlas.outcomes.strengths import sizes_as_typed, strengths_as_typed
from robustatlas.report.facts.attack import AttackFacts
from robustatlas.report.facts.certified import CertifiedFacts
from robustatlas.report.facts.run import ReferenceFacts, RunFacts
from robustatlas.report.numbers.headline import Headline
from robustatlas.report.numbers.number import Number
from robustatlas.report.numbers.plain import finite, plain


def run_as_json(facts: RunFacts) -> dict[str, Any]:
    """Return plain data for JSON: a number with an interval is `{"value", "low", "high"}`, what never happens is None,
    strengths and sizes are as people type them."""
    weakest, first = facts.weakest, facts.headline
    return {
        "model": facts.model,
        "data": facts.data,
        "samples": facts.samples,
        "provenance": dict(facts.provenance),
        "headline": first and _headline(first),
        "clean accuracy": plain(facts.clean),
        "clean rejected": plain(facts.rejected),
        "average accuracy": plain(facts.average),
        "worst case": facts.worst and _worst_case(facts.worst),
        **{name: plain(number) for name, number in facts.own.items()},
        "breaks": weakest
        and {"attack": weakest.attack, "median size": finite(value_as_typed(weakest.attack, weakest.value))},
        "attacks": {attack.attack: _attack(attack) for attack in facts.attacks},
        "certified": {certified.row: _certified(certified) for certified in facts.certified},
        "reference": None if facts.reference is None else _reference(facts.reference),
        "field": {beside.field.name: beside.to_dict() for beside in facts.beside},
        "diagnosis": None if facts.diagnosis is None else facts.diagnosis.to_dict(),
        "invalid": dict(facts.invalid),
        "masked": f"{MASKED}. {masked_reason(facts.invalid)}" if facts.invalid else None,
        "calibrations": list(facts.calibrations),
        "warnings": list(facts.warnings),
        "missing": dict(facts.missing),
    }


def _headline(first: Headline) -> dict[str, Any]:
    numbers = [
        {"attack": number.attack, "strengths": _strengths_as_typed(number), "accuracy": plain(number)}
        for number in first.numbers
    ]
    return {"accuracy": plain(first.leading), "is mean": first.is_mean, "numbers": numbers, "why": first.why}


def _strengths_as_typed(number: Number) -> list[float]:
    return [value_as_typed(number.attack, strength) for strength in number.at[number.attack]]


def _worst_case(worst: Number) -> dict[str, Any]:
    return {
        "at": strengths_as_typed(worst.points),
        "accuracy": plain(worst),
        "breaks alone": dict(worst.decided_by),
    }


def _attack(facts: AttackFacts) -> dict[str, Any]:
    advice, known = facts.advice, facts.best_known
    searched = None if known is None or known.searched is None else known.searched.tolist()
    quartiles = [finite(value_as_typed(facts.attack, size)) for size in facts.quartiles]
    return {
        "unit": unit_as_typed(facts.unit, attack=facts.attack),
        "strengths": sizes_as_typed(facts.strengths, facts.attack).tolist(),
        "accuracy": None if facts.accuracy is None else [plain(entry) for entry in facts.accuracy],
        "upper bound only at": list(facts.unsearched),
        "typical accuracy": None if facts.typical is None else [plain(entry) for entry in facts.typical],
        "average accuracy": plain(facts.average),
        "median size": quartiles[1],
        "quartiles": quartiles,
        "clean errors": facts.clean_errors,
        "none found": facts.never,
        "curve area": facts.area,
        "AH": None if facts.frontier is None else plain(facts.frontier.volume),
        "AH is": None if facts.frontier is None else facts.frontier.word,
        "against": {name: plain(number) for name, number in facts.against.items()},
        "own threat model": facts.own_threat,
        "forward": facts.forward,
        "backward": facts.backward,
        "seconds": facts.seconds,
        "origins": list(facts.origins),
        "best known": known and {"by": dict(known.by), "searched": searched},
        "found last by": dict(facts.found_last),
        "success over queries": [
            {
                "strength": value_as_typed(facts.attack, found.strength),
                "queries": list(found.limits),
                "broken": [*map(plain, found.success)],
            }
            for found in facts.queries
        ],
        "strengths tell little": advice and {"why": advice.why, "better": advice.option},
    }


def _certified(facts: CertifiedFacts) -> dict[str, Any]:
    """The certified side, of each sample its size (None: there is no example at any size) and its method."""
    held, both = facts.held, facts.both
    return {
        "attack": held.attack,
        "of": held.of or None,
        "unit": unit_as_typed(facts.unit, attack=held.attack),
        "strengths": [value_as_typed(held.attack, strength) for strength in facts.strengths],
        "robust accuracy, at least": [plain(entry) for entry in facts.accuracy],
        "median certified size": finite(value_as_typed(facts.held.attack, float(facts.curve.quantile(0.5)))),
        "closed": None if both is None else both.share_closed,
        "area between": None if both is None else both.area,
        "upper / lower": None if both is None else finite(both.width),
        "passes spared, at most": facts.saved,
        "abstained": None if held.abstained is None else int(held.abstained.sum()),
        "methods": [record.description() for record in held.records],
        "sizes": [*map(finite, sizes_as_typed(held.sizes, held.attack).tolist())],
        "by": held.leading_methods,
    }


def _reference(facts: ReferenceFacts) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": facts.name,
        "complete": facts.complete,
        "about": facts.held.approximate,
        "numbers": {name: plain(number) for name, number in facts.numbers.items()},
        "place": None if facts.place is None else asdict(facts.place),
        "notes": facts.held.notes(),
    }
    if facts.training:
        inside, outside = map(finite, (facts.training.ratios.inside, facts.training.ratios.outside))
        found |= {
            "seen": facts.training.seen,
            "CR in": inside,
            "CR out": outside,
            "SC": {f"floor {floor:g}": constant.value for floor, constant in facts.training.stability.items()},
            "SC interval": {f"floor {floor:g}": plain(one) for floor, one in facts.training.steadiness.items()},
        }
    return found
