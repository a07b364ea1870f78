"""``~`` in a path is the home of the user, wherever a path is given."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.main import get_command

import robustatlas as ra
from command_line import entered, list_commands
from helpers_core import digits_images, digits_network
from robustatlas.cli import app
from robustatlas.common.files import named
from robustatlas.data import load_dataset
from robustatlas.metrics.references import load_reference
from robustatlas.outcomes import merge, query
from robustatlas.report.facts.rows import read_card
from robustatlas.report.page import build_report

PATHS = [
    (name, command, parameter)
    for name, command in list_commands(get_command(app))
    for parameter in command.params
    if "Path" in str(parameter.type_descriptor.annotation)
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (home := tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)
    return home


@pytest.mark.parametrize(("name", "command", "parameter"), PATHS, ids=lambda value: str(getattr(value, "name", value)))
def test_of_every_path_of_every_command(name: tuple[str, ...], command: Any, parameter: Any, home: Path) -> None:
    before = [
        "text"
        for each in command.params
        if each.param_type_name == "argument" and each.nargs == 1 and each != parameter
    ]
    option = parameter.opts[-1]
    words = ["~/a"] if parameter.param_type_name == "argument" else [option, "~/a"]
    words = [*before, *words] if command.params.index(parameter) or words[0] == option else [*words, *before]
    found = command.make_context("command", words, resilient_parsing=True).params[parameter.name]
    assert found == ([home / "a"] if isinstance(found, list) else home / "a")
    if option.startswith("--"):
        found = command.make_context("command", [*before, f"{option}=~/a"], resilient_parsing=True).params
        assert found[parameter.name] in (home / "a", [home / "a"])


def test_of_runs_models_data_and_what_is_written(home: Path) -> None:
    images, labels = digits_images(4)
    np.savez(home / "four.npz", images=images.numpy(), labels=labels.numpy())
    for row, label in enumerate(labels.tolist()):
        (home / "pictures" / f"{label}").mkdir(parents=True, exist_ok=True)
        pixels = (255 * images[row, 0].numpy()).astype(np.uint8)
        Image.fromarray(pixels).save(home / "pictures" / f"{label}" / f"{row}.png")
    torch.save(digits_network().state_dict(), home / "net.pt")
    (home / "net.py").write_text("from helpers_core import digits_network as make\n")
    assert len(load_dataset("~/four.npz").labels) == len(load_dataset(Path("~/four.npz")).labels) == 4
    assert len(load_dataset("imagefolder:~/pictures").labels) == 4
    model = ra.load_model("~/net.py:make", "~/net.pt")
    assert model.origin is not None and model.origin.home == str(home / "net.pt")
    settings: dict[str, Any] = {"strengths": {"linf": [0.1]}, "progress": False}
    result = ra.evaluate(model, (images, labels), "linf", run="~/run", **settings)
    assert ra.load_result("~/run").samples == query("SELECT samples FROM runs", "~/run").rows[0][0] == 4
    assert merge(["~/run"], "~/merged").path == home / "merged"
    assert build_report([result], "~/report.html") == home / "report.html"
    load_reference("multirobustbench-cifar10").to_json("~/reference.json")
    assert load_reference("~/reference.json").ranked
    (home / "card.json").write_text('{"title": "mine"}')
    assert read_card("~/card.json")["title"] == "mine"
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    ra.callbacks.watch((images, labels), "linf", share=None, samples=2, folder="~/looks")(net, 1)
    assert len(ra.callbacks.looks_in("~/looks")) == 1
    typed = ["show", "~/run"], ["card", "~/run", "-o", "~/card.svg"], ["export", "~/run", "--output=~/evidence.json"]
    for words in typed:
        entered(*words)
    assert (home / "card.svg").is_file() and (home / "evidence.json").is_file()
    assert list(home.parent.iterdir()) == [home]  # and nothing that is called ~


def test_of_a_network_that_was_trained(home: Path) -> None:
    from robustatlas.training import network_named

    data = load_dataset("digits", "train").take(64)
    ra.train(network_named("digits-cnn", (1, 8, 8), 10), data, epochs=1, out="~/net", architecture="digits-cnn")
    assert ra.load_model("trained:~/net").logits(data.images[:2]).shape == (2, 10)
    assert {"card.json", "log.jsonl"} <= {path.name for path in (home / "net").iterdir()}


def test_what_only_looks_like_a_home_is_left_as_it_is(home: Path) -> None:
    for given in ("./~", "a/~/b", "~nobody-has-this-name/a", "~$draft.npz"):
        assert named(given) == Path(given)
    assert named("~") == home
    (Path("~") / "a").mkdir(parents=True)
    assert named("./~/a").is_dir()
