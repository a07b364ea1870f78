"""What trackers and hubs are told of a run: its accuracies with their intervals, its settings, and figures."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from robustatlas.common.version import __version__
from robustatlas.common.wording import MASKED, beside_masked, strength, typed
from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.masked import masked
from robustatlas.report.exports.evidence import write_json
from robustatlas.report.facts import RunFacts
from robustatlas.report.words import judged_of
from robustatlas.results.result import Result

PREFIX = "masked_upper_bound_only/"
"""Before the names of numbers that are masked, so that no tracker ranks them among those of the plain name."""


@dataclass(frozen=True)
class Number:
    """One number; ``step``: its place in a row of strengths."""

    name: str
    value: Interval
    step: int = 0
    strength: float | None = None

    @property
    def words(self) -> str:
        """Its name for people."""
        plain = self.name.removeprefix(PREFIX).replace("_", " ").replace("/", ", ")
        return beside_masked(plain, self.name.startswith(PREFIX))


def numbers_of(facts: RunFacts) -> Iterator[Number]:
    """Clean, average and union accuracy, UA2, and accuracies of each attack at each strength, in percent: what attacks
    left, and what is certified of the model itself."""
    yield Number("clean_accuracy", facts.clean)
    if facts.average is not None:
        yield Number(_named("average_accuracy", facts, judged_of(facts)), facts.average)
    if facts.union is not None:
        yield Number(_named("union_accuracy", facts, facts.union_at), facts.union)
    for name, value in facts.own.items():
        yield Number(_named(name.lower().replace(" ", "_"), facts), value)
    for attack in facts.attacks:
        name = _named(f"robust_accuracy/{attack.attack}", facts, [attack.attack])
        for step, entry in enumerate(attack.accuracy or ()):
            yield Number(name, entry, step, typed(attack.attack, float(attack.strengths[step])))
    for certified in (each for each in facts.certified if not each.held.of):
        for step, entry in enumerate(certified.accuracy):
            yield Number(
                f"certified_accuracy/{certified.row}",
                entry,
                step,
                typed(certified.held.attack, certified.strengths[step]),
            )


def _named(name: str, facts: RunFacts, attacks: Iterable[str] | None = None) -> str:
    return f"{PREFIX}{name}" if masked(facts, attacks) else name


def settings_of(result: Result) -> dict[str, Any]:
    """How the numbers were made, as flat names and texts."""
    identity = result.identity
    made = {
        f"attack.{record.name}": f"{record.origin}; {len(record.strengths)} strengths from "
        f"{strength(record.strengths[0], of=record.name)} to {strength(record.strengths[-1], of=record.name)}"
        for record in result.records.values()
    }
    about = {"model": result.name, "samples": result.samples, "robustatlas": __version__}
    if identity is not None:
        about |= {"data": identity.data.name, "weights_sha256": identity.model.weights_sha256 or ""}
    return about | made


@contextmanager
def files_of(result: Result) -> Iterator[list[Path]]:
    """The curve of each attack as a figure, and the evidence of a run, as files that are gone afterwards."""
    from matplotlib import pyplot as plt

    from robustatlas.metrics.figures import COLUMN, plot_curves, plot_two_sided

    with TemporaryDirectory() as folder:
        made = []
        for attack in result.attacks:
            if result.outcome(attack).judged:
                drawn, ax = plt.subplots(figsize=(COLUMN, 0.75 * COLUMN), layout="constrained")
                if attack in result.certified_sizes:
                    plot_two_sided(result.two_sided(attack), ax)
                else:
                    plot_curves(result.curve(attack), ax)
                if masked(result, [attack]):
                    ax.set_title(MASKED)
                made.append(Path(folder) / f"curve-{attack}.png")
                drawn.savefig(made[-1], dpi=200)
                plt.close(drawn)
        made.append(Path(folder) / "evidence.json")
        write_json(result, made[-1])
        yield made
