"""Models that may refuse to answer: what counts as an error, in closed form."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.common.errors import UserError
from robustatlas.report.facts import facts_of

REJECTED = 0.2
"""A margin within this of zero is rejected."""


class Rejecting(nn.Module):
    """Two classes by the sign of m = <w, x> + b, with logits (m, -m); rejects where |m| < 0.2."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        rng = np.random.default_rng(1)
        self.weight = nn.Parameter(torch.tensor(rng.normal(size=6)))
        self.bias = nn.Parameter(-self.weight.detach().sum() / 2)
        self.kind = kind

    def margin(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor, float]:
        m = self.margin(x)
        if self.kind == "class":
            return torch.stack([m, -m, torch.full_like(m, REJECTED)], 1)
        return torch.stack([m, -m], 1), -m.abs(), -REJECTED


def problem(kind: str, count: int = 60) -> tuple[Rejecting, tuple[Tensor, Tensor], np.ndarray]:
    """The model, samples around the middle of the box with labels that are sometimes wrong, and y * m of each."""
    net, rng = Rejecting(kind), np.random.default_rng(0)
    x = torch.tensor(rng.uniform(0.3, 0.7, (count, 6)))
    m = net.margin(x).detach()
    y = torch.where(torch.tensor(rng.uniform(size=count) < 0.1), m > 0, m < 0).long()
    return net, (x, y), torch.where(y == 0, m, -m).numpy()


@pytest.mark.parametrize("kind", ["class", "score"])
def test_three_ideas_of_an_error_have_the_sizes_of_the_closed_form(kind: str) -> None:
    net, data, signed = problem(kind)
    model = ra.Classifier(net, rejection=kind)  # type: ignore[arg-type]
    strengths = (0.05, 0.1, 0.2)
    names = ["linf", "linf.wrong", "linf.refused"]
    result = ra.evaluate(model, data, names, strengths=dict.fromkeys(names, strengths))
    reach = np.abs(net.weight.detach().numpy()).sum()
    expected = {
        "linf": np.maximum(signed + REJECTED, 0) / reach,  # to the far side of the rejected band
        "linf.wrong": np.maximum(signed, 0) / reach,
        "linf.refused": np.maximum(signed - REJECTED, 0) / reach,
    }
    for name, sizes in expected.items():
        found = result.minimal_size(name)
        near = sizes < 0.25  # inside of the box
        assert np.allclose(found[near], sizes[near], rtol=0.02, atol=1e-4), name
        assert (found >= sizes * (1 - 1e-6)).all()
    at = [float(result.curve(name).at(0.1)) for name in ("linf.refused", "linf.wrong", "linf")]
    assert at == sorted(at, reverse=True) and at[0] > at[2]
    rejected = np.abs(signed) < REJECTED
    assert result.clean_rejected is not None and np.array_equal(result.clean_rejected, rejected)
    assert np.array_equal(result.clean, ~((signed < 0) & ~rejected))
    rate = facts_of(result).rejected
    assert rate is not None and rate.value == pytest.approx(100 * rejected.mean()) and rate.low < rate.value < rate.high


def test_rejections_are_kept_on_disk_and_plain_runs_know_none(tmp_path: Path) -> None:
    net, data, signed = problem("score")
    model = ra.Classifier(net, rejection="score")
    made = ra.evaluate(model, data, "linf.wrong", strengths={"linf.wrong": [0.1]}, run=tmp_path / "run")
    read = ra.load_result(tmp_path / "run")
    assert read.clean_rejected is not None and made.clean_rejected is not None
    assert np.array_equal(read.clean_rejected, np.abs(signed) < REJECTED)
    more = ra.evaluate(model, data, "linf", strengths={"linf": [0.1]}, run=tmp_path / "run")
    assert np.array_equal(more.clean_prediction, read.clean_prediction)
    plain = ra.evaluate(net, data, "linf", strengths={"linf": [0.1]})
    assert plain.clean_rejected is None and facts_of(plain).rejected is None
    assert any("looks like one that rejects" in warning for warning in plain.warnings)


def test_examples_of_others_count_where_they_are_accepted() -> None:
    net, data, signed = problem("class")
    model = ra.Classifier(net, rejection="class")
    result = ra.evaluate(model, data, "linf", strengths={"linf": [0.01]})
    push = torch.where(data[1] == 0, -1.0, 1.0)[:, None] * net.weight.detach().sign()
    reach = net.weight.detach().abs().sum()
    beyond = torch.tensor(signed) + torch.where(torch.arange(60) % 2 == 0, 0.5 * REJECTED, 1.5 * REJECTED)
    images = data[0] + push * (beyond / reach)[:, None]
    found = ra.verify(result, {"images": images.numpy()}, "J", model=model, data=data)
    right = signed > -REJECTED
    inside = ((images >= 0) & (images <= 1)).all(1).numpy()
    assert found.verified.tolist() == (right & inside & (np.arange(60) % 2 == 1)).tolist()


def test_what_does_not_fit_is_refused() -> None:
    net, data, _ = problem("score")
    with pytest.raises(UserError, match="rejection='maybe'"):
        ra.Classifier(net, rejection="maybe")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="is for models that reject"):
        ra.evaluate(net, data, "linf.wrong")
    with pytest.raises(UserError, match=r"expected \(logits"):
        ra.Classifier(lambda x: x, rejection="score").logits(torch.rand(2, 3))
    with pytest.raises(UserError, match=r"There is no attack 'linf\.wrongg'"):
        ra.evaluate(net, data, "linf.wrongg")
