"""What the guides show is true: every command line is one that the program takes, and what is cheap is run."""

import re
import shlex
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from typer.main import get_command

import robustatlas as ra
from command_line import entered
from robustatlas.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "research").glob("*.md"))]
COMMANDS = [
    (page.name, line.strip().removeprefix("$ "))
    for page in PAGES
    for line in page.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    if re.match(r"(    |\$ )?robustatlas [a-z-]", line)
]


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)


def parsed(line: str) -> list[str]:
    """The command's name and arguments; an error where the program does not take them."""
    words = shlex.split(line, comments=True)[1:]
    command: Any = get_command(app)
    context, rest = None, words
    while hasattr(command, "resolve_command"):  # a group; whose class it is depends on the version of typer
        context = command.make_context("robustatlas", list(rest), parent=context, resilient_parsing=True)
        _, command, rest = command.resolve_command(context, list(rest))
        assert command is not None, f"no such command: {line}"
    try:
        command.make_context("robustatlas", list(rest), parent=context)
    except Exception as stop:
        if getattr(stop, "exit_code", 1):  # options such as --help answer, and end well
            raise
    return words


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 20
    for line in ("robustatlas evaluate --nothing", "robustatlas nothing", "robustatlas leaderboard build --nothing"):
        with pytest.raises(Exception) as said:
            parsed(line)
        assert "nothing" in f"{said.value} {vars(said.value)}"


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_the_program_takes_the_command(page: str, line: str) -> None:
    parsed(line)


def test_the_reference_lists_all_that_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen without a build: by its module, or by its name under the module that it is public in."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_tools"))
    told = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    whole, names, module = set[str](), set[str](), ""
    for kind, name in re.findall(r"\.\. (currentmodule|auto\w+|py:data):: ([\w.]+)", told):
        module = name if kind == "currentmodule" else module
        (whole if kind == "automodule" else names).update({name, f"{module}.{name}"})
    public = import_module("check_site").public()
    missing = {name for name in public if name not in names and name.rpartition(".")[0] not in whole}
    assert missing == set(), "pages in docs/api name each, or its module"


def test_the_version_stands_in_one_place() -> None:
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    newest = re.search(r"^## (\d\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited and newest and cited[1] == newest[1] == ra.__version__


def test_the_guide_on_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line for page, line in COMMANDS if page == "runs.md"]
    begin = len([line for line in lines if " evaluate " in line])
    assert begin == 3 < len(lines)
    for line in lines[:begin]:
        entered(*parsed(line))
    other = ra.evaluate(ra.load_model("builtin:digits-linf"), ra.load_dataset("digits"), "l2", samples=4,
                        strengths={"l2": [0.5]}, run="runs/other")  # fmt: skip
    assert other.samples == 4
    for block in blocks("runs.md"):
        exec(compile(block, "runs.md", "exec"), {})
    for line in lines[begin:]:
        assert entered(*parsed(line)).out
    grown = ra.load_result("runs/both", ["linf"])
    assert grown.samples == 20
    np.testing.assert_allclose(grown.strengths("linf"), [8 / 255, 32 / 255, 0.2])


NEEDS = {
    '"timm:': ["timm"],
    '"torchvision:': ["torchvision"],
    '"hf:': ["transformers"],
    '"robustbench:': ["robustbench.model_zoo.models"],
    '"onnx:': ["onnx", "onnxscript"],
    "import jax": ["jax"],
    "import tensorflow": ["tensorflow"],
}
"""What a block of the guide on models has in it, and the packages that it needs then."""


def importable(package: str) -> bool:
    try:
        import_module(package)
    except Exception:  # not installed, or built for another torch
        return False
    return True


def test_the_guide_on_data_and_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    weight = np.random.default_rng(0).normal(size=(64, 10)).astype(np.float32)
    names = {
        "images": np.zeros((4, 8, 8), np.uint8),
        "labels": np.array([0, 1, 1, 0]),
        "data": ra.load_dataset("digits"),
        "net": ra.load_model("builtin:digits-linf").net,
        "ra": ra,
        "torch": torch,
        "quantise": torch.round,
        "threshold": lambda x: (x > 0.5).float(),
        "first": weight,
        "second": weight[:10],
        "forward": lambda x: x.flatten(1).numpy() @ weight,
        "vjp": lambda x, weights: (weights.numpy() @ weight.T).reshape(x.shape),
        "classifier": SimpleNamespace(predict_proba=lambda x: np.full((len(x), 10), 0.1)),
        "ask": lambda x: np.zeros(len(x), np.int64),
        "photographs": (torch.rand(1, 3, 64, 64), torch.tensor([0])),
    }
    ran, shortened = [], 0
    for block in blocks("data_and_models.md") + blocks("defenses.md"):
        if re.search(rf"mymodel|{_OTHERS}", block):
            continue
        needed = [word for word in NEEDS if word in block]
        if all(importable(package) for word in needed for package in NEEDS[word]):
            if '"hf:' in needed:
                transformers = import_module("transformers")
                small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
                names |= {"transformers": transformers, "config": transformers.ViTConfig(image_size=32, **small)}
            fewer = block.replace("samples=20", "samples=3")
            shortened += fewer != block
            exec(compile(fewer, "data_and_models.md", "exec"), names)
            ran += needed or [""]
    assert ran.count("") >= 5 and shortened == 1
    assert set(ran) - {""} == {word for word in NEEDS if all(map(importable, NEEDS[word]))}
    assert len(names["fair"]) == 100  # type: ignore[arg-type]
    assert names["squeezed"](torch.zeros(1, 1, 8, 8)).shape == (1, 10)  # type: ignore[operator]


_OTHERS = r"draws=|rejection=|ra\.external|ra\.verify"


def test_the_guide_on_defenses_and_on_what_others_found() -> None:
    data = ra.load_dataset("digits").take(3)
    net = ra.load_model("builtin:digits-linf").net
    names = {
        "ra": ra,
        "data": data,
        "net": net,
        "abstaining": lambda x: torch.cat([net(x), torch.full((len(x), 1), 2.0)], 1),
        "detecting": lambda x: (net(x), -net(x).amax(1), -2.0),
        "images": data.images,
        "labels": data.labels,
        "adversarial": 1 - data.images.numpy(),
    }
    found = [block for block in blocks("defenses.md") if re.search(_OTHERS, block)]
    assert len(found) == 4
    for block in found:
        if "foolbox" in block and not find_spec("foolbox"):
            continue
        if "foolbox" in block or "ra.verify" in block:
            names["model"] = ra.Classifier(net)
        exec(compile(block, "defenses.md", "exec"), names)
    assert names["result"].attacks == ("linf",) and len(names["found"].verified) == 3  # type: ignore[attr-defined]
