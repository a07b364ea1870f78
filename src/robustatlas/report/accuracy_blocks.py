"""The robust accuracies of a run as rows of a table: attacks at the same strengths together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from robustatlas.common.typed_strengths import STANDARD_STRENGTHS, STANDARD_TOLERANCE, format_strength
from robustatlas.common.wording import add_mark
from robustatlas.report.numbers.number import (
    CERTIFIED,
    MEAN_OF_STRENGTH,
    ROBUST,
    TYPICAL,
    WORST_OF_STRENGTH,
    Number,
    Numbers,
)
from robustatlas.report.numbers.units import unit_of
from robustatlas.results.result import Result


@dataclass
class AccuracyBlock:
    """Attacks at the same strengths of one unit.

    Attributes:
        headings: texts of the strengths.
        usual: position of the strength at which papers give accuracies; None where none is.
        rows: name of a row, its numbers, and their mean over the strengths.
    """

    headings: tuple[str, ...]
    usual: int | None = None
    rows: list[tuple[str, Sequence[Number], float]] = field(default_factory=list)

    def add_rows(self, numbers: Numbers, attack: str, kinds: Mapping[str, str]) -> None:
        """Add the numbers of an attack; `kinds`: name of the row -> kind of number."""
        for label, what in kinds.items():
            if found := numbers.select(what, attack):
                self.rows.append((label, found, numbers.mean(what, attack)))


def accuracy_blocks(result: Result, numbers: Numbers) -> Iterator[AccuracyBlock]:
    """Yield the attacks, those at the same strengths of one unit together, above their worst case and mean."""
    blocks: dict[tuple[str, ...], AccuracyBlock] = {}
    for attacks in numbers.blocks():
        grid = result.distances(attacks[0]).tolist()
        headings = tuple(format_strength(each, 3, attack=attacks[0]) for each in grid)
        key = (unit_of(attacks[0], result.outcome(attacks[0]).unit), *headings)
        block = blocks[key] = AccuracyBlock(headings, _standard_position(attacks[0], grid))
        for attack in attacks:
            name = add_mark(attack, attack in result.invalid)
            block.add_rows(numbers, attack, {name: ROBUST, "  typical": TYPICAL, "  certified": CERTIFIED})
        if len(attacks) > 1:
            block.add_rows(numbers, attacks[0], {"worst case": WORST_OF_STRENGTH, "mean": MEAN_OF_STRENGTH})
    for row, held in result.certified_sizes.items():
        if row not in result.attacks:
            headings = tuple(format_strength(each, 3, attack=held.attack) for each in held.strengths)
            block = blocks.setdefault((unit_of(held.attack), *headings), AccuracyBlock(headings))
            block.add_rows(numbers, row, {f"{row} certified": CERTIFIED})
    yield from blocks.values()


def _standard_position(attack: str, strengths: Sequence[float]) -> int | None:
    """Return the position of the strength at which papers give accuracies, or near it; None where none is."""
    if attack not in STANDARD_STRENGTHS:
        return None
    standard, _ = STANDARD_STRENGTHS[attack]
    nearest = min(range(len(strengths)), key=lambda position: abs(strengths[position] - standard))
    return nearest if abs(strengths[nearest] / standard - 1) < STANDARD_TOLERANCE else None
