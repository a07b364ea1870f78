"""Facts of README and documentation come from one source: the catalogue, stored measurements, the package itself."""

import re
import sys
import tomllib
from pathlib import Path
from typing import get_args

import pytest
import torch
from typer.main import get_command

import robustatlas as ra
from command_line import entered
from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.attacks.definition import Attack, Search
from robustatlas.attacks.kinds import kinds
from robustatlas.attacks.search import SEARCHES
from robustatlas.attacks.suites import SUITES
from robustatlas.cli import app
from robustatlas.common.attack_labels import OTHER
from robustatlas.common.papers import find_citations, find_paper, papers
from robustatlas.optimizers import OPTIMIZERS
from robustatlas.report.citing import HOPPING, Citation
from robustatlas.training import RECIPES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_tools"))

import examples  # noqa: E402
import facts  # noqa: E402
import facts_attacks  # noqa: E402

PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("research/*.md"))
}
README = PAGES["README.md"]
GUIDES = {name: text for name, text in PAGES.items() if not name.startswith("docs/research/")}


def attacks_searched() -> list[tuple[Attack, Search]]:
    return [
        (attack, search)
        for protocol in ("default", "paper")
        for attack in catalogue(protocol).values()  # type: ignore[arg-type]
        for search in attack.searches
        if not attack.name.startswith("corruption-") or attack.name == "corruption-fog"
    ]


def test_what_runs_is_what_the_schedule_runs() -> None:
    """The runs that pages and `robustatlas attacks` name are those of the search's own plan, for every attack."""
    for attack, search in attacks_searched():
        schedule = SEARCHES[search](
            attack.plan(search), torch.tensor(attack.strengths), 10, torch.ones(1, dtype=torch.bool)
        )
        assert {attempt.run for attempt in schedule.attempts} == set(attack.plan(search).runs), (attack.name, search)
        assert {type(attempt.run.optimizer) for attempt in schedule.attempts} == set(kinds(attack, search))


def test_the_command_says_what_runs() -> None:
    for name in ("linf", "l1", "lpips", "corruption-fog"):
        shown = entered("attacks", name, "--plans", columns=200).line
        default = attack_named(name).searches[0]
        assert f"{default} (default) {', then '.join(kind.__name__ for kind in kinds(attack_named(name)))}" in shown


def test_every_kind_of_optimizer_has_a_name_and_a_paper() -> None:
    assert {kind for each in attacks_searched() for kind in kinds(*each)} <= set(OPTIMIZERS.values())
    assert all(kind.title for kind in OPTIMIZERS.values())
    assert {HOPPING[1], *(kind.paper for kind in OPTIMIZERS.values())} <= {"", *papers()}


def test_every_paper_that_is_named_has_an_address() -> None:
    named = {match[0] for text in PAGES.values() for match in find_citations(text) if "et al" in match[0]}
    sources = {
        match[0]
        for attack in catalogue().values()
        for match in find_citations(attack.about.source)
        if "et al" in match[0]
    }
    assert len(named) > 20
    assert [name for name in named | sources if find_paper(name) is None] == [], "each is in common/papers.toml"


def test_every_paper_that_the_code_cites_has_an_address() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    cited = {" ".join(match[0].split()) for text in texts for match in find_citations(text)}
    assert len(cited) > 50
    assert [name for name in cited if find_paper(name) is None] == [], "each is in common/papers.toml"


@pytest.mark.parametrize("page", [*facts.pages()], ids=lambda page: page.stem)
def test_a_page_says_what_was_measured_and_what_runs(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("<!-- generated: ") == text.count("<!-- end -->")
    assert facts.with_facts(text) == text, "run: python docs/_tools/facts.py"
    assert not re.search(r"^<!--.*-->.", text, re.MULTILINE), "a mark that begins a line ends the paragraph"


def test_every_fact_stands_on_a_page() -> None:
    told = "".join(page.read_text(encoding="utf-8") for page in facts.pages())
    assert {name for name in facts.FACTS if f"<!-- generated: {name} -->" not in told} == set()
    for name, fact in facts.FACTS.items():
        assert fact(), name


def test_what_commands_and_python_print_stands_below_them() -> None:
    """As it was printed when the page was written; `make docs` runs all of it."""
    runs = {name: list(examples.BLOCK.finditer(text)) for name, text in PAGES.items() if name.startswith("docs/")}
    marked = re.findall(r"^<!-- (?:runs|prints)\b.*$", "".join(PAGES.values()), re.MULTILINE)
    assert len(marked) == sum(block["python"] is None for blocks in runs.values() for block in blocks) > 10
    for name, blocks in runs.items():
        for block in blocks:
            if block["shell"] is not None:
                commands = examples.block_commands(block["shell"])
                printed = examples.COMMAND.sub("", block["shell"]).strip()
                assert commands and bool(printed) is (block["how"] != "silent"), (name, commands)
            assert block["text"] is None or block["text"].strip(), name


def test_every_attack_has_a_picture_and_words() -> None:
    shown = {name for names in facts_attacks.groups().values() for name in names}
    seen = {facts_attacks.set_name(attack) for attack in catalogue().values()}
    assert seen == shown, "say what one sees in SEEN of docs/_tools/facts_attacks.py"
    assert OTHER not in facts_attacks.groups(), "give an attack its group in common/attack_labels.py"
    pictures = {group: facts_attacks.picture_path(group) for group in facts_attacks.groups()}
    lacking = [group for group, file in pictures.items() if not file.is_file() or file.stat().st_size < 5_000]
    assert lacking == [], "run: python docs/_tools/scene.py"


def test_the_readme_prints_what_its_example_prints(capsys: pytest.CaptureFixture[str]) -> None:
    (code,), (printed,) = (re.findall(rf"```{kind}\n(.*?)```", README, re.DOTALL) for kind in ("python", "text"))
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == printed


def test_no_other_number_stands_in_the_readme() -> None:
    """Numbers outside of code and generated parts are few, and each is held against its source here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    torch_at_least = next(need for need in project["dependencies"] if need.startswith("torch>="))
    sources = {
        project["requires-python"].removeprefix(">="): "Python",
        torch_at_least.removeprefix("torch>="): "torch",
        str(len(ra.load_reference("multirobustbench-cifar10").defenses)): "published defenses",
        str(len([name for name in catalogue() if name.startswith("corruption-")])): "corruptions",
        "95": "confidence of all intervals",
        "32x32": "size that the catalogue's strengths are meant for",
    }
    text = re.sub(r"```.*?```|<!-- generated.*?<!-- end -->|`[^`]*`|\]\([^)]*\)", " ", README, flags=re.DOTALL)
    text = re.sub(r"\[0, 1\]|\bl[012]\b", " ", text)
    found = set(re.findall(r"(?<![\w.])\d[\dx.,]*(?<![.,])", text))
    assert found <= set(sources), found - set(sources)


def test_effort_is_said_once() -> None:
    """How many times the passes an effort takes is measured; nobody else gives numbers for it."""
    numbers = re.compile(
        r"\b\w+ to \w+\s+times\s+as\s+many|[Aa]bout half of the (forward and backward )?passes|five to seven"
    )
    sources = {str(path): path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")}
    written = {
        name: re.sub(r"<!-- generated.*?<!-- end -->", "", text, flags=re.DOTALL) for name, text in GUIDES.items()
    }
    assert [name for name, text in (written | sources).items() if numbers.search(text)] == []
    assert "<!-- generated: effort-high -->" in PAGES["docs/searches.md"]


def test_counts_are_those_of_the_package() -> None:
    counts = {
        "published defenses": len(ra.load_reference("multirobustbench-cifar10").defenses),
        "defenses": len(ra.load_reference("multirobustbench-cifar10").defenses),
        "common corruptions": len([name for name in catalogue() if name.startswith("corruption-")]),
        "recipes by name": len(RECIPES),
    }
    pages = {name: text for name, text in PAGES.items() if not name.endswith("paper_claims.md")}
    pages["CHANGELOG.md"] = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = [
        (name, int(count), what)
        for name, text in pages.items()
        for count, what in re.findall(rf"(\d+)\s+(?:MultiRobustBench's )?({'|'.join(counts)})", text)
    ]
    assert {what for _, _, what in found} == set(counts)
    assert [(name, count, what) for name, count, what in found if count != counts[what]] == []


def test_what_to_cite_is_the_same_everywhere() -> None:
    cff = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    title, version = (re.search(rf'^{key}: "?(.+?)"?$', cff, re.MULTILINE) for key in ("title", "version"))
    assert title and version
    (readme,) = re.findall(r"```bibtex\n(.*?)```", README, re.DOTALL)
    for bibtex in (readme, Citation((), ()).bibtex):
        entry = dict(re.findall(r"(\w+)\s*= \{+([^{}]+)\}", bibtex))
        assert (entry["title"], entry["version"], entry["license"]) == (title[1], version[1], "MIT"), bibtex
        assert entry["author"] in cff.replace("name: The", "The")


def test_the_page_on_runs_names_the_tested_versions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = [c.rsplit(" ", 1)[1] for c in project["classifiers"] if re.search(r"Python :: 3\.\d", c)]
    pinned = re.search(r"^torch==(\d+\.\d+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert pinned
    assert f"Python {pythons[0]} to {pythons[-1]}, torch {pinned[1]} " in PAGES["docs/runs.md"]


def test_package_readme_citation_licence_and_changelog_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = [c.rsplit(" ", 1)[1] for c in project["classifiers"] if re.search(r"Python :: 3\.\d", c)]
    torch_floor = next(
        re.fullmatch(r"torch>=(.+)", need)[1] for need in project["dependencies"] if need[:7] == "torch>="
    )
    cff, changelog = ((ROOT / name).read_text(encoding="utf-8") for name in ("CITATION.cff", "CHANGELOG.md"))

    assert project["requires-python"] == f">={pythons[0]}"
    assert f"python-{pythons[0]}%2B" in README and f"Python {pythons[0]} or newer" in README
    assert f"pytorch-{torch_floor}%2B" in README
    assert f"Python {pythons[0]} to {pythons[-1]}, torch {torch_floor} or newer" in changelog
    assert {word.lower() for word in project["keywords"]} == {
        word.lower() for word in re.findall(r"^  - ([^:\n]+)$", cff, re.MULTILINE)
    }
    assert f"license: {project['license']}\n" in cff and f"[{project['license']} licence](LICENSE)" in README
    author = re.search(r"^  - name: (.+)$", cff, re.MULTILINE)
    assert author and author[1] in README and author[1] in (ROOT / "LICENSE").read_text(encoding="utf-8")
    commands = set(get_command(app).commands)  # type: ignore[attr-defined]
    named = set(re.findall(r"`([a-z]+)`", changelog[changelog.index("## 0.1.0") :]))
    assert len(named) > 15 and named <= commands, named - commands


def test_suites_and_efforts_of_the_pages_exist() -> None:
    shown = set(re.findall(r"`([a-z0-9-]+)`", README[README.index("Suites:") : README.index("`--protocol paper`")]))
    assert shown == set(SUITES)
    for search in get_args(Search):
        assert f"`{search}`" in PAGES["docs/searches.md"]


TERMS = (
    *(
        "CR",
        "SC",
        "UAR",
        "UA2",
        "AH",
        "ATA",
        "acc*",
        "sound",
        "nested",
        "suite",
        "run",
        "plan",
        "effort",
        "descent",
        "bound",
    ),
    *(
        "evidence",
        "fingerprint",
        "passes",
        "basin-hopping restart",
        "early stopping",
        "stubborn",
        "frontier",
        "recipe",
    ),
    *("crafting", "merge", "part", "shard", "board", "optimality", "best known", "margin", "draws", "threat model"),
)


def test_the_glossary_has_the_terms() -> None:
    entries = re.findall(r"\*\*([^*]*(?:\\\*[^*]*)*)\*\*: ", PAGES["docs/glossary.md"])
    words = {word.strip() for entry in entries for word in re.sub(r"[()]", ",", entry.replace("\\*", "*")).split(",")}
    missing = [term for term in TERMS if term not in words]
    assert missing == []


def test_guides_know_no_earlier_version() -> None:
    for name, text in GUIDES.items():
        assert not re.search(r"\bbefore, now\b|\bof before\b|\(before\b|, before\)|\bused to be\b|\bformer `", text), (
            name
        )
