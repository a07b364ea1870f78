"""What to cite for a run: what its records say that ran, and nothing else."""

import re
from pathlib import Path

import robustatlas as ra
from command_line import entered
from helpers_core import brief
from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.common.papers import find_citations, find_paper, papers
from robustatlas.metrics.references import Reference
from robustatlas.optimizers import OPTIMIZERS
from robustatlas.report.citing import DATA, HOPPING, Citation, _sources, cite
from robustatlas.results.result import Result


def cited(result: Result, reference: Reference | None = None) -> set[str]:
    return cited_in(cite(result, reference))


def cited_in(citation: Citation) -> set[str]:
    return {paper.name for paper in citation.papers}


def test_what_can_be_cited_has_authors_and_a_key_of_its_own() -> None:
    names = [kind.paper for kind in OPTIMIZERS.values() if kind.paper] + [HOPPING[1], *DATA.values()]
    for attack in catalogue().values():
        names += [match[0] for match in find_citations(attack.about.source)]
    for name in names:
        paper = find_paper(name)
        assert paper is not None and paper.authors, f"common/papers.toml has {name}, with authors"
        family = paper.authors.split(" and ")[0].split()[-1]
        assert family == name.split()[0] or name.startswith(family), name
    assert len({paper.key for paper in papers().values()}) == len(papers())


def test_only_what_ran_is_cited(evaluated_run: Path, tmp_path: Path) -> None:
    found = cited(ra.load_result(evaluated_run))
    assert {"Pintor et al. 2021", "Alpaydin and Kaynak 1998", "Clopper and Pearson 1934"} <= found
    assert not found & {"Croce and Hein 2020", "Kang et al. 2019", "Guo et al. 2024"}
    model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
    published = brief(attack_named("linf", "paper"))
    paper = ra.evaluate(model, data, published, protocol="paper", samples=4, run=tmp_path / "run", progress=False)
    assert {"Croce and Hein 2020", "Croce and Hein 2020b"} <= cited(paper)
    assert "Pintor et al. 2021" not in cited(paper)


def test_an_attack_is_cited_by_its_own_paper() -> None:
    """Those who searched the set first; whose strengths or protocol an evaluation takes is another matter."""
    own = {
        "linf": ["Goodfellow et al. 2015"],
        "l2": ["Szegedy et al. 2014"],
        "l1": ["Chen et al. 2018"],
        "elastic": ["Kang et al. 2019"],
        "stadv": ["Xiao et al. 2018"],
        "recolor": ["Laidlaw and Feizi 2019"],
        "rotation": ["Engstrom et al. 2019"],
        "translation": ["Engstrom et al. 2019"],
        "affine": ["Dai et al. 2023"],
        "occlusion": ["Zhong et al. 2020"],
        "zoom": [],
    }
    assert {name: _sources(catalogue()[name].about.source) for name in own} == own


def test_several_runs_are_told_together_with_their_test(tmp_path: Path) -> None:
    data, grids = ra.load_dataset("digits"), {"linf": [0.1], "l2": [0.5]}

    def run_of(name: str, attacks: list[str], at: dict[str, list[float]] = grids) -> Result:
        return ra.evaluate(
            ra.load_model(f"builtin:{name}"), data, attacks, strengths={a: at[a] for a in attacks}, samples=6,
            effort="low", diagnose=False, progress=False, run=tmp_path / f"{name} {at}",
        )  # fmt: skip

    first, second = run_of("digits-linf", ["linf", "l2"]), run_of("digits-standard", ["linf"])
    third = run_of("digits-l2", ["linf"])
    both = cite([first, second])
    assert "builtin:digits-linf and builtin:digits-standard were evaluated on 6 images" in both.text
    assert "l2 \\cite{szegedy2014} (1 strength, 0.5) of builtin:digits-linf" in both.text
    assert both.text.count("linf \\cite{goodfellow2015}") == 1
    tests = {"McNemar 1947"}
    assert tests <= cited_in(both) and "Bonferroni" not in both.text
    assert "Bonferroni" in cite([first, second, third]).text and not tests & cited(first)
    other = run_of("digits-linf", ["linf"], {"linf": [0.2]})
    assert not tests & cited_in(cite([second, other])), "they share no strength"
    assert "mcnemar1947" in entered("cite", str(first.path), str(second.path)).out


def test_every_command_has_its_entry(evaluated_run: Path) -> None:
    result = ra.load_result(evaluated_run)
    own = Reference("own_1", "made for a test, after Kang et al. 2019", result.accuracies(), ("linf",))
    citation = cite(result, own)
    keys = {key for keys in re.findall(r"\\cite\{([^}]*)\}", citation.text) for key in keys.split(",")}
    assert keys == set(re.findall(r"^@\w+\{(\w+),$", citation.bibtex, re.MULTILINE))
    assert citation.bibtex.count("{") == citation.bibtex.count("}")
    assert "own\\_1" in citation.text and {"dai2023", "kang2019"} <= keys


def test_the_command_prints_or_writes_the_entries(evaluated_run: Path, tmp_path: Path) -> None:
    printed = entered("cite", evaluated_run).out
    assert "\\cite{pintor2021}" in printed and "\n@misc{pintor2021,\n  author = {Maura Pintor and" in printed
    assert "@misc" not in entered("cite", evaluated_run, "-o", tmp_path / "methods.bib").out
    written = (tmp_path / "methods.bib").read_text(encoding="utf-8")
    assert written in printed and written.startswith("@software{robustatlas,")
