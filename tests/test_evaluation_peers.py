"""Minimal sizes and robust accuracy beside foolbox and pyautoattack on the same network and images."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import robustatlas as ra
from helpers_core import digits_images, digits_network
from robustatlas.attacks.catalogue import catalogue

pytestmark = pytest.mark.oracle
fb = pytest.importorskip("foolbox")
pyautoattack = pytest.importorskip("pyautoattack")

SAMPLES = 50
TARGETS = 4
STRENGTHS = {"linf": [0.06, 0.1, 0.14], "l2": [0.3, 0.5, 0.7], "l1": [0.8, 1.2, 1.8]}
PEERS: list[tuple[str, str, Callable[[], Any]]] = [
    ("linf", "FMN", lambda: fb.attacks.LInfFMNAttack(steps=200)),
    ("linf", "PGD", lambda: fb.attacks.LinfPGD(steps=40)),
    ("l2", "DDN", lambda: fb.attacks.DDNAttack(steps=200)),
    ("l2", "FMN", lambda: fb.attacks.L2FMNAttack(steps=200)),
    ("l2", "CW", lambda: fb.attacks.L2CarliniWagnerAttack(steps=200, binary_search_steps=5)),
    ("l1", "FMN", lambda: fb.attacks.L1FMNAttack(steps=200)),
    ("l1", "EAD", lambda: fb.attacks.EADAttack(steps=200, binary_search_steps=5)),
]


@pytest.fixture(scope="module")
def sizes() -> dict[str, np.ndarray]:
    """Our minimal sizes by descent, per norm."""
    result = ra.evaluate(digits_network(), digits_images(SAMPLES), list(STRENGTHS), strengths=STRENGTHS)
    return {norm: result.minimal_size(norm) for norm in STRENGTHS}


@pytest.mark.parametrize(("norm", "name", "make"), PEERS, ids=[f"{norm}-{name}" for norm, name, _ in PEERS])
def test_sizes_are_no_larger_than_foolboxs(
    norm: str, name: str, make: Callable[[], Any], sizes: dict[str, np.ndarray]
) -> None:
    net, (images, labels) = digits_network(), digits_images(SAMPLES)
    torch.manual_seed(0)
    epsilons = None if name != "PGD" else [0.01 * k for k in range(1, 31)]
    _, found, success = make()(fb.PyTorchModel(net, bounds=(0, 1)), images, labels, epsilons=epsilons)
    if epsilons is None:
        p = {"linf": np.inf, "l2": 2, "l1": 1}[norm]
        theirs = torch.linalg.vector_norm((found - images).flatten(1), p, dim=1).numpy()
        theirs[~success.numpy()] = np.inf
    else:
        reached = success.numpy()
        theirs = np.where(reached.any(0), np.array(epsilons)[reached.argmax(0)], np.inf)
    theirs[net(images).argmax(1).numpy() != labels.numpy()] = 0
    ours = sizes[norm]
    print(norm, name, "median ours", np.median(ours), "theirs", np.median(theirs), "smaller", np.mean(ours < theirs))
    assert np.median(ours) <= np.median(theirs) * 1.002
    for strength in STRENGTHS[norm]:
        assert (ours > strength).mean() <= (theirs > strength).mean() + 1e-9


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_bisection_agrees_with_autoattack(norm: str) -> None:
    """APGD-T and FAB-T towards as many classes at the same epsilon: within one sample in fifty, the seeds being
    different."""
    net, (images, labels) = digits_network(), digits_images(SAMPLES)
    strengths = STRENGTHS[norm][:2]
    attack = replace(catalogue()[norm].with_runs(lambda run: replace(run, count=TARGETS)), strengths=tuple(strengths))
    ours = ra.evaluate(net, (images, labels), [attack], search="bisection").accuracies().values(norm)
    theirs = []
    for epsilon in strengths:
        peer = pyautoattack.AutoAttack(
            net, norm={"linf": "Linf", "l2": "L2"}[norm], eps=epsilon, version="custom",
            attacks=["apgd-t", "fab-t"], device="cpu", seed=0,
        )  # fmt: skip
        peer.apgd_targeted.n_target_classes = peer.fab.n_target_classes = TARGETS
        logging.disable()
        adversarial, _ = peer.run_standard_evaluation(images, labels, batch_size=SAMPLES)
        logging.disable(logging.NOTSET)
        theirs.append(100 * float((net(adversarial).argmax(1) == labels).float().mean()))
    assert np.abs(ours - theirs).max() <= 100 / SAMPLES + 1e-9, (ours, theirs)
