"""Randomised models by the majority of draws and by any of n."""

from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import norm
from torch import Tensor

import robustatlas as ra
from command_line import entered

FEW = {"effort": "low", "progress": False, "diagnose": False}


def behind_noise(x: Tensor) -> Tensor:
    """Right with a probability that the first value says: of normal noise, the part below it."""
    lead = x.flatten(1)[:, :1] - 0.5 + 0.1 * torch.randn_like(x.flatten(1)[:, :1])
    return torch.cat([lead, torch.zeros_like(lead)], 1)


def test_a_sample_errs_by_either_rule_where_its_probability_says_so(tmp_path: Path) -> None:
    """By the majority where a draw is wrong more often than one time in two, by any of 10 more often than 6.7 %."""
    chances = torch.tensor([0.01, 0.2, 0.8])
    x = (0.5 - 0.1 * torch.from_numpy(norm.ppf(chances.numpy())).float())[:, None]
    data = (x, torch.zeros(3, dtype=torch.long))
    found = ra.evaluate_by_rules(
        behind_noise, data, "linf", strengths={"linf": [1e-4]}, run=tmp_path / "run", draws=4, **FEW
    )
    majority, any_of = found.results["majority"], found.results["any of 10"]
    assert majority.clean.tolist() == [True, True, False] and any_of.clean.tolist() == [True, False, False]
    assert majority.correct("linf")[:, 0].tolist() == [True, True, False]
    assert any_of.correct("linf")[:, 0].tolist() == [True, False, False]
    assert ra.load_result(tmp_path / "run" / "any-of-10").clean_accuracy == pytest.approx(100 / 3)
    assert "any of 10" in repr(found) and "66.7" in repr(found)


def test_one_draw_is_no_rule() -> None:
    with pytest.raises(ra.UserError, match="any_of=1; expected"):
        ra.evaluate_by_rules(behind_noise, (torch.rand(2, 1), torch.zeros(2, dtype=torch.long)), any_of=1)


def test_both_rules_on_the_command_line_and_a_diagnosis_by_the_draws_of_the_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    few = "--attacks linf --strengths linf=0.1 --samples 3 --effort low --no-diagnose --draws 3 --any-of 5"
    told = entered("evaluate", "broken:noise", "--data", "digits", *few.split(), "--run", run).out
    assert "clean" in told and "any of 5" in told and "majority" in told
    (record,) = ra.load_result(run / "any-of-5").records.values()
    by: Any = record.protocol["draws"]
    assert by["search"] == 3 and by["threshold"] == pytest.approx(1 - 0.5 ** (1 / 5))
    assert not ra.diagnose(run / "any-of-5").flags


def test_two_rules_are_of_no_single_run() -> None:
    said = entered("evaluate", "broken:noise", "--data", "digits", "--any-of", 5, "--until", 2, code=1)
    assert "--until is of one run" in said.err
