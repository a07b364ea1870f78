"""The report of one or several runs: one page in one file, for reading, sharing and printing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robustatlas.errors import UserError
from robustatlas.metrics.curves import RobustnessCurve
from robustatlas.metrics.intervals import Interval
from robustatlas.references import Reference
from robustatlas.report import pages, words
from robustatlas.report.facts import CONFIDENCE, AttackFacts, RunFacts, gather
from robustatlas.report.gallery import Example, examples
from robustatlas.report.versus import compare
from robustatlas.report.vocabulary import describe

if TYPE_CHECKING:
    from robustatlas.datasets import Dataset
    from robustatlas.outcomes import Result

MOST_RUNS = 5
CURVE_POINTS = 400
"""Points of a curve on the page; longer curves keep this many of their steps."""

BINS = 24


@dataclass(frozen=True)
class RunPage:
    """What the template shows of one run."""

    facts: RunFacts
    summary: list[tuple[str, str]]
    warnings: tuple[str, ...]
    unfinished: Mapping[str, int]
    gallery: Mapping[str, list[Example]]
    settings: str
    context: Mapping[str, str]

    def by_attack(self, attack: str) -> AttackFacts | None:
        """What is known of one attack; None where the run does not have it."""
        return next((found for found in self.facts.attacks if found.attack == attack), None)


def build_report(
    results: Sequence[Result],
    output: str | Path,
    reference: Reference | None = None,
    trained_on: Mapping[str, Mapping[str, float]] | None = None,
    data: Dataset | None = None,
) -> Path:
    """Write the report.

    Args:
        results: one to five runs; several are drawn over each other.
        output: the HTML file.
        reference: acc* for competitiveness and UAR; None leaves them out.
        trained_on: model name -> attack -> largest strength of its training, for the stability constant.
        data: the data set of the runs, to show the clean images next to kept adversarial examples.

    Returns:
        the path of the page.
    """
    if not 1 <= len(results) <= MOST_RUNS:
        raise UserError(f"a report shows 1 to {MOST_RUNS} runs; {len(results)} are given")
    path = Path(output)
    if path.is_dir():
        raise UserError(f"{path} is a folder; give the name of an HTML file")
    runs = [
        _run(
            result,
            name,
            reference,
            (trained_on or {}).get(result.manifest.settings.model.name),
            data,
            alone=len(results) == 1,
        )
        for result, name in zip(results, _names(results), strict=True)
    ]
    facts = [run.facts for run in runs]
    versus = compare(results, [run.name for run in facts])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        pages.render(
            "report.html",
            title=_title(facts),
            lede=_lede(facts),
            runs=runs,
            many=len(runs) > 1,
            versus=versus,
            verdict=words.versus(versus) if versus else [],
            trust=words.trust_together(facts, versus) if len(facts) > 1 else "",
            context=_context(runs),
            panels=_panels(facts),
            attacks=_attacks(facts),
            axes={attack.attack: attack.axis for run in facts for attack in run.attacks},
            measured={attack.attack for run in facts for attack in run.attacks if attack.frontier},
            crossings=_crossings(facts),
            confidence=round(100 * CONFIDENCE),
            describe=describe,
            percent=words.percent,
            size=words.size,
            strength=words.strength,
            count=words.count,
            styles=[pages.inline(name) for name in ("base.css", "report.css")],
            scripts=[pages.inline_script(pages.plotly_script()), pages.inline("page.js"), pages.inline("report.js")],
        ),
        encoding="utf-8",
    )
    return path


def usual_reference(results: Sequence[Result]) -> str | None:
    """Name of the reference that fits the data of the runs; None where none does."""
    on_cifar10 = all(re.search(r"cifar[-_ ]?10(?!\d)", r.manifest.settings.data.name.lower()) for r in results)
    return "multirobustbench-cifar10" if on_cifar10 else None


def _run(
    result: Result,
    name: str,
    reference: Reference | None,
    trained_on: Mapping[str, float] | None,
    data: Dataset | None,
    alone: bool,
) -> RunPage:
    facts = gather(result, name, reference, trained_on)
    settings, context = result.manifest.settings, result.manifest.context
    described = {
        "created": context.created.replace("T", " ").replace("+00:00", " UTC"),
        "command": context.command,
        "versions": ", ".join(f"{package} {version}" for package, version in context.versions.items()),
        "machine": ", ".join(f"{key} {value}" for key, value in context.machine.items()),
        "run directory": str(result.path or ""),
    }
    return RunPage(
        facts=facts,
        summary=words.summary(facts, len(context.warnings), bool(result.missing), alone),
        warnings=context.warnings,
        unfinished=result.missing,
        gallery={attack: shown for attack, shown in examples(result, data).items() if shown},
        settings=json.dumps(json.loads(settings.model_dump_json()), indent=2, ensure_ascii=False),
        context={key: value for key, value in described.items() if value},
    )


def _context(runs: Sequence[RunPage]) -> dict[str, list[tuple[str, str]]]:
    """What was measured where: key -> pairs of a run and its value; one pair without a name where all runs agree."""
    rows = {}
    for key in dict.fromkeys(key for run in runs for key in run.context):
        values = [(run.facts.name, run.context.get(key, "")) for run in runs]
        alike = len({value for _, value in values}) == 1
        rows[key] = [("", values[0][1])] if alike else [(name, value) for name, value in values if value]
    return rows


def _names(results: Sequence[Result]) -> list[str]:
    """Names of the models; equal ones get the name of their run directory, or a number."""
    plain = [result.manifest.settings.model.name for result in results]
    names: list[str] = []
    for position, (name, result) in enumerate(zip(plain, results, strict=True), start=1):
        if plain.count(name) > 1:
            name = f"{name} ({result.path.name if result.path else position})"
        names.append(f"{name} #{position}" if name in names else name)
    return names


def _title(facts: Sequence[RunFacts]) -> str:
    if len(facts) == 1:
        return f"How robust is {facts[0].name}?"
    return f"How robust are {', '.join(run.name for run in facts[:-1])} and {facts[-1].name}?"


def _lede(facts: Sequence[RunFacts]) -> str:
    sets = [f"{run.samples} images of {run.data}" for run in facts]
    if len(set(sets)) > 1:
        return f"{'; '.join(sets)}."
    return f"{sets[0]}, {words.listed(sorted({words.count(len(run.attacks), 'attack') for run in facts}))}."


def _attacks(facts: Sequence[RunFacts]) -> list[str]:
    return list(dict.fromkeys(attack.attack for run in facts for attack in run.attacks))


def _panels(facts: Sequence[RunFacts]) -> dict[str, Any]:
    """The data of the page's figures; one list entry for each attack, and in it one for each run that has it."""
    by_attack = {
        attack: [next((a for a in run.attacks if a.attack == attack), None) for run in facts]
        for attack in _attacks(facts)
    }
    return {
        "runs": [run.name for run in facts],
        "curves": [_curve_panel(attack, found) for attack, found in by_attack.items()],
        "sizes": [_size_panel(attack, found) for attack, found in by_attack.items()],
        "frontiers": [
            _frontier_panel(attack, found)
            for attack, found in by_attack.items()
            if any(item is not None and item.frontier for item in found)
        ],
        "ratios": [
            _ratio_panel(attack, found) for attack, found in by_attack.items() if any(i and i.uar for i in found)
        ],
    }


def _head(attack: str, found: Sequence[AttackFacts | None]) -> dict[str, Any]:
    return {"label": describe(attack).label, "axis": next(item.axis for item in found if item)}


def _end(found: Sequence[AttackFacts | None]) -> float:
    """Right end of an axis of sizes: the largest strength, or the largest size where that is larger."""
    return max(
        max(float(item.strengths[-1]), float(item.curve.jumps[-1]) if item.curve.jumps.size else 0.0)
        for item in found
        if item
    )


def _curve_panel(attack: str, found: Sequence[AttackFacts | None]) -> dict[str, Any]:
    end = _end(found)
    return _head(attack, found) | {"end": end, "lines": [_curve(item.curve, end) if item else None for item in found]}


def _curve(curve: RobustnessCurve, end: float) -> dict[str, list[float]]:
    jumps = curve.jumps[curve.jumps > 0]
    if len(jumps) > CURVE_POINTS:
        jumps = jumps[np.unique(np.linspace(0, len(jumps) - 1, CURVE_POINTS).round().astype(int))]
    sizes = np.unique(np.concatenate([[0.0], jumps, [end]]))
    low, high = curve.band(CONFIDENCE).at(sizes)
    return {
        "sizes": _rounded(sizes),
        "error": _rounded(100 * curve.at(sizes)),
        "low": _rounded(100 * low),
        "high": _rounded(100 * high),
    }


def _size_panel(attack: str, found: Sequence[AttackFacts | None]) -> dict[str, Any]:
    end = _end(found)
    edges = np.linspace(0, end, BINS + 1)
    lines: list[dict[str, Any] | None] = []
    for item in found:
        if item is None:
            lines.append(None)
            continue
        sizes = item.curve.minimal_sizes
        counts, _ = np.histogram(sizes[(sizes > 0) & np.isfinite(sizes)], edges)
        lines.append({"counts": counts.tolist(), "never": item.never, "clean": item.clean_errors})
    return _head(attack, found) | {"edges": _rounded(edges), "lines": lines}


def _frontier_panel(attack: str, found: Sequence[AttackFacts | None]) -> dict[str, Any]:
    lines = [
        {"levels": _rounded(item.frontier.levels), "mean": _rounded(item.frontier.mean)}
        if item and item.frontier
        else None
        for item in found
    ]
    return _head(attack, found) | {"lines": lines}


def _ratio_panel(attack: str, found: Sequence[AttackFacts | None]) -> dict[str, Any]:
    return _head(attack, found) | {
        "lines": [{"ratio": _plain(item.ratio), "uar": _plain(item.uar)} if item else None for item in found]
    }


def _plain(interval: Interval | None) -> list[float] | None:
    return _rounded(np.array([interval.value, interval.low, interval.high])) if interval else None


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.5g}") for value in np.asarray(values, dtype=np.float64).tolist()]


def _crossings(facts: Sequence[RunFacts]) -> list[str]:
    """A sentence for each significant crossing of two runs' curves."""
    sentences = []
    for first, second in combinations(facts, 2):
        for ours in first.attacks:
            theirs = next((item for item in second.attacks if item.attack == ours.attack), None)
            if theirs is None:
                continue
            for crossing in ours.curve.crossings(theirs.curve, CONFIDENCE):
                if crossing.significant:
                    leaders = [run.name for run in (first, second)]
                    below, above = words.size(crossing.start), words.size(crossing.end)
                    sentences.append(
                        f"{describe(ours.attack).label}: {leaders[crossing.better_before]} is more robust below "
                        f"{below}, {leaders[crossing.better_after]} above {above}."
                    )
    return sentences
