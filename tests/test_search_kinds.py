"""Which kind of run found a size is on record, and shown."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

import robustatlas as ra
from command_line import entered
from helpers_core import with_plan
from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import AttackRun
from robustatlas.attacks.search.descent import Descent
from robustatlas.attacks.table import run_in_words
from robustatlas.optimizers.fmn import FMN
from robustatlas.optimizers.pgd import PGD
from robustatlas.outcomes.joined import merge_outcomes
from robustatlas.report.facts import facts_of

WEAK = AttackRun(FMN(3), "margin", role="bound")
STRONG = AttackRun(PGD(30), "margin")
REFINE = AttackRun(FMN(10), "margin", start="best", role="refine")
STRENGTHS = {"linf": [0.05, 0.1, 0.15, 0.2]}


def plane() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A linear network of two classes, three samples at .1 and one that is misclassified clean."""
    net = nn.Linear(4, 2)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.0] * 4, [1.0] * 4]))
        net.bias.copy_(torch.tensor([0.0, -2.4]))
    return net, torch.cat([torch.full((3, 4), 0.5), torch.full((1, 4), 0.9)]), torch.zeros(4, dtype=torch.int64)


def found(*runs: AttackRun, run: Path | None = None, seed: int = 0) -> ra.Result:
    net, x, labels = plane()
    attack = with_plan(attack_named("linf"), "descent", *runs, rules=Descent.rules)
    return ra.evaluate(net, (x, labels), attack, strengths=STRENGTHS, run=run, seed=seed, progress=False)


def test_each_sample_says_which_run_found_its_size() -> None:
    alone = found(STRONG).outcome("linf")
    assert alone.kinds == (run_in_words(STRONG),) and alone.kind_index is not None
    assert alone.kind_index.tolist() == [0, 0, 0, -1], "a clean error was found by none"
    assert alone.counts_by_run() == {run_in_words(STRONG): 3}
    never = found(AttackRun(PGD(1, rate=1e-6), "margin", start="neutral")).outcome("linf")
    assert never.counts_by_run() == {}


def test_what_only_refines_takes_no_credit() -> None:
    outcome = found(WEAK, REFINE).outcome("linf")
    assert outcome.counts_by_run() == {run_in_words(WEAK): 3}


def test_of_several_searches_that_of_the_smallest_counts() -> None:
    first, second = found(WEAK).outcome("linf"), found(STRONG).outcome("linf")
    smaller = replace(second, minimal_size=first.minimal_size - 0.01 * np.array([1, 0, -1, 0]))
    both = merge_outcomes([first, smaller], [np.ones(4, bool)] * 2)
    assert both.counts_by_run() == {run_in_words(WEAK): 2, run_in_words(STRONG): 1}
    unknown = merge_outcomes([replace(first, kinds=(), kind_index=None), smaller], [np.ones(4, bool)] * 2)
    assert unknown.counts_by_run() == {run_in_words(STRONG): 1}


def test_it_is_kept_in_a_run_and_shown_by_explain(tmp_path: Path) -> None:
    found(STRONG, run=tmp_path / "run")
    read = ra.load_result(tmp_path / "run")
    assert next(iter(read.records.values())).runs == (run_in_words(STRONG),)
    assert facts_of(read).attacks[0].found_last == {run_in_words(STRONG): 100.0}
    told = [entered("show", tmp_path / "run", *more, columns=160).out for more in ((), ("--explain",))]
    assert "found by" not in told[0]
    assert "the smallest example was found by" in told[1] and "100.0" in told[1] and "ascend: PGD" in told[1]
