"""The example of a threat model of one's own runs and keeps what the guide promises."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from threat_properties import check_finite, check_gradient, check_independent, check_sound, degenerate_images, images

GUIDE = Path(__file__).parents[1] / "docs" / "threat_models.md"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    (code,) = (block for block in blocks if "(BoxThreat)" in block)
    assert len(code.splitlines()) < 50
    names: dict[str, Any] = {"__name__": "guide"}
    torch.manual_seed(0)
    exec(compile(code, str(GUIDE), "exec"), names)
    return names


def test_the_example_evaluates(example):
    result = example["result"]
    assert result.attacks == ("lighting", "linf")
    assert result.strengths("lighting").tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]
    sizes = result.minimal_size("lighting")
    assert len(sizes) == 40 and (sizes >= 0).all()


def test_the_example_is_a_sound_threat_model(example):
    threat = example["Lighting"]()
    for x in (images(), images(channels=1, side=8), images(dtype=torch.float64), degenerate_images()):
        check_sound(threat, x, 0.5)
        check_independent(threat, x, 0.5)
        check_finite(threat, x, 0.5)
    check_gradient(threat, images(), 0.5)


def test_every_method_of_a_threat_model_is_explained():
    from robustatlas.threats.base import ThreatModel

    guide = GUIDE.read_text(encoding="utf-8")
    assert all(f"`{name}(" in guide for name in ThreatModel.__abstractmethods__)
