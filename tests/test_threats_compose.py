import pickle

import pytest
import torch

import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named
from robustatlas.common.bundle import map_tensors
from robustatlas.common.errors import UserError
from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.color import Brightness, Hue
from robustatlas.threats.compose import Compose, carben
from robustatlas.threats.flow import StAdv
from robustatlas.threats.imagenet_ua.mix import UaMix
from robustatlas.threats.lp import L2, Linf
from robustatlas.threats.patch import Patch
from robustatlas.threats.recolor import Recolor
from robustatlas.threats.warp import Rotation
from threat_properties import (
    check_finite,
    check_gradient,
    check_independent,
    check_sound,
    degenerate_images,
    images,
    moved,
    noise_for,
)

PAPER = Compose((Recolor(), StAdv(), Linf()), (0.06, 0.05, 8 / 255))


@pytest.mark.parametrize(
    ("threat", "rounding"), [(PAPER, 5e-6), (carben(), 1e-6), (Compose((Patch(), L2()), (0.5, 1.0)), 1e-6)]
)
def test_is_a_sound_set(threat, rounding):
    for x in (images(), images(dtype=torch.float64), degenerate_images()):
        check_sound(threat, x, 1.0)
        check_independent(threat, x, 1.0, atol=rounding if x.dtype == torch.float32 else 1e-6)
        check_finite(threat, x, 1.0)


def test_gradient():
    gentle = Compose((Recolor(), StAdv(), Rotation()), (0.05, 0.05, 10.0))
    check_gradient(gentle, 0.2 + 0.6 * images(), 1.0)


def test_parts_are_applied_in_order():
    x = images()
    forth = Compose((Brightness(), Hue()), (0.3, 1.0))
    back = Compose((Hue(), Brightness()), (1.0, 0.3))
    expected = Hue().apply(Brightness().apply(x, torch.full((3, 1), 0.2)), torch.full((3, 1), 0.7))
    theta = (torch.full((3, 1), 0.2), torch.full((3, 1), 0.7))
    torch.testing.assert_close(forth.apply(x, theta), expected)
    assert not torch.allclose(back.apply(x, theta[::-1]), expected)


def test_a_single_part_is_that_part():
    x, epsilon = images(), torch.tensor([0.2, 0.5, 1.0])
    both = Compose((Linf(),), (0.1,))
    theta = moved(both, x, 1.0)
    assert torch.equal(both.project(x, theta, epsilon)[0], Linf().project(x, theta[0], 0.1 * epsilon))
    torch.testing.assert_close(both.size(x, theta), Linf().size(x, theta[0]) / 0.1)
    gradient = torch.randn(x.shape)
    torch.testing.assert_close(both.steepest(x, (gradient,))[0], 0.1 * gradient.sign())


def test_strength_is_the_largest_share_of_a_full_strength():
    x = images()
    both = Compose((Brightness(), Hue()), (0.2, 1.0))
    theta = torch.tensor([[0.1, 0.1], [0.1, 0.9], [0.0, 0.0]]).split(1, dim=1)
    torch.testing.assert_close(both.size(x, theta), torch.tensor([0.5, 0.9, 0.0]))
    projected = both.project(x, theta, torch.full((3,), 0.4))
    torch.testing.assert_close(torch.cat(projected, 1), torch.tensor([[0.08, 0.1], [0.08, 0.4], [0.0, 0.0]]))


def test_image_shapes_can_alternate():
    """Also those whose thetas hold equally many numbers: 12 x 12 and 8 x 18 pixels."""
    for x in (images(), images(side=8), images(), images(side=8, width=18)):
        check_sound(PAPER, x, 1.0)
        untouched = Compose(PAPER.parts, PAPER.strengths)
        theta = moved(PAPER, x, 1.0)
        assert torch.equal(untouched.apply(x, theta), PAPER.apply(x, theta))
        slope = map_tensors(torch.ones_like, theta)
        direction = untouched.steepest(x, slope)
        assert [leaf.shape for leaf in direction] == [leaf.shape for leaf in PAPER.neutral(x)]


def test_survives_a_process_border():
    x = images()
    copy = pickle.loads(pickle.dumps(PAPER))
    assert copy == PAPER
    assert all(
        torch.equal(a, b)
        for a, b in zip(
            copy.start(x, torch.ones(3), noise_for(x)), PAPER.start(x, torch.ones(3), noise_for(x)), strict=True
        )
    )


def test_every_part_checks_the_images():
    with pytest.raises(UnsupportedInputError, match="hue"):
        carben().check(images(channels=1))


@pytest.mark.parametrize(("parts", "strengths"), [((), ()), ((Hue(),), (1.0, 2.0)), ((Hue(),), (0.0,))])
def test_bad_compositions_are_refused(parts, strengths):
    with pytest.raises(UserError, match="expected"):
        Compose(parts, strengths)


def test_names_joined_by_plus_are_an_attack():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 4))
    x = torch.rand(20, 3, 8, 8)
    labels = net(x).argmax(1)
    grid = [0.1, 0.2, 0.4]
    both = ra.evaluate(net, (x, labels), "brightness+linf", strengths={"brightness+linf": grid})
    alone = ra.evaluate(net, (x, labels), ra.compose("linf"), strengths={"linf": grid})
    accuracies = both.outcome("brightness+linf").accuracies()
    assert (accuracies <= alone.outcome("linf").accuracies()).all()
    assert accuracies[0] > 0 and accuracies[-1] < 50
    assert ra.compose("linf", "hue").threat.strengths == (0.05, 0.25)


def test_a_part_has_the_strengths_that_it_has_alone_on_such_images() -> None:
    both = ra.compose("ua-snow", "linf")
    for sides in ((224, 224), (32, 32)):
        assert both.on_images(sides).threat.strengths[0] == attack_named("ua-snow").on_images(sides).strengths[-1] / 2
    assert ra.compose("ua-snow", "linf", strengths=(3, 0.1)).on_images((32, 32)).threat.strengths == (3, 0.1)


def test_a_part_that_draws_is_searched_by_as_many_draws_as_alone() -> None:
    for name in ("ua-whirlpool", "stadv"):
        both, alone = ra.compose("linf", name), attack_named(name)
        assert {search: both.plan(search) for search in both.searches} == {
            search: alone.plan(search) for search in alone.searches
        }


@pytest.mark.parametrize(
    ("names", "said"),
    [(["linf", "nothing"], "nothing"), (["linf", "lpips"], "lpips"), (["linf", "corruption-fog"], "nested")],
)
def test_parts_that_do_not_fit(names, said):
    with pytest.raises(UserError, match=said):
        ra.compose(*names)


def test_one_strength_each():
    with pytest.raises(UserError, match="expected one each"):
        ra.compose("linf", "hue", strengths=[0.1])


def test_a_part_knows_the_data_as_it_does_alone() -> None:
    """Another picture of ua-mix is one of the data set, in a composition too."""
    first = torch.rand(8, 3, 16, 16)
    mix, linf = Compose((UaMix(), Linf()), (5.0, 8 / 255)).for_data(first).parts
    assert isinstance(mix, UaMix) and mix.bank is first and linf == Linf()
