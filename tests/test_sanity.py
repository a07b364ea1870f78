"""The checks before the work."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.checks.sanity import check_model
from robustatlas.models.classifier import Classifier

DATA = ra.load_dataset("digits")
NET = ra.load_model("builtin:digits-linf").net
Model = Callable[[Tensor], Tensor]


def warned(model: Model | Classifier, images: Tensor = DATA.images, labels: Tensor = DATA.labels) -> list[str]:
    return check_model(model if isinstance(model, Classifier) else Classifier(model), images, labels)


def test_nothing_to_say_of_a_sound_model() -> None:
    before = torch.get_rng_state()
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        assert isinstance(NET, nn.Module)
        assert warned(NET.to(dtype)) == []
    NET.to(torch.float32)
    assert torch.equal(torch.get_rng_state(), before)


def test_samples_are_spread_over_the_data() -> None:
    """Data sorted by class, of which the model has never seen the first ones."""
    order = DATA.labels.argsort(stable=True)
    blind: Model = lambda x: NET(x) - 100 * torch.eye(10)[0]  # noqa: E731
    assert warned(blind, DATA.images[order], DATA.labels[order]) == []


CAUSES: dict[str, tuple[Model, str]] = {
    "labels from 1": (lambda x: NET(x).roll(1, 1), "right more often with labels one higher"),
    "labels from -1": (lambda x: NET(x).roll(-1, 1), "right more often with labels one lower"),
    "bytes": (lambda x: NET(x / 255), "right more often with pixels from 0 to 255"),
    "half": (
        lambda x: 1e3 * NET((x + 1) / 2) * (x.amin((1, 2, 3)) < 0)[:, None] + x.flatten(1)[:, :10],
        "pixels from -1",
    ),
    "untrained": (lambda x: x.flatten(1)[:, 20:30], "Likely causes: weights that were not loaded"),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_chance_is_explained(cause: str) -> None:
    model, said = CAUSES[cause]
    (warning,) = warned(model)
    assert "no better than chance (10 classes)" in warning
    assert said in warning


def test_channels_in_another_order() -> None:
    torch.manual_seed(0)
    x, weight = torch.rand(40, 3, 4, 4), torch.randn(48, 5)
    weight = torch.cat([weight[:16], torch.zeros(16, 5), -weight[:16]])
    net: Model = lambda x: x.flatten(1) @ weight  # noqa: E731
    (warning,) = warned(net, x, net(x.flip(1)).argmax(1))
    assert "its channels reversed (BGR) (40 right)" in warning


def test_few_samples_say_nothing() -> None:
    assert warned(CAUSES["untrained"][0], DATA.images[:9], DATA.labels[:9]) == []


def test_models_that_refuse_what_is_tried() -> None:
    def strict(x: Tensor) -> Tensor:
        if x.min() < 0 or x.max() > 1:
            raise ValueError("not in [0, 1]")
        return NET(x).roll(3, 1)

    assert "Likely causes" in warned(strict)[0]


def test_noise_of_torch_and_noise_of_others() -> None:
    generator = np.random.default_rng(0)
    seeded: Model = lambda x: NET(x) + torch.randn(10)  # noqa: E731
    foreign: Model = lambda x: NET(x) + torch.as_tensor(generator.normal(size=10), dtype=x.dtype)  # noqa: E731
    (warning,) = warned(seeded)
    assert "is randomised" in warning and "The same seed repeats it." in warning
    (warning,) = warned(foreign)
    assert "is randomised" in warning and "another run gives other numbers" in warning


def test_no_samples() -> None:
    with pytest.raises(ra.UserError, match="There are no samples"):
        warned(NET, DATA.images[:0], DATA.labels[:0])


class Features(nn.Module):
    """Returns features before its logits, as those do that were trained to."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.flatten(1), NET(x)


def test_the_first_of_several_outputs_is_taken_with_a_word() -> None:
    told = warned(Features())  # type: ignore[arg-type]
    assert "(8, 64) and (8, 10)" in told[0]
    for door in (ra.certify, ra.diagnose):
        with pytest.warns(UserWarning, match="the first"):
            door(Features(), DATA.take(4))
    assert warned(lambda x: Features()(x)[1]) == []
    assert warned(lambda x: (NET(x), "more")) == []  # type: ignore[arg-type, return-value]
    assert warned(lambda x: {"logits": NET(x), "features": x}) == []  # type: ignore[arg-type, return-value]
