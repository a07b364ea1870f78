"""The nineteen attacks of ImageNet-UA, held to the public code and to what every threat model promises."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.imagenet_ua import ENTRIES
from robustatlas.attacks.suites import resolve_attacks
from robustatlas.common.bundle import Fixed, gradient, require_gradient
from robustatlas.metrics.references.imagenet_ua import CIFAR10, CORE, EXTRA, IMAGENET
from robustatlas.optimizers.pgd import PGD
from robustatlas.threats.base import ThreatModel, UnsupportedInputError
from robustatlas.threats.historical.imagenet_ua.patterns import HistoricalUaMix
from robustatlas.threats.imagenet_ua import shapes
from robustatlas.threats.imagenet_ua.edges import find_edges
from robustatlas.threats.imagenet_ua.gabor import UaGabor, wave_kernel
from robustatlas.threats.imagenet_ua.hsv import to_hsv, to_rgb
from robustatlas.threats.imagenet_ua.latents import Faded, FadedLatents, Latents
from robustatlas.threats.imagenet_ua.mix import UaMix
from robustatlas.threats.imagenet_ua.prison import bar_columns
from robustatlas.threats.imagenet_ua.sizes import BySize
from robustatlas.threats.imagenet_ua.snow import blur_lines, streaks
from threat_properties import (
    GOLDENS,
    check_choice,
    check_finite,
    check_gradient,
    check_independent,
    check_sound,
    check_steps,
    degenerate_images,
    images,
    noise_for,
)

SOUND: dict[str, Any] = {entry.name: entry.threat for entry in ENTRIES}
PUBLISHED: dict[str, Any] = {entry.name: entry.historical for entry in ENTRIES}
HIGH = {entry.name: entry.attack("default", levels=True).on_images((32, 32)).strengths[-1] for entry in ENTRIES}
NAMES = tuple(SOUND)


@cache
def archive() -> dict[str, Tensor]:
    with np.load(GOLDENS / "imagenet_ua.npz") as arrays:
        return {name: torch.as_tensor(arrays[name]) for name in arrays}


def golden(name: str) -> Tensor:
    return archive()[name]


def picture(side: int = 32) -> Tensor:
    return golden(f"x{side}").float() / 255


def unpacked(name: str, side: int) -> Tensor:
    return torch.as_tensor(np.unpackbits(golden(name).numpy(), axis=-1)[..., :side])


def numbered(name: str) -> list[str]:
    """The arrays ``name0``, ``name1``, ... that there are."""
    count = sum(key.startswith(name) and key.removeprefix(name).isdigit() for key in archive())
    return [f"{name}{number}" for number in range(count)]


def latent_of(name: str, what: str = "", side: int = 32) -> Tensor:
    """Latent numbers or gradients of the original, in one tensor where they are several."""
    start = f"{name}/{side}/{what}"
    if name == "kaleidoscope":
        return torch.cat([golden(f"{start}{part}").float().flatten(1) for part in ("colour", "edge")], 1)
    if name in ("fbm", "fog"):
        return torch.cat([golden(part).float().flatten(1) for part in numbered(f"{start}vars")], 1)
    return golden(f"{start}{'flakes' if name == 'snow' else 'vars'}").float()


def spans_of(side: int) -> Tensor:
    kind, x, y, turn = golden(f"kaleidoscope/{side}/shapes_kind_x_y_u").unbind(-1)
    circle = kind == shapes.CIRCLE
    drawn = (kind.long(), torch.where(circle, y, x), torch.where(circle, x, y), turn)
    return shapes.spans(drawn, {32: 4, 64: 15}[side], side, side)


def drawn_of(name: str) -> tuple[Tensor, ...]:
    """What the original drew, as our published threat models keep it."""
    x = picture()
    if name == "gabor":
        waves = golden("gabor/32/angle_frequency").float().expand(2, 1, 2)
        return (latent_of(name) != 0).float(), waves.expand(2, 101, 2), torch.zeros(2)
    if name == "snow":
        return torch.ones(2, 5, 32, 32), golden("snow/32/kernels")
    if name == "kaleidoscope":
        outline = unpacked("kaleidoscope/32/edge_mask_packed", 32).float()[:, None]
        return golden("kaleidoscope/32/rgb"), spans_of(32).float(), outline
    if name == "polkadot":
        return golden("polkadot/32/centres").float().expand(2, -1, -1), golden("polkadot/32/colours").float()
    if name == "whirlpool":
        return (golden("whirlpool/32/centres").float(),)
    if name == "mix":
        return (torch.tensor([1.0, 0.0]),)
    if name in ("edge", "texture"):
        return (unpacked("edge/32/mask_packed", 32).float(),)
    return PUBLISHED[name].draw(x, noise_for(x))


def published(name: str) -> ThreatModel:
    threat: ThreatModel = HistoricalUaMix(bank=picture()) if name == "mix" else PUBLISHED[name]
    return threat


@pytest.mark.parametrize("name", NAMES)
def test_maps_and_gradients_are_those_of_the_public_code(name: str) -> None:
    theta = Latents(latent_of(name), tuple(map(Fixed, drawn_of(name))))
    leaf = require_gradient(theta)
    result = published(name).apply(picture(), leaf)
    torch.testing.assert_close(result, golden(f"{name}/32/out"), rtol=0, atol=1e-5)
    if name in ("edge", "prison"):
        return
    slope = gradient((result * golden("cotangent32")).flatten(1).sum(1), leaf).latent
    expected = latent_of(name, "grad_")
    tolerance = 1e-4 if name == "whirlpool" else 1e-5
    torch.testing.assert_close(slope, expected, rtol=0, atol=tolerance * float(expected.abs().max()))


@pytest.mark.parametrize("name", [name for name in NAMES if f"{name}/step/theta0" in archive()])
def test_updates_are_those_of_the_public_code(name: str) -> None:
    epsilon, length = golden(f"{name}/step/epsilon_length").float()
    x, threat = picture(), published(name)
    drawn = tuple(map(Fixed, drawn_of(name)))
    if name == "gabor":
        drawn = (Fixed((golden("gabor/step/theta0") != 0).float()), *drawn[1:])
    if name == "snow":
        drawn = (Fixed((golden("snow/step/theta0") != 0).float()), *drawn[1:])
    if name == "edge":
        drawn = (Fixed((golden("edge/step/theta0") != 0).float().amax(1, keepdim=True)),)
    theta = Latents(golden(f"{name}/step/theta0"), drawn)
    slope = replace(theta, latent=golden(f"{name}/step/gradient"))
    moved = threat.move(x, theta, threat.steepest(x, slope), length.expand(2))
    after = threat.project(x, moved, epsilon.expand(2)).latent
    torch.testing.assert_close(after, golden(f"{name}/step/theta1"), rtol=0, atol=1e-5)


@pytest.mark.parametrize("side", [32, 64])
def test_draws_are_those_of_the_public_code(side: int) -> None:
    large = side == 64
    angle, frequency = golden(f"gabor/{side}/angle_frequency")[:, None]
    kernel = wave_kernel(angle, frequency, UaGabor().directions.large if large else UaGabor().directions.small)
    torch.testing.assert_close(kernel[0].float(), golden(f"gabor/{side}/kernel"), rtol=0, atol=3e-6)

    column, row, width = golden(f"snow/{side}/lines_c1_r1_w").float().unbind(-1)
    lines = streaks(row, column, width, golden(f"snow/{side}/flip"), 15 if large else 3)
    lines = blur_lines(lines, golden(f"snow/{side}/sigma"), "reflect") if large else lines
    torch.testing.assert_close(lines, golden(f"snow/{side}/kernels"), rtol=0, atol=1e-6)

    spans = spans_of(side)
    assert torch.equal(shapes.masks(spans, side).byte(), unpacked(f"kaleidoscope/{side}/masks_packed", side))
    outlines = shapes.outlines(spans, side, 5).byte()
    assert torch.equal(outlines, unpacked(f"kaleidoscope/{side}/edge_mask_packed", side))


def test_edges_bars_and_colours_are_those_of_the_public_code() -> None:
    assert torch.equal(find_edges(picture()).byte(), unpacked("edge/32/mask_packed", 32))
    assert torch.equal(bar_columns(224, 7, 6), golden("prison/224/mask_row"))
    torch.testing.assert_close(to_hsv(picture()), golden("hsv/32/hsv_of_x"), rtol=0, atol=1e-6)
    hsv = golden("kaleidoscope/32/hsv")[..., 0]
    torch.testing.assert_close(to_rgb(hsv).transpose(1, 2), golden("kaleidoscope/32/rgb"), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["fbm", "fog", "pixel"])
def test_other_sizes_are_those_of_the_public_code(name: str) -> None:
    x, threat = picture(48), PUBLISHED[name]
    if name == "pixel":
        threat, latent = replace(threat, block=BySize(5, 5)), golden("pixel/48_size5/vars").float()
        expected = golden("pixel/48_size5/out")
    else:
        latent, expected = latent_of(name, side=48), golden(f"{name}/48/out")
    torch.testing.assert_close(threat.apply(x, Latents(latent)), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_is_a_sound_set(name: str) -> None:
    threat, high = SOUND[name], HIGH[name]
    grey_too = name not in ("hsv", "kaleidoscope")
    for x in (images(2, 3, 18, 25), degenerate_images(1 if grey_too else 3, 18)):
        check_sound(threat, x, high)
    check_finite(threat, degenerate_images(3, 16), high, largest=4 * high)
    check_steps(threat, images(2, 3, 18), high / 10)
    check_independent(threat, images(2, 3, 18).double(), high)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    check_gradient(SOUND[name], images(2, 3, 16) * 0.5 + 0.25, HIGH[name] / 4)


@pytest.mark.parametrize("name", NAMES)
def test_published_sets_are_finite_and_independent(name: str) -> None:
    check_finite(PUBLISHED[name], degenerate_images(3, 16), HIGH[name])
    check_independent(PUBLISHED[name], images(2, 3, 16).double(), HIGH[name])


@pytest.mark.parametrize("name", [name for name in NAMES if SOUND[name].chooses])
def test_the_draw_that_is_chosen_promises_most(name: str) -> None:
    x, threat = images(2, 3, 18), SOUND[name]
    noise, slope = noise_for(x), noise_for(x).child(5).normal(3, 18, 18)
    chosen = threat.choose(x, slope, noise)
    assert (threat.apply(x, chosen) == x).all()
    check_choice(threat, x, slope, noise)
    most = threat.gradient_gain(x, slope, chosen)
    assert all((most >= threat.gradient_gain(x, slope, threat._make_neutral(x, noise.child(k)))).all() for k in (0, 3))


@pytest.mark.parametrize("name", [name for name in NAMES if isinstance(SOUND[name], Faded) and name != "snow"])
def test_faded_in_it_is_the_published_image(name: str) -> None:
    x, threat = picture(), SOUND[name]
    latent, drawn = latent_of(name).abs(), tuple(map(Fixed, drawn_of(name)))
    expected = published(name).apply(x, Latents(latent, drawn))
    whole = FadedLatents(latent, drawn, torch.full((2,), threat.whole.value(x)))
    torch.testing.assert_close(threat.apply(x, whole), expected, rtol=0, atol=1e-5)


def test_the_published_snow_lies_in_the_sound_set() -> None:
    """Full flakes of norm e are e^2 full flakes."""
    x, threat = images(1, 3, 32), SOUND["snow"]
    theta = threat.start(x, torch.tensor([16.0]), noise_for(x))
    places, kernels = theta.drawn
    full = torch.zeros_like(places.values).flatten(1)
    full[:, places.values.flatten(1).nonzero()[:16, 1]] = 1
    full = full.view_as(places.values)
    published = PUBLISHED["snow"].apply(x, Latents(full, (places, kernels)))
    ours = FadedLatents(full, (places, kernels), torch.tensor([9.0]))
    assert float(threat.size(x, ours)) == 16
    torch.testing.assert_close(threat.apply(x, ours), published, rtol=0, atol=1e-6)


def test_fields_whose_absolute_value_counts_rise_at_once() -> None:
    """With a derivative of 0 at 0 the clean image would hold every search."""
    x = picture()
    for name in ("fog", "mix", "texture", "whirlpool"):
        threat = SOUND[name]
        theta = threat.neutral(x)
        if isinstance(theta, FadedLatents):
            theta = replace(theta, fade=torch.full((2,), 0.01))
        leaf = require_gradient(theta)
        slope = gradient((threat.apply(x, leaf) * golden("cotangent32")).flatten(1).sum(1), leaf)
        assert (slope.latent.flatten(1).abs().amax(1) > 0).all(), name


def test_shapes_reach_over_the_border_as_in_the_public_code() -> None:
    """Against the loops of the description, on 300 random shapes with corners outside of the image."""
    size, side = 15, 40
    generator = np.random.default_rng(0)
    kind, x, y, turn = (generator.integers(1, 3, 300), *generator.integers(10, 31, (2, 300)), generator.random(300))
    drawn = tuple(torch.as_tensor(values[None]) for values in (kind, x.astype(float), y.astype(float), turn))
    ours = shapes.masks(shapes.spans(drawn, size, side, side), side)
    for k in range(300):
        assert np.array_equal(ours[0, k].numpy(), by_loops(int(kind[k]), int(x[k]), int(y[k]), turn[k], size, side)), k


def by_loops(kind: int, x: int, y: int, turn: float, size: int, side: int) -> np.ndarray:
    """A triangle or a square, drawn row by row as the public code does."""
    mask = np.zeros((side, side), bool)
    t, towards = 2 * np.pi * turn, lambda angle, length: (length * np.cos(angle), length * np.sin(angle))

    def corner(*offsets: tuple[float, float]) -> tuple[int, int]:
        return int(x + sum(o[0] for o in offsets)), int(y + sum(o[1] for o in offsets))

    def flat(a: tuple[int, int], tip: tuple[int, int], b: tuple[int, int]) -> None:
        a, b = (b, a) if a[0] > b[0] else (a, b)
        height, left, right = abs(tip[1] - a[1]), float(a[0]), float(b[0])
        for row in range(a[1], tip[1], 1 if tip[1] > a[1] else -1):
            if 0 < row < side:
                mask[max(0, int(left)) : max(min(int(right), side), 0), row] = True
                left, right = left + (tip[0] - a[0]) / height, right + (tip[0] - b[0]) / height

    def triangle(*corners: tuple[int, int]) -> None:
        (x1, y1), (_, y2), (x3, y3) = one, two, three = sorted(corners, key=lambda c: c[1])
        if y2 == y3:
            flat(two, one, three)
        elif y1 == y2:
            flat(one, three, two)
        else:
            four = (int(x1 + (y2 - y1) / (y3 - y1) * (x3 - x1)), y2)
            flat(two, three, four)
            flat(two, one, four)

    if kind == shapes.TRIANGLE:
        length = shapes.triangle_side(size)
        triangle((x, y), corner(towards(t, length)), corner(towards(t + np.pi / 3, length)))
    else:
        a, d = towards(t, size), towards(t + np.pi / 2, size)
        triangle((x, y), corner(a), corner(a, d))
        triangle((x, y), corner(d), corner(a, d))
    return mask


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("hsv", (1, 1, 32, 32)), ("kaleidoscope", (1, 1, 32, 32)), ("kaleidoscope", (1, 3, 14, 14)),
        ("blur", (1, 3, 8, 8)), ("mix", (1, 1, 5, 5)), ("prison", (1, 3, 8, 7)), ("snow", (1, 2, 8, 8)),
        ("jpeg", (2, 5)), ("fog", (1, 4, 8, 8)),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_a_sentence(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(UnsupportedInputError, match=f"ua-{name} .*\\(") as raised:
        SOUND[name].check(torch.zeros(shape))
    assert str(raised.value).count("\n") == 0


def test_pictures_to_mix_in_must_fit() -> None:
    with pytest.raises(UnsupportedInputError, match="expected the same"):
        UaMix(bank=torch.zeros(3, 3, 8, 8)).check(torch.zeros(1, 3, 16, 16))


def test_levels_are_those_of_the_size_of_the_images() -> None:
    for suite, names in (("imagenet-ua", CORE), ("imagenet-ua-extra", EXTRA)):
        for sides, levels in (((224, 224), IMAGENET), ((32, 32), CIFAR10)):
            paper = {attack.name: attack.strengths for attack in resolve_attacks(suite, "paper", sides)}
            assert paper == {f"ua-{name}": levels[name] for name in names}
    sound = {attack.name: attack.strengths for attack in resolve_attacks("imagenet-ua", sides=(32, 32))}
    assert sound["ua-snow"] == (9.0, 16.0, 25.0)


@pytest.mark.parametrize("sides", [(32, 32), (224, 224)])
@pytest.mark.parametrize("protocol", ["default", "paper"])
def test_twenty_strengths_hold_the_levels(protocol: Any, sides: tuple[int, int]) -> None:
    for entry in ENTRIES:
        strengths = entry.attack(protocol).on_images(sides).strengths
        levels = entry.attack(protocol, levels=True).on_images(sides).strengths
        assert len(strengths) == 20 and set(levels) < set(strengths)
        assert strengths[0] == pytest.approx(levels[0] / 5, rel=1e-3)
        assert strengths[-1] == pytest.approx(2 * levels[2], rel=1e-3)


def test_the_published_protocol_takes_the_published_steps() -> None:
    """The steps of all core attacks together are 740 on ImageNet and 400 on CIFAR-10, of the extra ones 490 and 390;
    fbm throws one away."""
    for suite, large, small in (("imagenet-ua", 740, 400), ("imagenet-ua-extra", 489, 389)):
        for sides, total in (((224, 224), large), ((32, 32), small)):
            attacks = resolve_attacks(suite, "paper", sides)
            assert sum(attack.runs[0].optimizer.steps for attack in attacks) == total
            assert all(isinstance(attack.runs[0].optimizer, PGD) and attack.judges_last for attack in attacks)


def test_an_attack_says_how_it_differs_from_the_one_of_2019() -> None:
    for name in ("gabor", "snow", "jpeg", "elastic", "fog"):
        assert "2019" in attack_named(f"ua-{name}").about.note
