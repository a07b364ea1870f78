"""The full diagnosis: attacks of several kinds beside each other, and planted examples that an attack must find."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from helpers_core import broken_defense
from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import Attack
from robustatlas.attacks.search.plan import AttackRun
from robustatlas.checks.indicators import INDICATORS, DiagnosedSamples, Measurement
from robustatlas.checks.indicators.attack_failures import pgd_path
from robustatlas.checks.indicators.binarisation import Binarisation
from robustatlas.checks.indicators.search_results import OWN, SEED, PlantedTest, SearchResults
from robustatlas.common.noise import Noise
from robustatlas.optimizers.pgd import PGD
from robustatlas.trust import full
from robustatlas.trust.binarisation import planted_test, points_at_l2_distance

DATA = ra.load_dataset("digits")
NEVER = float("inf")


def searched(samples: int, **sizes: list[float]) -> SearchResults:
    found = {OWN: [0.1] * samples, SEED: [0.1] * samples} | {name.replace("_", "-"): v for name, v in sizes.items()}
    return SearchResults(
        epsilon=0.1,
        strengths=torch.tensor([0.02, 0.1, 0.3]),
        sizes={kind: torch.tensor(values) for kind, values in found.items()},
        black_box=frozenset(kind for kind in found if kind.startswith("square")),
        transferred=torch.full((samples,), -1.0),
        nearest=torch.full((samples,), NEVER),
        binarised={},
    )


def look(model: ra.Classifier, samples: int = 16, found: SearchResults | None = None) -> DiagnosedSamples:
    noise = Noise.of(0, torch.arange(samples), "full diagnosis")
    known = found or searched(samples)
    return DiagnosedSamples(model, DATA.images[:samples], DATA.labels[:samples], noise, searched=known)


def read(name: str, at: DiagnosedSamples) -> Measurement:
    with at.model.evaluating():
        return INDICATORS[name]().measure(at)


SOUND = ra.load_model("builtin:digits-linf")
BLIND = broken_defense("false_gradients.py:zero_gradient")
SEEN = {
    "unconstrained": "false_gradients.py:zero_gradient",
    "half": "false_gradients.py:zero_gradient",
    "quantised": "discrete_steps.py:eight_levels",
    "float-saturation": "saturated_outputs.py:saturated_layers",
}


@pytest.mark.parametrize("name", SEEN)
def test_what_each_is_for_is_seen_and_a_sound_network_is_not(name: str) -> None:
    seen, clear = read(name, look(ra.load_model(broken_defense(SEEN[name])))), read(name, look(SOUND))
    assert int(seen.doubtful.sum()) >= 4 and int(clear.doubtful.sum()) <= 1


def test_random_noise_that_succeeds_where_gradients_fail_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustatlas.checks.indicators.carlini._DRAWS", 40)
    far = replace(searched(24), epsilon=0.4)
    assert int(read("random-draws", look(ra.load_model(BLIND), 24, far)).doubtful.sum()) >= 2
    assert not read("random-draws", look(SOUND, 24, far)).doubtful.any()


def test_kinds_are_compared_sample_by_sample() -> None:
    found = searched(
        4, default=[0.05, NEVER, NEVER, 0.05], **{"another seed": [0.05, NEVER, NEVER, 0.051]},
        square_linf=[0.2, 0.09, 0.2, 0.01], fab_linf=[0.06, NEVER, NEVER, 0.05],
    )  # fmt: skip
    at = look(SOUND, 4, found)
    assert read("black-box", at).doubtful.tolist() == [False, True, False, False]
    assert read("square-lowers", at).doubtful.tolist() == [False, True, False, False]
    assert read("one-kind", at).doubtful.tolist() == [False, True, True, False]
    assert read("kinds", at).doubtful.tolist() == [False, True, True, True]
    close = replace(found, strengths=torch.tensor([0.1, 0.3]))
    assert read("kinds", look(SOUND, 4, close)).doubtful.tolist() == [False, True, True, False]
    apart = searched(1, default=[0.2], **{"another seed": [0.1]}, square_linf=[0.09])
    assert not read("kinds", look(SOUND, 1, replace(apart, strengths=torch.tensor([0.095])))).doubtful.any()


def test_data_of_another_class_are_examples_themselves() -> None:
    found = replace(searched(3), nearest=torch.tensor([0.05, 0.2, NEVER]))
    assert read("nearest-data", look(SOUND, 3, found)).doubtful.tolist() == [True, False, False]


class Optimising(nn.Module):
    """A defense that takes gradients in its forward pass."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(leaf.square().sum(), leaf)
        outputs: Tensor = SOUND.logits(x + 0 * slope)
        return outputs


def test_gradients_in_a_forward_pass_are_seen() -> None:
    assert read("gradient-in-forward", look(ra.Classifier(Optimising()), 2)).doubtful.all()
    assert not read("gradient-in-forward", look(SOUND, 2)).doubtful.any()


def test_the_path_of_an_attack_is_pgd() -> None:
    """Of a linear model: each step takes the length off every value, until the strength."""
    weight = torch.tensor([[1.0, -1.0], [0.0, 0.0]])
    x = torch.tensor([[0.5, 0.5]])
    model = ra.Classifier(lambda v: v @ weight.T + torch.tensor([0.5, 0.0]))
    at = DiagnosedSamples(model, x, torch.tensor([0]), Noise.of(0, torch.arange(1), ""))
    found = pgd_path(at, 0.1, steps=5)
    assert found.margins.flatten().tolist() == pytest.approx([0.5, 0.4, 0.3, 0.3, 0.3, 0.3])
    assert found.end.tolist() == [pytest.approx([0.4, 0.6])]


def weak(steps: int) -> Attack:
    run = AttackRun(PGD(steps, rate=2.5 / steps), "margin", start="neutral")
    return Attack("linf", attack_named("linf").threat, (run,), (0.1,))


@pytest.mark.parametrize(("name", "finds"), [("builtin:digits-linf", True), (BLIND, False)])
def test_planted_examples_are_found_where_gradients_lead(name: str, finds: bool) -> None:
    model = ra.load_model(name)
    with model.evaluating():
        test = planted_test(model, DATA.images[:6], attack_named("linf") if finds else weak(60), 0.1, seed=0)
    assert test is not None and int(test.set_up.sum()) >= 4
    share = float(test.found[test.set_up].float().mean())
    assert share >= 0.75 if finds else share == 0


def test_a_test_that_chance_passes_tells_nothing() -> None:
    few = PlantedTest(torch.zeros(20).bool(), torch.arange(20) < 3, torch.ones(20).bool(), convex=True)
    assert not few.informative and replace(few, by_chance=torch.arange(20) < 1).informative
    found = replace(searched(20), binarised={"linf": few})
    assert Binarisation("linf").measure(look(SOUND, 20, found)).doubtful.all()


def test_only_in_lp_balls_what_was_planted_and_missed_speaks_against_a_network() -> None:
    missed = PlantedTest(torch.zeros(20).bool(), torch.zeros(20).bool(), torch.ones(20).bool(), convex=True)
    found = replace(searched(20), binarised={"linf": missed, "stadv": replace(missed, convex=False)})
    in_ball, by_warps = (full._read_indicator(Binarisation(name), look(SOUND, 20, found)) for name in found.binarised)
    assert in_ball.decides and in_ball.severity == "masked"
    assert not by_warps.decides and by_warps.severity == "note" and "sound networks do so too" in by_warps.means


def test_a_network_without_a_last_linear_layer_is_not_tested() -> None:
    assert planted_test(ra.Classifier(lambda x: x.flatten(1)[:, :3]), DATA.images[:2], weak(2), 0.1, 0) is None


def test_all_are_read_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustatlas.checks.indicators.carlini._DRAWS", 20)
    monkeypatch.setattr(full, "_OTHER_KINDS", ("fab",))
    monkeypatch.setattr(full, "_IMAGE_ATTACKS", ("stadv",))
    monkeypatch.setattr(full, "PLANTED", 1)
    monkeypatch.setattr("robustatlas.checks.remedies.imitation.distill.__defaults__", (2,))
    monkeypatch.setattr("robustatlas.checks.indicators.randomness._DRAWS", 5)
    found = ra.diagnose(SOUND, DATA, samples=2, full=True)
    names = {finding.name for finding in found.indicators}
    assert set(INDICATORS) - {"binarisation", "black-box"} <= names
    assert {"binarisation-linf", "binarisation-stadv"} <= names
    assert not any(finding.flagged for finding in found.indicators if finding.decides)
    published = [kind for kind in INDICATORS.values() if kind.part == "published"]
    assert len(published) >= 5 and not any(kind.decides for kind in published)


@pytest.mark.parametrize("length", [0.2, 0.9])
def test_points_at_an_l2_distance_are_there_after_clipping(length: float) -> None:
    x = DATA.images[:4]
    points = points_at_l2_distance(x, torch.randn(x.shape, generator=torch.Generator().manual_seed(0)), length)
    assert (points - x).flatten(1).norm(dim=1).allclose(torch.tensor(length), rtol=1e-3)
    assert float(points.min()) >= 0 and float(points.max()) <= 1
