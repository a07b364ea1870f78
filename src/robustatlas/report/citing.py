"""What to cite for a run: a text on methods for a paper, and the BibTeX of what ran."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from robustatlas.attacks.definition import Attack, Search
from robustatlas.attacks.kinds import kinds
from robustatlas.common.escaping import latex_text
from robustatlas.common.papers import Paper, known, named_in
from robustatlas.common.version import __version__
from robustatlas.common.wording import counted, listed, strength
from robustatlas.metrics.references import Reference
from robustatlas.outcomes.records import AttackRecord
from robustatlas.results.result import Result

OPTIMIZERS = {
    "Adam": ("Adam", "Kingma and Ba 2015"),
    "APGD": ("APGD", "Croce and Hein 2020"),
    "APGDL1": ("APGD for l1", "Croce and Hein 2021"),
    "BrendelBethge": ("Brendel-Bethge", "Brendel et al. 2019"),
    "CarliniWagner": ("Carlini-Wagner", "Carlini and Wagner 2017"),
    "EAD": ("EAD", "Chen et al. 2018"),
    "FAB": ("FAB", "Croce and Hein 2020b"),
    "FMN": ("FMN", "Pintor et al. 2021"),
    "FrankWolfe": ("Frank-Wolfe", "Kang et al. 2019"),
    "VertexAscent": ("vertex ascent", ""),
    "HopSkipJump": ("HopSkipJump", "Chen et al. 2020"),
    "LPA": ("LPA", "Laidlaw et al. 2021"),
    "Once": ("one draw", ""),
    "PerceptualDescent": ("descent along the decision boundary", ""),
    "PGD": ("PGD", "Madry et al. 2018"),
    "PPGD": ("PPGD", "Laidlaw et al. 2021"),
    "Scan": ("scan of the one parameter", ""),
    "SigmaZero": ("sigma-zero", "Cinà et al. 2025"),
    "Sweep": ("exhaustive sweep over a grid", ""),
    "Square": ("Square", "Andriushchenko et al. 2020"),
}
"""Of each kind of optimizer the name for readers, and the paper it is from (empty: nothing to cite)."""

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
    kicked = any(run.kick for run in attack.plan(attack.searched_by(search)).runs)
    return _named([kind.__name__ for kind in kinds(attack, search)], kicked)


def _named(optimizers: Iterable[str], kicked: bool) -> list[tuple[str, str]]:
    found = [OPTIMIZERS.get(kind, (kind, "")) for kind in dict.fromkeys(optimizers)]
    return [*found, HOPPING] if kicked else found


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
    kicked = any(run.get("kick") for run in _recorded_runs(first))
    by = [f"{latex_text(name)}{papers.cite(paper)}" for name, paper in _named(_kinds(first), kicked)]
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
