"""A number that may be missing is asked whether it is None: ``number or default`` takes 0 for missing."""

import ast
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import robustatlas
from robustatlas.common.errors import UserError
from robustatlas.drop_in import AutoAttack
from robustatlas.training.against import opponents_of
from robustatlas.training.display import LineDisplay
from robustatlas.training.presets import PRESETS

SOURCE = Path(robustatlas.__file__).parent
NUMBERS = {"float", "int"}


def kinds(annotation: ast.expr | None) -> set[str]:
    """The members of a union."""
    if annotation is None:
        return set()
    if isinstance(annotation, ast.BinOp):
        return kinds(annotation.left) | kinds(annotation.right)
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
        return kinds(annotation.slice.elts[0])  # type: ignore[attr-defined]
    return {ast.unparse(annotation)}


def may_miss(annotation: ast.expr | None) -> bool:
    found = kinds(annotation)
    return "None" in found and bool(found & NUMBERS)


def attributes_of(trees: list[ast.Module]) -> set[str]:
    """Names of the attributes, properties and functions that are a number or None, and nowhere something else."""
    told: list[tuple[str, ast.expr | None]] = []
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef):
            told.append((node.name, node.returns))
        elif isinstance(node, ast.ClassDef):
            lines = [line for line in node.body if isinstance(line, ast.AnnAssign)]
            told += [(line.target.id, line.annotation) for line in lines if isinstance(line.target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            told.append((node.target.attr, node.annotation))
    otherwise = {name for name, annotation in told if not kinds(annotation) & NUMBERS}
    return {name for name, annotation in told if may_miss(annotation)} - otherwise


def is_number(node: ast.expr, known: set[str], attributes: set[str]) -> bool:
    if isinstance(node, ast.NamedExpr):
        return is_number(node.value, known, attributes)
    if isinstance(node, ast.Call):
        return is_number(node.func, attributes, attributes)
    return (isinstance(node, ast.Name) and node.id in known) or (
        isinstance(node, ast.Attribute) and node.attr in attributes
    )


def locals_of(function: ast.FunctionDef, attributes: set[str]) -> set[str]:
    arguments = function.args
    found = {
        one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if may_miss(one.annotation)
    }
    for node in ast.walk(function):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and may_miss(node.annotation):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign) and is_number(node.value, found, attributes):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def faults(trees: list[ast.Module]) -> Iterator[str]:
    attributes = attributes_of(trees)
    for function in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        known = locals_of(function, attributes)
        for node in ast.walk(function):
            if not isinstance(node, ast.BoolOp) or not isinstance(node.op, ast.Or):
                continue
            *before, last = node.values
            if isinstance(last, ast.Constant) and last.value == 0:
                continue  # 0 stands for itself
            if any(is_number(one, known, attributes) for one in before):
                yield f"{function.name}, line {node.lineno}: {ast.unparse(node)}"


def test_the_kind_is_found() -> None:
    code = """
class Strip:
    half: float | None
def half_wrong(clean: float) -> float | None: ...
def asked(size: int | None, strip: Strip) -> float:
    made = half_wrong(1.0)
    right = size if size is not None else 3
    return (half_wrong(1.0) or 3) + (size or 2) + (strip.half or 1) + (made or 5) + (made or 0) + right
"""
    found = {fault.partition(": ")[2] for fault in faults([ast.parse(code)])}
    assert found == {"half_wrong(1.0) or 3", "size or 2", "strip.half or 1", "made or 5"}


def test_nothing_takes_a_number_of_0_for_missing() -> None:
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in sorted(SOURCE.rglob("*.py"))]
    assert len(trees) > 100 and list(faults(trees)) == []


def test_0_is_no_default() -> None:
    attack = AutoAttack(torch.nn.Linear(4, 2), norm="Linf", eps=0.1, verbose=False, device="cpu")
    x, y = torch.zeros(2, 4), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(UserError, match="bs=0"):
        attack.run_standard_evaluation(x, y, batch_size=0)
    with pytest.raises(UserError, match="The rate of crafting is 0"):
        opponents_of({"linf": 0.1}, rate=0)
    preset = next(preset for preset in PRESETS.values() if preset.fights)
    with pytest.raises(UserError, match="with 0 steps"):
        preset.recipe(steps=0)


def test_the_time_left_counts_from_the_first_epoch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    shown = LineDisplay()
    shown.begin("net", 40, 0)
    for epoch in (1, 2, 3):
        now += 10.0
        shown.epoch({"epoch": epoch, "epochs": 4, "loss": 1.0, "training_accuracy": 50.0})
    told = [line.rpartition(", ")[2] for line in capsys.readouterr().err.splitlines()]
    assert told == ["30 s left", "20 s left", "10 s left"]
