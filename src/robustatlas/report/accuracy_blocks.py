"""The robust accuracies of a run as rows of a table: attacks at the same strengths together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from robustatlas.common.typed_strengths import STANDARD_STRENGTHS, STANDARD_TOLERANCE, format_strength
from robustatlas.common.wording import add_mark
from robustatlas.report.facts.units import unit_of
from robustatlas.report.numbers.number import (
    CERTIFIED,
    MEAN_OF_STRENGTH,
    ROBUST,
    TYPICAL,
    WORST_OF_STRENGTH,
    Number,
    Numbers,
)
from robustatlas.report.numbers.of_run import numbers_of_strengths
from robustatlas.results.result import Result


@dataclass
class AccuracyBlock:
    """Attacks at the same strengths of one unit.

    Attributes:
        headings: texts of the strengths.
        usual: position of the strength at which papers give accuracies; None where none is.
        attacks: names of the attacks.
        rows: name of a row, its numbers, and their mean over the strengths.
    """

    headings: tuple[str, ...]
    usual: int | None = None
    attacks: list[str] = field(default_factory=list)
    rows: list[tuple[str, Sequence[Number], float]] = field(default_factory=list)


def accuracy_blocks(result: Result, numbers: Numbers) -> Iterator[AccuracyBlock]:
    """Yield the attacks, those at the same strengths of one unit together, above their worst case and mean."""
    blocks: dict[tuple[str, ...], AccuracyBlock] = {}
    for attack in result.attacks:
        if numbers.select(ROBUST, attack):
            grid = result.distances(attack).tolist()
            headings = tuple(format_strength(each, 3, attack=attack) for each in grid)
            key = (unit_of(attack, result.outcome(attack).unit), *headings)
            block = blocks.setdefault(key, AccuracyBlock(headings, _standard_position(attack, grid)))
            block.attacks.append(attack)
            block.rows += _rows(result, numbers, attack)
    for row, held in result.certified_sizes.items():
        if row not in result.attacks:
            headings = tuple(format_strength(each, 3, attack=held.attack) for each in held.strengths)
            block = blocks.setdefault((unit_of(held.attack), *headings), AccuracyBlock(headings))
            block.rows.append(_row(f"{row} certified", numbers.select(CERTIFIED, row)))
    for block in blocks.values():
        if len(block.attacks) > 1:
            over = numbers_of_strengths(result, block.attacks)
            block.rows.append(_row("worst case", over.select(WORST_OF_STRENGTH)))
            block.rows.append(_row("mean", over.select(MEAN_OF_STRENGTH)))
        yield block


def _rows(result: Result, numbers: Numbers, attack: str) -> Iterator[tuple[str, Sequence[Number], float]]:
    """Yield the accuracies of an attack, and below them what is typical and what is certified."""
    yield _row(add_mark(attack, attack in result.invalid), numbers.select(ROBUST, attack))
    for label, what in (("  typical", TYPICAL), ("  certified", CERTIFIED)):
        if found := numbers.select(what, attack):
            yield _row(label, found)


def _row(label: str, found: Sequence[Number]) -> tuple[str, Sequence[Number], float]:
    return label, found, sum(number.value for number in found) / len(found)


def _standard_position(attack: str, strengths: Sequence[float]) -> int | None:
    """Return the position of the strength at which papers give accuracies, or near it; None where none is."""
    if attack not in STANDARD_STRENGTHS:
        return None
    standard, _ = STANDARD_STRENGTHS[attack]
    nearest = min(range(len(strengths)), key=lambda position: abs(strengths[position] - standard))
    return nearest if abs(strengths[nearest] / standard - 1) < STANDARD_TOLERANCE else None
