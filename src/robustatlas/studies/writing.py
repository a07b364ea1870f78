"""The tables and figures of a study in its folder, with a page whose first screen says what the study shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from robustatlas.common.errors import UserError
from robustatlas.common.files import check_inside, write_atomically, write_text
from robustatlas.common.wording import list_names
from robustatlas.report import pages
from robustatlas.studies.description import Study
from robustatlas.studies.finished import Finished
from robustatlas.studies.numbers import Sheet, StudyNumber
from robustatlas.studies.outputs import Made, Output
from robustatlas.studies.outputs.base import Effect, Verdict
from robustatlas.studies.planning import OUTPUTS_FOLDER, Step, study_differences

FORMS = ("png", "svg", "pdf")
"""File formats of figures."""
_MADE = "made.txt"
"""List of the tables, figures and pages that the last call made; what it no longer makes is removed."""
PAGE, TEXT = "study.html", "study.md"
LINE = 28
"""Characters of a cell from which on it is read as words, from the left and in several lines."""


_BADGES = {Verdict.SHOWN: "sound", Verdict.NOT_REPRODUCED: "masked", Verdict.NOT_DECIDED: ""}
"""Verdict -> look of its mark on the page."""


@dataclass(frozen=True)
class Written:
    """One output with its files, or the reason why it was not made.

    Attributes:
        step: of it.
        output: what was asked for.
        sheets: name of its file -> table.
        figures: names of its files without their endings.
        pages: other files.
        effects: verdicts on effects of the paper.
        waits: steps that it needs and that are not done; then nothing was made.
        why: it could not be made, a sentence.
    """

    step: Step
    output: Output
    sheets: Mapping[str, Sheet]
    figures: tuple[str, ...] = ()
    pages: tuple[Path, ...] = ()
    effects: tuple[Effect, ...] = ()
    waits: tuple[str, ...] = ()
    why: str = ""

    @property
    def title(self) -> str:
        """Title of the output, or its name in the file."""
        return self.output.title or self.step.entry

    def caption(self, sheet: Sheet) -> str:
        """Return the caption of one of several tables, without the title that they share."""
        return sheet.title.removeprefix(self.title).removeprefix(": ")


@dataclass(frozen=True)
class Studied:
    """A study as far as it is done.

    Attributes:
        folder: of all of it.
        page: that lists tables and figures.
        outputs: of the study, in the order of its file.
        warnings: sentence -> the steps that it is about.

    Example:
        >>> Studied(Path("out"), Path("out/study.html"), (), {}).complete
        True
    """

    folder: Path
    page: Path
    outputs: tuple[Written, ...]
    warnings: Mapping[str, tuple[str, ...]]

    @property
    def tables(self) -> dict[str, Sheet]:
        """All tables by the names of their files."""
        return {name: sheet for written in self.outputs for name, sheet in written.sheets.items()}

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effects of the paper that the study decides."""
        return tuple(effect for written in self.outputs for effect in written.effects)

    @property
    def answer(self) -> str:
        """Number of the effects of the paper with each verdict, as a sentence; empty for a study that decides none."""
        verdicts = [effect.verdict for effect in self.effects]
        shown, failed, undecided = (verdicts.count(verdict) for verdict in Verdict)
        return (
            f"Effects of the paper at this size: {shown} of {len(verdicts)} shown, {failed} not reproduced, "
            f"{undecided} not decided."
            if verdicts
            else ""
        )

    @property
    def complete(self) -> bool:
        """Return if every output was made."""
        return not any(written.waits or written.why for written in self.outputs)


def write_outputs(done: Finished) -> Studied:
    """Make those of the outputs that have all they need, and the page of the study."""
    written = tuple(_write_output(done, step) for step in done.steps if step.kind == "outputs")
    _remove_stale(done.folder / OUTPUTS_FOLDER, written)
    studied = Studied(done.folder, done.folder / PAGE, written, done.step_warnings())
    write_text(done.folder / TEXT, _markdown(done, studied))
    write_text(studied.page, _page(done, studied))
    return studied


def _write_output(done: Finished, step: Step) -> Written:
    output: Output = done.study.outputs[step.entry]
    if waits := done.missing_steps(step):
        return Written(step, output, {}, waits=waits)
    folder = done.folder / step.place
    try:
        made: Made = output.make(done, folder)
    except UserError as error:
        return Written(step, output, {}, why=f"outputs.{step.entry}: {error}")
    sheets = {}
    for name, sheet in made.sheets.items():
        called = f"{step.entry}-{name}" if name else step.entry
        sheets[called] = sheet
        write_text(done.folder / step.place.parent / f"{called}.csv", sheet.csv())
    figures = tuple(f"{step.entry}-{name}" if name else step.entry for name in made.figures)
    for called, figure in zip(figures, made.figures.values(), strict=True):
        _save(figure, done.folder / step.place.parent, called)
    return Written(step, output, sheets, figures, made.pages, made.effects)


def _remove_stale(folder: Path, outputs: Sequence[Written]) -> None:
    """Remove the files of earlier calls that this one did not make, so that no file has numbers of another study."""
    made = {place.relative_to(folder).as_posix() for one in outputs for place in one.pages}
    made |= {f"{name}.csv" for one in outputs for name in one.sheets}
    made |= {f"{name}.{form}" for one in outputs for name in one.figures for form in FORMS}
    listing = folder / _MADE
    before = listing.read_text(encoding="utf-8").splitlines() if listing.is_file() else []
    for name in before:
        if name not in made:
            check_inside(folder, folder / name).unlink(missing_ok=True)
    write_text(listing, "".join(f"{name}\n" for name in sorted(made)))


def _save(figure: Any, folder: Path, name: str) -> None:
    """A figure in each of the forms, the same bytes each time."""
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none", "pdf.use14corefonts": False}):
        for form in FORMS:
            date = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[form]
            save = partial(figure.savefig, format=form, metadata=date, dpi=200)
            write_atomically(folder / f"{name}.{form}", save)
    plt.close(figure)


def _title(study: Study) -> str:
    return f"{study.title}{f' ({study.size})' if study.size else ''}"


def _lists(study: Study) -> dict[str, tuple[str, ...]]:
    """Return the lists of what is otherwise than in the paper: heading -> sentences."""
    found = study_differences(study)
    lists = {
        "Not as in the paper": found.paper,
        "In place of what presets have": found.presets,
        "Trainings that never reach their strength": found.warnings,
    }
    return {heading: sentences for heading, sentences in lists.items() if sentences}


def _effect_lines(effect: Effect) -> list[str]:
    """Return what a reader has to know of an effect below its sentence."""
    lines = [f"Ours: {effect.ours}.", f"Difference: {effect.difference}."]
    if effect.printed:
        return [*lines, f"Printed: {effect.printed}{f' ({effect.source})' if effect.source else ''}."]
    return [*lines, f"In the paper: {effect.source}."] if effect.source else lines


def _paper_tables(studied: Studied) -> list[tuple[Written, str, Sheet]]:
    """Return the tables with numbers that a paper prints; those come first that have one in most of their rows."""
    found = [(one, name, sheet) for one in studied.outputs for name, sheet in one.sheets.items()]
    return sorted((each for each in found if each[2].is_beside_paper), key=lambda each: -each[2].published_share)


def _markdown(done: Finished, studied: Studied) -> str:
    parts = [f"# {_title(done.study)}", done.study.paper, *done.study.differs[:1]]
    if studied.effects:
        parts += ["## Which effects of the paper hold", studied.answer]
        parts += [
            f"- **{effect.verdict.value}**: {effect.claim}. {' '.join(_effect_lines(effect)).strip()}"
            for effect in studied.effects
        ]
    beside = _paper_tables(studied)
    parts += ["## Printed numbers beside ours"] * bool(beside)
    for one, name, sheet in beside:
        parts += [f"### {one.title}", *_sheet_parts(one, name, sheet)]
    for one in studied.outputs:
        parts.append(f"## {one.title}" + (f"\n\n{one.output.source}" if one.output.source else ""))
        parts += [_lacks(one)]
        for name, sheet in one.sheets.items():
            parts += [] if sheet.is_beside_paper else _sheet_parts(one, name, sheet)
        parts += [f"![{name}](outputs/{name}.png)" for name in one.figures]
        parts += [f"[{place.name}]({place.relative_to(done.folder)})" for place in one.pages]
    for heading, sentences in _lists(done.study).items():
        parts += [f"## {heading}", "\n".join(f"- {each}" for each in sentences)]
    if studied.warnings:
        parts.append("## Warnings")
        parts += [f"- {sentence} ({list_names(names, at_most=3)})" for sentence, names in studied.warnings.items()]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _sheet_parts(written: Written, name: str, sheet: Sheet) -> list[str]:
    legend = [" ".join(sheet.legend)] if sheet.legend else []
    return [written.caption(sheet), sheet.markdown(), *legend, f"[{name}.csv](outputs/{name}.csv)"]


def _lacks(written: Written) -> str:
    """Return why an output was not made; empty for one that was."""
    return f"Waits for {list_names(written.waits)}." if written.waits else written.why


def _wordy(sheet: Sheet) -> list[bool]:
    """Return for each column if it has cells too long for one line."""
    return [max(map(len, cells), default=0) > LINE for cells in zip(*sheet.texts(), strict=True)]


def _sheet_values(name: str, sheet: Sheet, heading: str) -> dict[str, Any]:
    """Return what the template shows of a table."""
    wordy = _wordy(sheet)
    rows = [
        [
            (text, not long, isinstance(cell, StudyNumber) and cell.is_published)
            for cell, text, long in zip(*row, strict=True)
        ]
        for row in ((cells, texts, wordy) for cells, texts in zip(sheet.rows, sheet.texts(), strict=True))
    ]
    return {
        "name": name,
        "heading": heading,
        "columns": [(column, not long) for column, long in zip(sheet.columns, wordy, strict=True)],
        "rows": rows,
        "legend": " ".join(sheet.legend),
    }


def _page(done: Finished, studied: Studied) -> str:
    outputs = [
        {
            "name": one.step.entry,
            "title": one.title,
            "source": one.output.source,
            "lacks": _lacks(one),
            "sheets": [
                _sheet_values(name, sheet, one.caption(sheet))
                for name, sheet in one.sheets.items()
                if not sheet.is_beside_paper
            ],
            "elsewhere": next((name for name, sheet in one.sheets.items() if sheet.is_beside_paper), ""),
            "figures": one.figures,
            "pages": [str(place.relative_to(done.folder)) for place in one.pages],
        }
        for one in studied.outputs
    ]
    return pages.render(
        "study.html",
        title=_title(done.study),
        styles=[pages.inline("base.css")],
        scripts=[pages.inline("page.js")],
        paper=done.study.paper,
        size=done.study.differs[:1],
        answer=studied.answer,
        effects=[(effect, _effect_lines(effect), _BADGES[effect.verdict]) for effect in studied.effects],
        beside=[
            _sheet_values(name, sheet, ": ".join(filter(None, [one.title, one.caption(sheet)])))
            for one, name, sheet in _paper_tables(studied)
        ],
        outputs=outputs,
        lists=_lists(done.study),
        warnings=[(sentence, list_names(names, at_most=3)) for sentence, names in studied.warnings.items()],
        forms=FORMS,
    )
