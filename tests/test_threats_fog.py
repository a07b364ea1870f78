from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named
from robustatlas.common.bundle import Fixed, gradient, map_tensors, require_gradient
from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.fog import Fog, FogTheta, crop, level_count, plasma, plasma_side
from robustatlas.threats.historical.fog import HistoricalFog, HistoricalFogTheta
from threat_properties import ascend, check_contract, check_sound, golden, golden_images, images, noise_for


def golden_levels() -> Tensor:
    return torch.cat([golden("uar", f"fog_var_{number:02d}").flatten(1) for number in range(18)], dim=1)


def test_plasma_matches_the_original_code():
    field = plasma(2 * golden_levels() - 1, 64, diamond_shift=2)
    field = (field - field.min()) / (field.max() - field.min())
    torch.testing.assert_close(field[:, None], golden("uar", "fog_full64"), rtol=0, atol=1e-5)
    torch.testing.assert_close(crop(field, 32, 32)[:, None], golden("uar", "fog_crop"), rtol=0, atol=1e-5)


def test_historical_output_is_the_original_one_up_to_the_range_of_the_pattern():
    x = golden_images("uar")
    output = HistoricalFog().apply(x, HistoricalFogTheta(Fixed(torch.full((4,), 25.0)), golden_levels()))
    brightest = x.amax((2, 3), keepdim=True)

    def light(image: Tensor) -> Tensor:
        return (image * (brightest + 25 / 255) - x).mean(1).flatten(1)

    ours, original = light(output), light(golden("uar", "fog_out255_eps25") / 255)
    for number in range(4):
        design = torch.stack((ours[number], torch.ones_like(ours[number])), dim=1)
        fit = torch.linalg.lstsq(design, original[number, :, None]).solution
        torch.testing.assert_close(design @ fit, original[number, :, None], rtol=0, atol=1e-5)


def test_plasma_by_hand():
    levels = torch.tensor([[1.0, 10.0, 100.0] + [0.0] * 12])
    field = plasma(levels, 4, corner=torch.tensor([4.0]))[0]
    # First level: the centre is the corner plus 1; on a torus the edge middles lie between two centres and two corners.
    assert field[0, 0] == 4
    assert field[2, 2] == 5
    assert field[0, 2] == (5 + 5 + 4 + 4) / 4 + 10
    assert field[2, 0] == (5 + 5 + 4 + 4) / 4 + 100
    assert field[1, 1] == (field[0, 0] + field[0, 2] + field[2, 0] + field[2, 2]) / 4
    assert field[0, 1] == (field[3, 1] + field[1, 1] + field[0, 0] + field[0, 2]) / 4
    assert field[1, 0] == (field[1, 3] + field[1, 1] + field[0, 0] + field[2, 0]) / 4


@pytest.mark.parametrize(("pixels", "side"), [(8, 16), (28, 32), (32, 64), (224, 256), (255, 256), (256, 512)])
def test_plasma_covers_the_image(pixels: int, side: int):
    assert plasma_side(pixels, 3) == plasma_side(3, pixels) == side
    assert level_count(side) == sum(3 * 4**level for level in range(side.bit_length() - 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (2, 1, 28, 28), (2, 4, 20, 33), (1, 3, 224, 224)])
def test_is_a_sound_set(shape: tuple[int, ...], dtype: torch.dtype):
    check_sound(Fog(), images(*shape, dtype=dtype), 50.0)


@given(st.floats(1e-2, 1e4))
@settings(max_examples=20, deadline=None)
def test_is_a_sound_set_at_every_strength(strength: float):
    check_sound(Fog(), images(2, 1, 9, 12), strength)


def test_contract():
    check_contract(Fog(), 50.0, small=10.0, largest=81920.0, published=[HistoricalFog()])


def test_gradient_reaches_the_pattern_from_the_clean_image():
    x = images(2, 3, 16)
    theta = require_gradient(Fog().neutral(x))
    weights = noise_for(x).normal(3, 16, 16)
    slope = gradient(Fog().apply(x, theta) * weights, theta)
    assert (slope.amplitude != 0).all() and (slope.corner != 0).all() and (slope.levels[:, :18] != 0).all()


def test_gradient():
    x = images(1, 1, 7, dtype=torch.float64)
    start = Fog().start(x, torch.tensor([20.0], dtype=torch.float64), noise_for(x))
    theta = require_gradient(replace(map_tensors(lambda leaf: leaf / 3, start), amplitude=start.amplitude))
    leaves = (theta.amplitude, theta.corner, theta.levels)
    assert torch.autograd.gradcheck(lambda *parts: Fog().apply(x, FogTheta(*parts)), leaves)


def test_ascent_raises_the_objective():
    x = golden_images("uar")
    target = crop(plasma(2 * golden_levels() - 1, 64), 32, 32)[:, None].expand(-1, 3, -1, -1)
    target = target - target.mean((1, 2, 3), keepdim=True)
    gains = ascend(Fog(), x, target, torch.full((4,), 20.0))
    assert (gains.amax(0) > gains[0] + 5).all()


def test_historical_strength_is_not_optimised():
    threat, x = HistoricalFog(), images(2, 3, 16)
    epsilon = torch.tensor([5.0, 10.0])
    theta = threat.start(x, epsilon, noise_for(x))
    step = threat.steepest(x, map_tensors(torch.ones_like, theta))
    moved = threat.project(x, threat.move(x, theta, step, epsilon), epsilon)
    assert torch.equal(threat.size(x, moved), epsilon)
    assert (moved.levels == 1).all()


def test_short_steps_hold_on_to_the_example_they_start_at():
    model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits").take(16)
    fog = attack_named("fog")
    bound, ascent = fog.plan("descent").first("bound"), fog.plan("descent").first("ascend")
    alone = replace(fog, runs=(bound, ascent), rules=(), search_order=())  # the others make up for long steps
    far = replace(ascent, optimizer=replace(ascent.optimizer, rate=0.25))
    long = replace(alone, runs=(bound, far))
    short_steps, long_steps = (
        ra.evaluate(model, data, each, progress=False).minimal_size("fog") for each in (alone, long)
    )
    assert (short_steps <= long_steps).all() and (short_steps < long_steps).any()


def test_needs_images():
    with pytest.raises(UnsupportedInputError, match=r"fog .*\(2, 5\)"):
        Fog().check(torch.zeros(2, 5))
