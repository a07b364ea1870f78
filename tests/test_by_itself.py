"""Where sets are not nested, each strength is judged by itself: several together are what they are one by one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from helpers_core import brief
from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.attacks.definition import Attack
from robustatlas.attacks.suites import resolve_attacks
from robustatlas.common.noise import Noise
from robustatlas.metrics import change_of_slope, envelope
from robustatlas.optimizers.pgd import PGD
from robustatlas.optimizers.scan import Once
from robustatlas.outcomes import AccuracyTable
from robustatlas.report.facts import facts_of
from robustatlas.report.facts.field import BENCHMARKED, field_places
from robustatlas.report.facts.rows import Ground, run_row
from robustatlas.report.gate.requirements import Requirement, number_of
from robustatlas.report.numbers.statistics import hypervolume_of
from robustatlas.results.result import Result
from robustatlas.threats.base import ThreatModel
from robustatlas.training.calibration import calibrate
from robustatlas.training.references import ReferencePlan

QUIET: dict[str, Any] = {"progress": False, "diagnose": False, "audit": 0}
CORRUPTIONS = [name for name in catalogue() if name.startswith("corruption-")]
SIDE = 32


@pytest.fixture(scope="module")
def network() -> nn.Module:
    torch.manual_seed(3)
    conv = nn.Conv2d(3, 6, 3, stride=2)
    return nn.Sequential(conv, nn.ReLU(), nn.Flatten(), nn.Linear(6 * (SIDE // 2 - 1) ** 2, 10)).double()


@pytest.fixture(scope="module")
def images(network: nn.Module) -> tuple[Tensor, Tensor]:
    noise = torch.rand(6, 3, SIDE, SIDE, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    smooth = nn.functional.interpolate(noise[..., :4, :4], size=SIDE, mode="bilinear")
    x = (0.8 * smooth + 0.2 * noise).clamp(0, 1)
    labels = network(x).argmax(1)
    labels[::4] = (labels[::4] + 1) % 10  # misclassified clean
    return x, labels


def of_five(attack: Attack) -> Attack:
    """At five of its strengths."""
    places = np.linspace(0, len(attack.strengths) - 1, 5).astype(int)
    return brief(attack, [attack.strengths[k] for k in places], {"steps": 2})


def check_one_by_one(network: nn.Module, images: Any, attacks: list[Attack], **options: Any) -> Result:
    """What is found at five strengths together is what is found at each alone; the result of all together."""
    together = ra.evaluate(network, images, attacks, batch_size=1, **QUIET, **options)
    for k in range(5):
        single = [replace(attack, strengths=attack.strengths[k : k + 1]) for attack in attacks]
        alone = ra.evaluate(network, images, single, batch_size=1, **QUIET, **options)
        for name in together.attacks:
            ours, theirs = together.outcome(name), alone.outcome(name)
            np.testing.assert_array_equal(ours.fooled[:, k], theirs.fooled[:, 0], f"{name} at {ours.strengths[k]:g}")
            np.testing.assert_array_equal(ours.margins[:, k], theirs.margins[:, 0], name)
            first = ours.minimal_strength == ours.strengths[k]
            np.testing.assert_array_equal(ours.found_class[first], theirs.found_class[first], name)
    return together


def test_every_corruption_is_at_five_severities_what_it_is_at_each_alone(network: nn.Module, images: Any) -> None:
    together = check_one_by_one(network, images, [attack_named(name) for name in CORRUPTIONS])
    assert len(together.attacks) == 19
    back = [(np.diff(together.outcome(name).fooled, axis=1) < 0).any() for name in CORRUPTIONS]
    assert sum(back) > 5  # what falls at one severity stands at a larger one, so letting it cumulate would show


NOT_NESTED = [name for name, attack in catalogue("paper").items() if not attack.nested and name not in CORRUPTIONS]


def test_every_published_set_that_is_not_nested_is_judged_strength_by_strength(network: nn.Module, images: Any) -> None:
    assert NOT_NESTED == ["fog", "snow", "gabor"]
    attacks = [of_five(attack_named(name, "paper")) for name in NOT_NESTED]
    assert all(attack.searches == ("bisection", "every") for attack in attacks)
    together = check_one_by_one(network, images, attacks, search="every")
    assert all(not outcome.monotone for outcome in together.outcomes.values())
    for attack in resolve_attacks("uar-imagenet100", "paper"):
        if not attack.nested:
            assert attack.searches == ("every",)  # UAR evaluates at six strengths, and never bisects


def test_the_protocol_of_multirobustbench_bisects_sets_that_are_not_nested() -> None:
    """C.2: 'in a binary search manner to find the smallest perturbation size at which the model misclassifies'."""
    x = torch.linspace(0.01, 0.97, 13)[:, None]
    strengths = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
    runs = (ra.AttackRun(PGD(2), "margin", judge="last"),)
    attack = Attack(
        "exactly",
        Exactly(),
        runs,
        strengths,
        search_order=("bisection",),
        nested=False,
        contains_clean=False,
        repairs=True,
    )
    found = ra.evaluate(Band(), (x, torch.zeros(len(x), dtype=torch.int64)), [attack], **QUIET)
    fooled = [(Band()((x + s).clamp(0, 1)).argmax(1) == 1).tolist() for s in strengths]
    expected = []
    for sample in range(len(x)):
        low, high, smallest = 0, len(strengths) - 1, np.inf
        while low <= high:
            middle = (low + high) // 2
            if fooled[middle][sample]:
                smallest, high = strengths[middle], middle - 1
            else:
                low = middle + 1
        expected.append(smallest)
    clean = Band()(x).argmax(1).numpy() == 1
    outcome = found.outcome("exactly")
    np.testing.assert_allclose(np.where(clean, 0, outcome.minimal_strength), np.where(clean, 0, expected))
    assert (np.diff(outcome.accuracies()) <= 0).all()
    assert attack_named("fog", "paper").searches[0] == "bisection"


def test_nested_sets_of_which_the_last_iterate_counts_do_not_depend_on_other_strengths_either(
    network: nn.Module, images: Any
) -> None:
    attacks = [of_five(attack_named(name, "paper")) for name in ("elastic", "brightness", "ua-snow")]
    check_one_by_one(network, images, attacks, search="every")


@dataclass(frozen=True)
class Exactly(ThreatModel):
    """The image brighter by exactly epsilon, which says of itself to be smaller than it is."""

    scale: float = 1.0

    def neutral(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x[:, :1])

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return epsilon[:, None] + 0 * x[:, :1]

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        return (x + theta).clamp(0, 1)

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        return self.start(x, epsilon, Noise.for_samples(0, torch.arange(len(x)), ""))

    def steepest(self, x: Tensor, gradient: Tensor) -> Tensor:
        return torch.zeros_like(gradient)

    def size(self, x: Tensor, theta: Tensor) -> Tensor:
        return theta.abs().amax(1) * self.scale


class Band(nn.Module):
    """Class 1 where the value lies in (0.4, 0.6), class 0 elsewhere."""

    def forward(self, x: Tensor) -> Tensor:
        height = 0.1 - (x[:, :1] - 0.5).abs()
        return 20 * torch.cat([torch.zeros_like(height), height], 1)


@pytest.mark.parametrize("scale", [1.0, 0.5])
@pytest.mark.parametrize(
    "runs",
    [
        (ra.AttackRun(Once(), "margin"),),
        (ra.AttackRun(PGD(2), "margin", start="best", count=2), ra.AttackRun(PGD(1), "cross-entropy")),
        (ra.AttackRun(PGD(2), "margin", judge="last"),),
    ],
    ids=["once", "best", "last"],
)
def test_sets_of_one_s_own_that_are_not_nested_have_the_closed_form(
    scale: float, runs: tuple[ra.AttackRun, ...]
) -> None:
    strengths = (0.1, 0.2, 0.3, 0.4, 0.5)
    x = torch.linspace(0.01, 0.97, 13)[:, None]
    labels = torch.zeros(len(x), dtype=torch.int64)
    attack = Attack(
        "exactly",
        Exactly(scale),
        runs,
        strengths,
        search_order=("every",),
        nested=False,
        contains_clean=False,
        repairs=True,
    )
    together = check_one_by_one(Band(), (x, labels), [attack])
    moved = (x + torch.tensor(strengths)).clamp(0, 1)
    logits = [Band()(moved[:, k : k + 1]) for k in range(5)]
    wrong = torch.stack([values.argmax(1) == 1 for values in logits], 1).numpy()
    outcome = together.outcome("exactly")
    np.testing.assert_array_equal(outcome.broken(), wrong)
    margins = torch.stack([values.softmax(1)[:, 0] - values.softmax(1)[:, 1] for values in logits], 1)
    np.testing.assert_allclose(outcome.margins, margins.numpy(), atol=1e-6)
    assert (np.diff(wrong.astype(int), axis=1) < 0).any() and (wrong.sum(0) > 0).all()
    first = np.where(wrong.any(1), np.array(strengths)[wrong.argmax(1)], np.inf)
    clean = Band()(x).argmax(1).numpy() == 1
    np.testing.assert_array_equal(outcome.minimal_strength, np.where(clean, 0, first))


def test_sets_that_are_not_nested_have_no_search_that_takes_them_to_be() -> None:
    run = ra.AttackRun(PGD(2), "margin", judge="last")
    with pytest.raises(ra.UserError, match="'bisection'"):
        Attack("exactly", Exactly(), (run,), (0.1, 0.2), search_order=("bisection",), nested=False)


def test_strengths_that_are_added_to_a_run_are_those_of_a_run_made_at_once(
    network: nn.Module, images: Any, tmp_path: Path
) -> None:
    attack = attack_named("corruption-gaussian-noise")
    for strengths in ((4.0,), (1.0, 3.0), attack.strengths):
        grown = ra.evaluate(network, images, replace(attack, strengths=strengths), run=tmp_path, **QUIET)
    once = ra.evaluate(network, images, attack, **QUIET)
    np.testing.assert_array_equal(grown.outcome(attack.name).fooled, once.outcome(attack.name).fooled)


# What is said of such runs


FOOLED = np.array([[1, 0, 0, 0, 1], [0, 1, 0, 0, 0], [0, 0, 0, 1, 0], [1, 0, 0, 0, 0]], np.int8)


def made_up(names: tuple[str, ...] = ("corruption-fog",), fooled: np.ndarray = FOOLED) -> Result:
    """The last of four images is misclassified clean."""
    reached = np.where(fooled.any(1), 1.0 + fooled.argmax(1), np.inf)
    return Result.from_arrays(
        [0] * 4,
        [0, 0, 0, 1],
        {name: np.where([False] * 3 + [True], 0, reached) for name in names},
        {name: [1, 2, 3, 4, 5] for name in names},
        fooled=dict.fromkeys(names, fooled),
        margins=dict.fromkeys(names, np.where(fooled, -0.5, 0.5)),
        monotone=False,
        data="cifar10",
    )


def test_every_number_goes_by_the_very_strength() -> None:
    result = made_up()
    facts = facts_of(result)
    accuracies = [50.0, 75.0, 100.0, 75.0, 75.0]
    assert [entry.value for entry in facts.attacks[0].accuracy or ()] == accuracies
    assert facts.average is not None and facts.average.value == 75.0
    # Of three samples that are right without a change, one errs at each of four strengths: never half of them.
    assert facts.attacks[0].median.value == facts.attacks[0].quartiles[1] == np.inf
    for strength, accuracy in enumerate(accuracies, start=1):
        requirement = Requirement.parse(f"corruption-fog@{strength}>=1")
        assert number_of(requirement, result, facts).value == accuracy
    row = run_row(result, Ground.from_results([result]).reference)
    assert row.accuracies.values("corruption-fog").tolist() == accuracies
    assert "median size never," in repr(result)


def test_unions_take_each_strength_by_itself() -> None:
    result = made_up(("corruption-fog", "corruption-contrast"))
    assert result.survivors({"corruption-fog": 3, "corruption-contrast": 3}).tolist() == [True, True, True, False]
    assert result.survivors({"corruption-fog": 3, "corruption-contrast": 2}).tolist() == [True, False, True, False]
    worst = facts_of(result, {"corruption-fog": 3, "corruption-contrast": 3}).worst
    assert worst is not None and worst.value == 75.0


def test_the_mean_beside_a_field_of_corruptions_is_that_of_all_severities() -> None:
    names = tuple(f"corruption-{name}" for name in BENCHMARKED)
    (beside,) = [found for found in field_places(made_up(names)) if found.field.attack == "corruptions"]
    assert beside.accuracy.value == 75.0


def test_no_other_strengths_are_advised_and_no_frontier_is_drawn() -> None:
    result = made_up(fooled=np.zeros((4, 5), np.int8))
    assert facts_of(result).attacks[0].advice is None
    assert hypervolume_of(result, "corruption-fog") is None
    for of_sizes in (lambda curve: envelope([curve]), lambda curve: change_of_slope(curve, up_to=5)):
        with pytest.raises(ra.UserError, match="judged at each strength by itself"):
            of_sizes(result.curve("corruption-fog"))
    assert facts_of(result).attacks[0].frontier is None


# Severities that there are not

HALF = "corruption-fog has only the strengths 1, 2, 3, 4, 5; given: 2.5"
REFUSED: list[tuple[str, Callable[[], object]]] = [
    (HALF, lambda: replace(attack_named("corruption-fog"), strengths=(1.0, 2.5))),
    ("given: 0.5, 6", lambda: replace(attack_named("corruption-fog"), strengths=(0.5, 1.0, 6.0))),
    (HALF, lambda: _evaluated({"corruption-fog": [1, 2.5]})),
    (HALF, lambda: ReferencePlan("digits-cnn", {"corruption-fog": [2.5]})),
    (HALF, lambda: _trained({"corruption-fog": 2.5})),
    (
        "corruption-fog .*1, 2, 3, 4, 5.* 6",
        lambda: calibrate("corruption-fog", _ata([0.5, 1, 2, 3, 4, 5])),
    ),
    ("1, 2, 3, 4, 5; 2.5", lambda: _gate("corruption-fog@2.5>=10")),
    ("1, 2, 3, 4, 5; 6", lambda: _gate("corruption-fog@6>=10")),
    ("not searched at 2.5.* 2, 3", lambda: facts_of(made_up(), union={"corruption-fog": 2.5})),
    ("1, 2, 3, 4, 5; 2.5", lambda: made_up().survivors({"corruption-fog": 2.5})),
]


def _evaluated(strengths: dict[str, list[float]]) -> Result:
    model = ra.load_model("builtin:digits-linf")
    return ra.evaluate(model, ra.load_dataset("digits"), list(strengths), strengths=strengths, samples=1, **QUIET)


def _trained(against: dict[str, float]) -> object:
    return ra.train(ra.load_model("builtin:digits-linf").net, ra.load_dataset("digits"), "pgd", against, epochs=1)


def _ata(strengths: list[float]) -> AccuracyTable:
    entries = {"linf": dict.fromkeys([1, 2, 4, 8, 16, 32], 50.0), "corruption-fog": dict.fromkeys(strengths, 50.0)}
    return AccuracyTable(90.0, entries)


def _gate(text: str) -> object:
    return number_of(Requirement.parse(text), made_up(), facts_of(made_up()))


@pytest.mark.parametrize(("said", "door"), REFUSED)
def test_severities_that_there_are_not_are_refused_in_a_sentence(said: str, door: Callable[[], object]) -> None:
    with pytest.raises(ra.UserError, match=said) as refused:
        door()
    assert "\n" not in str(refused.value)
