"""Compiled networks: batches of a few sizes on devices that need it, and no gradients of weights."""

import pytest
import torch
from torch import nn

from robustatlas.models.classifier.compiled import CompiledNetwork, batch_size_filled, copy_without_gradients


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2))


def test_batches_of_every_size_are_filled_up_to_a_few_and_the_rest_changes_nothing() -> None:
    plain = net().double().eval()
    compiled, seen = CompiledNetwork(plain, fixed=True), set()

    def recorded(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        seen.add(len(x))
        return plain(x), x.flatten(1).sum(1)

    compiled.compiled = recorded
    for count in (1, 2, 63, 64, 65, 200, 257):
        x = torch.rand(count, 1, 4, 4, dtype=torch.float64, requires_grad=True)
        logits, sums = compiled(x)
        assert logits.shape == (count, 2)
        assert sums.shape == (count,)
        torch.testing.assert_close(logits, plain(x), rtol=1e-12, atol=1e-12)
        (slope,) = torch.autograd.grad(logits.sum(), x)
        torch.testing.assert_close(slope, torch.autograd.grad(plain(x).sum(), x)[0], rtol=1e-12, atol=1e-12)
    assert seen == {64, 128, 256, 512}


def test_every_size_is_filled_up_to_at_most_twice_as_many() -> None:
    for count in range(1, 3000):
        assert count <= batch_size_filled(count) <= max(64, 2 * count - 1)
    assert len({batch_size_filled(count) for count in range(1, 4097)}) == 7  # fewer than a compiler keeps


def test_the_compiled_network_shares_its_weights_and_asks_for_no_gradient_of_them() -> None:
    mine = net()
    frozen = copy_without_gradients(mine)
    assert all(weights.requires_grad for weights in mine.parameters())
    assert not any(weights.requires_grad for weights in frozen.parameters())
    assert mine.training
    assert not frozen.training
    held = {values.data_ptr() for values in (*mine.parameters(), *mine.buffers())}
    assert {values.data_ptr() for values in (*frozen.parameters(), *frozen.buffers())} == held
    with torch.no_grad():
        mine[4].weight += 1
    assert torch.equal(mine[4].weight, frozen[4].weight)


def test_autograd_computes_no_gradient_of_weights_that_nobody_asks_for() -> None:
    """The backward pass of a search costs what the forward pass does, whether weights ask for gradients or not."""
    from torch.utils.flop_counter import FlopCounterMode

    mine = net().eval()
    x = torch.rand(4, 1, 4, 4, requires_grad=True) * 1.0
    with FlopCounterMode(display=False) as both:
        torch.autograd.grad(mine(x).sum(), x)
    with FlopCounterMode(display=False) as forward, torch.no_grad():
        mine(x)
    assert both.get_total_flops() == 2 * forward.get_total_flops()


def test_a_network_that_cannot_be_copied_is_compiled_itself() -> None:
    class Stubborn(nn.Linear):
        def __deepcopy__(self, memo: object) -> nn.Module:
            raise RuntimeError("no")

    mine = Stubborn(4, 2)
    assert copy_without_gradients(mine) is mine


@pytest.mark.parametrize("fixed", [True, False])
def test_a_network_that_does_not_compile_answers_itself(fixed: bool) -> None:
    mine = net().eval()
    compiled = CompiledNetwork(mine, fixed=fixed)
    compiled.compiled = lambda x: 1 / 0
    with pytest.warns(UserWarning, match="could not be compiled"):
        logits = compiled(torch.rand(3, 1, 4, 4))
    assert logits.shape == (3, 2)
