"""Models that are functions of other frameworks, and gradients in place of missing ones."""

import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from helpers_core import digits_images, digits_network
from robustatlas.attacks.catalogue import attack_named
from robustatlas.checks.sanity import check_attacks, check_model
from robustatlas.checks.sanity.inputs import check_inputs
from robustatlas.common.errors import UserError
from robustatlas.models.frameworks.jax import CompiledJax

NET = digits_network()
WEIGHTS = [(layer.weight.numpy(), layer.bias.numpy()) for layer in NET if isinstance(layer, nn.Linear)]  # type: ignore[attr-defined]


def in_jax(x: Any) -> Any:
    """:data:`NET`, written in JAX."""
    jax = pytest.importorskip("jax")
    (first, b1), (second, b2) = WEIGHTS
    hidden = x.reshape(len(x), -1) @ first.T + b1
    return (jax.nn.softplus(5 * hidden) / 5) @ second.T + b2


def in_tensorflow(x: Any) -> Any:
    """:data:`NET`, written in TensorFlow."""
    tf = pytest.importorskip("tensorflow")
    (first, b1), (second, b2) = WEIGHTS
    hidden = tf.reshape(x, (len(x), -1)) @ first.T + b1
    return (tf.nn.softplus(5 * hidden) / 5) @ second.T + b2


def in_numpy(x: np.ndarray) -> np.ndarray:
    (first, b1), (second, b2) = WEIGHTS
    return (np.logaddexp(0, 5 * (x.reshape(len(x), -1) @ first.T + b1)) / 5) @ second.T + b2


def gradient_of(model: ra.Classifier, x: Tensor, labels: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(nn.functional.cross_entropy(model.logits(x), labels), x)[0]


def agree(other: ra.Classifier, samples: int = 100) -> None:
    """Logits within 1e-5, gradients within 1e-4, minimal sizes for 95 % of samples those of torch's network, robust
    accuracy within one sample in a hundred."""
    torch_model, (images, labels) = ra.Classifier(NET), digits_images(samples)
    theirs, ours = torch_model.logits(images), other.logits(images)
    assert (theirs - ours).abs().max() < 1e-5 * theirs.abs().max()
    expected = gradient_of(torch_model, images, labels)
    assert (gradient_of(other, images, labels) - expected).norm() < 1e-4 * expected.norm()
    strengths = {"linf": [0.05, 0.1, 0.15]}
    results = [ra.evaluate(m, (images, labels), "linf", strengths=strengths) for m in (torch_model, other)]
    assert np.isclose(*(result.minimal_size("linf") for result in results), rtol=1e-3).mean() >= 0.95
    accuracies = [result.accuracies().values("linf") for result in results]
    assert np.abs(accuracies[0] - accuracies[1]).max() <= 1 and 0 < accuracies[0][1] < 100


BRIDGES = {"jax": (ra.from_jax, in_jax), "tensorflow": (ra.from_tensorflow, in_tensorflow)}


@pytest.mark.parametrize("framework", BRIDGES)
def test_the_network_of_another_framework_is_torchs(framework: str) -> None:
    pytest.importorskip(framework)
    bridge, function = BRIDGES[framework]
    agree(bridge(function))


@pytest.mark.parametrize("framework", BRIDGES)
def test_other_frameworks_compile_once_for_each_size(framework: str) -> None:
    pytest.importorskip(framework)
    bridge, function = BRIDGES[framework]
    traced: list[int] = []

    def counted(x: Any) -> Any:
        traced.append(len(x))
        return function(x)

    model = bridge(counted, sizes=(8, 32))
    images, labels = digits_images(100)
    for count in (8, 32):
        gradient_of(model, images[:count], labels[:count])
        with torch.no_grad():
            model.logits(images[:count])
    warm = len(traced)
    assert sorted(set(traced)) == [8, 32]
    for count in (1, 2, 5, 8, 9, 31, 40, 100):
        gradient_of(model, images[:count], labels[:count])
    ra.evaluate(model, (images[:40], labels[:40]), "linf", strengths={"linf": [0.05, 0.1]}, batch_size=20)
    assert len(traced) == warm


@pytest.mark.parametrize("framework", BRIDGES)
def test_other_frameworks_take_inputs_wherever_they_lie(framework: str) -> None:
    """Views that begin anywhere in memory, and inputs that change later."""
    pytest.importorskip(framework)
    bridge, function = BRIDGES[framework]
    model, memory = bridge(function, sizes=(8,)), torch.rand(8 * 64 + 3)
    for begin in range(3):
        x = memory[begin : begin + 8 * 64].view(8, 1, 8, 8)
        torch.testing.assert_close(model.logits(x), NET(x), rtol=1e-4, atol=1e-5)
    labels = torch.zeros(8, dtype=torch.long)
    x = digits_images(8)[0].clone()
    expected, leaf = gradient_of(ra.Classifier(NET), x, labels), x.clone().requires_grad_()
    loss = nn.functional.cross_entropy(model.logits(leaf), labels)
    first, again = (torch.autograd.grad(loss, leaf, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, again)
    torch.testing.assert_close(first, expected, rtol=1e-3, atol=1e-6)


def test_jax_hands_on_no_parameters() -> None:
    jax = pytest.importorskip("jax")
    compiled = CompiledJax(jax, in_jax)
    _, fresh = compiled._forward(jax.numpy.zeros((8, 1, 8, 8)))
    assert fresh and {values.shape[:1] for values in fresh} <= {(), (8,)}  # of the batch, or scalars


def test_tensorflow_in_float64_and_without_a_gradient_is_said() -> None:
    tf = pytest.importorskip("tensorflow")
    x = torch.rand(4, 64, dtype=torch.float64)
    weight = np.ones((64, 10))
    double = ra.from_tensorflow(lambda x: x @ tf.constant(weight), dtype=torch.float64)
    assert gradient_of(double, x, torch.zeros(4, dtype=torch.long)).dtype == torch.float64
    single = ra.from_tensorflow(lambda x: tf.cast(x, tf.float32) @ tf.constant(weight, tf.float32), dtype=torch.float64)
    with pytest.raises(UserError, match=r"float32 .*float64"):
        single.logits(x)
    mixed = ra.from_tensorflow(lambda x: x @ tf.constant(weight, tf.float32), dtype=torch.float64)
    with pytest.raises(UserError, match=r"float32 .*float64"):
        mixed.logits(x)
    rounded = ra.from_tensorflow(lambda x: tf.round(x) @ tf.constant(weight, tf.float32))
    with pytest.raises(UserError, match="from_predictions"):
        check_model(rounded, x.float(), torch.zeros(4, dtype=torch.long))


def test_keras_models() -> None:
    pytest.importorskip("tensorflow")
    keras = pytest.importorskip("keras")
    layers = keras.layers
    net = keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(4, 3),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(10, activation="softmax"),
        ],
        name="mine",
    )
    model = ra.from_tensorflow(net, outputs="probabilities")
    x = torch.rand(5, 8, 8, 1)
    assert model.name == "mine"
    np.testing.assert_allclose(model.logits(x).softmax(1), net(x.numpy()).numpy(), rtol=1e-4)
    assert gradient_of(model, x, torch.zeros(5, dtype=torch.long)).any()


@pytest.mark.parametrize("framework", BRIDGES)
def test_what_to_install_for_other_frameworks(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, framework, None)
    with pytest.raises(UserError, match=rf"from_{framework} needs {framework}"):
        BRIDGES[framework][0](lambda x: x)


def test_jax_in_float64_is_said() -> None:
    jax = pytest.importorskip("jax")
    with pytest.raises(UserError, match=r"jax.config"):
        ra.from_jax(in_jax, dtype=torch.float64)
    with jax.experimental.enable_x64() if hasattr(jax.experimental, "enable_x64") else jax.enable_x64(True):
        model = ra.from_jax(in_jax, dtype=torch.float64)
        x, labels = digits_images(4, torch.float64)
        assert model.dtype == torch.float64
        assert gradient_of(model, x, labels).dtype == torch.float64


def test_any_gradient() -> None:
    (first, b1), (second, _) = WEIGHTS

    def vjp(x: Tensor, weights: Tensor) -> np.ndarray:
        hidden = 5 * (x.numpy().reshape(len(x), -1) @ first.T + b1)
        slope = (weights.numpy() @ second) / (1 + np.exp(-hidden))
        return (slope @ first).reshape(x.shape)

    agree(ra.from_gradient(lambda x: in_numpy(x.numpy()), vjp))
    wrong = ra.from_gradient(lambda x: in_numpy(x.numpy()), lambda x, weights: vjp(x, weights)[:, 0])
    with pytest.raises(UserError, match=r"gradient .*shape"):
        gradient_of(wrong, *digits_images(3))
    broken = ra.from_gradient(lambda x: in_numpy(x.numpy()), lambda x, weights: weights.numpy() @ first)
    with pytest.raises(UserError, match=r"\(3, 1, 8, 8\): ValueError"):
        gradient_of(broken, *digits_images(3))


# predictions alone


def softmax(x: np.ndarray) -> np.ndarray:
    scores = np.exp(in_numpy(x))
    return scores / scores.sum(1, keepdims=True)


def labels_of(x: np.ndarray) -> np.ndarray:
    return in_numpy(x).argmax(1)


@pytest.mark.parametrize("answers", ["probabilities", "logits", "labels"])
def test_attacks_that_learn_too_much_are_refused(answers: Any) -> None:
    function = {"probabilities": softmax, "logits": in_numpy, "labels": labels_of}[answers]
    model = ra.from_predictions(function, answers, classes=10)
    images, labels = digits_images(20)
    assert check_model(model, images, labels) == []
    with pytest.raises(UserError, match=r"linf.*hop-skip-jump-l2") as caught:
        check_attacks(model, [attack_named("linf"), attack_named("fmn-l2")], images)
    assert ("square-linf" in str(caught.value)) == (answers != "labels")
    (warning,) = check_attacks(model, [attack_named("hop-skip-jump-l2")], images)
    assert "weak upper bounds" in warning
    if answers == "labels":
        with pytest.raises(UserError, match=r"square-linf.*hop-skip-jump-l2"):
            check_attacks(model, [attack_named("square-linf")], images)
    tabular = images.flatten(1)
    with pytest.raises(UserError, match="use hop-skip-jump-l2"):
        check_attacks(model, [attack_named("linf")], tabular)
    assert check_attacks(ra.Classifier(NET), [attack_named("linf")], images) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"answers": "scores"}, "answers='scores' is not known"),
        ({"answers": "labels"}, "classes=None, but labels do not tell"),
        ({"queries": 2}, "queries=2; expected at least 3"),
    ],
)
def test_wrong_settings_of_predictions(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        ra.from_predictions(softmax, **arguments)


def test_labels_beyond_the_classes() -> None:
    model = ra.from_predictions(labels_of, "labels", classes=2)
    with pytest.raises(UserError, match="expected 0 to 1"):
        model.logits(digits_images(20)[0])


# gradients in place of missing ones


def coarse(x: Tensor) -> Tensor:
    return (x * 4).round() / 4


def leaves_torch(x: Tensor) -> Tensor:
    return torch.from_numpy(np.round(x.detach().numpy() * 4) / 4)


class Named(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def test_what_has_no_gradient_is_named() -> None:
    images, labels = digits_images(20)
    (warning,) = check_model(ra.Classifier(NET, prepare=coarse), images, labels)
    assert "round" in warning
    assert "straight_through(function)" in warning
    (warning,) = check_model(ra.Classifier(NET, prepare=leaves_torch), images, labels)
    assert "its prepare" in warning and "straight_through" in warning
    hidden = nn.Sequential(nn.Identity(), Named(leaves_torch), NET)
    (warning,) = check_model(ra.Classifier(hidden), images, labels)
    assert "'1' (Named)" in warning
    for function in (coarse, leaves_torch):
        sound = ra.Classifier(NET, prepare=ra.straight_through(function))
        assert check_model(sound, images, labels) == []


def test_attacks_see_through_what_is_replaced() -> None:
    data = digits_images(30)
    robust = [
        (ra.evaluate(ra.Classifier(NET, prepare=prepare), data, "linf").minimal_size("linf") > 0.1).mean()
        for prepare in (coarse, ra.straight_through(coarse), ra.surrogate(coarse, lambda x: x * 1.0))
    ]
    assert robust[1] == robust[2] < robust[0]
    with pytest.raises(UserError, match=r"\(3, 1, 4, 4\).*\(3, 1, 8, 8\)"):
        ra.straight_through(lambda x: x[:, :, ::2, ::2])(data[0][:3].requires_grad_())


# shapes and tasks


@pytest.mark.parametrize("classes", [2, 3, 1000])
@pytest.mark.parametrize("shape", [(12,), (6, 5), (1, 8, 8), (3, 6, 10), (2, 4, 4, 4)], ids=str)
def test_shapes_and_numbers_of_classes(shape: tuple[int, ...], classes: int) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), classes))
    x = torch.rand(6, *shape)
    labels = net(x).argmax(1)
    result = ra.evaluate(
        net, (x, labels), ["linf", "l2"], strengths={"linf": [0.1, 1.0], "l2": [1.0, x[0].numel() ** 0.5]}
    )
    assert result.clean_accuracy == 100
    for norm in ("linf", "l2"):
        assert np.isfinite(result.minimal_size(norm)).mean() > 0.5


@pytest.mark.parametrize("side", [224, 384])
def test_large_images_and_1000_classes(side: int) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 7, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 1000))
    x = torch.rand(2, 3, side, side)
    result = ra.evaluate(net, (x, net(x).argmax(1)), "linf", strengths={"linf": [0.1]})
    assert result.clean_accuracy == 100


@pytest.mark.parametrize(
    ("shown", "outputs"),
    [
        (lambda z: z.softmax(1), "probabilities"),
        (lambda z: z.log_softmax(1), "logits"),
        (lambda z: z[:, 1] - z[:, 0], "logit"),
        (lambda z: (z[:, 1:] - z[:, :1]).sigmoid(), "probability"),
    ],
    ids=["probabilities", "log-probabilities", "logit", "probability"],
)
def test_other_outputs_give_the_sizes_of_logits(shown: Any, outputs: Any) -> None:
    torch.manual_seed(0)
    net, x = nn.Linear(5, 2), torch.rand(12, 5)
    labels = net(x).argmax(1)
    plain = ra.evaluate(net, (x, labels), "l2").minimal_size("l2")
    other = ra.Classifier(lambda x: shown(net(x)), outputs=outputs)
    assert check_model(other, x, labels) == []
    np.testing.assert_allclose(ra.evaluate(other, (x, labels), "l2").minimal_size("l2"), plain, rtol=1e-3)


def test_outputs_are_recognised() -> None:
    x, labels = torch.rand(12, 5), torch.zeros(12, dtype=torch.long)
    one, many = nn.Linear(5, 1), nn.Linear(5, 4)
    for net, said in (
        (lambda x: one(x)[:, 0], r"one number a sample \(shape \(8,\)\).*outputs='logit'"),
        (lambda x: one(x).sigmoid(), "outputs='probability'.*better return the logit"),
    ):
        with pytest.raises(UserError, match=said):
            check_model(ra.Classifier(net), x, labels)
    assert any(
        "outputs='probabilities'" in w for w in check_model(ra.Classifier(lambda x: many(x).softmax(1)), x, labels)
    )
    assert any("one sigmoid a class" in w for w in check_model(ra.Classifier(lambda x: many(x).sigmoid()), x, labels))
    with pytest.raises(UserError, match=r"'odds'.*'logits'"):
        ra.Classifier(many, outputs="odds")  # type: ignore[arg-type]


def test_several_labels_a_sample_are_refused() -> None:
    x = torch.rand(3, 5)
    with pytest.raises(UserError, match=r"argmax\(1\)"):
        check_inputs(x, torch.eye(3))
    with pytest.raises(UserError, match="several labels"):
        check_inputs(x, torch.ones(3, 3))


def test_networks_of_one_size_of_batch() -> None:
    seen = set()

    def fixed(x: Tensor) -> Tensor:
        seen.add(len(x))
        return NET(x)

    data = digits_images(20)
    plain = ra.evaluate(NET, data, "l2")
    filled = ra.evaluate(ra.Classifier(fixed, batch_size=8), data, "l2")
    assert seen == {8}
    np.testing.assert_allclose(filled.minimal_size("l2"), plain.minimal_size("l2"), rtol=1e-3)
    assert filled.passes("l2") == pytest.approx(plain.passes("l2"), rel=0.05)
    for wrong in (0, (), "8", (4, -1)):
        with pytest.raises(UserError, match=r"batch_size=.* does not fit"):
            ra.Classifier(fixed, batch_size=wrong)  # type: ignore[arg-type]
