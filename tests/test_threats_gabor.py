import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robustatlas.common.bundle import Fixed, map_tensors
from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.gabor import Gabor, GaborTheta, convolve, gabor_kernel, random_kernel
from robustatlas.threats.historical.gabor import HistoricalGabor, HistoricalGaborTheta, stretched_noise
from threat_properties import (
    ascend,
    check_choice,
    check_contract,
    check_neutral,
    check_sound,
    golden,
    golden_images,
    images,
    noise_for,
)


def test_kernels_match_the_original_code():
    parameters = golden("uar", "gabor_params_sides_sigma_lambda_theta")
    kernels = gabor_kernel(*parameters.unbind(1))
    torch.testing.assert_close(kernels[:, None].float(), golden("uar", "gabor_kernels"), rtol=0, atol=1e-5)


def test_noise_matches_the_original_code():
    """The original passes through an FFT and back, which moves values near zero by up to 1e-2."""
    ours = stretched_noise(golden("uar", "gabor_vars")[:, 0], golden("uar", "gabor_kernels")[:, 0])
    torch.testing.assert_close(ours[:, None], golden("uar", "gabor_noise"), rtol=0, atol=1e-2)
    field, kernels = golden("uar", "gabor_vars")[:, 0], golden("uar", "gabor_kernels")[:, 0]
    theta = HistoricalGaborTheta(Fixed(torch.full((4,), 10.0)), field, Fixed(torch.ones_like(field)), Fixed(kernels))
    output = 255 * HistoricalGabor().apply(golden_images("uar"), theta)
    torch.testing.assert_close(output, golden("uar", "gabor_out255_eps10"), rtol=0, atol=0.1)


def test_random_kernels_cover_the_published_range():
    kernels = random_kernel(noise_for(torch.zeros(200, 1)), torch.float32)
    centres = kernels[:, 11, 11]
    assert set(centres.round().int().tolist()) == set(range(1, 11))
    torch.testing.assert_close(kernels.flip(1, 2), kernels, rtol=0, atol=1e-4)


def test_pattern_never_exceeds_twice_epsilon():
    x = torch.full((8, 1, 30, 30), 0.5)
    threat, epsilon = Gabor(), torch.full((8,), 20.0)
    kernel = threat.start(x, epsilon, noise_for(x)).kernel
    # The worst field for the pixel in the middle has the signs of the kernel.
    field = torch.zeros(8, 30, 30)
    field[:, 4:27, 4:27] = 20 * kernel.values.sign()
    theta = GaborTheta(field, kernel)
    change = 255 * (threat.apply(x, theta) - x)[:, 0]
    torch.testing.assert_close(change[:, 15, 15], 2 * epsilon, rtol=1e-4, atol=0)
    assert (change.abs() <= 40 * 1.0001).all()


def test_pattern_is_as_strong_as_the_published_one():
    """A square wave between 0 and epsilon has a standard deviation of epsilon / 2."""
    x = torch.full((50, 1, 32, 32), 0.5)
    kernel = Gabor().start(x, torch.full((50,), 10.0), noise_for(x)).kernel
    target = noise_for(x).child(7).normal(32, 32)
    theta = GaborTheta(10 * convolve(target, kernel.values.flip(1, 2)).sign(), kernel)
    change = 255 * (Gabor().apply(x, theta) - x)
    assert change.square().mean().sqrt() == pytest.approx(5, rel=0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (2, 1, 28, 28), (2, 4, 20, 33)])
def test_is_a_sound_set(shape: tuple[int, ...], dtype: torch.dtype):
    check_sound(Gabor(), images(*shape, dtype=dtype), 50.0)


def test_large_images():
    check_sound(Gabor(), images(1, 3, 224), 50.0)
    check_neutral(Gabor(), images(1, 3, 224, dtype=torch.float64))


@given(st.floats(1e-2, 1e4))
@settings(max_examples=20, deadline=None)
def test_is_a_sound_set_at_every_strength(strength: float):
    check_sound(Gabor(), images(2, 1, 9, 12), strength)


def test_contract():
    check_contract(Gabor(), 50.0, small=10.0, largest=16000.0, published=[HistoricalGabor()])


def test_gradient():
    x = images(1, 1, 8, dtype=torch.float64) * 0.5 + 0.25
    theta = Gabor().start(x, torch.tensor([10.0], dtype=torch.float64), noise_for(x))
    field = theta.field.requires_grad_()
    assert torch.autograd.gradcheck(lambda f: Gabor().apply(x, GaborTheta(f, theta.kernel)), field)


def test_convolution_is_that_of_the_sample():
    field = torch.zeros(2, 25, 25)
    field[:, 12, 12] = 1
    kernels = random_kernel(noise_for(field), torch.float32)
    torch.testing.assert_close(convolve(field, kernels)[:, 1:-1, 1:-1], kernels.flip(1, 2))


def test_ascent_raises_the_objective():
    x = golden_images("uar")
    gains = ascend(Gabor(), x, golden("uar", "gabor_noise").expand(-1, 3, -1, -1) - 0.5, torch.full((4,), 10.0))
    assert (gains.amax(0) > gains[0] + 1).all()


def test_historical_mask_removes_the_start():
    threat, x = HistoricalGabor(), images(2, 3, 32)
    epsilon = torch.tensor([5.0, 10.0])
    theta = threat.start(x, epsilon, noise_for(x))
    mask = theta.mask.values
    assert ((mask == 0).flatten(1).sum(1) == 73).all()
    assert torch.equal(theta.field != 0, mask == 0)
    assert torch.equal(threat.project(x, theta, epsilon).field, theta.field)
    step = threat.steepest(x, map_tensors(torch.ones_like, theta))
    moved = threat.project(x, threat.move(x, theta, step, torch.tensor([0.5, 3.0])), epsilon)
    assert torch.equal(moved.field, torch.tensor([0.5, 1.0]).view(2, 1, 1) * mask)
    assert moved.mask is theta.mask and moved.kernel is theta.kernel
    assert torch.equal(threat.size(x, moved), epsilon)


def test_chosen_kernels_promise_more_than_drawn_ones():
    x, threat = images(6, 3, 16), Gabor()
    noise, gradient = noise_for(x), noise_for(x).child(5).normal(3, 16, 16)
    chosen = threat.choose(x, gradient, noise)
    drawn = [threat.start(x, torch.ones(6), noise.child(k)) for k in range(8)]

    def gain(kernel: torch.Tensor) -> torch.Tensor:
        slopes = convolve(gradient.sum(1), kernel / kernel.abs().sum((1, 2), keepdim=True))
        return slopes.abs().sum((1, 2))

    assert all((gain(chosen.kernel.values) > gain(theta.kernel.values)).all() for theta in drawn)
    assert (threat.apply(x, chosen) == x).all()
    check_choice(threat, x, gradient, noise)


def test_needs_images():
    with pytest.raises(UnsupportedInputError, match=r"gabor .*\(2, 5\)"):
        Gabor().check(torch.zeros(2, 5))
