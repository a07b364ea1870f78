"""Marabou, a complete verifier, asked if a fully connected network errs somewhere on a box of inputs.

Source: Wu et al. 2024, Marabou 2.0: A Versatile Formal Analyzer of Neural Networks; ``pip install maraboupy``. Its
settings are its defaults, on one thread.
"""

import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

_ABOVE = 1e-5
"""By how much the logit of another class is asked to be above that of the label. Examples on the very border of two
classes, which are those that Marabou finds where 0 is asked, are right by as much as its arithmetic is off."""


@dataclass(frozen=True)
class Answer:
    """The end of a proof, and what it took.

    Attributes:
        decision: "proven", "refuted" or "not decided".
        seconds: of Marabou alone, without those in which its queries are written.
        example: ``[D]`` float64, an input of the box that is misclassified, None where there is none.
        unconfirmed: how many of Marabou's examples the network classifies correctly in float64.
    """

    decision: str
    seconds: float
    example: Tensor | None = None
    unconfirmed: int = 0


def core() -> Any:
    """Return the module of Marabou's solver."""
    try:
        from maraboupy import MarabouCore
    except ImportError as error:
        raise SystemExit(
            "The part 'complete' compares with Marabou, which is not installed here; run 'pip install maraboupy'."
        ) from error
    return MarabouCore


def decide(net: nn.Sequential, low: Tensor, high: Tensor, label: int, seconds: float) -> Answer:
    """Decide if each input between ``low`` and ``high`` [D] has the ``label``, by one query for each other class.

    Args:
        net: linear layers and ReLUs, perhaps after a flatten; its weights count as real numbers.
        low: smallest values, float64.
        high: largest values.
        label: class that must have the largest logit.
        seconds: for all queries together.
    """
    exact = deepcopy(net).double()
    with torch.no_grad():
        logits = exact((low + high)[None] / 2)[0]
    others = [int(k) for k in logits.argsort(descending=True) if int(k) != label]
    used, unconfirmed, proven = 0.0, 0, 0
    for other in others:
        left = seconds - used
        if left <= 0:
            break
        query = margin_query(exact, low, high, label, other)
        begun = time.perf_counter()
        with silenced():
            kind, values, _ = core().solve(query, options(left))
        used += time.perf_counter() - begun
        proven += kind == "unsat"
        if kind == "sat":
            found = torch.tensor([values[k] for k in range(len(low))], dtype=torch.float64)
            example = torch.minimum(torch.maximum(found, low), high)
            with torch.no_grad():
                logits = exact(example[None])[0]
            if logits[other] >= logits[label]:
                return Answer("refuted", used, example, unconfirmed)
            unconfirmed += 1
    return Answer("proven" if proven == len(others) else "not decided", used, None, unconfirmed)


@contextmanager
def silenced() -> Iterator[None]:
    """Send what Marabou prints to nowhere; its own redirection stays on after queries that preprocessing decides."""
    sys.stdout.flush()
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def options(seconds: float) -> Any:
    """Return Marabou's default options with a time limit, which it takes in whole seconds."""
    made = core().Options()
    made._timeoutInSeconds, made._verbosity, made._numWorkers = math.ceil(seconds), 0, 1
    made._numBlasThreads = 1
    return made


def margin_query(net: nn.Sequential, low: Tensor, high: Tensor, label: int, other: int) -> Any:
    """Return the query for an input of the box on which the logit of ``other`` is above that of ``label``."""
    query, before = core().InputQuery(), list(range(len(low)))
    count, relus = len(low), []
    equations: list[tuple[Sequence[float], list[int], float]] = []
    for layer in net:
        if isinstance(layer, nn.Linear):
            after = list(range(count, count + layer.out_features))
            for out, weights, bias in zip(after, layer.weight.tolist(), layer.bias.tolist(), strict=True):
                equations.append(([*weights, -1.0], [*before, out], -bias))
        elif isinstance(layer, nn.ReLU):
            after = list(range(count, count + len(before)))
            relus += list(zip(before, after, strict=True))
        elif isinstance(layer, nn.Flatten):
            continue
        else:
            raise TypeError(f"{layer} is no linear layer, ReLU or flatten; Marabou's queries are written of these.")
        before, count = after, count + len(after)
    query.setNumberOfVariables(count)
    for k, (least, most) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        query.markInputVariable(k, k)
        query.setLowerBound(k, least)
        query.setUpperBound(k, most)
    for k, out in enumerate(before):
        query.markOutputVariable(out, k)
    for weights, variables, scalar in equations:
        query.addEquation(equation(core().Equation.EQ, weights, variables, scalar))
    for given, out in relus:
        core().addReluConstraint(query, given, out)
        query.setLowerBound(out, 0.0)
    query.addEquation(equation(core().Equation.GE, (1.0, -1.0), [before[other], before[label]], _ABOVE))
    return query


def equation(kind: Any, weights: Sequence[float], variables: list[int], scalar: float) -> Any:
    """Return <weights, variables> = (or >=, by its ``kind``) ``scalar``."""
    made = core().Equation(kind)
    for weight, variable in zip(weights, variables, strict=True):
        made.addAddend(weight, variable)
    made.setScalar(scalar)
    return made
