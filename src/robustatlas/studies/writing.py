"""The tables and figures of a study written into its folder, with a page that lists them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from robustatlas.common.errors import UserError
from robustatlas.common.files import inside, write_atomically, write_text
from robustatlas.common.wording import some
from robustatlas.report import pages
from robustatlas.studies.description import Study
from robustatlas.studies.differences import differences_of
from robustatlas.studies.finished import Finished
from robustatlas.studies.outputs import Made, Output
from robustatlas.studies.planning import OUTPUTS_FOLDER, Step
from robustatlas.studies.tables import Sheet

FORMS = ("png", "svg", "pdf")
"""File formats of figures."""
_MADE = "made.txt"
"""List of the tables, figures and pages that the last call made; what it no longer makes is removed."""
PAGE, TEXT = "study.html", "study.md"
LINE = 28
"""Characters of a cell from which on it is read as words, from the left and in several lines."""


@dataclass(frozen=True)
class Written:
    """One output with its files, or the reason why it was not made.

    Attributes:
        step: of it.
        output: what was asked for.
        sheets: name of its file -> table.
        figures: names of its files without their endings.
        pages: other files.
        waits: steps that it needs and that are not done; then nothing was made.
        why: it could not be made, a sentence.
    """

    step: Step
    output: Output
    sheets: Mapping[str, Sheet]
    figures: tuple[str, ...] = ()
    pages: tuple[Path, ...] = ()
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
    def complete(self) -> bool:
        """Return if every output was made."""
        return not any(written.waits or written.why for written in self.outputs)


def write_outputs(done: Finished) -> Studied:
    """Make those of the outputs that have all they need, and the page of the study."""
    written = tuple(_write_output(done, step) for step in done.steps if step.kind == "outputs")
    _remove_stale(done.folder / OUTPUTS_FOLDER, written)
    studied = Studied(done.folder, done.folder / PAGE, written, done.warned())
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
    return Written(step, output, sheets, figures, made.pages)


def _remove_stale(folder: Path, outputs: Sequence[Written]) -> None:
    """Remove the files of earlier calls that this one did not make, so that no file has numbers of another study."""
    made = {place.relative_to(folder).as_posix() for one in outputs for place in one.pages}
    made |= {f"{name}.csv" for one in outputs for name in one.sheets}
    made |= {f"{name}.{form}" for one in outputs for name in one.figures for form in FORMS}
    listing = folder / _MADE
    before = listing.read_text(encoding="utf-8").splitlines() if listing.is_file() else []
    for name in before:
        if name not in made:
            inside(folder, folder / name).unlink(missing_ok=True)
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
    """Return the lists at the top of the page: heading -> sentences."""
    found = differences_of(study)
    lists = {
        "Not as in the paper": found.paper,
        "In place of what presets have": found.presets,
        "Trainings that never reach their strength": found.warnings,
    }
    return {heading: sentences for heading, sentences in lists.items() if sentences}


def _markdown(done: Finished, studied: Studied) -> str:
    parts = [f"# {_title(done.study)}", *([done.study.paper] if done.study.paper else [])]
    parts += [f"{head}:\n\n" + "\n".join(f"- {each}" for each in found) for head, found in _lists(done.study).items()]
    for one in studied.outputs:
        parts.append(f"## {one.title}" + (f"\n\n{one.output.source}" if one.output.source else ""))
        parts += [f"Waits for {some(one.waits)}."] if one.waits else [one.why] * bool(one.why)
        for name, sheet in one.sheets.items():
            parts += [one.caption(sheet), sheet.markdown()]
            parts += [" ".join(sheet.legend)] * bool(sheet.legend) + [f"[{name}.csv](outputs/{name}.csv)"]
        parts += [f"![{name}](outputs/{name}.png)" for name in one.figures]
        parts += [f"[{place.name}]({place.relative_to(done.folder)})" for place in one.pages]
    if studied.warnings:
        parts.append("## Warnings")
        parts += [f"- {sentence} ({some(names, at_most=3)})" for sentence, names in studied.warnings.items()]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _wordy(sheet: Sheet) -> list[bool]:
    """Return for each column if it has cells too long for one line."""
    return [max(len(line) for cell in cells for line in cell.split("\n")) > LINE
            for cells in zip(*sheet.texts(), strict=True)]  # fmt: skip


def _page(done: Finished, studied: Studied) -> str:
    return pages.render(
        "study.html",
        title=_title(done.study),
        styles=[pages.inline("base.css")],
        paper=done.study.paper,
        lists=_lists(done.study),
        outputs=[
            {
                "name": one.step.entry,
                "title": one.title,
                "source": one.output.source,
                "lacks": f"Waits for {some(one.waits)}." if one.waits else one.why,
                "sheets": [
                    (name, one.caption(sheet), sheet.columns, sheet.texts(), " ".join(sheet.legend), _wordy(sheet))
                    for name, sheet in one.sheets.items()
                ],
                "figures": one.figures,
                "pages": [str(place.relative_to(done.folder)) for place in one.pages],
            }
            for one in studied.outputs
        ],
        warnings=[(sentence, some(names, at_most=3)) for sentence, names in studied.warnings.items()],
        forms=FORMS,
    )
