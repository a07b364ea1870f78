import numpy as np
import pytest
import scipy.fft
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from robustatlas.common.bundle import Fixed
from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.historical.jpeg import (
    HistoricalJpeg,
    HistoricalJpegL1,
    HistoricalJpegL2,
    HistoricalJpegLinf,
    HistoricalJpegTheta,
)
from robustatlas.threats.jpeg import Jpeg, JpegL1, JpegL2, JpegLinf, pattern
from threat_properties import (
    ascend,
    check_contract,
    check_finite,
    check_independent,
    check_sound,
    degenerate_images,
    golden,
    golden_images,
    images,
    moved,
    noise_for,
    strengths_up_to,
)

FAMILY = [JpegLinf, JpegL2, JpegL1]
HISTORICAL = [HistoricalJpegLinf, HistoricalJpegL2, HistoricalJpegL1]


def golden_coefficients() -> Tensor:
    """The coefficients of the goldens, whose blocks are those of the transposed image, in our order."""

    def plane(name: str) -> Tensor:
        blocks = golden("uar", f"jpeg_v_{name}")
        side = int(blocks.shape[1] ** 0.5)
        return blocks.view(-1, side, side, 8, 8).permute(0, 2, 1, 4, 3).flatten(1)

    return torch.cat([plane(name) for name in ("y", "cb", "cr")], dim=1)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_historical_map_matches_the_original_code(epsilon: float):
    theta = HistoricalJpegTheta(Fixed(torch.ones(4)), epsilon * golden_coefficients())
    output = HistoricalJpegLinf().apply(golden_images("uar"), theta)
    torch.testing.assert_close(255 * output, golden("uar", f"jpeg_out255_eps{epsilon}"), rtol=0, atol=1.5e-4)


def test_default_adds_the_same_pattern_as_the_original_code():
    """Away from 0 and 1, where neither clips, both differ by what subsampling did to the clean image."""
    theta, x = 0.5 * golden_coefficients(), golden_images("uar")
    original = (golden("uar", "jpeg_out255_eps0.5") - golden("uar", "jpeg_out255_eps0.0")) / 255
    ours = JpegLinf().apply(x, theta) - x
    inside = (x > 0.3) & (x < 0.7)
    torch.testing.assert_close(ours[inside], original[inside], rtol=0, atol=1e-5)


def test_grey_pattern_is_the_inverse_cosine_transform():
    coefficients = torch.zeros(1, 64)
    coefficients[0, 8 * 3 + 2] = 1.0  # vertical frequency 3, horizontal 2; quantised in steps of 22
    spectrum = np.zeros((8, 8))
    spectrum[3, 2] = 22 / 255
    expected = scipy.fft.idctn(spectrum, norm="ortho")
    np.testing.assert_allclose(pattern(coefficients, 1, 8, 8)[0, 0], expected, atol=1e-7)


def test_blocks_over_the_border_are_cut():
    coefficients = noise_for(torch.zeros(1)).uniform(2 * 2 * 64)
    assert torch.equal(pattern(coefficients, 1, 11, 9), pattern(coefficients, 1, 16, 16)[..., :11, :9])


@pytest.mark.parametrize("family", FAMILY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (2, 1, 28, 28), (2, 3, 20, 33), (1, 3, 224, 224)])
def test_is_a_sound_set(family: type[Jpeg], shape: tuple[int, ...], dtype: torch.dtype):
    check_sound(family(), images(*shape, dtype=dtype), 2.0)


@given(st.floats(1e-2, 200), st.sampled_from([*FAMILY, HistoricalJpegLinf]))
@settings(max_examples=30, deadline=None)
def test_is_a_sound_set_at_every_strength(strength: float, family: type[Jpeg]):
    x = images(2, 3, 16, dtype=torch.float64)
    check_sound(family(), x, strength, contains_clean=family is not HistoricalJpegLinf)


@given(st.floats(1e-2, 200), st.sampled_from([HistoricalJpegL2, HistoricalJpegL1]))
@settings(max_examples=10, deadline=None)
def test_historical_projection_agrees_with_size(strength: float, family: type[HistoricalJpeg]):
    """The historical start ignores the bound on single coefficients, hence only the projection is checked."""
    threat, x = family(), images(2, 3, 16)
    epsilon = strengths_up_to(strength, x)
    projected = threat.project(x, moved(threat, x, epsilon), epsilon)
    assert (threat.size(x, projected) <= epsilon * (1 + 1e-5)).all()


@pytest.mark.parametrize("family", FAMILY)
def test_contract(family: type[Jpeg]):
    check_contract(family(), 2.0, small=1.0, largest=1e4)


@pytest.mark.parametrize("family", HISTORICAL)
def test_historical_contract(family: type[HistoricalJpeg]):
    x = degenerate_images(3, 16)
    check_finite(family(), x, 1.0, largest=1e4)
    check_independent(family(), x.double(), 2.0)


@pytest.mark.parametrize("family", FAMILY)
def test_ascent_raises_the_objective(family: type[Jpeg]):
    x = golden_images("uar")
    epsilon = torch.full((4,), {JpegLinf: 0.2, JpegL2: 4.0, JpegL1: 20.0}[family])
    gains = ascend(family(), x, images(4, 3, 32) - 0.5, epsilon)
    assert (gains[-1] > gains[0] + 0.5).all()


@pytest.mark.parametrize("family", FAMILY)
def test_goes_as_far_as_a_direction_is_long(family: type[Jpeg]):
    """Restarts move by a whole start of the set."""
    threat, x = family(), images(4, 3, 16)
    epsilon, noise = torch.tensor([0.5, 1.0, 6.0, 20.0]), noise_for(x)
    theta, kick = threat.neutral(x), threat.start(x, epsilon, noise)
    landed = threat.move(x, theta, kick, torch.ones_like(epsilon))
    torch.testing.assert_close(threat.size(x, landed), threat.size(x, kick), rtol=1e-4, atol=0)


def test_gradient():
    x = images(1, 3, 16, dtype=torch.float64) * 0.2 + 0.4
    epsilon = torch.full((1,), 0.01, dtype=torch.float64)
    theta = JpegLinf().start(x, epsilon, noise_for(x)).requires_grad_()
    assert torch.autograd.gradcheck(lambda c: JpegLinf().apply(x, c), theta, fast_mode=True)
    assert torch.autograd.gradcheck(
        lambda c: HistoricalJpegLinf().apply(x, HistoricalJpegTheta(Fixed(epsilon), c)), theta, fast_mode=True
    )


def test_l1_oracle_beats_every_point_of_the_set():
    threat, x = JpegL1(), images(3, 1, 8)
    epsilon = torch.tensor([0.5, 5.0, 50.0])
    gradient = noise_for(x).normal(64)
    vertex = threat.linear_oracle(x, threat.neutral(x), gradient, epsilon)
    torch.testing.assert_close(threat.size(x, vertex), epsilon)
    for scale in (0.1, 1.0, 10.0):
        other = threat.project(x, scale * noise_for(x, 9).normal(64) + gradient, epsilon)
        assert ((vertex - other) * gradient).sum(1).min() > -1e-4


def test_historical_l1_oracle_counts_caps_from_the_current_theta():
    threat, x = HistoricalJpegL1(), images(1, 3, 16)
    theta, gradient = threat.neutral(x), threat.neutral(x)
    theta.coefficients[0, :3] = torch.tensor([1.5, -2.0, 0.0])
    gradient.coefficients[0, :3] = torch.tensor([3.0, 2.0, -1.0])
    vertex = threat.linear_oracle(x, theta, gradient, torch.tensor([5.0]))
    assert vertex.gain.values.tolist() == [1.0]
    assert vertex.coefficients[0, :3].tolist() == [0.5, 4.0, -0.5]
    assert vertex.coefficients[0, 3:].abs().sum() == 0


def test_historical_first_gradient_is_taken_at_epsilon_times_the_start():
    threat, x = HistoricalJpegLinf(), images(1, 3, 16)
    epsilon = torch.tensor([0.25])
    start = threat.start(x, epsilon, noise_for(x))
    assert start.gain.values == 0.25
    moved = threat.project(x, threat.move(x, start, threat.neutral(x), epsilon), epsilon)
    assert moved.gain.values == 1
    assert torch.equal(moved.coefficients, start.coefficients)
    scaled = HistoricalJpegTheta(moved.gain, 0.25 * moved.coefficients)
    torch.testing.assert_close(threat.apply(x, start), threat.apply(x, scaled))


def test_bound_on_single_coefficients():
    x = images(1, 1, 8)
    for threat in (JpegL2(), JpegL1()):
        theta = threat.neutral(x)
        theta[0, 5] = 2.5
        assert threat.size(x, theta).isinf().all()
        projected = threat.project(x, theta, torch.tensor([10.0]))
        assert projected[0, 5] == 2
        assert threat.size(x, projected) == 2


def test_says_which_images_fit():
    with pytest.raises(UnsupportedInputError, match=r"grey or RGB .*\(1, 2, 8, 8\)"):
        JpegL1().check(torch.zeros(1, 2, 8, 8))
    for shape in ((1, 1, 16, 16), (1, 3, 28, 28)):
        with pytest.raises(UnsupportedInputError, match="multiples of 16"):
            HistoricalJpegL1().check(torch.zeros(shape))
        JpegL1().check(torch.zeros(shape))
