"""Evaluations of models that have no gradient."""

from dataclasses import replace

import numpy as np
import pytest

import robustatlas as ra
from helpers_core import digits_images, digits_network
from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import AttackRun
from robustatlas.common.errors import UserError
from robustatlas.optimizers.hop_skip_jump import HopSkipJump
from robustatlas.optimizers.square import Square
from test_frameworks import labels_of, softmax


@pytest.mark.parametrize("answers", ["probabilities", "labels"])
def test_a_model_without_a_gradient(answers: str) -> None:
    data = digits_images(6)
    model = ra.from_predictions(softmax if answers == "probabilities" else labels_of, answers, classes=10)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"linf.*hop-skip-jump-l2"):
        ra.evaluate(model, data, "linf")
    attack = "square-l2" if answers == "probabilities" else "hop-skip-jump-l2"
    optimizer = Square(300) if answers == "probabilities" else HopSkipJump(500)
    run = AttackRun(optimizer, "margin")
    short = replace(attack_named(attack), strengths=(1.0, 2.5), runs=(run,))
    result = ra.evaluate(model, data, short)
    assert any("weak upper bounds" in warning for warning in result.warnings)
    strong = ra.evaluate(digits_network(), data, "l2").minimal_size("l2")
    assert (result.minimal_size(attack) >= 0.99 * strong).all()
    assert np.isfinite(result.minimal_size(attack)).any()
    assert result.passes(attack)[1] == 0
