"""Citations for runs: a text on methods for a paper, and the BibTeX of what ran."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from robustatlas.attacks.definition import Attack, Search, kinds
from robustatlas.common.escaping import latex_text
from robustatlas.common.papers import Paper, find_citations, find_paper
from robustatlas.common.typed_strengths import format_strength
from robustatlas.common.version import __version__
from robustatlas.common.wording import join_words, pluralise
from robustatlas.metrics.references import Reference
from robustatlas.optimizers import OPTIMIZERS, Optimizer
from robustatlas.outcomes.records import AttackRecord
from robustatlas.report.numbers.shared import shared_if_any
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
"""Paper of each data set that is known by name."""

INTERVALS, CURVES = "Clopper and Pearson 1934", ("Göpfert et al. 2020", "Risse et al. 2021")
REFERENCES = {"CR": "Dai et al. 2023", "UAR": "Kang et al. 2019"}
VOLUME, BENCHMARK = "Guo et al. 2024", "Dai et al. 2023"
PAIRED = "McNemar 1947"
INDICATORS = ("Carlini et al. 2019", "Pintor et al. 2022")
_SOFTWARE = (
    "@software{robustatlas,\n  author = {{The robustatlas developers}},\n"
    f"  title = {{{{robustatlas: how robust is a classifier, globally?}}}},\n  version = {{{__version__}}},\n"
    "  license = {MIT}\n}"
)


def methods_and_papers(attack: Attack, search: Search | None = None) -> list[tuple[str, str]]:
    """Return the name and the paper of each method that a search of an attack may run, in order.

    >>> from robustatlas.attacks.catalogue import attack_named
    >>> methods_and_papers(attack_named("linf"), "bisection")
    [('APGD', 'Croce and Hein 2020'), ('FAB', 'Croce and Hein 2020b')]
    """
    found = [title_and_paper(kind) for kind in kinds(attack, search)]
    kicked = any(run.kick for run in attack.plan(attack.choose_search(search)).runs)
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
    """Text on the methods of some runs, with the papers to cite.

    Attributes:
        sentences: on methods, one thought each; papers stand in them as ``\\cite{key}``.
        papers: all that the sentences cite, each once, in their order.
    """

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
        cited = [paper for name in names if (paper := find_paper(name))]
        self.found |= {paper.name: paper for paper in cited}
        return f" \\cite{{{','.join(dict.fromkeys(paper.key for paper in cited))}}}" if cited else ""


def cite(runs: Result | Sequence[Result], reference: Reference | None = None) -> Citation:
    """Return what to write of one or several runs, and what to cite for them.

    Only what the records of the runs say that was run is told: sentences on methods with ``\\cite`` commands, and the
    papers. Of several runs that can be compared, the tests between them as well.
    """
    results = [runs] if isinstance(runs, Result) else list(runs)
    papers = _Papers()
    sentences = [
        *_evaluated(results, papers),
        *(_searched(used, len(results), papers) for used in _group_attacks(results)),
        f"Accuracies have exact 95\\,\\% intervals{papers.cite(INTERVALS)}.",
        *_numbers(results, reference, papers),
        *_comparison_sentences(results, papers),
    ]
    return Citation(tuple(sentences), tuple(papers.found.values()))


def _evaluated(results: Sequence[Result], papers: _Papers) -> Iterator[str]:
    """Yield a sentence for each set of images, with the models that were evaluated on it."""
    models: dict[tuple[str, int], list[str]] = {}
    for result in results:
        models.setdefault((result.data, result.samples), []).append(latex_text(result.name))
    for number, ((data, samples), names) in enumerate(models.items()):
        version = f" with robustatlas {__version__} \\cite{{robustatlas}}" if number == 0 else ""
        yield (
            f"{join_words(list(dict.fromkeys(names)))} {'were' if len(names) > 1 else 'was'} evaluated on "
            f"{pluralise(samples, 'image')} of {latex_text(data)}{papers.cite(DATA.get(data, ''))}{version}."
        )


@dataclass
class _Used:
    """An attack as it was run, and the models under which it was."""

    record: AttackRecord
    models: list[str]


def _group_attacks(results: Sequence[Result]) -> Iterator[list[_Used]]:
    """Yield the attacks of all runs, those that were searched alike together."""
    groups: dict[tuple[str, ...], dict[tuple[Any, ...], _Used]] = {}
    for result in results:
        for record in result.records.values():
            group = groups.setdefault((record.origin, *_kinds(record)), {})
            used = group.setdefault((record.name, record.strengths, record.source), _Used(record, []))
            used.models.append(result.name)
    for group in groups.values():
        yield list(group.values())


def _kinds(record: AttackRecord) -> list[str]:
    return [run["optimizer"]["kind"] for run in _recorded_runs(record)]


def _recorded_runs(record: AttackRecord) -> list[dict[str, Any]]:
    """Return the runs of the plan as recorded."""
    plan = record.protocol.get("plan")
    found = plan.get("runs") if isinstance(plan, dict) else None
    return [run for run in found if isinstance(run, dict) and "optimizer" in run] if isinstance(found, list) else []


def _searched(used: Sequence[_Used], runs: int, papers: _Papers) -> str:
    """Return a sentence such as ``linf \\cite{goodfellow2015} (20 strengths, 0.005 to 0.1) was searched ...``."""
    first = used[0].record
    names = []
    for one in used:
        of = "" if len(one.models) == runs else f" of {latex_text(join_words(one.models))}"
        names.append(
            f"{latex_text(one.record.name)}{papers.cite(*_sources(one.record.source))} ({_span(one.record)}){of}"
        )
    stem = f"{join_words(names)} {'were' if len(names) > 1 else 'was'}"
    if first.examples_source is not None:
        return f"{stem} judged by examples of {latex_text(first.examples_source)}, each checked again."
    known_kinds = {kind.__name__: title_and_paper(kind) for kind in OPTIMIZERS.load_usable().values()}
    searched_by = [known_kinds.get(kind, (kind, "")) for kind in dict.fromkeys(_kinds(first))]
    if any(run.get("kick") for run in _recorded_runs(first)):
        searched_by.append(HOPPING)
    by = [f"{latex_text(name)}{papers.cite(paper)}" for name, paper in searched_by]
    protocol = papers.cite(BENCHMARK) if first.protocol.get("search") == "bisection" else ""
    return f"{stem} searched by {latex_text(first.origin)}{protocol}{f', with {join_words(by)}' if by else ''}."


def _span(record: AttackRecord) -> str:
    first, last = (format_strength(record.strengths[end], attack=record.name) for end in (0, -1))
    return f"{pluralise(len(record.strengths), 'strength')}, {first if first == last else f'{first} to {last}'}"


def _sources(source: str) -> list[str]:
    """Return the papers of an attack: those that its source names first, before what is said of strengths and runs."""
    first, _, more = source.partition(": ")
    own = [match[0] for match in find_citations(first.split(", as run by")[0])]
    return own or [match[0] for match in find_citations(more)]


def _numbers(results: Sequence[Result], reference: Reference | None, papers: _Papers) -> Iterator[str]:
    """Yield what the numbers are by definition, where the runs have them."""
    yield f"Robustness over all perturbation sizes is given as robustness curves{papers.cite(*CURVES)}."
    if reference is not None:
        ratio, uar = (papers.cite(paper) for paper in REFERENCES.values())
        yield (
            f"Competitiveness ratios{ratio} and unforeseen attack robustness{uar} are relative to the reference "
            f"{latex_text(reference.name)}{papers.cite(*(match[0] for match in find_citations(reference.source)))}."
        )
    if any(outcome.frontier for result in results for outcome in result.outcomes.values()):
        yield f"The adversarial hypervolume{papers.cite(VOLUME)} is computed from margins searched at every strength."
    if any(result.diagnosis is not None for result in results):
        yield f"Whether the attacks failed for the wrong reasons was checked by indicators{papers.cite(*INDICATORS)}."
    held = [sizes for result in results for sizes in result.certified_sizes.values()]
    for method, source in {record.method: record.source for sizes in held for record in sizes.records}.items():
        yield f"Certified accuracies are by {latex_text(method)}{papers.cite(*(m[0] for m in find_citations(source)))}."


def _comparison_sentences(results: Sequence[Result], papers: _Papers) -> Iterator[str]:
    """Yield what ``robustatlas compare`` does with several runs, where they share images and strengths."""
    if shared_if_any(results, [str(number) for number in range(len(results))]) is None:
        return
    several = ", and both are corrected for all pairs of models (Bonferroni)" if len(results) > 2 else ""
    yield (
        "Models were compared on the images, attacks and strengths that all of them have: intervals of differences are "
        f"paired by image, shares are tested by McNemar's exact test{papers.cite(PAIRED)}{several}."
    )
