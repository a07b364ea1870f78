"""What every optimizer owes the engine, on every kind of threat model it can search."""

import pickle
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from robustatlas import engine
from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.attacks.definition import Attack, AttackRun
from robustatlas.common.bundle import concatenate, take_rows
from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise
from robustatlas.models.classifier import Classifier
from robustatlas.optimizers.adam import Adam
from robustatlas.optimizers.apgd import APGD
from robustatlas.optimizers.apgd_l1 import APGDL1
from robustatlas.optimizers.base import Optimizer, Problem
from robustatlas.optimizers.brendel_bethge import BrendelBethge
from robustatlas.optimizers.carlini_wagner import CarliniWagner
from robustatlas.optimizers.ead import EAD
from robustatlas.optimizers.fab import FAB
from robustatlas.optimizers.fmn import FMN
from robustatlas.optimizers.frank_wolfe import FrankWolfe, VertexAscent
from robustatlas.optimizers.hop_skip_jump import HopSkipJump
from robustatlas.optimizers.lpa import LPA, FastLPA
from robustatlas.optimizers.perceptual_descent import PerceptualDescent
from robustatlas.optimizers.pgd import PGD
from robustatlas.optimizers.ppgd import PPGD
from robustatlas.optimizers.scan import Once, Scan
from robustatlas.optimizers.sigma_zero import SigmaZero
from robustatlas.optimizers.square import Square
from robustatlas.optimizers.sweep import Sweep
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.color import Brightness, Hue
from robustatlas.threats.compose import Compose
from robustatlas.threats.corruption import Corruption
from robustatlas.threats.everyday.geometry import Rotated
from robustatlas.threats.flow import StAdv
from robustatlas.threats.gabor import Gabor
from robustatlas.threats.historical.jpeg import HistoricalJpegL1
from robustatlas.threats.lp import L0, L1, L2, Linf
from robustatlas.threats.patch import Patch
from robustatlas.threats.perceptual import Perceptual
from robustatlas.threats.snow import Snow

OPTIMIZERS: list[Optimizer] = [
    PGD(3, momentum=0.5),
    PGD(3, scaled=True),
    APGD(4),
    APGDL1(4),
    FMN(3),
    FMN(3, dense=True),
    BrendelBethge(3),
    FAB(3),
    FAB(3, exact=True),
    FrankWolfe(3),
    VertexAscent(3),
    Adam(3),
    Adam(3, roughness=0.01),
    Scan(0.25).include_strengths((0.25, 0.5)),
    Once(),
    Sweep.for_threat(Rotated(), 10.0).include_strengths((10.0, 20.0)),
    Square(4),
    SigmaZero(3),
    HopSkipJump(40, first=5),
    CarliniWagner(inner_steps=2, rounds=2),
    EAD(inner_steps=2, rounds=2),
    PPGD(2),
    LPA(2, rounds=2),
    FastLPA(2),
    PerceptualDescent(3),
]
THREATS: list[tuple[ThreatModel, float]] = [
    (Linf(), 0.1),
    (L2(), 1.0),
    (L1(), 5.0),
    (L0(), 9.0),
    (Hue(), 0.5),
    (StAdv(), 0.1),
    (Gabor(), 10.0),
    (Snow(), 0.1),
    (Patch(), 0.5),
    (Corruption("contrast"), 3.0),
    (HistoricalJpegL1(), 5.0),
    (Compose((Gabor(), Brightness(), Linf()), (10.0, 0.3, 0.1)), 1.0),
    (Perceptual(), 0.3),
    (Rotated(), 20.0),
]


def fits(optimizer: Optimizer, threat: ThreatModel) -> bool:
    try:
        optimizer.check(threat)
    except UserError as error:
        assert f"got the threat model {type(threat).__name__}; use " in str(error)
        return False
    return True


PAIRS = [
    pytest.param(optimizer, threat, strength, id=f"{type(optimizer).__name__}{k}-{type(threat).__name__}")
    for k, optimizer in enumerate(OPTIMIZERS)
    for threat, strength in THREATS
    if fits(optimizer, threat)
]


def setting(threat: ThreatModel, strength: float) -> tuple[Classifier, Problem]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.Softplus(), nn.Flatten(), nn.Linear(4 * 49, 4)).double()
    model, x = Classifier(net), torch.rand(3, 3, 16, 16, dtype=torch.float64)
    labels = model.logits(x).argmax(1)
    epsilon = strength * torch.tensor([0.5, 1.0, 0.7], dtype=x.dtype)
    noise = Noise.for_samples(0, torch.arange(3), "contract")
    return model, Problem(threat.for_model(model), x, labels, torch.full_like(labels, -1), epsilon, noise)


def trajectory(
    optimizer: Optimizer, model: Classifier, problem: Problem, drop: int | None = None, *, sized: bool = True
) -> list[torch.Tensor]:
    """The images at every evaluation; sample ``drop`` leaves after the first step and comes back as a newcomer;
    ``sized``: the optimizer is told the sizes."""
    run = AttackRun(optimizer, "margin")
    start = problem.threat.start(problem.x, problem.epsilon * optimizer.start_radius, problem.noise)
    state, seen = optimizer.init(problem, start), []
    for step in range(100):
        before = [leaf.clone() for leaf in pytree.tree_leaves(state) if isinstance(leaf, Tensor)]
        evaluation = engine.evaluate(model, problem, run, state.theta)
        if not sized:
            evaluation = replace(evaluation, size=torch.full_like(evaluation.size, torch.nan))
        seen.append(problem.threat.apply(problem.x, state.theta))
        following = optimizer.step(problem, state, evaluation)
        after = [leaf for leaf in pytree.tree_leaves(state) if isinstance(leaf, Tensor)]
        assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True)), "a step changed its own state"
        assert all(len(leaf) == len(problem.x) for leaf in after)
        if bool(optimizer.finished(following).all()):
            return seen
        state = following
        if step == 0 and drop is not None:
            rest = torch.tensor([row for row in range(len(problem.x)) if row != drop])
            problem, state = take_rows(problem, rest), take_rows(state, rest)
            whole = concatenate(state, take_rows(state, torch.tensor([0])))
            assert len(whole.step) == len(rest) + 1
    raise AssertionError("an optimizer does not come to an end")


@pytest.mark.parametrize(("optimizer", "threat", "strength"), PAIRS)
def test_contract(optimizer, threat, strength):
    assert pickle.loads(pickle.dumps(optimizer)) == optimizer
    model, problem = setting(threat, strength)
    whole = trajectory(optimizer, model, problem)
    for image in whole:
        assert image.isfinite().all() and image.min() >= 0 and image.max() <= 1
    fewer = trajectory(optimizer, model, problem, drop=1)
    for image, part in zip(whole[1:], fewer[1:], strict=False):
        torch.testing.assert_close(image[[0, 2]], part, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("optimizer", "threat", "strength"), PAIRS)
def test_who_does_not_ask_for_sizes_does_not_look_at_them(optimizer, threat, strength):
    if optimizer.needs_size or optimizer.needs_size_gradient:
        return
    model, problem = setting(threat, strength)
    blind = trajectory(optimizer, model, problem, sized=False)
    for image, other in zip(trajectory(optimizer, model, problem), blind, strict=True):
        assert torch.equal(image, other)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda optimizer: type(optimizer).__name__)
def test_effort_scales_the_steps_of_each(optimizer):
    assert optimizer.lengthened(2).steps == 2 * optimizer.steps
    assert optimizer.lengthened(2).evaluations >= optimizer.evaluations
    assert optimizer.lengthened(1) == optimizer


def test_every_optimizer_of_the_catalogue_is_here():
    attacks = [*catalogue("default").values(), *catalogue("paper").values()]
    runs = [run for attack in attacks for run in attack.runs]
    missing = {type(run.optimizer) for run in runs} - {type(optimizer) for optimizer in OPTIMIZERS}
    assert missing == set(), "the list OPTIMIZERS of this file has each, with few steps"


@pytest.mark.parametrize(
    ("optimizer", "threat", "said"),
    [
        (FAB(), StAdv(), r"FAB needs a threat model that can project on a hyperplane .* threat model StAdv; use FMN"),
        (BrendelBethge(), L2(), "BrendelBethge needs the l1 ball, and got the threat model L2; use FMN"),
        (Square(), L0(), "Square needs one of the balls Linf, L2 and L1"),
        (Scan(0.1), Linf(), "Scan needs a threat model of one number"),
        (Sweep(1.0), Linf(), "Sweep needs the everyday change that it was made for"),
        (SigmaZero(), Gabor(), "SigmaZero needs a threat model of changes of the image itself"),
        (FMN(dense=True), Snow(), "FMN needs an lp ball where it is dense"),
        (FrankWolfe(), L2(), "FrankWolfe needs a threat model with a linear oracle"),
        (VertexAscent(), L2(), "VertexAscent needs an lp ball with a linear oracle"),
        (PPGD(), Linf(), "PPGD needs a perceptual distance"),
        (APGDL1(), Linf(), r"APGDL1 needs an l1 ball \(L1, JpegL1\), and got the threat model Linf; use APGD"),
        (PGD(), Corruption("fog"), "PGD needs something to optimise"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_attack_refuses_what_its_optimizer_cannot_search(optimizer, threat, said):
    with pytest.raises(UserError, match=said):
        Attack("wrong", threat, (AttackRun(optimizer, "margin"),), (1.0,))
    with pytest.raises(UserError, match=said):
        replace(
            attack_named("linf"),
            threat=threat,
            runs=(AttackRun(optimizer, "margin"),),
            search_order=(),
            strengths=(1.0,),
        )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"objective": "marign"}, "no objective 'marign'; did you mean 'margin'"),
        ({"objective": "cross_entropy"}, "did you mean 'cross-entropy'"),
        ({"optimizer": FAB(), "objective": "cross-entropy"}, "FAB needs an objective that is zero at the decision"),
        ({"optimizer": PGD(steps=0)}, "PGD got steps=0; expected at least 1"),
        ({"targets": 3}, "targets=3; expected one of None, 'logits'"),
        ({"targets": "all"}, "targets='all'"),
        ({"kick": -1.0}, r"kick=-1\.0; expected a positive number"),
        ({"start": "clean"}, "start='clean'; expected one of 'random', 'neutral', 'best'"),
        ({"judge": "first"}, "judge='first'"),
    ],
)
def test_a_run_checks_its_settings(wrong, said):
    with pytest.raises(UserError, match=said):
        AttackRun(**{"optimizer": PGD(), "objective": "margin"} | wrong)


@pytest.mark.parametrize("make", [Scan, Sweep, lambda spacing: Sweep(spacing, whole=True)])
def test_a_sweep_needs_a_spacing(make):
    for wrong in (0, -1.0, float("inf"), float("nan")):
        with pytest.raises(UserError, match="expected a positive number"):
            make(wrong)
    with pytest.raises(UserError, match="expected a whole number"):
        Sweep(0.5, whole=True)
