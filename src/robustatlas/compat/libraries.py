"""How the attacks of each library are called."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.attacks.description import to_plain_data
from robustatlas.common.errors import UserError
from robustatlas.optimizers.external import Call

_EPSILON = ("eps", "epsilon", "ε")
"""What parameters for a strength are called."""

_PACKAGES = {
    "foolbox": "foolbox",
    "torchattacks": "torchattacks",
    "art": "adversarial-robustness-toolbox",
    "adv_lib": "adv-lib",
}


@dataclass(frozen=True)
class Taken:
    """An attack of another library: how it is called, whether it looks for the smallest size, and what it is."""

    call: Call
    minimum: bool
    name: str
    about: Mapping[str, Any]


def taken(attack: Any, settings: Mapping[str, Any], p: float) -> Taken:
    """``attack`` with ``settings``, in the lp norm ``p``; see :func:`robustatlas.external`."""
    kind = attack if inspect.isclass(attack) else type(attack)
    module = getattr(attack, "__module__", "") if inspect.isfunction(attack) else kind.__module__
    library = str(module).partition(".")[0]
    if library == "foolbox" and not inspect.isclass(attack):
        return _of_foolbox(attack, settings)
    if library == "torchattacks" and inspect.isclass(attack):
        return _of_class(attack, settings, library, _torchattacks)
    if library == "art" and inspect.isclass(attack):
        return _of_class(attack, _with_norm(attack, settings, p), library, _art)
    if library in ("torchattacks", "art"):
        raise UserError(
            f"{kind.__name__} of {library} is bound to a model already; give the class {kind.__name__} and its "
            "settings instead."
        )
    if callable(attack) and not inspect.isclass(attack):
        return _of_function(attack, _with_norm(attack, settings, p), library)
    raise UserError(
        f"{kind.__name__} is not an attack that is known here; expected one of foolbox (an object), "
        "torchattacks or ART (a class and settings), adv-lib (a function), or any function of (model, x, labels) that "
        "returns perturbed inputs."
    )


def _of_foolbox(attack: Any, settings: Mapping[str, Any]) -> Taken:
    if settings:
        raise UserError(f"{type(attack).__name__} of foolbox is an object with settings; give it the others, too.")
    foolbox: Any = import_module("foolbox")

    def call(model: nn.Module, x: Tensor, labels: Tensor, epsilon: float | None) -> Tensor:
        bounded = foolbox.PyTorchModel(model, bounds=(0, 1), device=x.device)
        _, clipped, _ = attack(bounded, x, foolbox.criteria.Misclassification(labels), epsilons=epsilon)
        found: Tensor = clipped
        return found

    inner = getattr(attack, "attack", attack)  # of repeated ones
    minimum = isinstance(inner, import_module("foolbox.attacks.base").MinimizationAttack)
    about = {"settings": re.sub(r" at 0x[0-9a-f]+", "", repr(attack))}
    return Taken(call, minimum, type(attack).__name__, _about("foolbox", type(attack).__name__) | about)


def _torchattacks(attack: type, settings: Mapping[str, Any], model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    found: Tensor = attack(model, **settings)(x, labels)
    return found


def _art(attack: type, settings: Mapping[str, Any], model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    art: Any = import_module("art.estimators.classification")
    with torch.no_grad():
        classes = model(x[:1]).shape[1]
    estimator = art.PyTorchClassifier(
        model=model,
        loss=nn.CrossEntropyLoss(),
        input_shape=tuple(x.shape[1:]),
        nb_classes=classes,
        clip_values=(0.0, 1.0),
        device_type="cpu" if x.device.type == "cpu" else "gpu",
    )
    made = attack(estimator, **settings).generate(x=x.cpu().numpy(), y=labels.cpu().numpy())
    return torch.from_numpy(made)


def _of_class(
    attack: type,
    settings: Mapping[str, Any],
    library: str,
    run: Callable[[type, Mapping[str, Any], nn.Module, Tensor, Tensor], Tensor],
) -> Taken:
    named = _strength_of(attack)
    quiet = {"verbose": False} if library == "art" and "verbose" in _parameters(attack) else {}

    def call(model: nn.Module, x: Tensor, labels: Tensor, epsilon: float | None) -> Tensor:
        given = {named: epsilon} if named and epsilon is not None else {}
        return run(attack, {**quiet, **settings, **given}, model, x, labels)

    return Taken(
        call, named is None, attack.__name__, _about(library, attack.__name__) | {"settings": to_plain_data(settings)}
    )


def _of_function(attack: Callable[..., Any], settings: Mapping[str, Any], library: str) -> Taken:
    named = _strength_of(attack)
    name = str(getattr(attack, "__name__", type(attack).__name__))

    def call(model: nn.Module, x: Tensor, labels: Tensor, epsilon: float | None) -> Tensor:
        given = {named: epsilon} if named and epsilon is not None else {}
        found = attack(model, x, labels, **{**settings, **given})
        if not isinstance(found, Tensor):
            raise UserError(f"{name} returned {type(found).__name__}; expected the perturbed inputs as a tensor.")
        return found

    what = _about(library, name) if library in _PACKAGES else {"attack": to_plain_data(attack)}
    return Taken(call, named is None, name, what | {"settings": to_plain_data(settings)})


def _about(library: str, attack: str) -> dict[str, Any]:
    return {"library": f"{library} {metadata.version(_PACKAGES[library])}", "attack": attack}


def _parameters(attack: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(attack).parameters
    except (TypeError, ValueError):
        return {}


def _strength_of(attack: Callable[..., Any]) -> str | None:
    return next((name for name in _EPSILON if name in _parameters(attack)), None)


def _with_norm(attack: Callable[..., Any], settings: Mapping[str, Any], p: float) -> Mapping[str, Any]:
    """``settings``, with the norm where the attack asks for one."""
    return {"norm": p, **settings} if "norm" in _parameters(attack) else settings
