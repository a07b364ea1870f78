"""Attacks of other libraries as ours."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from helpers_core import digits_network
from robustatlas.common.errors import UserError
from robustatlas.evaluation.progress import Progress
from robustatlas.optimizers.external import CountedModule


class Counted(nn.Module):
    """Counts what the network itself is asked."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.forwards, self.backwards = net, 0, 0

    def forward(self, x: Tensor) -> Tensor:
        self.forwards += len(x)
        if x.requires_grad:
            x.register_hook(self._back)
        return self.net(x)

    def _back(self, gradient: Tensor) -> None:
        self.backwards += len(gradient)


def digits(count: int = 40) -> tuple[Tensor, Tensor]:
    data = ra.load_dataset("digits").take(count)
    return data.images, data.labels


@pytest.mark.oracle
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_foolbox_pgd_gives_its_own_successes_with_passes_counted_exactly(norm: str) -> None:
    foolbox = pytest.importorskip("foolbox")
    kind, strengths = {
        "linf": (foolbox.attacks.LinfPGD, (0.05, 0.1, 0.2)),
        "l2": (foolbox.attacks.L2PGD, (0.3, 0.6, 1.0)),
    }[norm]
    attack = kind(steps=10, random_start=False)
    net, (x, y) = digits_network(), digits()
    with torch.no_grad():
        right = net(x).argmax(1) == y
    x, y = x[right], y[right]
    alone = Counted(net)
    _, _, theirs = attack(foolbox.PyTorchModel(alone.eval(), bounds=(0, 1)), x, y, epsilons=list(strengths))

    ours = Counted(net)
    before: list[tuple[int, int]] = []
    mine = ra.external(attack, norm, strengths=strengths)

    class Began(Progress):
        def begin(self, records: Any, samples: int) -> None:
            before.append((ours.forwards, ours.backwards))

    result = ra.evaluate(ours, (x, y), mine, search="every", audit=0, progress=Began())
    outcome = result.outcome(mine.name)
    assert 0 < theirs.sum() < theirs.numel()
    ran = outcome.fooled.T >= 0  # ours stops at the first strength that succeeds: sets are nested
    assert np.array_equal(outcome.fooled.T[ran] == 1, theirs.numpy()[ran])
    assert (outcome.broken().T | ~theirs.numpy()).all()
    assert int(outcome.forward.sum()) == ours.forwards - before[0][0]
    assert int(outcome.backward.sum()) == ours.backwards - before[0][1]
    assert (outcome.minimal_size[np.isfinite(outcome.minimal_size)] <= strengths[-1]).all()


@pytest.mark.oracle
def test_a_minimum_size_attack_of_foolbox_gives_its_own_sizes() -> None:
    foolbox = pytest.importorskip("foolbox")
    attack = foolbox.attacks.L2DeepFoolAttack(steps=30)
    net, (x, y) = digits_network(), digits(20)
    result = ra.evaluate(net, (x, y), ra.external(attack, "l2", strengths=(0.5, 1.0, 2.0)))
    adversarial, _, _ = attack(foolbox.PyTorchModel(net.eval(), bounds=(0, 1)), x, y, epsilons=None)
    sizes = (adversarial - x).flatten(1).norm(dim=1).numpy()
    mine = result.minimal_size("L2DeepFoolAttack")
    with torch.no_grad():
        fooled = (net(adversarial).argmax(1) != y).numpy()
    found = fooled & result.clean
    assert found.mean() > 0.8
    assert np.allclose(mine[found], sizes[found], rtol=1e-4)


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("library", "make"),
    [
        ("torchattacks", lambda m: ra.external(m.PGD, "linf", strengths=(0.1, 0.3), steps=10, alpha=0.05)),
        ("torchattacks", lambda m: ra.external(m.CW, "l2", strengths=(1.0, 2.0), steps=40, lr=0.1, c=10)),
        (
            "art.attacks.evasion",
            lambda m: ra.external(m.ProjectedGradientDescent, "l2", strengths=(0.5, 1.0), max_iter=5, eps_step=0.2),
        ),
        (
            "adv_lib.attacks.decoupled_direction_norm",
            lambda m: ra.external(m.ddn, "l2", strengths=(0.5, 1.0), steps=30),
        ),
        ("adv_lib.attacks.auto_pgd", lambda m: ra.external(m.apgd, "linf", strengths=(0.1, 0.3), n_iter=10)),
    ],
    ids=["torchattacks-pgd", "torchattacks-cw", "art-pgd", "adv-lib-ddn", "adv-lib-apgd"],
)
def test_attacks_of_other_libraries(library: str, make: Callable[[Any], ra.Attack]) -> None:
    attack = make(pytest.importorskip(library))
    net, (x, y) = digits_network().eval(), digits(16)
    result = ra.evaluate(net, (x, y), attack, keep_adversarial=True)
    sizes, p = result.minimal_size(attack.name), attack.threat.p
    index, images = result.adversarial(attack.name)
    found = torch.from_numpy(images)
    assert len(index) >= 5
    assert set(index.tolist()) == set(np.flatnonzero(np.isfinite(sizes) & result.clean).tolist())
    with torch.no_grad():
        assert (net(found).argmax(1) != y[index]).all()
    assert np.allclose((found - x[index]).flatten(1).norm(p, dim=1), sizes[index], rtol=1e-4)
    assert result.passes(attack.name)[0] > 3


def test_what_an_external_attack_returns_is_measured_not_believed() -> None:
    net, (x, y) = digits_network(), digits(30)

    def cheats(model: nn.Module, x: Tensor, labels: Tensor, eps: float) -> Tensor:
        return x + 3 * eps * torch.sign(x - 0.5)  # out of its set, out of the box

    result = ra.evaluate(net, (x, y), ra.external(cheats, "linf", strengths=(0.1, 0.2)), search="every")
    sizes = result.minimal_size("cheats")
    with torch.no_grad():
        at = {e: net((x + 3 * e * torch.sign(x - 0.5)).clamp(0, 1)).argmax(1) != y for e in (0.1, 0.2)}
    real = {e: (torch.clamp(x + 3 * e * torch.sign(x - 0.5), 0, 1) - x).abs().flatten(1).amax(1) for e in (0.1, 0.2)}
    best = torch.stack([torch.where(at[e], real[e], torch.inf) for e in (0.1, 0.2)]).amin(0).numpy()
    attacked = result.clean & np.isfinite(sizes)
    assert attacked.any() and np.allclose(sizes[attacked], best[attacked], rtol=1e-5)
    assert (sizes[attacked] > 0.2).any()  # not counted at the strength that was asked for


def test_noise_of_external_attacks_repeats_and_leaves_the_callers_alone() -> None:
    net, (x, y) = digits_network(), digits(12)

    def random(model: nn.Module, x: Tensor, labels: Tensor, eps: float) -> Tensor:
        drawn = torch.rand_like(x) + torch.from_numpy(np.random.rand(*x.shape)).float() - 1  # noqa: NPY002
        return (x + eps * drawn).clamp(0, 1)

    attack = ra.external(random, "linf", strengths=(0.3, 0.6))
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    first = ra.evaluate(net, (x, y), attack)
    assert torch.equal(torch.rand(1), expected)
    torch.manual_seed(2)
    np.random.seed(5)  # noqa: NPY002
    second = ra.evaluate(net, (x, y), attack)
    assert np.array_equal(first.minimal_size("random"), second.minimal_size("random"))


def test_bad_externals_are_refused() -> None:
    with pytest.raises(UserError, match="norm='l3' is not known"):
        ra.external(lambda model, x, labels: x, "l3")
    with pytest.raises(UserError, match="not an attack that is known here"):
        ra.external(3, "linf")
    x, y = digits(4)
    wrong = ra.external(lambda model, x, labels: x[:, :, :4], "linf", name="short")
    with pytest.raises(UserError, match="returned shape"):
        ra.evaluate(digits_network(), (x, y), wrong)
    nothing = ra.external(lambda model, x, labels: None, "linf", name="nothing")
    with pytest.raises(UserError, match="returned NoneType"):
        ra.evaluate(digits_network(), (x, y), nothing)
    model = ra.from_predictions(lambda x: np.ones((len(x), 10)) / 10)
    with pytest.raises(UserError, match="short need"):
        ra.evaluate(model, (x, y), wrong)


def test_an_asked_model_is_a_module_whose_mode_is_its_own() -> None:
    net = digits_network().train()
    asked = CountedModule(ra.Classifier(net))
    asked.eval()
    assert net.training and next(asked.parameters()).device.type == "cpu"
