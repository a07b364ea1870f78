"""Scores that are said to be probabilities are, and answers have a column for each class, in every answer."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import robustatlas as ra
from command_line import entered
from helpers_core import digits_images, digits_network

X, Y = digits_images(8)
NET = digits_network()
WRONG = {
    "logits": (lambda logits: logits, "go from -.*answers='logits'"),
    "percent": (lambda logits: 100 * logits.softmax(1), "sum to 100; it looks like percent: divide by 100"),
    "sigmoids": (lambda logits: logits.sigmoid(), "sum to .*outputs='logits'"),
    "a little negative": (lambda logits: logits.softmax(1) - 0.001 * torch.eye(10)[0] - 1e-4, "go from -"),
    "sums": (lambda logits: 1.02 * logits.softmax(1), "sum to 1.02"),
}


class Turning:
    """Answers probabilities at first, and something else from the n-th question on."""

    def __init__(self, other: Any, begin: int) -> None:
        self.other, self.left = other, begin

    def __call__(self, x: Any) -> Any:
        with torch.no_grad():
            logits = NET(torch.as_tensor(x))
        self.left -= 1
        return logits.softmax(1) if self.left >= 0 else self.other(logits)


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("begin", [0, 1, 30])
@pytest.mark.parametrize("door", ["function", "network", "evaluation"])
def test_scores_that_are_no_probabilities_are_refused_in_every_answer(kind: str, begin: int, door: str) -> None:
    other, said = WRONG[kind]
    turning = Turning(other, begin)
    numbers = ra.from_predictions(lambda x: turning(x).numpy())
    model = ra.Classifier(turning, outputs="probabilities") if door == "network" else numbers
    with pytest.raises(ra.UserError, match=said):
        if door == "evaluation":
            ra.evaluate(model, (X, Y), "square-linf", diagnose=False, progress=False)
        for _ in range(begin + 1):
            model.logits(X)


@pytest.mark.parametrize("rounding", [0.0, 1e-7, 0.009])
def test_probabilities_that_are_rounded_are_taken(rounding: float) -> None:
    def rounded(x: Any) -> Any:
        with torch.no_grad():
            return (NET(torch.as_tensor(x)).softmax(1) * (1 + rounding)).numpy()

    found = ra.from_predictions(rounded).logits(X)
    torch.testing.assert_close(found.softmax(1), NET(X).softmax(1).detach(), atol=1e-5, rtol=1e-5)
    coarse = np.tile(np.float32([0.34, 0.34, 0.33]), (8, 1))  # two decimals, off by 1 in a hundred
    assert ra.from_predictions(lambda x: coarse).logits(X).shape == (8, 3)


@pytest.mark.parametrize(("value", "said"), [(-0.5, "outputs='logit'"), (87.0, "percent"), (3000.0, "outputs='logit'")])
def test_one_probability_a_sample(value: float, said: str) -> None:
    model = ra.Classifier(lambda x: torch.full((len(x),), value), outputs="probability")
    with pytest.raises(ra.UserError, match=f"lies in .*{said}"):
        model.logits(X)


def test_gradients_go_through_as_before() -> None:
    model = ra.Classifier(nn.Sequential(NET, nn.Softmax(1)), outputs="probabilities")
    x = X.clone().requires_grad_()
    (slope,) = torch.autograd.grad(model.logits(x)[:, 3].sum(), x)
    leaf = X.clone().requires_grad_()
    (truth,) = torch.autograd.grad(NET(leaf).log_softmax(1)[:, 3].sum(), leaf)
    torch.testing.assert_close(slope, truth, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("answers", ["probabilities", "logits"])
@pytest.mark.parametrize("classes", [9, 11, [str(k) for k in range(12)]])
def test_a_model_that_says_how_many_classes_it_has_answers_as_many_columns(answers: Any, classes: Any) -> None:
    def scores(x: Any) -> Any:
        with torch.no_grad():
            return NET(torch.as_tensor(x)).softmax(1).numpy()

    with pytest.raises(ra.UserError, match="10 columns"):
        ra.from_predictions(scores, answers, classes=classes).logits(X)
    with pytest.raises(ra.UserError, match="answers with 10 columns; expected"):
        ra.Classifier(NET, classes=classes).logits(X)


def test_every_answer_has_as_many_columns_as_the_first() -> None:
    widths = iter([10, 10, 9])
    model = ra.Classifier(lambda x: NET(x)[:, : next(widths)])
    model.logits(X), model.logits(X)
    with pytest.raises(ra.UserError, match="answers with 9 columns; expected 10"):
        model.logits(X)
    widths = iter([10, 9])
    with pytest.raises(ra.UserError, match="answers with 9 columns; expected 10"):
        ra.Classifier(lambda x: NET(x)[:, : next(widths)], batch_size=4).logits(X)
    assert ra.Classifier(NET, classes=9, rejection="class").logits(X).shape == (8, 10)
    for wrong in (1, ["cat"], "cats", 2.5, True):
        with pytest.raises(ra.UserError, match="names"):
            ra.Classifier(NET, classes=wrong)  # type: ignore[arg-type]


def test_a_file_of_onnx_with_softmax_inside_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx = pytest.importorskip("onnx")
    monkeypatch.chdir(tmp_path)
    weight = np.random.default_rng(0).standard_normal((64, 10)).astype(np.float32)
    shapes = [
        onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", ["n", 1, 8, 8]), ("y", ["n", 10]))
    ]
    nodes = [
        onnx.helper.make_node("Flatten", ["x"], ["flat"]),
        onnx.helper.make_node("MatMul", ["flat", "w"], ["z"]),
        onnx.helper.make_node("Softmax", ["z"], ["y"]),
    ]
    graph = onnx.helper.make_graph(nodes, "g", shapes[:1], shapes[1:], [onnx.numpy_helper.from_array(weight, "w")])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)]), "net.onnx")
    model = ra.load_model("onnx:net.onnx", arguments={"outputs": "probabilities"})
    truth = (X.flatten(1) @ torch.from_numpy(weight)).log_softmax(1)
    torch.testing.assert_close(model.logits(X), truth, atol=1e-3, rtol=1e-4)
    assert model.class_count == 10
    command = "evaluate onnx:net.onnx --data digits --samples 10 --attacks linf --effort low"
    told = entered(*command.split(), "--set", "outputs=probabilities", "--run", "told").line
    assert "look like probabilities" not in told
    assert "--set outputs=probabilities" in entered(*command.split(), "--run", "plain").line
    with pytest.raises(ra.UserError, match="outputs='percent' is not known"):
        ra.load_model("onnx:net.onnx", arguments={"outputs": "percent"})
