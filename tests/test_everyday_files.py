"""Images as files of 8 bits hold them: what an attack finds survives being saved."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import robustatlas as ra
from command_line import entered
from robustatlas.common.errors import UserError
from robustatlas.threats.levels import apply_threat, round_to_levels
from robustatlas.threats.lp import L1, L2, Linf
from test_everyday import QUIET, a_model, some_data
from threat_properties import images, noise_for


@pytest.mark.parametrize("threat", [Linf(), L2(), L1()], ids=["linf", "l2", "l1"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_stays_inside_of_the_ball(threat: Linf | L2 | L1, dtype: torch.dtype) -> None:
    x = images(count=5, side=8, dtype=dtype)
    epsilon = torch.full((5,), 8 / 255 if isinstance(threat, Linf) else 1.0, dtype=dtype)
    theta = threat.project(x, threat.start(x, epsilon, noise_for(x)) * 3, epsilon)
    rounded = apply_threat(threat, x, theta, eight_bit=True)
    assert (threat.size(x, rounded - x) <= threat.size(x, theta) * (1 + 1e-5)).all()
    files = (rounded * 255).round().to(torch.uint8)
    assert torch.equal(files.to(dtype) / 255, rounded)
    whole = torch.full_like(x, 8 / 255) * noise_for(x).sign(*x.shape[1:], dtype=dtype)
    kept = apply_threat(Linf(), x, (x + whole).clamp(0, 1) - x, eight_bit=True)
    torch.testing.assert_close(kept, (x + whole).clamp(0, 1), rtol=0, atol=1e-6)  # whole levels stay


@pytest.mark.parametrize("names", [["linf", "l2", "l1", "l0"], ["rotation", "elastic", "patch", "fog-density"]])
def test_every_example_survives_as_a_file(names: list[str], tmp_path: Path) -> None:
    model = a_model()
    x, labels = some_data(model)
    folder = tmp_path / "run"
    result = ra.evaluate(model, (x, labels), names, pixels="8bit", keep_adversarial=True, run=folder, **QUIET)
    for name in names:
        index, found = result.adversarial(name)
        outcome = result.outcome(name)
        assert outcome.surviving_files() == ((len(index), len(index)) if len(index) else None)
        again = torch.from_numpy((found * 255).round().astype(np.uint8)).float() / 255
        assert torch.equal(again, torch.from_numpy(found))
        if len(index):
            assert (model.logits(again).argmax(1) != labels[index]).all()
    with pytest.raises(UserError, match="pixels"):
        ra.evaluate(model, (x, labels), names[0], run=folder, **QUIET)


def test_examples_that_do_not_survive_are_counted() -> None:
    """Without ``pixels`` the run says how many of the kept examples a file of 8 bits still holds."""
    model = a_model()
    x, labels = some_data(model)
    result = ra.evaluate(model, (x, labels), "l2", keep_adversarial=True, **QUIET)
    index, found = result.adversarial("l2")
    held = model.logits(round_to_levels(torch.from_numpy(found))).argmax(1) != labels[index]
    assert result.outcome("l2").surviving_files() == (int(held.sum()), len(index))
    assert "as" not in repr(ra.evaluate(model, (x, labels), "l2", **QUIET).outcome("l2").surviving_files())


def test_examples_as_pictures_are_read_back(tmp_path: Path) -> None:
    model, folder = a_model(), tmp_path / "run"
    x, labels = some_data(model)
    result = ra.evaluate(model, (x, labels), "linf", pixels="8bit", keep_adversarial=True, run=folder, **QUIET)
    entered("export", folder, "--to", "png", "-o", tmp_path / "png")
    index, _ = result.adversarial("linf")
    assert len(list((tmp_path / "png" / "linf").glob("*.png"))) == len(index)
    checked = ra.verify(folder, tmp_path / "png" / "linf", by="me", model=model, data=(x, labels))
    assert sum(checked.refused.values()) == 0


def test_images_that_no_file_holds() -> None:
    model = a_model()
    x, labels = some_data(model)
    with pytest.raises(UserError, match="255"):
        ra.evaluate(model, (x * 0.99, labels), "linf", pixels="8bit", **QUIET)


def test_an_audit_searches_the_sets_of_the_run(tmp_path: Path) -> None:
    """Of its pixels, and with its border."""
    model = a_model()
    x, labels = some_data(model)
    asked = {**QUIET, "audit": 5, "run": str(tmp_path / "run"), "border": "black", "pixels": "8bit"}
    result = ra.evaluate(model, (x, labels), ["rotation"], **asked)  # type: ignore[arg-type]
    assert result.run is not None
    audit = next(iter((tmp_path / "run").glob("audit*/attacks/*.json")), None)
    assert audit is not None
    held = json.loads(audit.read_text(encoding="utf-8"))["threat"]
    assert (held["border"], held["pixels"]) == ("black", "8bit")
