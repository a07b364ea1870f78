import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.elastic import Elastic, displace, gaussian_kernel
from robustatlas.threats.historical.elastic import HistoricalElastic, HistoricalElasticOnPixels
from threat_properties import ascend, check_contract, check_sound, golden, golden_images, images, noise_for


def test_kernel_matches_the_published_sizes():
    row = gaussian_kernel(32, torch.zeros(()))
    torch.testing.assert_close(torch.outer(row, row), golden("uar", "elastic_kernel"), rtol=0, atol=1e-6)
    torch.testing.assert_close(
        gaussian_kernel(224, torch.zeros(())), golden("uar", "elastic_kernel_224_row"), rtol=0, atol=1e-6
    )


def test_maps_match_the_original_code():
    grid_units = golden("uar", "elastic_theta_grid_units")
    x = golden_images("uar")
    historical = HistoricalElastic().apply(x, grid_units * 32 / 2)
    torch.testing.assert_close(historical, golden("uar", "elastic_out_align_false"), rtol=0, atol=1e-5)
    first = HistoricalElasticOnPixels().apply(x, grid_units * 32 / 2)
    torch.testing.assert_close(first, golden("uar", "elastic_out_align_true"), rtol=0, atol=1e-5)
    sound = Elastic().apply(x, grid_units * 31 / 2)
    torch.testing.assert_close(sound, golden("uar", "elastic_out_align_true"), rtol=0, atol=1e-5)


def test_constant_displacement_of_whole_pixels_shifts_the_image():
    x = images(1, 1, 9)
    displacement = torch.tensor([2.0, -1.0]).view(1, 2, 1, 1).expand(1, 2, 9, 9)
    moved = displace(x, displacement)
    assert torch.equal(moved[..., 1:, :-2], x[..., :-1, 2:])
    assert torch.equal(moved[..., 0, :], torch.zeros(1, 1, 9))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (1, 1, 28, 28), (2, 3, 16, 24), (1, 3, 224, 224)])
def test_is_a_sound_set(shape: tuple[int, ...], dtype: torch.dtype):
    check_sound(Elastic(), images(*shape, dtype=dtype), 2.0)


@given(st.floats(1e-3, 20), st.integers(2, 12), st.integers(2, 12))
@settings(max_examples=20, deadline=None)
def test_is_a_sound_set_at_every_strength(strength: float, height: int, width: int):
    check_sound(Elastic(), images(2, 1, height, width), strength)
    check_sound(HistoricalElastic(), images(2, 1, height, width), strength, contains_clean=False)


@pytest.mark.parametrize("threat", [Elastic(), HistoricalElastic()])
def test_contract(threat: Elastic):
    check_contract(threat, 2.0, small=0.5, largest=160.0, contains_clean=type(threat) is Elastic)


def test_gradient():
    x = images(1, 2, 6, dtype=torch.float64)
    theta = Elastic().start(x, torch.tensor([0.7], dtype=torch.float64), noise_for(x))
    assert torch.autograd.gradcheck(lambda t: Elastic().apply(x, t), theta.requires_grad_())


def test_ascent_raises_the_objective():
    x = golden_images("uar")
    gains = ascend(Elastic(), x, images(4, 3, 32) - 0.5, torch.full((4,), 0.5))
    assert (gains[-1] > gains[0] + 1).all()


def test_needs_images():
    with pytest.raises(UnsupportedInputError, match=r"elastic .*\(2, 5\)"):
        Elastic().check(torch.zeros(2, 5))
