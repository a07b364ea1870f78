"""Remedies of a diagnosis: ways through what misleads, new evidence in the same run, before and after."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.checks.indicators import LookedAt
from robustatlas.checks.remedies import around, at_logits, rescaled, ways
from robustatlas.common.bundle import flat
from robustatlas.common.noise import Noise

DATA = ra.load_dataset("digits")
STRENGTHS = {"linf": [0.1, 0.2]}


def look(model: ra.Classifier, samples: int = 16) -> LookedAt:
    noise = Noise.of(0, torch.arange(samples), "repair")
    return LookedAt(model, DATA.images[:samples], DATA.labels[:samples], noise)


GUILTY = {
    "rounded": "dropped at 'net' (Sequential)",
    "keyed-noise": "dropped at 'net' (Sequential)",
    "random-backward": "input at 'net' (Sequential)",
    "saturated-layers": "secant at all Steep",
}


@pytest.mark.parametrize("name", GUILTY)
def test_the_guilty_module_is_found(name: str) -> None:
    model = ra.load_model(f"broken:{name}")
    with model.evaluating():
        assert around(model, look(model))[0].name == GUILTY[name]


def test_a_sound_network_keeps_its_gradient() -> None:
    """A way has the same outputs, and where nothing misleads float64 gives the same gradient."""
    model = ra.load_model("builtin:digits-linf")
    way = ways.precise(model, DATA.images[:1])
    assert way is not None and model.remedy == "" and way.model.remedy == "float64"
    own, other = look(model), look(way.model)
    assert torch.equal(own.clean, other.clean)
    assert own.slopes[0].allclose(other.slopes[0], atol=1e-4)
    assert way.model.identity() == model.identity()


def test_a_network_that_makes_float32_of_its_own_has_no_way_in_float64() -> None:
    assert ways.precise(ra.load_model("broken:black-and-white"), DATA.images[:1]) is None


def test_an_estimated_gradient_points_where_the_gradient_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a linear model the estimate is unbiased; it does not depend on the batch, and its passes are counted."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(6, 3))
    monkeypatch.setattr(ways, "PAIRS", 150)
    model = ra.Classifier(net)
    view = ways.estimated(model).model
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


def test_a_distilled_network_agrees_with_its_teacher() -> None:
    model = ra.load_model("broken:black-and-white")
    with model.evaluating():
        way = ways.transferred(model, DATA.images[:100], epochs=5)
    seen = look(way.model)
    assert torch.equal(seen.clean, look(model).clean) and float(flat(seen.slopes[0]).abs().amax(1).min()) > 0


def test_gradients_just_inside_see_what_a_kink_at_the_border_hides() -> None:
    """Of a network behind a ReLU they are those of the network, and the outputs stay."""
    model, plain = ra.load_model("broken:clipped"), ra.load_model("builtin:digits-linf")
    seen, own = look(ways.inside(model).model), look(plain)
    assert torch.equal(seen.clean, own.clean) and not own.slopes[0].allclose(look(model).slopes[0], atol=1e-2)
    cosine = torch.cosine_similarity(flat(seen.slopes[0]), flat(own.slopes[0]))
    assert bool((cosine > 0.95).all())


def test_a_loss_on_the_logits_and_rescaled_outputs_keep_what_is_wrong() -> None:
    model = ra.load_model("broken:softmax-twice")
    (logits,) = at_logits(model, DATA.images[:2])
    assert torch.equal(look(logits.model).clean, look(model).clean)
    assert float(flat(look(logits.model).slopes[0]).abs().amax(1).min()) > 0
    assert [way.name for way in at_logits(ra.load_model("broken:majority"), DATA.images[:2])] == [
        "logits at 'nets.2.7' (Linear)",
        "mean of 3 votes (Linear)",
    ]
    tiny = ra.load_model("broken:tiny-logits")
    x = DATA.images[:8].clone().requires_grad_()
    outputs = rescaled(tiny).model.logits(x)
    assert outputs.argmax(1).equal(tiny.logits(x.detach()).argmax(1)) and outputs.abs().amax(1).allclose(
        torch.tensor(10.0)
    )


def test_only_remedies_of_what_is_flagged_are_tried(tmp_path: Path) -> None:
    model = ra.load_model("broken:clipped")
    with pytest.warns(UserWarning, match="Diagnosis: masked"):
        result = ra.evaluate(model, DATA, "linf", strengths={"linf": [0.2]}, samples=34, effort="low", progress=False)
    mended = ra.repair(result, DATA, model=model, remedies=("inside", "around", "eot"))
    assert [each.name for each in mended.remedies] == ["just inside [0, 1]"]
    assert mended.before["linf"][0] > 12 > 10 > mended.after["linf"][0]  # smoothed ReLUs see part of it before


def test_a_repair_only_adds(tmp_path: Path) -> None:
    model = ra.load_model("broken:random-backward")
    with pytest.warns(UserWarning, match="Diagnosis: masked"):
        result = ra.evaluate(
            model, DATA, "linf", strengths=STRENGTHS, samples=34, effort="low", run=tmp_path / "run", progress=False
        )
    mended = ra.repair(tmp_path / "run", remedies=("around",))
    assert mended.gate in ("single step", "iterate") and mended.diagnosis.verdict == "masked"
    assert (mended.after["linf"] <= mended.before["linf"]).all()
    assert mended.before["linf"][1] - mended.after["linf"][1] > 30
    (remedy,) = {each.name for each in mended.remedies}
    assert remedy == GUILTY["random-backward"] and "->" in repr(mended)
    again = ra.load_result(tmp_path / "run")
    assert np.array_equal(again.minimal_size("linf"), mended.result.minimal_size("linf"))
    assert (again.minimal_size("linf") <= result.minimal_size("linf")).all()
    remedies = {record.protocol.get("remedy") for record in again.records.values()}
    assert remedies == {None, GUILTY["random-backward"]}


def test_what_is_no_run_is_not_repaired() -> None:
    with pytest.raises(ra.UserError, match="give a result or the folder of a run"):
        ra.repair(ra.load_model("broken:rounded"), DATA)
