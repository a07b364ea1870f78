"""Every number of a page beside what ``show --json`` says of the same runs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from robustatlas.common.wording import rough, size, text_as_typed, wording
from robustatlas.metrics.registry import against_reference

Told = Mapping[str, Any]
"""Of one run what ``show --json`` prints."""

READ_REPORT, READ_BOARD = (
    Path(__file__).with_name(f"{page}_numbers.js").read_text(encoding="utf-8") for page in ("report", "board")
)


def bare(number: Told | None, digits: int = 1) -> str:
    """As tables write it, whose heads say percent."""
    return "–" if number is None else f"{number['value']:.{digits}f} ({ends(number, digits)})"


def ends(number: Told, digits: int = 1) -> str:
    return f"{number['low']:.{digits}f} to {number['high']:.{digits}f}"


def percent(number: Told) -> str:
    return f"{number['value']:.1f}% ({ends(number)})"


def size_of(value: float | None) -> str:
    return size(float("inf") if value is None else value, of="")


def differences(page: Any, told: Sequence[Told]) -> list[str]:
    """What a report says otherwise than its runs; empty where every number agrees."""
    found = page.evaluate(READ_REPORT)
    tables = found["tables"]
    checks = [_heat, _quartiles, _against, _hypervolumes, _costs, _charts, _plots, _said]
    checks += [_head] if len(told) == 1 else [_runs]
    return [
        f"{check.__name__[1:]}: page {ours!r}, run {theirs!r}"
        for check in checks
        for ours, theirs in check(found, tables, told)
        if ours != theirs
    ]


Pairs = Iterator[tuple[Any, Any]]


def _head(found: Told, tables: Told, told: Sequence[Told]) -> Pairs:
    (run,) = told
    numbers = [run["headline"]["accuracy"], run["clean accuracy"], run["average accuracy"]]
    for number in filter(None, numbers):
        yield percent(number) in found["head"], True
    if run["breaks"] and run["breaks"]["median size"]:
        median = text_as_typed(run["breaks"]["median size"], 3)
        yield f"{wording(run['breaks']['attack']).label} {median}" in found["head"], True
    for held in run["certified"].values():
        middle = held["robust accuracy, at least"][(len(held["strengths"]) - 1) // 2]
        yield f"at least {middle['value']:.1f} %" in found["head"], True


def _runs(found: Told, tables: Told, told: Sequence[Told]) -> Pairs:
    ranked = any(run["reference"] and run["reference"]["place"] for run in told)
    for cells, run in zip(tables["The models and their lines in the figures"], told, strict=True):
        place = cells.pop(1) if ranked else ""
        if ranked and run["reference"]["place"]:
            best, worst = run["reference"]["place"]["best"], run["reference"]["place"]["worst"]
            yield [int(n) for n in re.findall(r"(\d+)(?:st|nd|rd|th)", place)], [*dict.fromkeys([best, worst])]
            yield "about" in place, run["reference"]["about"]
        points = [] if run["headline"]["is mean"] else run["headline"]["numbers"]
        shown = [bare(number["accuracy"]) for number in points]
        yield cells[1 : 1 + len(shown)], shown
        mean, median, clean, samples = cells[1 + len(shown) :]
        yield mean, bare(run["average accuracy"])
        yield text_as_typed(run["breaks"]["median size"], 3) in median, True
        yield clean, bare(run["clean accuracy"])
        yield samples, str(run["samples"])


def _heat(found: Told, tables: Told, told: Sequence[Told]) -> Pairs:
    for run in told:
        rows = tables[f"Accuracies of {run['model']}"]
        for row, attack in zip(rows, run["attacks"].values(), strict=False):
            if attack["accuracy"] is None:
                continue
            cells = zip(attack["strengths"], attack["accuracy"], strict=True)
            yield (
                row[2 : 2 + len(attack["strengths"])],
                [f"strength {text_as_typed(s)}: {percent(a)}" for s, a in cells],
            )
            yield row[-1], bare(attack["average accuracy"])
        for row, held in zip(rows[len(run["attacks"]) :], run["certified"].values(), strict=True):
            cells = zip(held["strengths"], held["robust accuracy, at least"], strict=True)
            said = [f"strength {text_as_typed(s)}: certified, at least {percent(a)}" for s, a in cells]
            yield row[2 : 2 + len(said)], said


def _quartiles(found: Told, tables: Told, told: Sequence[Told]) -> Pairs:
    rows = [row for row in tables["Quartiles of the sizes"] if len(row) > 1]
    attacks = dict.fromkeys(attack for run in told for attack in run["attacks"])
    expected = [run["attacks"][attack] for attack in attacks for run in told if attack in run["attacks"]]
    for row, item in zip(rows, expected, strict=True):
        counts = [str(item["clean errors"]), str(item["none found"])]
        yield row[1:], [*map(size_of, item["quartiles"]), *counts]


def _against(found: Told, tables: Told, told: Sequence[Told]) -> Pairs:
    for row, run in zip(tables.get("Numbers against the reference", []), told, strict=False):
        reference = run["reference"]
        if reference is None:
            continue
        yield row[1:-2], [bare(reference["numbers"].get(metric.name)) for metric in against_reference()]
        for cell, floor in ((row[-2], "floor 0"), (row[-1], "floor 1")):
            ends = reference.get("SC interval", {}).get(floor)
            said = ends and f"{rough(ends['value'])} ({rough(ends['low'])} to {rough(ends['high'])})"
            yield cell, said if "SC" in reference else "training not stated"


def _hypervolumes(found: Told, tables: Told, told: Sequence[Told]) -> Pairs:
    attacks = dict.fromkeys(name for run in told for name, item in run["attacks"].items() if item["AH"])
    for row, attack in zip(tables.get("Adversarial hypervolumes", []), attacks, strict=True):
        for cell, run in zip(row[1:], told, strict=True):
            item = run["attacks"].get(attack)
            yield cell.removesuffix(f" {item['AH is']}" if item else ""), bare(item and item["AH"], 3)


def _costs(found: Told, tables: Told, told: Sequence[Told]) -> Pairs:
    rows = [row for row in tables["Cost of the attacks"] if len(row) > 1 and row[0] != "Together"]
    items = [item for run in told for item in run["attacks"].values()]
    for row, item in zip(rows, items, strict=True):
        yield row[1:], [f"{item[key]:.1f}" for key in ("forward", "backward", "seconds")]


def _charts(found: Told, tables: Told, told: Sequence[Told]) -> Pairs:
    attacks = dict.fromkeys(name for run in told for name, item in run["attacks"].items() if item["accuracy"])
    for lines, attack in zip(found["charts"], attacks, strict=True):
        having = [run for run in told if (run["attacks"].get(attack) or {}).get("accuracy")]
        for points, run in zip(lines, having, strict=True):
            drawn = np.array([float(point.split(",")[1]) for point in points.split()])
            accuracy = [run["clean accuracy"], *run["attacks"][attack]["accuracy"]]
            yield bool(np.allclose(100 - drawn, [cell["value"] for cell in accuracy], atol=0.02)), True


def _plots(found: Told, tables: Told, told: Sequence[Told]) -> Pairs:
    for attack, traces in found["plots"]:
        having = [run for run in told if (run["attacks"].get(attack) or {}).get("accuracy")]
        sides = [
            (side["strengths"], side.get("accuracy") or side["robust accuracy, at least"])
            for run in having
            for side in (run["attacks"][attack], run["certified"].get(attack))
            if side
        ]
        for trace, (strengths, cells) in zip(traces, sides, strict=True):
            at = [int(np.argmin(np.abs(np.array(trace["x"]) - s))) for s in strengths]
            drawn = [[trace["y"][k], *trace["ends"][k]] for k in at]
            expected = [[cell["value"], cell["low"], cell["high"]] for cell in cells]
            yield bool(np.allclose(drawn, expected, atol=0.01)), True


def _said(found: Told, tables: Told, told: Sequence[Told]) -> Pairs:
    """Figures tell their values to those who do not see them."""
    said = " ".join(filter(None, found["said"]))
    for run in told:
        for item in run["attacks"].values():
            if item["accuracy"]:
                yield f"{percent(item['accuracy'][-1])}" in said, True
            for number in item["against"].values():
                yield percent(number) in said, True


def board_differences(page: Any, told: Sequence[Told], compared: bool) -> list[str]:
    """What a board says of the runs otherwise than they do; of runs that have every ranked cell."""
    rows = dict(page.evaluate(READ_BOARD))
    wrong = []
    for run in told:
        cells = rows[run["model"]]
        expected = {"clean": f"{run['clean accuracy']['value']:.1f}", "samples": f"{run['samples']:,}"}
        if compared:
            ratio = run["reference"]["numbers"]["CR ind-avg"]
            expected["cr"] = f"{ratio['value']:.1f} {ends(ratio)}"
            expected["uar"] = f"{run['reference']['numbers']['mUAR']['value']:.1f}"
        for attack, standard in (("linf", 0.03), ("l2", 0.5), ("l1", 12.0)):
            item = run["attacks"].get(attack)
            if item and f"robust-{attack}" in cells:
                nearest = int(np.argmin(np.abs(np.array(item["strengths"]) - standard)))
                expected[f"robust-{attack}"] = f"{item['accuracy'][nearest]['value']:.1f}"
        if "union" in cells:
            expected["union"] = f"{run['worst case']['accuracy']['value']:.1f}"
        shown = {key: " ".join(cells[key][: 2 if key == "cr" else 1]) for key in expected}
        wrong += [
            f"{run['model']}, {key}: board {shown[key]}, run {expected[key]}"
            for key in expected
            if shown[key] != expected[key]
        ]
    return wrong
