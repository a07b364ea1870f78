"""Strengths that cannot be meant are refused by what images in [0, 1] can differ by, and fractions stay fractions."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import robustatlas as ra
from command_line import entered
from helpers_core import digits_images, digits_network
from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.cli._options import parse_strengths
from robustatlas.common.noise import Noise
from robustatlas.common.typed_strengths import falling_scale_start, text_as_typed, value_as_typed
from robustatlas.evaluation.attack_choice import choose_attacks
from robustatlas.evaluation.request import Request
from robustatlas.threats.compose import Compose
from robustatlas.threats.flow import StAdv
from robustatlas.threats.lp import Linf
from robustatlas.threats.warp import Rotation
from robustatlas.training.against import check_opponents, make_opponents

COLOUR = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
MODEL = ra.Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(COLOUR[0].numel(), 3)))
N = COLOUR[0].numel()
MOST = {
    "linf": 1,
    "l2": math.sqrt(N),
    "l1": N,
    "l0": N,
    "patch": 1,
    "brightness": 1,
    "hue": math.pi,
    "recolor": 1,
    "stadv": 2,
    "jpeg-l2": 2 * math.sqrt(32 * 32 + 2 * 16 * 16),
    "jpeg-l1": 2 * (32 * 32 + 2 * 16 * 16),
    "ua-edge": 1,
    "ua-prison": 1,
    "ua-kaleidoscope": 1,
    "ua-hsv": 1,
    "ua-texture": 1,
    "ua-blur": 1,
    "ua-glitch": 2,
    "ua-klotski": 2,
    "rotation": 180,
    "translation": 32,
    "translation-percent": 100,
    "zoom": 90,
    "shear": 80,
    "tilt": 60,
    "crop": 95,
    "exposure": 8,
    "motion-blur": 9,
    "blur": 8,
    "noise": 255,
    "jpeg-quality": 99,
    "resolution": 99,
    "occlusion": 100,
    "fog-density": 100,
    "rain-density": 100,
    "snow-density": 100,
}

"""What images of 32 by 32 pixels and three colours can differ by."""


@pytest.mark.parametrize("name", [name for name in catalogue() if not name.startswith("corruption")])
def test_a_strength_beyond_all_images_is_refused(name: str) -> None:
    attack = attack_named(name)
    most = attack.threat.max_size(COLOUR)
    like = next((own for own in MOST if name == own or (name.endswith(f"-{own}") and "jpeg" not in name)), None)
    assert most == pytest.approx(MOST[like] if like else N if name == "sigma-zero" else math.inf)
    if math.isfinite(most):
        beyond = 1.001 * max(most, attack.strengths[-1])
        why = "; give at least 1" if falling_scale_start(name) else r" for images in \[0, 1\], .* at most"
        with pytest.raises(ra.UserError, match=rf"^{name}=\S+ is not a strength{why}"):
            choose_attacks(Request(attacks=name, strengths={name: [value_as_typed(name, beyond)]}), MODEL, COLOUR)
    asked = Request(attacks=name, strengths={name: [value_as_typed(name, min(most, 1e4))]})
    (kept,) = choose_attacks(asked, MODEL, COLOUR)
    assert kept.strengths == (min(most, 1e4),)


@pytest.mark.parametrize(
    "name", ["linf", "l2", "l1", "l0", "patch", "brightness", "stadv", "jpeg-l2", "jpeg-l1", "hue"]
)
def test_larger_sets_hold_nothing_more(name: str) -> None:
    """By the sets themselves: what is drawn in one ten times as large lies in this one."""
    threat = attack_named(name).threat
    most = threat.max_size(COLOUR)
    noise = Noise.for_samples(0, torch.arange(2), "beyond")
    drawn = threat.start(COLOUR, torch.full((2,), 10 * most), noise)
    inside = threat.project(COLOUR, drawn, torch.full((2,), most))
    if name == "hue":  # which goes round
        assert float(threat.size(COLOUR, drawn).max()) > most
        turned = torch.tensor([[most + 1.0], [most + 2.0]])
        assert torch.allclose(threat.apply(COLOUR, turned), threat.apply(COLOUR, turned - 2 * math.pi), atol=1e-5)
    elif name == "brightness":
        assert torch.equal(threat.apply(COLOUR, drawn), threat.apply(COLOUR, inside))
    else:
        assert float(threat.size(COLOUR, drawn).max()) <= most * (1 + 1e-5)


def test_of_sets_outside_of_the_catalogue() -> None:
    assert Rotation().max_size(COLOUR) == 180
    assert Compose((StAdv(), Linf()), (0.5, 0.1)).max_size(COLOUR) == 10
    assert Compose((Rotation(), attack_named("fog").threat), (0.5, 0.1)).max_size(COLOUR) == math.inf


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("linf=8", "8/255"),
        ("linf=1,2,4", "4/255"),
        ("linf=1.2:20", "at most 1"),
        ("l2=10:20", "at most 8"),
        ("linf=8:20", "8/255"),
        ("l2=128", "128/255"),
        ("l1=2000", "2000/255"),
        ("l0=65", "at most 64"),
        ("patch=3", "at most 1"),
        ("brightness=76.5", "76.5/255"),
    ],
)
def test_a_strength_in_levels_is_named_as_it_is_meant(text: str, meant: str) -> None:
    strengths = parse_strengths([text])
    images, _ = digits_images(2)
    with pytest.raises(ra.UserError, match=meant):
        choose_attacks(Request(attacks=list(strengths), strengths=strengths), MODEL, images)


def test_strengths_of_the_catalogue_fit_images_of_any_size() -> None:
    """On four numbers sets of l1 up to 30 are larger than all: they are the catalogue's, and may be typed."""
    data = (torch.rand(4, 4), torch.tensor([0, 1, 0, 1]))
    net = torch.nn.Linear(4, 2)
    result = ra.evaluate(net, data, "l1", strengths={"l1": [1.0, 30.0]}, progress=False)
    assert result.strengths("l1").tolist() == [1.0, 30.0]
    with pytest.raises(ra.UserError, match="l1=31 is not a strength"):
        ra.evaluate(net, data, "l1", strengths={"l1": [31.0]}, progress=False)


@pytest.mark.parametrize(
    ("name", "epsilon"), [("linf", 8.0), ("linf", 1.0), ("l2", 60.0), ("patch", 1.0), ("stadv", 2.5)]
)
def test_training_against_all_images_is_refused(name: str, epsilon: float) -> None:
    with pytest.raises(ra.UserError, match=rf"^{name}={epsilon:g} is not a strength"):
        check_opponents(make_opponents({name: epsilon}), COLOUR)


def test_a_fraction_is_echoed_as_it_is_typed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    wanted: dict[str, Any] = {"linf": [8 / 255, 0.2], "l2": [128 / 255, 1.0]}
    ra.evaluate(
        digits_network(), digits_images(8), ["linf", "l2"], strengths=wanted, effort="low", run=run, progress=False
    )
    for options in (["--union", "linf=8/255,l2=128/255"], ["--all"]):
        told = entered("show", run, *options).line
        assert "8/255" in told and "128/255" in told
        assert "0.0314" not in told and "0.502" not in told
    assert "77/255" in entered("check", run, "--require", "linf@77/255>=4", code=3).out


@pytest.mark.parametrize("levels", [1, 2, 3, 4, 6, 8, 16, 30, 64, 128, 2000])
def test_every_number_of_levels_is_written_so(levels: int) -> None:
    assert text_as_typed(levels / 255) == text_as_typed(float(torch.tensor(levels / 255))) == f"{levels}/255"


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.2, "0.2"), (1.0, "1"), (1 / 3, "0.3333"), (2 / 3, "0.6667"), (0.6, "0.6"), (0.0314, "0.0314"), (2.5, "2.5"),
     (0.03137, "0.03137"), (12.0, "12"), (2500 / 3, "833.3"), (7 / 15, "0.4667")],
)  # fmt: skip
def test_other_numbers_are_not(value: float, written: str) -> None:
    assert text_as_typed(value) == written
