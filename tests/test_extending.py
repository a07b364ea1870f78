"""The package of the guide "Extend it": one of each kind, known by name to the functions and the commands."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from robustatlas import extending
from robustatlas.attacks.catalogue import ATTACKS, attack_named, catalogue
from robustatlas.attacks.definition import Attack
from robustatlas.common import registry
from robustatlas.common.errors import RobustnessWarning, UserError
from robustatlas.common.registry import Registry, subclass_test

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as an installer leaves it, and one that cannot be imported beside it."""
    folder = tmp_path_factory.mktemp("site")
    for name, code in re.findall(r"```python\n# (more_atlas/\w+\.py)\n(.*?)```", GUIDE, re.DOTALL):
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(code, encoding="utf-8")
    (table,) = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    points = re.sub(r'\[project\.entry-points\."(.*?)"\]', r"[\1]", table).replace('"', "")
    installed(folder, "more-atlas", points)
    (folder / "torn.py").write_text("import no_such_thing\n", encoding="utf-8")
    kinds = [*re.findall(r"\[(.*?)\]", points)]
    assert len(kinds) == 9 and len(list((folder / "more_atlas").iterdir())) == 9
    installed(folder, "torn", "".join(f"[{kind}]\ntorn = torn:Thing\n" for kind in kinds))
    return folder


def installed(folder: Path, name: str, points: str) -> None:
    about = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(points, encoding="utf-8")


def test_all_that_the_guides_need_is_in_one_module() -> None:
    def text(*names: str) -> str:
        return "".join((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in names)

    own_threat_model = text("threat_models").partition("## A threat model of your own")[2]
    taught = own_threat_model + text("extending", "contributing")
    assert set(re.findall(r"^from (robustatlas\S*) import", taught, re.MULTILINE)) == {"robustatlas.extending"}
    taught += text("searches", "training")
    assert all(getattr(extending, name) is not None for name in extending.__all__)
    assert [name for name in extending.__all__ if not re.search(rf"\b{name}\b", taught)] == []


USED = """
import json
import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named
from robustatlas.metrics.references import Reference

data = ra.load_dataset("digits").take(10)
model = ra.load_model("linear:10")
every = ra.evaluate(model, data, ["tint", "mifgsm-linf"], search="every", progress=False, run="runs/linear")
again = ra.evaluate(model, data, "tint", search="downwards", progress=False)
trained = ra.train(model.net, data, "half", {"tint": 0.2}, epochs=1)
Reference.from_models("perfect", "made up", {"one": every.accuracies()}).to_json("reference.json")
print(json.dumps({
    "same": bool((every.minimal_strength("tint") == again.minimal_strength("tint")).all()),
    "broken": bool((every.minimal_strength("mifgsm-linf") < 1).any()),
    "composed": attack_named("tint+linf").name,
    "trained_on": trained.card.trained_on,
}))
"""
COMMANDS = """
import contextlib
import io
import sys
from robustatlas.cli import main

for words in json.load(sys.stdin):
    said, code = io.StringIO(), None
    with contextlib.redirect_stdout(said):
        try:
            main(words)
        except SystemExit as end:
            code = end.code
    print(json.dumps([code, said.getvalue()]))
"""


def test_functions_and_commands_know_the_names(package: Path, tmp_path: Path) -> None:
    """In one process: a start of Python takes seconds."""
    reference = ["--reference", "reference.json"]
    commands = {
        "attacks": ["attacks"],
        "search": ["attacks", "tint"],
        "recipes": ["train", "--recipes"],
        "help": ["evaluate", "--help"],
        "show": ["show", "runs/linear", *reference, "--explain"],
        "check": ["check", "runs/linear", *reference, "--require", "shortfall<=100"],
        **{line: line.split() for line in re.findall(r"^robustatlas (.*)$", GUIDE, re.MULTILINE)},
    }
    surroundings = os.environ | {"PYTHONPATH": f"{package}{os.pathsep}{os.environ['PYTHONPATH']}", "COLUMNS": "160"}
    ran = subprocess.run(
        [sys.executable, "-c", USED + COMMANDS], input=json.dumps([*commands.values()]), cwd=tmp_path, env=surroundings,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not ran.returncode, ran.stderr
    used, *done = map(json.loads, ran.stdout.splitlines()[-1 - len(commands) :])
    assert used == {"same": True, "broken": True, "composed": "tint+linf", "trained_on": {"tint": 0.2}}
    assert "torn:Thing" in ran.stderr
    assert [code for code, _ in done] == [0] * len(commands), ran.stderr
    said = dict(zip(commands, (text for _, text in done), strict=True))
    assert "tint" in said["attacks"] and "downwards" in said["search"]
    assert "half" in said["recipes"]
    assert "linear:" in said["help"]
    assert "shortfall" in said["show"]
    assert "edge" in said["diagnose runs/linear"]
    assert "The attack with the smallest sizes" in (tmp_path / "linear.html").read_text(encoding="utf-8")
    assert len(said) == 6 + 6
    assert (tmp_path / "nets" / "half" / "card.json").is_file()


def test_what_cannot_be_had_is_one_sentence(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setattr(registry, "entry_points", entry_points)
    shapes = Registry("recipe", "robustatlas.recipes", {"set": set, "half": set}, "a class", subclass_test(set))
    shapes["mine"] = frozen = type("Mine", (set,), {})
    with pytest.warns(RobustnessWarning, match="more-atlas .*'half'"):
        assert list(shapes) == ["set", "half", "torn", "mine"]
    assert shapes["half"] is set and shapes["mine"] is frozen and "torn" in shapes and "none" not in shapes
    with pytest.raises(UserError, match=r"torn:Thing.*ModuleNotFound"):
        shapes["torn"]
    with pytest.warns(RobustnessWarning, match="It is left out"):
        assert list(shapes.load_usable()) == ["set", "half", "mine"]
    with pytest.raises(UserError, match=r"'hafl'.*'half'"):
        shapes["hafl"]
    with pytest.raises(UserError, match="'it' is a type"):
        shapes["it"] = dict  # type: ignore[assignment]
    others: Registry[type] = Registry("metric", "robustatlas.metrics", {}, "a class", subclass_test(set))
    with pytest.raises(UserError, match=r"'shortfall' .*Metric"):
        others["shortfall"]


def test_a_name_that_two_packages_have_is_nobody_s(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (package / "second").mkdir()
    installed(package / "second", "second", "[robustatlas.recipes]\nhalf = second:Half\n")
    monkeypatch.syspath_prepend(str(package / "second"))
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setattr(registry, "entry_points", entry_points)
    recipes: Registry[type] = Registry("recipe", "robustatlas.recipes", {}, "a class", subclass_test(object))
    with pytest.raises(UserError, match=r"'half' .*more-atlas and second"):
        recipes["half"]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda _: lambda: 3, "The attack 'odd' of another package cannot be made: TypeError"),
        (
            lambda _: lambda protocol: ["linf"],
            "cannot be made: UserError: A str is among them; expected objects of robustatlas",
        ),
        (
            lambda known: lambda: known["carben"],
            "There are two attacks 'carben'; the one that 'odd' brings is left out",
        ),
    ],
)
def test_attacks_that_cannot_be_had_leave_the_others(
    made: Callable[[Mapping[str, Attack]], Callable[..., Any]], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = catalogue()
    monkeypatch.setitem(ATTACKS, "odd", made(before))
    with pytest.warns(RobustnessWarning, match=said):
        assert catalogue() == before


def test_an_optimizer_alone_searches_the_sets_of_an_attack() -> None:
    attack, alone = attack_named("stadv"), attack_named("apgd-stadv")
    assert (alone.threat, alone.strengths) == (attack.threat, attack.strengths)
    assert {type(run.optimizer).__name__ for run in alone.runs} == {"APGD"}
    with pytest.raises(UserError, match="needs"):
        attack_named("hop-skip-jump-hue")
    with pytest.raises(UserError, match="did you mean 'fmn-l2'"):
        attack_named("fnm-l2")
