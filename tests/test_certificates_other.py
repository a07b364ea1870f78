"""Randomised smoothing against closed forms."""

import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named
from robustatlas.certificates import Samples, Subject, certificate_named
from robustatlas.report.facts import facts_of

L2 = attack_named("l2")


def _plane() -> tuple[ra.Classifier, Tensor, Tensor]:
    """A linear classifier of two classes, and points at known distances of its plane, the last one on it."""
    net = nn.Linear(9, 2)
    normal = torch.ones(9) / 3
    net.load_state_dict({"weight": torch.stack([2 * normal, 0 * normal]), "bias": torch.tensor([-3.0, 0.0])})
    x = torch.full((1, 9), 0.5) + torch.tensor([0.3, 0.1, -0.2, 0.0])[:, None] * normal
    return ra.Classifier(net, name="plane"), x, torch.tensor([0, 0, 1, 0])


def test_smoothing_a_plane_gives_the_distance_and_abstains_on_it() -> None:
    model, x, y = _plane()
    smoothing = certificate_named("smoothing", sigma=0.2, draws=20_000)
    samples = Samples(x.double(), y, torch.arange(4))
    found = smoothing.sizes(Subject(model, (9,)), L2, samples)
    exact = torch.tensor([0.3, 0.1, 0.2])
    assert (found[:3] <= exact).all()  # each with probability .999
    assert (found[:3] > exact - 0.02).all()
    assert found[3].isnan()
    alone = smoothing.sizes(Subject(model, (9,)), L2, samples.select(torch.tensor([2])))
    assert alone[0] == found[2]
    wrong = smoothing.sizes(Subject(model, (9,)), L2, Samples(x.double(), 1 - y, torch.arange(4)))
    assert (wrong[:3] == 0).all()


def test_a_smoothed_model_has_a_row_of_its_own_that_says_how_it_was_drawn() -> None:
    model, x, y = _plane()
    x = x.clamp(0, 1)
    smoothing = certificate_named("smoothing", sigma=0.2, draws=500)
    result = ra.certify(model, (x, y), "l2", method=smoothing, progress=False)
    row = "l2 (smoothed, sigma 0.2)"
    assert list(result.certified_sizes) == [row]
    assert result.certified_sizes[row].abstained is not None
    (facts,) = facts_of(result).certified
    assert facts.both is None
    assert "Another model than the run's own; n = 500, alpha = 0.001; it abstains on 1 images." in facts.sentence
    with pytest.raises(ra.UserError, match="Nothing is certified of plane under 'l2'"):
        result.certified_size("l2")
    with pytest.raises(ra.UserError, match="sigma=-1"):
        certificate_named("smoothing", sigma=-1)
