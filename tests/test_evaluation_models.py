"""Every kind of model and input that users bring: what works, and the one sentence where it cannot."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from helpers_core import brief, digits_images, digits_network
from robustatlas import engine
from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.attacks.definition import Attack, AttackRun
from robustatlas.common.host import sync_every
from robustatlas.common.noise import Noise
from robustatlas.optimizers.pgd import PGD
from robustatlas.threats.lp import Linf

ONE = {"linf": [0.05, 0.1]}


def evaluate(model: Any, data: Any = None, **options: Any) -> ra.Result:
    return ra.evaluate(model, data or digits_images(6), **{"attacks": "linf", "strengths": ONE} | options)


@pytest.mark.parametrize(
    "shaped",
    [
        lambda logits: {"logits": logits},
        lambda logits: SimpleNamespace(logits=logits),
        lambda logits: (logits, None),
        lambda logits: logits.double(),
    ],
    ids=["dict", "attribute", "tuple", "float64"],
)
def test_outputs_of_other_frameworks(shaped: Callable[[Tensor], Any]) -> None:
    net = digits_network()
    plain, other = evaluate(net), evaluate(lambda x: shaped(net(x)))
    np.testing.assert_allclose(plain.minimal_size("linf"), other.minimal_size("linf"), rtol=1e-4)


def test_normalisation_is_the_model_s() -> None:
    net = digits_network()
    scaled = ra.Classifier(lambda z: net(z * 0.5 + 0.2), mean=[0.2], std=[0.5])
    np.testing.assert_allclose(evaluate(net).minimal_size("linf"), evaluate(scaled).minimal_size("linf"), rtol=1e-3)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1", "l0"])
def test_tabular_inputs(norm: str) -> None:
    torch.manual_seed(0)
    net, x = nn.Linear(5, 3), torch.rand(8, 5)
    labels = net(x).argmax(1)
    result = evaluate(net, (x, labels), attacks=norm, strengths={norm: [0.5, 1.0] if norm == "linf" else [1.0, 2.0]})
    assert result.clean_accuracy == 100
    assert np.isfinite(result.minimal_size(norm)).any()


def test_channels_last_and_strided_images() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4))
    x, labels = torch.rand(6, 3, 8, 8), torch.tensor([0, 1, 2, 3, 0, 1])
    strided = torch.stack([x, x], -1)[..., 0]
    assert not strided.is_contiguous()
    plain = evaluate(net, (x, labels)).minimal_size("linf")
    for other in (x.to(memory_format=torch.channels_last), strided):
        np.testing.assert_allclose(evaluate(net, (other, labels)).minimal_size("linf"), plain, rtol=1e-4)
    last = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    np.testing.assert_allclose(evaluate(last, (x, labels)).minimal_size("linf"), plain, rtol=1e-3)


def test_what_the_caller_passed_is_as_before() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 10))
    net.train()
    net[2].eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    images, labels = digits_images(6)
    copies = images.clone(), labels.clone()
    result = evaluate(net, (images, labels))
    assert all("4 classes" in said for said in result.warnings)  # in eval mode nothing depends on batch or chance
    assert [module.training for module in net] == [True, True, False, True, True]
    assert all(bool((before[name] == value).all()) for name, value in net.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in net.parameters())
    assert bool((images == copies[0]).all()) and bool((labels == copies[1]).all())


def test_bfloat16_searches_and_float32_judges() -> None:
    net, data = digits_network(), digits_images(60)
    exact = evaluate(net, data)
    brief = ra.evaluate(ra.Classifier(net, precision="bfloat16"), data, "linf", strengths=ONE, keep_adversarial=True)
    assert np.abs(exact.accuracies().values("linf") - brief.accuracies().values("linf")).max() <= 100 / 60 + 1e-9
    index, examples = brief.adversarial("linf")
    images, labels = data
    for size, row, example in zip(brief.minimal_size("linf")[index], index, examples, strict=True):
        delta = torch.as_tensor(example) - images[row]
        assert float(delta.abs().max()) <= size * (1 + 1e-4)
        assert int(net(torch.as_tensor(example)[None]).argmax()) != int(labels[row])


WARNED: dict[str, tuple[Callable[[nn.Module], Callable[[Tensor], Tensor]], str]] = {
    "probabilities": (lambda net: lambda x: net(x).softmax(1), "look like probabilities"),
    "rounding": (lambda net: lambda x: net(x).round() + 0 * x.flatten(1).sum(1, True), "whose gradient is zero"),
    "zero gradient": (
        lambda net: lambda x: net(x).detach() + 0 * x.flatten(1).sum(1, True),
        "misleads at every sample",
    ),
    "random": (lambda net: lambda x: net(x) + torch.randn(10), "randomised"),
    "batch": (lambda net: lambda x: net(x - x.mean(0)), "other samples of its batch"),
}


@pytest.mark.parametrize("case", WARNED)
def test_doubtful_models_are_evaluated_with_a_warning(case: str) -> None:
    wrap, said = WARNED[case]
    result = evaluate(wrap(digits_network()))
    assert any(said in warning for warning in result.warnings), result.warnings


def later(net: nn.Module, fault: Callable[[Tensor], Tensor], passes: int = 400) -> Callable[[Tensor], Tensor]:
    """A model that goes wrong after ``passes`` samples."""
    seen = 0

    def model(x: Tensor) -> Tensor:
        nonlocal seen
        seen += len(x)
        return fault(net(x)) if seen > passes else net(x)

    return model


def raises(logits: Tensor) -> Tensor:
    raise ValueError("the network broke")


REFUSED: dict[str, tuple[Callable[[nn.Module], Any], str]] = {
    "no batch": (lambda net: lambda x: net(x).sum(0), "expected logits"),
    "NaN": (lambda net: lambda x: net(x) * torch.nan, "NaN or infinite logits on clean"),
    "later NaN": (lambda net: later(net, lambda z: z * torch.nan), "NaN or infinite logits during"),
    "later inf": (lambda net: later(net, lambda z: z / 0), "NaN or infinite logits during"),
    "later raises": (lambda net: later(net, raises), "the network broke"),
    "few classes": (lambda net: lambda x: net(x)[:, :3], "3 classes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_impossible_models_get_one_sentence(case: str) -> None:
    make, said = REFUSED[case]
    with pytest.raises(ra.UserError, match=said) as caught:
        evaluate(make(digits_network()))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("steps", [1, 3])
def test_nan_in_any_single_pass_is_noticed(steps: int) -> None:
    """Clean, towards the nearest class, in the search or in a verification."""
    net, (x, labels) = digits_network(torch.float64), digits_images(4, torch.float64)
    attack = Attack("linf", Linf(), (AttackRun(PGD(steps=2), "margin", targets="distance"),), (0.1,))
    noise = Noise.for_samples(0, torch.arange(4), "linf")

    def calls(bad: int) -> int:
        """How often a model is called that gives NaN at its ``bad``-th call."""
        count = 0

        def sick(x: Tensor) -> Tensor:
            nonlocal count
            count += 1
            return net(x) * torch.nan if count == bad else net(x)

        model = ra.Classifier(sick, dtype=torch.float64)
        with sync_every(steps):
            engine.run(engine.Setting(model, attack, "bisection", x, labels, noise, 4))
        return count

    passes = calls(bad=0)
    assert passes >= 5
    for bad in range(1, passes + 1):
        with pytest.raises(ra.UserError, match="NaN or infinite logits during"):
            calls(bad)


def test_a_model_that_breaks_loses_no_finished_shard(tmp_path: Path) -> None:
    net = digits_network()
    whole = evaluate(net, digits_images(24))
    with pytest.raises(ra.UserError, match="the network broke"):
        breaking = later(net, raises, whole.outcome("linf").forward.sum() // 2)
        evaluate(breaking, digits_images(24), run=tmp_path, shard_size=6, diagnose=False)
    done = sorted((tmp_path / "outcomes").glob("linf-*/*.parquet"))
    assert 0 < len(done) < 4
    before = [path.stat().st_mtime_ns for path in done]
    resumed = evaluate(later(net, raises, 10**9), digits_images(24), run=tmp_path, shard_size=6)
    assert before == [path.stat().st_mtime_ns for path in done]
    np.testing.assert_allclose(resumed.minimal_size("linf"), whole.minimal_size("linf"), rtol=1e-4)


def test_out_of_memory_names_a_smaller_batch() -> None:
    net = digits_network()

    def hungry(x: Tensor) -> Tensor:
        if len(x) > 8:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return net(x)

    with pytest.raises(ra.UserError, match="batch size of 16"):
        evaluate(hungry, digits_images(40), batch_size=32)
    assert evaluate(hungry, digits_images(10), batch_size=8).clean_accuracy > 50


def test_one_class_only() -> None:
    images, labels = digits_images(60)
    result = evaluate(digits_network(), (images[labels == 3], labels[labels == 3]))
    assert 0 <= result.accuracies().values("linf")[1] <= result.clean_accuracy


@pytest.mark.parametrize("first", range(4))
def test_nothing_to_attack_and_nothing_found(first: int) -> None:
    """All samples wrong from the start, or constant logits that nothing changes: empty batches of every attack."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(784, 4)).requires_grad_(False)
    images = torch.rand(3, 3, 16, 16)
    clean = net(images).argmax(1)
    few = {"steps": 2, "inner_steps": 1, "search_steps": 1, "restarts": 1}
    attacks = [brief(attack_named(name), most=few) for name in [*catalogue(), "brightness+linf"][first::4]]
    attacks = [replace(attack, strengths=attack.strengths[:1]) for attack in attacks]
    wrong = ra.evaluate(net, (images, (clean + 1) % 4), attacks, keep_adversarial=True)
    net[3].weight.mul_(1e-9)
    net[3].bias.copy_(torch.tensor([1.0, 0.0, 0.0, 0.0]))
    constant = (images, torch.zeros(3, dtype=torch.int64))
    never = ra.evaluate(net, constant, attacks, search="every", keep_adversarial=True)
    assert len(wrong.attacks) == len(never.attacks) == len(attacks)
    for attack in attacks:
        assert (wrong.outcome(attack.name).minimal_size == 0).all(), attack.name
        assert attack.repairs or len(wrong.adversarial(attack.name)[0]) == 0, attack.name
        assert np.isinf(never.outcome(attack.name).minimal_size).all(), attack.name
        assert len(never.adversarial(attack.name)[0]) == 0, attack.name
