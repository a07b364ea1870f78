import pytest
import torch
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.optimizers.adam import Adam
from robustatlas.optimizers.base import Evaluation, Problem
from robustatlas.threats.color import Hue
from robustatlas.threats.flow import StAdv
from robustatlas.threats.historical.flow import HistoricalStAdv
from robustatlas.threats.historical.recolor import HistoricalRecolor
from threat_properties import images, noise_for


def problem_of(threat, x: Tensor, epsilon: float) -> Problem:
    nothing = torch.zeros(len(x)).long()
    return Problem(threat, x, nothing, nothing - 1, x.new_full((len(x),), epsilon), noise_for(x))


def evaluation_of(gradient: Tensor) -> Evaluation:
    zero = gradient.flatten(1)[:, 0] * 0
    return Evaluation(zero[:, None], zero, gradient, zero > 0, zero)


@pytest.mark.parametrize("roughness", [0.0, 0.0025])
@pytest.mark.parametrize("threat", [StAdv(), HistoricalStAdv()])
def test_agrees_with_torch_inside_of_the_set(roughness, threat):
    """The same 15 steps as torch.optim.Adam on the penalised objective, where no projection interferes."""
    x, epsilon = images(dtype=torch.float64), 0.5
    weights = noise_for(x).normal(12, 12, 3, dtype=x.dtype).movedim(-1, 1)
    problem = problem_of(threat, x, epsilon)
    optimizer = Adam(rate=1e-3, roughness=roughness)

    theta = (0.01 * noise_for(x, 2).symmetric(12, 12, 2, dtype=x.dtype)).requires_grad_()
    state = optimizer.init(problem, theta.detach())
    torch.testing.assert_close(state.theta, theta.detach())
    reference = torch.optim.Adam([theta], lr=1e-3 * epsilon)
    for _ in range(15):
        point = state.theta.requires_grad_()
        (gradient,) = torch.autograd.grad((threat.apply(x, point) * weights).sum(), point)
        state = optimizer.step(problem, state, evaluation_of(gradient))
        reference.zero_grad()
        loss = -(threat.apply(x, theta) * weights).sum() + roughness / epsilon * threat.smoothness(theta).sum()
        loss.backward()
        reference.step()
    torch.testing.assert_close(state.theta, theta.detach(), rtol=1e-6, atol=1e-9)


def test_every_iterate_is_projected():
    x, threat = images(), StAdv()
    problem = problem_of(threat, x, 0.1)
    optimizer = Adam(rate=1.0)
    state = optimizer.init(problem, torch.ones_like(threat.neutral(x)))
    for _ in range(3):
        assert (threat.size(x, state.theta) <= 0.1).all()
        state = optimizer.step(problem, state, evaluation_of(torch.randn_like(state.theta)))


def test_historical_recolouring_begins_at_the_projected_identity():
    x, threat = images(), HistoricalRecolor()
    problem = problem_of(threat, x, 0.05)
    state = Adam().init(problem, threat.neutral(x))
    assert torch.equal(state.theta, threat.project(x, threat.neutral(x), problem.epsilon))


def test_counts_steps_per_sample():
    x, threat = images(count=4), Hue()
    problem = problem_of(threat, x, 0.1)
    optimizer = Adam(steps=2)
    state = optimizer.init(problem, threat.neutral(x))
    for expected in (False, False, True):
        state = optimizer.step(problem, state, evaluation_of(torch.ones(4, 1)))
        assert optimizer.finished(state).tolist() == [expected] * 4


def test_roughness_needs_a_smoothness():
    with pytest.raises(UserError, match=r"Adam needs a smoothness .* got the threat model Hue"):
        Adam(roughness=0.1).check(Hue())


def test_strength_zero_gives_no_nan():
    x, threat = images(), StAdv()
    problem = problem_of(threat, x, 0.0)
    optimizer = Adam(roughness=0.0025)
    state = optimizer.init(problem, threat.neutral(x))
    for _ in range(2):
        state = optimizer.step(problem, state, evaluation_of(torch.ones_like(state.theta)))
    assert torch.equal(state.theta, threat.neutral(x))
