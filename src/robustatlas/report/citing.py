"""What to cite for a run: a text on methods for a paper, and the BibTeX of what ran."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from robustatlas.attacks.definition import Attack, Search
from robustatlas.attacks.kinds import kinds
from robustatlas.common.escaping import latex_text
from robustatlas.common.papers import Paper, known, named_in
from robustatlas.common.version import __version__
from robustatlas.common.wording import counted, listed, strength
from robustatlas.metrics.references import Reference
from robustatlas.optimizers import OPTIMIZERS, Optimizer
from robustatlas.outcomes.records import AttackRecord
from robustatlas.results.result import Result

HOPPING = ("basin-hopping restarts", "Wales and Doye 1997")

DATA = {
    "digits": "Alpaydin and Kaynak 1998",
    "mnist": "LeCun et al. 1998",
    "fashion-mnist": "Xiao et al. 2017",
    "cifar10": "Krizhevsky 2009",
    "cifar100": "Krizhevsky 2009",
    "imagenet": "Russakovsky et al. 2015",
}
"""Of data sets that are known by name, the paper."""

INTERVALS, CURVES = "Clopper and Pearson 1934", ("Göpfert et al. 2020", "Risse et al. 2021")
REFERENCES = {"CR": "Dai et al. 2023", "UAR": "Kang et al. 2019"}
VOLUME, BENCHMARK = "Guo et al. 2024", "Dai et al. 2023"
INDICATORS = ("Carlini et al. 2019", "Pintor et al. 2022")
_SOFTWARE = (
    "@software{robustatlas,\n  author = {{The robustatlas developers}},\n"
    f"  title = {{{{robustatlas: how robust is a classifier, globally?}}}},\n  version = {{{__version__}}},\n"
    "  license = {MIT}\n}"
)


def what_runs(attack: Attack, search: Search | None = None) -> list[tuple[str, str]]:
    """Name and paper of all that a search may run of an attack, in order.

    >>> from robustatlas.attacks.catalogue import attack_named
    >>> what_runs(attack_named("linf"), "bisection")
    [('APGD', 'Croce and Hein 2020'), ('FAB', 'Croce and Hein 2020b')]
    """
    found = [title_and_paper(kind) for kind in kinds(attack, search)]
    kicked = any(run.kick for run in attack.plan(attack.searched_by(search)).runs)
    return [*found, HOPPING] if kicked else found


def title_and_paper(kind: type[Optimizer[Any]]) -> tuple[str, str]:
    """Return the name of a kind of optimizer for readers, and the paper to cite for it (empty: none).

    >>> from robustatlas.optimizers.fmn import FMN
    >>> title_and_paper(FMN)
    ('FMN', 'Pintor et al. 2021')
    """
    return kind.title or kind.__name__, kind.paper


@dataclass(frozen=True)
class Citation:
    """What to write of a run, and what to cite. ``sentences``: on methods, one thought each; papers stand in them as
    ``\\cite{key}``. ``papers``: all that the sentences cite, each once, in their order."""

    sentences: tuple[str, ...]
    papers: tuple[Paper, ...]

    @property
    def text(self) -> str:
        """The sentences as one paragraph."""
        return " ".join(self.sentences)

    @property
    def bibtex(self) -> str:
        """An entry for each paper, and first one for robustatlas itself."""
        return "\n\n".join([_SOFTWARE, *(paper.bibtex for paper in self.papers)]) + "\n"


class _Papers:
    def __init__(self) -> None:
        self.found: dict[str, Paper] = {}

    def cite(self, *names: str) -> str:
        """`` \\cite{...}`` of those that are known; nothing for none."""
        cited = [paper for name in names if (paper := known(name))]
        self.found |= {paper.name: paper for paper in cited}
        return f" \\cite{{{','.join(dict.fromkeys(paper.key for paper in cited))}}}" if cited else ""


def cite(result: Result, reference: Reference | None = None) -> Citation:
    """What to write of a run, and what to cite for it: what its records say that was run, nothing else. Returns
    sentences on methods with ``\\cite`` commands, and the papers."""
    papers = _Papers()
    sentences = [
        f"{latex_text(result.name)} was evaluated on {counted(result.samples, 'image')} of {latex_text(result.data)}"
        f"{papers.cite(DATA.get(result.data, ''))} with robustatlas {__version__} \\cite{{robustatlas}}.",
        *(_of_attack(records, papers) for records in _alike(result.records)),
        f"Accuracies have exact 95\\,\\% intervals{papers.cite(INTERVALS)}.",
        *_numbers(result, reference, papers),
    ]
    return Citation(tuple(sentences), tuple(papers.found.values()))


def _alike(records: Mapping[str, AttackRecord]) -> Iterator[list[AttackRecord]]:
    """The records, those that were searched alike and have one source together."""
    groups: dict[tuple[str, ...], list[AttackRecord]] = {}
    for record in records.values():
        groups.setdefault((record.source, record.origin, *_kinds(record)), []).append(record)
    yield from groups.values()


def _kinds(record: AttackRecord) -> list[str]:
    return [run["optimizer"]["kind"] for run in _recorded_runs(record)]


def _recorded_runs(record: AttackRecord) -> list[dict[str, Any]]:
    """Return the runs of the plan as recorded."""
    plan = record.protocol.get("plan")
    found = plan.get("runs") if isinstance(plan, dict) else None
    return [run for run in found if isinstance(run, dict) and "optimizer" in run] if isinstance(found, list) else []


def _of_attack(records: list[AttackRecord], papers: _Papers) -> str:
    """Such as ``linf \\cite{dai2023} (20 strengths, 0.005 to 0.1) was searched ...``."""
    first = records[0]
    names = [f"{latex_text(one.name)} ({_span(one)})" for one in records]
    stem = f"{listed(names)}{papers.cite(*_sources(first.source))} {'were' if len(records) > 1 else 'was'}"
    if first.finder is not None:
        return f"{stem} judged by examples of {latex_text(first.finder)}, each checked again."
    known_kinds = {kind.__name__: title_and_paper(kind) for kind in OPTIMIZERS.usable().values()}
    searched_by = [known_kinds.get(kind, (kind, "")) for kind in dict.fromkeys(_kinds(first))]
    if any(run.get("kick") for run in _recorded_runs(first)):
        searched_by.append(HOPPING)
    by = [f"{latex_text(name)}{papers.cite(paper)}" for name, paper in searched_by]
    return f"{stem} searched by {latex_text(first.origin)}{f', with {listed(by)}' if by else ''}."


def _span(record: AttackRecord) -> str:
    first, last = (strength(record.strengths[end], of=record.name) for end in (0, -1))
    return f"{counted(len(record.strengths), 'strength')}, {first} to {last}"


def _sources(source: str) -> list[str]:
    """The papers of the set itself: those named before what is said of single strengths or settings."""
    named = [match[0] for match in named_in(source.split(":")[0])]
    return [*named, *([BENCHMARK] if "MultiRobustBench" in source.split(":")[0] else [])]


def _numbers(result: Result, reference: Reference | None, papers: _Papers) -> Iterator[str]:
    """Of what the numbers are by definition, where the run has them."""
    yield f"Robustness over all perturbation sizes is given as robustness curves{papers.cite(*CURVES)}."
    if reference is not None:
        ratio, uar = (papers.cite(paper) for paper in REFERENCES.values())
        yield (
            f"Competitiveness ratios{ratio} and unforeseen attack robustness{uar} are relative to the reference "
            f"{latex_text(reference.name)}{papers.cite(*(match[0] for match in named_in(reference.source)))}."
        )
    if any(outcome.frontier for outcome in result.outcomes.values()):
        yield f"The adversarial hypervolume{papers.cite(VOLUME)} is computed from margins searched at every strength."
    if result.diagnosis is not None:
        yield f"Whether the attacks failed for the wrong reasons was checked by indicators{papers.cite(*INDICATORS)}."
    certified = {record.method: record.source for held in result.certified_sizes.values() for record in held.records}
    for method, source in certified.items():
        yield f"Certified accuracies are by {latex_text(method)}{papers.cite(*(m[0] for m in named_in(source)))}."
