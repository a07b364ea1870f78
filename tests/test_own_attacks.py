"""An attack of one's own is judged like ours: verified, held against the default attack, without a place until then."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.attacks.catalogue import ATTACKS, attack_named
from robustatlas.attacks.counterparts import counterpart_name
from robustatlas.common.errors import RobustnessWarning
from robustatlas.metrics.references import Defense, Reference
from robustatlas.outcomes import AccuracyTable
from robustatlas.report.facts import facts_of
from robustatlas.report.facts.rows import run_row
from robustatlas.report.leaderboard import build_leaderboard
from robustatlas.results.result import Result
from robustatlas.threats.lp import Linf

STRENGTHS = (0.05, 0.1, 0.15, 0.2)


def idle(model: nn.Module, x: Tensor, labels: Tensor, eps: float) -> Tensor:
    """Change next to nothing."""
    return (x + 0.001 * eps).clamp(0, 1)


def ascend(model: nn.Module, x: Tensor, labels: Tensor, eps: float) -> Tensor:
    """Ascend the cross-entropy by signs, in 20 steps."""
    moved = torch.zeros_like(x)
    for _ in range(20):
        moved.requires_grad_()
        loss = nn.functional.cross_entropy(model((x + moved).clamp(0, 1)), labels, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, moved)
        moved = (moved.detach() + eps / 5 * gradient.sign()).clamp(-eps, eps)
    return (x + moved).clamp(0, 1).detach()


class Bright(Linf):
    """A box of its own whose images are not in [0, 1]: as a file of a user may have it."""

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        return x + 2.0 + theta


@pytest.fixture(scope="module")
def model() -> ra.Classifier:
    return ra.load_model("builtin:digits-standard")


def own(attack: object, **changes: object) -> ra.Attack:
    return replace(ra.external(attack, "linf", strengths=STRENGTHS), **changes)


def evaluated(model: ra.Classifier, attack: ra.Attack | str, **asked: object) -> Result:
    return ra.evaluate(model, ra.load_dataset("digits"), attack, **{"samples": 60, "progress": False, **asked})


@pytest.fixture
def entered() -> Iterator[None]:
    """An attack of another package, made of parts of this one."""
    ATTACKS["other"] = replace(attack_named("linf"), name="other")
    yield
    del ATTACKS["other"]


@pytest.mark.usefixtures("entered")
def test_whose_an_attack_is():
    """Names that this package makes of several are its own; parts or names from elsewhere are not."""
    for name in (
        "linf",
        "l2",
        "elastic",
        "pgd-linf",
        "apgd-linf",
        "recolor+stadv+linf",
        "linf.wrong",
        "zoom",
        "square-linf",
    ):
        assert counterpart_name(attack_named(name)) == "", name
    assert counterpart_name(replace(attack_named("linf"), name="mine")) == "linf"
    assert counterpart_name(attack_named("other")) == "linf"
    assert counterpart_name(ra.external(idle, "l2")) == "l2"
    assert counterpart_name(ra.external(idle, "linf", name="linf")) == "linf"
    assert counterpart_name(replace(attack_named("linf"), name="mine", threat=Bright())) == ""  # a set of its own


def test_a_weak_attack_is_found_out_by_ours(model: ra.Classifier) -> None:
    with pytest.warns(RobustnessWarning, match="found by linf"):
        result = evaluated(model, own(idle))
    ours = evaluated(model, "linf", strengths={"linf": STRENGTHS}).accuracies().values("linf").mean()
    assert result.accuracies().values("idle").mean() > ours + 20  # it leaves most samples, and ours does not
    assert result.diagnosis is not None and result.diagnosis.verdict == "doubtful"
    assert "idle" in result.unproven
    audit = result.audited("idle")
    assert audit.audited == 32 and audit.mean[2] < result.accuracies().values("idle").mean()


def test_a_strong_attack_is_sound_once_it_was_held_against_ours(model: ra.Classifier, tmp_path: Path) -> None:
    data, run = ra.load_dataset("digits"), tmp_path / "run"
    before = evaluated(model, own(ascend), run=run, audit=0)
    assert before.diagnosis is not None and before.diagnosis.verdict == "inconclusive"
    assert "ascend" in before.unproven and before.accuracies().values("ascend").mean() < 40
    after = ra.audit(ra.load_result(run), data, model=model, samples=4)
    assert after.diagnosis is not None and after.diagnosis.verdict == "sound" and not after.unproven
    again = evaluated(model, own(ascend), run=run)  # which looks at it by itself, unless that was done
    assert again.audited("ascend").audited == 4 and not again.unproven


def test_ours_are_not_held_against_themselves(model: ra.Classifier) -> None:
    result = evaluated(model, "pgd-linf", strengths={"pgd-linf": STRENGTHS}, samples=20, audit=0)
    assert not result.unproven and all(record.counterpart == "" for record in result.records.values())


def test_refused_candidates_are_reported_and_stand_for_nothing(model: ra.Classifier) -> None:
    """Verification refused all 20 candidates of one attack; of another one it let one pass."""
    found = evaluated(model, "pgd-linf", strengths={"pgd-linf": (1e-6,)}, samples=20)
    outcome = found.outcome("pgd-linf")
    assert not np.isfinite(outcome.minimal_size[found.clean]).any() and not found.unproven
    refused = replace(found, outcomes={"pgd-linf": replace(outcome, rejected=20)})
    assert "every one of 20 candidates" in refused.unproven["pgd-linf"]
    assert refused.diagnosis is not None and "refused pgd-linf" in refused.diagnosis.flags
    assert refused.diagnosis.verdict == "doubtful" and refused.is_suspect
    sizes = np.where(np.arange(20) == found.clean.argmax(), 1e-6, outcome.minimal_size)
    some = replace(found, outcomes={"pgd-linf": replace(outcome, rejected=20, minimal_size=sizes)})
    assert not some.unproven


def test_no_place_beside_published_models_until_it_was_held(model: ra.Classifier, tmp_path: Path) -> None:
    table = AccuracyTable(95.0, {"mine": dict.fromkeys(STRENGTHS, 60.0)})
    published = Defense("published", AccuracyTable(90.0, {"mine": dict.fromkeys(STRENGTHS, 30.0)}))
    reference = Reference("small", "made up", table, ("mine",), defenses=(published,))
    for attack, placed in ((ascend, True), (idle, False)):
        found = []
        for audit in (0, None):
            result = evaluated(model, own(attack, name="mine"), audit=audit, samples=40)
            row, facts = run_row(result, reference), facts_of(result, reference=reference)
            assert facts.reference is not None
            assert (facts.reference.place is None) == bool(row.unranked)
            build_leaderboard([result], tmp_path / "board", reference)
            found.append(not row.unranked)
        assert found == [False, placed]


def test_no_advice_on_strengths_beyond_what_images_differ_by(model: ra.Classifier) -> None:
    """Every sample stands at strength 1, the whole cube, by an attack that does nothing."""
    reach = own(idle, strengths=(0.3, 0.6, 1.0))
    ours = replace(attack_named("pgd-linf"), strengths=(0.001, 0.002))
    for audit in (0, None):
        assert facts_of(evaluated(model, reach, audit=audit)).advice == []
    (advice,) = facts_of(evaluated(model, ours, samples=20)).advice
    assert advice.last <= 1.0
    far = evaluated(model, replace(attack_named("l2"), strengths=(0.0001, 8.0)), samples=10)
    assert all(advice.last <= 8.0 for advice in facts_of(far).advice)  # the cube of 64 pixels has this diameter
