"""What to cite for a run: what its records say that ran, and nothing else."""

import re
from pathlib import Path

import robustatlas as ra
from command_line import entered
from helpers_core import brief
from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.common.papers import known, named_in, papers
from robustatlas.metrics.references import Reference
from robustatlas.optimizers import OPTIMIZERS
from robustatlas.report.citing import DATA, HOPPING, cite
from robustatlas.results.result import Result


def cited(result: Result, reference: Reference | None = None) -> set[str]:
    return {paper.name for paper in cite(result, reference).papers}


def test_what_can_be_cited_has_authors_and_a_key_of_its_own() -> None:
    names = [kind.paper for kind in OPTIMIZERS.values() if kind.paper] + [HOPPING[1], *DATA.values()]
    for attack in catalogue().values():
        names += [match[0] for match in named_in(attack.about.source)]
    for name in names:
        paper = known(name)
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
