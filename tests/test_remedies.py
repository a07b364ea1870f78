"""Gradients around modules that mislead, estimated gradients, a network that imitates a model, and lines of code."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from command_line import entered
from helpers_core import broken_defense
from robustatlas.checks.indicators import INDICATORS, DiagnosedSamples
from robustatlas.checks.remedies import distill, find_gradient_remedies, model_with_estimated_gradient
from robustatlas.checks.run_findings import remedy_code
from robustatlas.common.bundle import flat
from robustatlas.common.noise import Noise

DATA = ra.load_dataset("digits")
EXAMPLES = Path(__file__).parents[1] / "examples" / "broken_defenses"


def look(model: ra.Classifier, samples: int = 16) -> DiagnosedSamples:
    noise = Noise.of(0, torch.arange(samples), "repair")
    return DiagnosedSamples(model, DATA.images[:samples], DATA.labels[:samples], noise)


GUILTY = {
    "discrete_steps.py:eight_levels": "dropped at 'net' (Sequential)",
    "shattered_gradients.py:keyed_noise": "dropped at 'net' (Sequential)",
    "false_gradients.py:random_signs": "input at 'net' (Sequential)",
    "saturated_outputs.py:saturated_layers": "secant at all Steep",
}


@pytest.mark.parametrize("name", GUILTY)
def test_the_guilty_module_is_found(name: str) -> None:
    model = ra.load_model(broken_defense(name))
    with model.evaluating():
        assert find_gradient_remedies(model, look(model))[0].name == GUILTY[name]


def test_an_estimated_gradient_points_where_the_gradient_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a linear model the estimate is unbiased; it does not depend on the batch, and its passes are counted."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(6, 3))
    monkeypatch.setattr("robustatlas.checks.remedies.imitation.PAIRS", 150)
    model = ra.Classifier(net)
    view = model_with_estimated_gradient(model)
    x = 0.3 + 0.4 * torch.rand(3, 1, 2, 3)

    def gradient(rows: Tensor) -> Tensor:
        leaf = rows.clone().requires_grad_()
        logits = view.logits(leaf)
        return torch.autograd.grad(logits[:, 0].sum(), leaf)[0]

    weight = net[1].weight
    assert isinstance(weight, Tensor)
    expected = flat(gradient(x))
    cosine = torch.cosine_similarity(expected, weight[0].detach()[None].expand_as(expected))
    assert bool((cosine > 0.8).all())
    assert flat(gradient(x[1:2])).allclose(expected[1:2], atol=1e-5)
    before = model.forward_passes
    gradient(x)
    assert model.forward_passes - before >= 3 * 2 * 150


def test_a_way_around_a_module_keeps_the_outputs() -> None:
    model = ra.load_model(broken_defense("false_gradients.py:random_signs"))
    with model.evaluating():
        way = find_gradient_remedies(model, look(model))[0]
    assert torch.equal(look(way.model).clean, look(model).clean) and way.model.identity() == model.identity()


def test_a_distilled_network_agrees_with_its_teacher() -> None:
    """It has a gradient where its teacher has none, and on most images the same class."""
    model = ra.load_model(broken_defense("discrete_steps.py:black_and_white"))
    with model.evaluating():
        student = ra.Classifier(distill(model, DATA.images[:100], epochs=20))
    seen = look(student)
    assert float((seen.clean.argmax(1) == look(model).clean.argmax(1)).float().mean()) > 0.7
    assert float(flat(seen.slopes[0]).abs().amax(1).min()) > 0


CODE = {kind.code for kind in INDICATORS.values() if kind.code} | {
    remedy_code("high effort"),
    remedy_code("square-linf"),
}


@pytest.mark.parametrize("code", sorted(CODE))
def test_the_line_of_code_of_each_remedy_runs(code: str) -> None:
    """Each name in it is one that its documentation lists, and each call takes its arguments."""
    few = DATA.take(2)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.Softmax(1))
    model = ra.Classifier(net, outputs="probabilities")
    x = few.images.clone().requires_grad_()
    known = {"ra": ra, "torch": torch, "net": net, "model": model, "data": few, "step": torch.round}
    known |= {"smooth": torch.sin, "loss": net(x)[:, 0].sum(), "x": x}
    if ".audit(" in code:
        known["result"] = ra.evaluate(model, few, "brightness", diagnose=False, progress=False)
    assert len(ast.parse(code).body) == 1
    exec(code, known)
    made = known["model"]
    assert isinstance(made, ra.Classifier)
    made.logits(few.images.to(made.dtype), verifying=True)


def test_only_what_has_nothing_to_do_has_no_line_of_code() -> None:
    without = {name for name, kind in INDICATORS.items() if not kind.code}
    assert all(INDICATORS[name].remedy.startswith("None") and not INDICATORS[name].decides for name in without)


def flagged(net: Callable[[Tensor], Tensor] | nn.Module) -> tuple[str, ...]:
    return ra.diagnose(ra.Classifier(net), DATA, samples=40).flags


def test_what_the_lines_of_code_say_takes_the_flags_away() -> None:
    """Of a network that rounds its input, and of one behind a ReLU that has no gradient at 0."""
    net = ra.load_model("builtin:digits-linf").net
    rounded = ra.straight_through(lambda x: (x * 15).round() / 15)
    assert "zero-gradient" in flagged(lambda x: net((x * 15).round() / 15))
    assert flagged(lambda x: net(rounded(x))) == ()
    behind = nn.Sequential(nn.ReLU(), net)
    assert "border-gradient" in flagged(behind)
    known = {"ra": ra, "net": behind}
    exec(INDICATORS["border-gradient"].code, known)
    assert ra.diagnose(known["model"], DATA, samples=40).flags == ()


@pytest.mark.parametrize("columns", [60, 80])
def test_a_line_of_code_stands_alone_in_the_terminal(columns: int) -> None:
    """However narrow it is, so that it can be copied."""
    defense = EXAMPLES / "discrete_steps.py"
    said = entered("diagnose", f"{defense}:eight_levels", "--data", "digits", "--samples", 12, columns=columns)
    assert f"    {INDICATORS['zero-gradient'].code}" in said.out.splitlines()
