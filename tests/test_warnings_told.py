"""What is to be doubted is said wherever numbers stand: in scripts, results, tables, ratios, pages and JSON."""

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from command_line import entered
from robustatlas.common.errors import RobustnessWarning
from robustatlas.evaluation.progress import Progress
from robustatlas.metrics.references.reference import Reference
from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.report.facts import facts_of
from robustatlas.report.facts.rows import run_row
from robustatlas.report.facts.run_json import run_as_json
from robustatlas.report.leaderboard import build_leaderboard
from robustatlas.report.page import build_report

STRENGTHS = {"linf": [0.05, 0.1, 0.2]}


def everywhere(x: Tensor) -> Tensor:
    return torch.ones(len(x), dtype=torch.bool)


def at_some(x: Tensor) -> Tensor:
    return x.flatten(1).mean(1) > 0.3


@pytest.fixture(scope="module")
def data() -> Any:
    return ra.load_dataset("digits").take(12)


@pytest.fixture(scope="module")
def whole() -> Any:
    """Some of each class."""
    return ra.load_dataset("digits").take(16, stratified=True)


@pytest.fixture(scope="module")
def net() -> Any:
    return ra.load_model("builtin:digits-linf").net


def masked(net: Any, cut: Callable[[Tensor], Tensor]) -> ra.Classifier:
    """The network behind the identity, whose gradient is zero at all samples, or at those that are bright."""
    return ra.Classifier(net, prepare=lambda x: torch.where(cut(x)[:, None, None, None], x.detach(), x), name="masked")


@pytest.fixture(scope="module")
def invalid(net: Any, data: Any, tmp_path_factory: pytest.TempPathFactory) -> ra.Result:
    folder = tmp_path_factory.mktemp("invalid") / "run"
    attacks, strengths = ["linf", "brightness"], {**STRENGTHS, "brightness": [0.1, 0.2]}
    with pytest.warns(RobustnessWarning, match="† linf"):
        return ra.evaluate(masked(net, everywhere), data, attacks, strengths=strengths, run=folder, effort="low")


def test_warnings_are_python_warnings_and_name_the_line_of_the_user(net: Any, data: Any) -> None:
    with pytest.warns(RobustnessWarning, match="at every sample") as told:
        ra.evaluate(masked(net, everywhere), data, "linf", strengths=STRENGTHS, samples=2, effort="low")
    assert {warning.filename for warning in told} == {__file__}


def test_a_script_without_a_terminal_is_warned_each_time(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import robustatlas as ra\n"
        "net = ra.load_model('builtin:digits-linf').net\n"
        "model = ra.Classifier(net, prepare=lambda x: (x * 4).round() / 4)\n"
        "for _ in range(2):\n"
        "    print(ra.evaluate(model, ra.load_dataset('digits'), 'linf', strengths={'linf': [0.1]}, samples=2))\n"
    )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert run.stderr.count("RobustnessWarning: The model computes round") == 2
    first, second = run.stdout.split("builtin:digits-linf on 2 samples")[1:] if "builtin" in run.stdout else (
        run.stdout.split(" on 2 samples of digits")[1:]
    )  # fmt: skip
    for said in (first, second):
        assert said.splitlines()[1].startswith("Diagnosis: ")
        assert "Warning: † linf" in said
        assert "Warning: The model computes round" in said and "linf †: median size" in said


def test_an_object_of_the_users_is_told_as_well(net: Any, data: Any) -> None:
    class Listening(Progress):
        said: list[str] = []  # noqa: RUF012

        def warn(self, message: str) -> None:
            self.said.append(message)

    with pytest.warns(RobustnessWarning):
        ra.evaluate(masked(net, everywhere), data, "linf", strengths=STRENGTHS, samples=2, progress=Listening())
    assert any("† linf" in message for message in Listening.said)


def test_sound_models_are_not_warned_of(net: Any, whole: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = ra.evaluate(net, whole, "linf", strengths=STRENGTHS, effort="low")
        ra.metrics.average_accuracy(result.accuracies())
    assert "†" not in f"{result}{result.accuracies()}" and not result.invalid and not result.warnings


def test_saturated_probabilities_are_no_fault(net: Any, whole: Any) -> None:
    """Logits times a thousand: the cross-entropy has no gradient, its margin does, and the search finds the same."""
    few = {"strengths": STRENGTHS, "effort": "low"}
    plain = ra.evaluate(net, whole, "linf", **few)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled = ra.evaluate(lambda x: 1000 * net(x), whole, "linf", **few)  # type: ignore[arg-type]
    assert not scaled.invalid
    assert np.abs(scaled.minimal_size("linf") - plain.minimal_size("linf")).max() < 0.02


def test_every_number_that_rests_on_it_is_marked(invalid: ra.Result) -> None:
    assert invalid.invalid == {"linf": 1.0}
    assert invalid.warnings[0].startswith("† linf") and f"{invalid}".splitlines()[2].startswith("Warning: † linf")
    assert "linf †" in f"{invalid.accuracies()}" and "brightness †" not in f"{invalid.accuracies()}"
    facts = facts_of(invalid)
    assert facts.name == "masked †" and run_as_json(facts)["invalid"] == {"linf": 1.0}
    assert run_as_json(facts)["model"] == "masked"


def test_ratios_and_averages_warn(invalid: ra.Result) -> None:
    accuracies = invalid.accuracies()
    reference = AccuracyTable(100.0, {attack: dict.fromkeys(row, 90.0) for attack, row in accuracies.entries.items()})
    for number in (
        lambda: ra.metrics.competitiveness_ratio(accuracies, reference),
        lambda: ra.metrics.unforeseen_attack_robustness(accuracies, reference, "linf"),
        lambda: ra.metrics.mean_uar(accuracies, reference),
        lambda: ra.metrics.stability_constant(accuracies, reference, {"linf": 0.1}),
        lambda: ra.metrics.average_accuracy(accuracies),
    ):
        with pytest.warns(RobustnessWarning, match="average"):
            number()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ra.metrics.average_accuracy(accuracies, ["brightness"])
        ra.metrics.unforeseen_attack_robustness(accuracies, reference, "brightness")


def test_tables_pages_and_boards_are_marked(invalid: ra.Result, tmp_path: Path) -> None:
    entries = {attack: dict.fromkeys(row, 90.0) for attack, row in invalid.accuracies().entries.items()}
    reference = Reference("mine", "made up", AccuracyTable(100.0, entries), ("linf", "brightness"))
    reference.to_json(tmp_path / "mine.json")
    shown = entered("show", invalid.path, "--reference", tmp_path / "mine.json", "--explain").out
    for name in ("masked †", "linf †", "CR ind-avg †"):
        assert name in shown, name
    assert "Warning: † linf" in shown
    assert json.loads(entered("show", invalid.path, "--json").out)["invalid"] == {"linf": 1.0}
    page = build_report([invalid], tmp_path / "report.html", reference).read_text()
    assert "masked †" in page
    row = run_row(invalid, reference)
    assert (row.name, row.label) == ("masked", "masked †") and "linf" in " ".join(row.notes)
    build_leaderboard([invalid], tmp_path / "site", reference)
    assert "masked †" in (tmp_path / "site" / "index.html").read_text() or any(
        "masked \\u2020" in file.read_text() or "masked †" in file.read_text()
        for file in (tmp_path / "site").rglob("*.*")
        if file.suffix in (".html", ".js", ".json")
    )


def test_some_samples_without_a_gradient(net: Any, data: Any) -> None:
    share = float(at_some(data.images).float().mean())
    assert 0 < share < 1
    with pytest.warns(RobustnessWarning, match="misleads at .* %"):
        result = ra.evaluate(masked(net, at_some), data, "linf", strengths=STRENGTHS, effort="low")
    assert result.outcome("linf").without_gradient == pytest.approx(share) and result.invalid["linf"] > 0


def test_a_repair_takes_the_mark_away(net: Any, whole: Any, tmp_path: Path) -> None:
    few: Any = {"attacks": "linf", "strengths": STRENGTHS, "effort": "low", "run": tmp_path / "r"}
    with pytest.warns(RobustnessWarning):
        assert ra.evaluate(masked(net, everywhere), whole, **few).invalid
    repaired = ra.evaluate(net, whole, **few)
    assert not repaired.invalid and not repaired.warnings and "†" not in f"{ra.load_result(tmp_path / 'r')}"


@pytest.mark.parametrize("given", ["data set", "tensors", "arrays", "prepare"])
def test_a_model_that_writes_into_its_input_harms_nothing(net: Any, given: str) -> None:
    data = ra.load_dataset("digits").take(6)
    images = data.images.clone()

    def dims(x: Tensor) -> Tensor:
        return x.detach().mul_(0.9)

    def writing(x: Tensor) -> Tensor:
        dims(x)
        return net(x)

    tensors, arrays = (data.images.clone(), data.labels), (data.images.numpy().copy(), data.labels.numpy())
    samples: Any = {"tensors": tensors, "arrays": arrays}.get(given, data)
    model = ra.Classifier(net, prepare=lambda x: (dims(x), x)[1]) if given == "prepare" else writing
    few: Any = {"strengths": STRENGTHS, "effort": "low"}
    with pytest.warns(RobustnessWarning, match="The model writes into its input"):
        result = ra.evaluate(model, samples, "linf", **few)
    assert torch.equal(data.images, images)
    assert torch.equal(tensors[0], images) and (arrays[0] == images.numpy()).all()
    same = ra.Classifier(net, prepare=ra.straight_through(lambda x: 0.9 * x))  # the same values, the same gradient
    truth = ra.evaluate(same, ra.load_dataset("digits").take(6), "linf", **few)
    assert np.allclose(result.minimal_size("linf"), truth.minimal_size("linf"), rtol=1e-5)
    again = ra.evaluate(net, samples, "linf", **few)
    untouched = ra.load_dataset("digits").take(6)
    fresh = untouched if given in ("data set", "prepare") else (untouched.images, untouched.labels)  # smoothed alike
    clean = ra.evaluate(net, fresh, "linf", **few)
    assert (again.minimal_size("linf") == clean.minimal_size("linf")).all()


def test_a_first_layer_in_place_simply_works(net: Any, whole: Any) -> None:
    images = whole.images.clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few: Any = {"strengths": STRENGTHS, "effort": "low"}
        inplace = ra.evaluate(nn.Sequential(nn.ELU(inplace=True), net), whole, "linf", **few)
        apart = ra.evaluate(nn.Sequential(nn.ELU(), net), whole, "linf", **few)
    assert torch.equal(whole.images, images)
    assert (inplace.minimal_size("linf") == apart.minimal_size("linf")).all()
