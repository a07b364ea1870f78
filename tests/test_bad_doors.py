"""Every function that takes a model and data checks both: one sentence of what is wrong, the same at each."""

import copy
import warnings
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import robustatlas as ra
from robustatlas.drop_in import AutoAttack
from robustatlas.evaluation import forecast
from robustatlas.training import Settings
from robustatlas.training.callbacks import watch
from robustatlas.training.references import ReferencePlan, make_reference
from test_bad_calls import IMAGES, LABELS, NET, POSITIONS, evaluate


def _autoattack(method: str) -> Callable[..., Any]:
    def door(model: Any, data: Any, batch_size: Any = 4, seed: Any = 0) -> Any:
        kind = {"version": "custom", "attacks_to_run": ["apgd-ce"], "device": "cpu", "verbose": False, "fast": True}
        adversary = AutoAttack(model, eps=0.1, seed=seed, **kind)
        adversary.apgd.n_iter = 2
        return getattr(adversary, method)(*data, bs=batch_size)

    return door


def _watched(model: Any, data: Any, **options: Any) -> Any:
    """A look raises nothing: what it warns of counts as what it says."""
    strengths = {"linf": [0.1]}
    with TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        numbers = watch(data, "linf", share=None, folder=folder, strengths=strengths, **options)(model, epoch=1)
    if not numbers:
        raise ra.UserError(next(str(each.message) for each in said if "failed (UserError: " in str(each.message)))
    return numbers


def _trained(model: Any, data: Any, batch_size: Any = 4, seed: Any = 0) -> Any:
    settings = Settings(epochs=1, held_out=0, batch_size=batch_size, seed=seed)
    return ra.train(model, ra.Dataset.from_arrays(*data), settings=settings, progress=False, device="cpu")


def _referred(model: Any, data: Any, batch_size: Any = 4, seed: Any = 0) -> Any:
    settings = Settings(epochs=1, held_out=0, batch_size=batch_size, seed=seed)
    plan = ReferencePlan("digits-cnn", {"linf": [0.1]}, steps=1, settings=settings)
    measured = ra.Dataset.from_arrays(*data)
    training = ra.Dataset.from_arrays(measured.images.flip(-1), measured.labels)
    with TemporaryDirectory() as folder:
        return make_reference(plan, training, measured, f"{folder}/made", progress=False, device="cpu")


DOORS: dict[str, Callable[..., Any]] = {
    "evaluate": lambda model, data, **options: evaluate(model=model, data=data, **options),
    "forecast": lambda model, data, **options: forecast(model, data, "linf", budget=0.01, **options),
    "certify": lambda model, data, **options: ra.certify(model, data, "linf", **options),
    "diagnose": lambda model, data, **options: ra.diagnose(model, data, **options),
    "AutoAttack": _autoattack("run_standard_evaluation"),
    "AutoAttack, each": _autoattack("run_standard_evaluation_individual"),
    "AutoAttack, clean": _autoattack("clean_accuracy"),
    "watch": _watched,
    "train": _trained,
    "reference": _referred,
}


UNSEEDED = ("AutoAttack, clean",)


UNBATCHED = ("diagnose", "watch")


OWN_NETWORK = ("reference",)
"""Doors that train networks of their own, of as many classes as the data have."""


INPUTS: dict[str, tuple[dict[str, Any], str]] = {  # what is given, and what one sentence names
    "labels too few": ({"data": (IMAGES, LABELS[:2])}, "2"),
    "label C": ({"data": (IMAGES, LABELS + 1)}, "3 classes"),
    "from 0 to 255": ({"data": (IMAGES * 255, LABELS)}, "255"),
    "batch size 0": ({"batch_size": 0}, "at least"),
    "a large seed": ({"seed": 2**70}, "64 bits"),
    "weights of NaN": ({"model": lambda: _filled(torch.nan)}, "NaN"),
    "two inputs": ({"model": nn.Bilinear(4, 4, 3)}, "input2"),
}


def _filled(value: float) -> nn.Module:
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    nn.init.constant_(net[1].weight, value)  # type: ignore[arg-type]
    return net


def _asked(door: str, given: dict[str, Any]) -> dict[str, Any]:
    model = given.get("model", NET)
    model = model() if type(model).__name__ == "function" else model
    return {"data": (IMAGES, LABELS)} | given | {"model": copy.deepcopy(model)}


def _meets(door: str, name: str) -> bool:
    given, _ = INPUTS[name]
    return not (
        ("seed" in given and door in UNSEEDED)
        or ("batch_size" in given and door in UNBATCHED)
        or (door in OWN_NETWORK and ("model" in given or name == "label C"))
    )


@pytest.mark.parametrize(("door", "name"), [(d, n) for d in DOORS for n in INPUTS if _meets(d, n)])
def test_every_door_says_it_in_a_sentence(door: str, name: str) -> None:
    given, said = INPUTS[name]
    with warnings.catch_warnings(), pytest.raises(ra.UserError) as caught:
        warnings.simplefilter("ignore")
        DOORS[door](**_asked(door, given))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("door", DOORS)
def test_no_door_computes_on_a_device_without_numbers(door: str) -> None:
    torch.set_default_device("meta")
    try:
        with pytest.raises(ra.UserError, match="'meta'"):
            DOORS[door](**_asked(door, {}))
    finally:
        torch.set_default_device(None)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("door", DOORS)
def test_every_door_takes_what_evaluate_takes(door: str) -> None:
    """Images of NumPy, labels of 8 bits and a negative seed."""
    images = IMAGES.numpy()
    if door == "reference":  # whose networks are too deep for four pixels
        images = np.random.default_rng(0).random((5, 1, 8, 8), np.float32)
    given: dict[str, Any] = {"data": (images, POSITIONS.astype(np.uint8))}
    assert DOORS[door](**_asked(door, given if door in UNSEEDED else given | {"seed": -1})) is not None
