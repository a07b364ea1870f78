"""The report of one or several runs: one page in one file, for reading, sharing and printing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from markupsafe import Markup

from robustatlas.common import wording
from robustatlas.common.attack_labels import attack_label
from robustatlas.common.errors import UserError
from robustatlas.common.files import parse_path, write_text
from robustatlas.common.styles import model_styles
from robustatlas.common.typed_strengths import axis_label, falling_scale_start, format_size
from robustatlas.metrics.interclass import LpNorm, interclass_distances
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.references import Reference
from robustatlas.metrics.registry import reference_metrics
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.report import field, looks, multiples, pages, rulings, words
from robustatlas.report.card import picture_of
from robustatlas.report.facts.attack import AttackFacts
from robustatlas.report.facts.card import card_of
from robustatlas.report.facts.run import RunFacts, facts_of
from robustatlas.report.gallery import Example, examples
from robustatlas.report.gate import Requirement, overall_sentence
from robustatlas.report.numbers.against import against_what
from robustatlas.report.numbers.definitions import CONFIDENCE
from robustatlas.report.numbers.headline import HeadlineChoice
from robustatlas.report.numbers.of_several import numbers_of_several
from robustatlas.report.numbers.shared import (
    Shared,
    distinct_names,
    shared_or_why,
)
from robustatlas.report.numbers.standings import Standings, standings_of
from robustatlas.report.plotted import figure_data
from robustatlas.report.sections import SECTIONS, Section
from robustatlas.report.shapes import svg_of
from robustatlas.results.result import Result

if TYPE_CHECKING:
    from robustatlas.data import Dataset

T = TypeVar("T")

MOST_RUNS = 5
MOST_COMPARED_IMAGES = 2000
"""Data sets of up to this many images are searched for the smallest distance between classes, which takes seconds."""
_MOST_COMPARED_BYTES = 2**28
"""And of up to so many bytes, as all are held at once."""


@dataclass(frozen=True)
class RunPage:
    """One run, as the template shows it.

    Attributes:
        beside: of what all runs of the page share; the same where that is everything, None where it is nothing.
        apart: attacks that stand apart, as not all runs have them at the same strength.
    """

    facts: RunFacts
    beside: RunFacts | None
    apart: tuple[str, ...]
    headline: str
    findings: list[tuple[str, str, str]]
    summary: list[tuple[str, str]]
    gallery: Mapping[str, list[Example]]
    settings: str
    context: Mapping[str, str]

    def facts_of_attack(self, attack: str) -> AttackFacts | None:
        """Return the facts of one attack, on what is shared where it is; None where the run does not have it."""
        known = self.facts if self.beside is None or attack in self.apart else self.beside
        return next((found for found in known.attacks if found.attack == attack), None)

    @property
    def has_own_numbers(self) -> bool:
        """Return if it has more than what is shared, so that some of its numbers stand apart."""
        sizes = [(run.samples, [len(one.strengths) for one in run.attacks]) for run in (self.facts, self.beside) if run]
        return len(sizes) == 2 and sizes[0] != sizes[1]

    @property
    def breaks(self) -> str:
        """From where on half of the images are wrong, on what is shared."""
        return words.findings(self.facts if self.beside is None else self.beside)[0][1]


def build_report(
    results: Sequence[Result],
    output: str | Path,
    reference: Reference | None = None,
    trained_on: Mapping[str, Mapping[str, float]] | None = None,
    data: Dataset | None = None,
    headline: Mapping[str, float] | None = None,
    requirements: Sequence[Requirement] = (),
    verdicts: Sequence[str] = (),
) -> Path:
    """Write the report.

    Args:
        results: one to five runs; several are drawn over each other.
        output: the HTML file.
        reference: acc* for competitiveness and UAR; None leaves them out.
        trained_on: model name -> attack -> largest strength of its training, for the stability constant; for models
            that are not named, what their runs keep.
        data: the data set of the runs, to show the clean images next to kept adversarial examples.
        headline: attack -> strength of the number that comes first; None: see
            :func:`robustatlas.report.numbers.headline.choose_headline`.
        requirements: that are ruled on above everything else.
        verdicts: of the diagnosis, likewise, such as ``diagnosis=sound``.

    Returns:
        the path of the page.
    """
    path = _file(output, len(results))
    distances, sides = _distances(results, data), _Sides.from_results(results, reference, trained_on or {}, headline)
    facts, table = sides.facts, sides.standings
    runs = [
        _run(result, own, other, sides.shared, data, distances, alone=len(results) == 1)
        for result, own, other in zip(results, facts, sides.beside, strict=True)
    ]
    apart = [replace(r.facts, attacks=tuple(a for a in r.facts.attacks if a.attack in r.apart)) for r in runs]
    styles, several = model_styles([run.model for run in facts]), len(runs) > 1
    charts = multiples.panels(sides.shared_facts, distances) + multiples.panels(apart, distances, apart=several)
    text = pages.render(
        "report.html",
        title=_title(facts),
        cards=_cards(results, facts, reference, distances),
        shared=sides.shared,
        apart_notes=sides.notes,
        multiples=charts,
        abreast=multiples.columns,
        swatches=[looks.swatch(place, style) for place, style in enumerate(styles, start=1)],
        leaders=_leaders(table),
        runs=runs,
        overall_ruling=lambda lines: overall_sentence([line.check for line in lines]),
        rulings=[
            rulings.ruled_lines(one, r.facts, r.gallery, requirements, verdicts)
            for one, r in zip(results, runs, strict=True)
        ],
        many=several,
        ranked=any(run.reference is not None and run.reference.place is not None for run in facts),
        standings=table,
        verdict=words.verdict(table) if table else [],
        trust=words.trust_together(facts, table) if several else "",
        context=_context(runs),
        panels=figure_data([sides.shared_facts, apart], styles),
        sections=_sections(results, sides.shared_facts or facts),
        **_remarks(facts, sides.shared_facts),
        **_against(facts, reference),
        **_tools(facts),
        styles=[*map(pages.inline, ("base.css", "report.css")), looks.style_sheet(styles)],
        scripts=[pages.inline(name) for name in ("page.js", "scrolling.js", "report.js")],
        plotly=pages.packed_plotly(),
    )
    write_text(path, text)
    return path


@dataclass(frozen=True)
class _Sides:
    """The runs of a page, and each beside the others. ``shared``: what all of them have; None of one run, and where
    that is nothing. ``beside``: what can be said of each on that: the same where it is everything, None where it is
    nothing. ``notes``: sentences on what is not compared and why, and on what is missing."""

    facts: Sequence[RunFacts]
    shared: Shared | None
    beside: Sequence[RunFacts | None]
    notes: Sequence[str] = ()
    standings: Standings | None = None

    @classmethod
    def from_results(
        cls,
        results: Sequence[Result],
        reference: Reference | None,
        trained_on: Mapping[str, Mapping[str, float]],
        headline: Mapping[str, float] | None = None,
    ) -> _Sides:
        names = distinct_names(results)
        trained = [trained_on.get(one.name, trained_on.get(one.recorded_name)) for one in results]
        shared, notes = shared_or_why(results, names)

        several = None if shared is None else numbers_of_several(shared, headline=headline)

        def facts_of_all(
            some: Iterable[Result], first: Mapping[str, float] | HeadlineChoice | None = headline
        ) -> list[RunFacts]:
            asked = zip(some, names, trained, strict=True)
            return [facts_of(one, name, reference, told, headline=first) for one, name, told in asked]

        if shared is None or several is None:
            facts = facts_of_all(results)
            return cls(facts, shared, facts if len(facts) == 1 else [None] * len(facts), notes)
        standings = standings_of(several)
        if shared.is_everything:
            facts = facts_of_all(results, several.headline)
            return cls(facts, shared, facts, notes, standings)
        beside = facts_of_all(map(shared.table, range(len(results))), several.headline)
        return cls(facts_of_all(results), shared, beside, notes, standings)

    @property
    def shared_facts(self) -> list[RunFacts]:
        """The runs on what they share; none where that is nothing."""
        return [run for run in self.beside if run is not None]


def _against(facts: Sequence[RunFacts], reference: Reference | None) -> dict[str, Any]:
    return {
        "against": reference_metrics(),
        "against_what": "" if reference is None else against_what(reference, [run.model for run in facts]),
        "specialists": reference is None or not reference.models,
    }


def _tools(facts: Sequence[RunFacts]) -> dict[str, Any]:
    attacks = [attack for run in facts for attack in run.attacks]
    return {
        "attacks": list(dict.fromkeys(attack.attack for attack in attacks)),
        "axes": {attack.attack: axis_label(attack.unit, attack=attack.attack) for attack in attacks},
        "measured": {attack.attack for attack in attacks if attack.frontier},
        "masked_shares": masked_shares,
        "confidence": round(100 * CONFIDENCE),
        "wording": wording,
        "percent": words.percent,
        "over": words.attacks_and_strengths,
    }


def _cards(
    results: Sequence[Result], facts: Sequence[RunFacts], reference: Reference | None, distances: Mapping[str, float]
) -> list[str]:
    return [
        svg_of(picture_of(card_of(result, run, reference, distances)))
        for result, run in zip(results, facts, strict=True)
    ]


def _sections(results: Sequence[Result], facts: Sequence[RunFacts]) -> list[tuple[Section, Markup]]:
    said = [(section, section.body(results, facts)) for section in SECTIONS.load_usable().values()]
    return [(section, Markup(body)) for section, body in said if body]


def _remarks(facts: Sequence[RunFacts], shared: Sequence[RunFacts]) -> dict[str, Any]:
    """Return what the page says beside its numbers; ``shared``: facts on what the runs share."""
    held = shared or facts
    return {
        "certified": [
            (run.name if len(facts) > 1 else "", proved) for run in facts if (proved := words.certified(run))
        ],
        "calibrations": _merge_equal(
            [(run.name, list(run.calibrations)) for run in facts if run.calibrations], len(facts)
        ),
        "notes": _merge_equal([(run.name, run.reference.held.notes()) for run in held if run.reference], len(held)),
        "warnings": _merge_equal([(run.name, list(run.warnings)) for run in facts if run.warnings], len(facts)),
        "advice": _merge_equal([(run.name, run.advice) for run in facts if run.advice], len(facts)),
        "other_threat": words.OTHER_THREAT,
        "asked": _query_tables(facts),
        "fields": [view for place, run in enumerate(facts, 1) for view in field.views(run.name, run.beside, place)],
        "crossings": _crossings(shared),
    }


def _file(output: str | Path, runs: int) -> Path:
    if not 1 <= runs <= MOST_RUNS:
        raise UserError(f"A report shows 1 to {MOST_RUNS} runs; {runs} are given.")
    file = parse_path(output)
    if file.is_dir():
        raise UserError(f"{output} is a folder; give the name of an HTML file.")
    return file


def _run(
    result: Result,
    facts: RunFacts,
    beside: RunFacts | None,
    shared: Shared | None,
    data: Dataset | None,
    distances: Mapping[str, float],
    alone: bool,
) -> RunPage:
    identity, grid = result.identity, {} if shared is None else shared.grid
    described = {
        "created": identity.created.replace("T", " ").replace("+00:00", " UTC") if identity else "",
        "command": "\n".join(dict.fromkeys(plan.command for plan in result.plans if plan.command)),
        "computed with": "\n".join(
            ", ".join(f"{key} {value}" for key, value in place.items()) for place in result.circumstances
        ),
        "run directory": str(result.path or ""),
    }
    settings = {
        "identity": identity.model_dump(mode="json") if identity else {},
        "attacks": [record.model_dump(mode="json") for record in result.records.values()],
    }
    return RunPage(
        facts=facts,
        beside=beside,
        apart=() if beside is facts else tuple(one.attack for one in facts.attacks if one.attack not in grid),
        headline=words.headline(facts),
        findings=words.findings(facts, distances),
        summary=words.summary(facts, alone),
        gallery={attack: shown for attack, shown in examples(result, data).items() if shown},
        settings=json.dumps(settings, indent=2, ensure_ascii=False) if identity else "",
        context={key: value for key, value in described.items() if value},
    )


def _merge_equal(said: list[tuple[str, list[T]]], runs: int) -> list[tuple[str, list[T]]]:
    """Pairs of a run and its sentences; one pair without a name where the same is said of all runs."""
    if len(said) == runs and all(sentences == said[0][1] for _, sentences in said):
        return [("", said[0][1])]
    return said


def _context(runs: Sequence[RunPage]) -> dict[str, list[tuple[str, str]]]:
    """Return what was measured where: key -> pairs of a run and its value; one pair without a name if all agree."""
    rows = {}
    for key in dict.fromkeys(key for run in runs for key in run.context):
        values = [(run.facts.name, run.context.get(key, "")) for run in runs]
        alike = len({value for _, value in values}) == 1
        rows[key] = [("", values[0][1])] if alike else [(name, value) for name, value in values if value]
    return rows


def _title(facts: Sequence[RunFacts]) -> str:
    if len(facts) > 2:
        return f"How robust are these {len(facts)} models?"
    names = wording.join_words([wording.elide_middle(run.name) for run in facts])
    return f"How robust {'is' if len(facts) == 1 else 'are'} {names}?"


def _leaders(table: Standings | None) -> tuple[int, ...]:
    """Return the run that is ahead of all others under every headline attack; none where there is none."""
    return () if table is None or table.robust_leader is None else (table.robust_leader,)


def _distances(results: Sequence[Result], data: Dataset | None) -> dict[str, float]:
    """Attack -> smallest distance between images of different classes, for norms, where the images are at hand."""
    if data is None or len(data) > MOST_COMPARED_IMAGES or len(set(data.labels.tolist())) < 2:
        return {}
    if len(data) * data.rows[:1].nbytes > _MOST_COMPARED_BYTES:
        return {}
    evaluated = {attack for result in results for attack in result.attacks}
    norms: list[LpNorm] = [norm for norm in get_args(LpNorm) if norm in evaluated]
    images, labels = data.images.numpy(), data.labels.numpy()
    return {norm: interclass_distances(images, labels, norm=norm).smallest for norm in norms}


def _crossings(facts: Sequence[RunFacts]) -> list[str]:
    sentences = []
    for first, second in combinations(facts, 2):
        for ours in first.attacks:
            theirs = next((item for item in second.attacks if item.attack == ours.attack), None)
            if theirs is None or ours.curve is None or theirs.curve is None:
                continue
            if masked_shares(first, [ours.attack]) or masked_shares(second, [ours.attack]):
                continue
            for crossing in ours.curve.crossings(theirs.curve, CONFIDENCE):
                if crossing.significant:
                    leaders = [wording.elide_middle(run.name) for run in (first, second)]
                    sides = [(crossing.better_before, crossing.start), (crossing.better_after, crossing.end)]
                    below, above = (
                        (leaders[leader], format_size(at, attack=ours.attack))
                        for leader, at in (sides if falling_scale_start(ours.attack) is None else reversed(sides))
                    )
                    sentences.append(
                        f"{attack_label(ours.attack).label}, by the sizes found: {below[0]} is more robust "
                        f"below {below[1]}, {above[0]} above {above[1]}."
                    )
    return sentences


_Row = tuple[str, float, list[Interval | None]]
"""An attack, a strength, and an entry for each limit; None beyond what the attack asked."""


def _query_tables(facts: Sequence[RunFacts]) -> list[tuple[str, list[int], list[_Row]]]:
    """Return for each run of a model that could only be asked its name, the numbers of queries, and the rows."""
    tables = []
    for run in facts:
        found = [success for attack in run.attacks for success in attack.queries]
        limits = sorted({limit for success in found for limit in success.limits})
        rows: list[_Row] = []
        for success in found:
            entries = dict(zip(success.limits, success.success, strict=True))
            rows.append((success.attack, success.strength, [entries.get(limit) for limit in limits]))
        if rows:
            tables.append((run.name, limits, rows))
    return tables
