import pytest
import torch

from robustatlas.common.errors import UserError
from robustatlas.models.architectures import (
    ARCHITECTURES,
    PreActResNet,
    architecture_named,
)

COUNTS = [
    ("digits-cnn", 1, 8, 10, 21_706),
    ("small-cnn", 1, 28, 10, 166_406),
    ("small-cnn", 3, 32, 10, 214_918),
    ("trades-cnn", 1, 28, 10, 312_202),
    ("resnet18", 3, 32, 10, 11_173_962),
    ("resnet34", 3, 32, 10, 21_282_122),
    ("resnet50", 3, 32, 10, 23_520_842),
    ("resnet101", 3, 32, 10, 42_512_970),
    ("resnet20", 3, 32, 10, 269_722),
    ("resnet56", 3, 32, 10, 853_018),
    ("preact18", 3, 32, 10, 11_172_170),
    ("wrn-28-10", 3, 32, 10, 36_479_194),
    ("wrn-34-10", 3, 32, 10, 46_160_474),
]


@pytest.mark.parametrize(("name", "channels", "size", "classes", "count"), COUNTS)
def test_parameter_counts(name: str, channels: int, size: int, classes: int, count: int) -> None:
    with torch.device("meta"):
        net = architecture_named(name, channels, size, classes)
    assert sum(p.numel() for p in net.parameters()) == count


def test_preact_without_final_norm() -> None:
    with torch.device("meta"):
        assert sum(p.numel() for p in PreActResNet(final_norm=False).parameters()) == 11_171_146


@pytest.mark.parametrize("name", [*ARCHITECTURES, "wrn-10-1"])
def test_every_architecture_takes_other_shapes(name: str) -> None:
    net = architecture_named(name, 1, 16, 3).eval()
    assert net(torch.rand(2, 1, 16, 16)).shape == (2, 3)


def test_softplus_and_normalisation_change_the_output_only() -> None:
    torch.manual_seed(0)
    x = torch.rand(2, 3, 8, 8)
    assert PreActResNet(softplus=True).eval()(x).shape == (2, 10)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet-18", "did you mean 'resnet18'"),
        ("wrn-29-10", "depth must be 6 n"),
        ("xyz", "There is no architecture 'xyz'"),
    ],
)
def test_unknown_architectures(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        architecture_named(name, 3, 32, 10)
