"""``external``: an attack of another library as one of ours, and how the attacks of each library are called."""

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.attacks.definition import Attack, AttackInfo, AttackRun, Search
from robustatlas.attacks.description import to_plain_data
from robustatlas.attacks.lp import STRENGTHS, THREATS, UNITS
from robustatlas.common.errors import UserError, check_among
from robustatlas.models.classifier import Knowledge
from robustatlas.optimizers.external import Call, External, ExternalMinimum

_STRENGTH_NAMES = ("eps", "epsilon", "ε")
"""Names of a parameter that takes the strength."""

_PACKAGES = {
    "foolbox": "foolbox",
    "torchattacks": "torchattacks",
    "art": "adversarial-robustness-toolbox",
    "adv_lib": "adv-lib",
}


def external(
    attack: Any,
    norm: str,
    *,
    name: str | None = None,
    strengths: Sequence[float] | None = None,
    needs: Knowledge = "gradients",
    **settings: Any,
) -> Attack:
    """Return an attack of another library as one of ours: passes are counted, examples verified and measured here.

    Args:
        attack: of foolbox: an object, such as ``LinfPGD(steps=20)``; of torchattacks or the Adversarial Robustness
            Toolbox: the class, such as ``torchattacks.PGD``; of adv-lib: the function; or any function of ``(model, x,
            labels)`` (and ``eps``, where it works at a given strength) that returns perturbed inputs. ``model`` is a
            module from inputs in [0, 1] to logits.
        norm: norm of the ball that it searches: ``"linf"``, ``"l2"``, ``"l1"`` or ``"l0"``. An example outside of the
            ball counts at the strength that it really has.
        name: name of the attack; default: its name in the library.
        strengths: strengths of the grid; default: the catalogue's.
        needs: knowledge of the model that it needs: ``"gradients"``, ``"scores"`` or ``"labels"``.
        settings: arguments of the class or function, besides the strength, which each search gives.

    Returns:
        An attack for :func:`evaluate`; its ``stages`` can stand beside others in a plan of your own. One
        that has a strength is searched by bisection, one that has none looks for the smallest examples by itself.

    Raises:
        UserError: the attack is of no known kind, or there is no such norm.

    Example:
        >>> import torch
        >>> from robustatlas.evaluation import evaluate
        >>> def brighten(model, x, labels, eps):
        ...     return (x + eps).clamp(0, 1)
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
        >>> data = (torch.rand(5, 1, 2, 2), torch.tensor([0, 1, 0, 0, 1]))
        >>> evaluate(net, data, external(brighten, "linf", strengths=(0.1, 0.2))).attacks
        ('brighten',)
    """
    check_among("norm", norm, THREATS)
    found = _adapt_attack(attack, settings, THREATS[norm].p)
    kind = ExternalMinimum if found.is_minimum else External
    optimizer = kind(found.call, json.dumps(dict(found.about), sort_keys=True), needs)
    run = AttackRun(optimizer, "margin", start="neutral")
    order: tuple[Search, ...] = (
        ("descent", "bisection", "every") if found.is_minimum else ("bisection", "every", "descent")
    )
    return Attack(
        name=name or found.name.strip("_"),
        threat=THREATS[norm],
        runs=(run,),
        strengths=tuple(strengths) if strengths is not None else STRENGTHS[norm],
        search_order=order,
        about=AttackInfo(UNITS[norm], str(found.about.get("library", "a function given"))),
        unbounded=True,
    )


@dataclass(frozen=True)
class _AdaptedAttack:
    """Attack of another library.

    Attributes:
        call: function that runs it on a batch.
        is_minimum: True if it looks for the smallest size itself, False if it works at a given strength.
        name: its name in the library.
        about: library, version and settings, as records keep them.
    """

    call: Call
    is_minimum: bool
    name: str
    about: Mapping[str, Any]


def _adapt_attack(attack: Any, settings: Mapping[str, Any], p: float) -> _AdaptedAttack:
    """Return an attack with its settings, in the lp norm ``p``."""
    kind = attack if inspect.isclass(attack) else type(attack)
    module = getattr(attack, "__module__", "") if inspect.isfunction(attack) else kind.__module__
    library = str(module).partition(".")[0]
    if library == "foolbox" and not inspect.isclass(attack):
        return _adapt_foolbox(attack, settings)
    if library == "torchattacks" and inspect.isclass(attack):
        return _adapt_class(attack, settings, library, _run_torchattacks)
    if library == "art" and inspect.isclass(attack):
        return _adapt_class(attack, _add_norm(attack, settings, p), library, _run_art)
    if library in ("torchattacks", "art"):
        raise UserError(
            f"{kind.__name__} of {library} is bound to a model already; give the class {kind.__name__} and its "
            "settings instead."
        )
    if callable(attack) and not inspect.isclass(attack):
        return _adapt_function(attack, _add_norm(attack, settings, p), library)
    raise UserError(
        f"{kind.__name__} is not an attack that is known here; expected one of foolbox (an object), "
        "torchattacks or ART (a class and settings), adv-lib (a function), or any function of (model, x, labels) that "
        "returns perturbed inputs."
    )


def _adapt_foolbox(attack: Any, settings: Mapping[str, Any]) -> _AdaptedAttack:
    if settings:
        raise UserError(f"{type(attack).__name__} of foolbox is an object with settings; give it the others, too.")
    foolbox: Any = import_module("foolbox")

    def call(model: nn.Module, x: Tensor, labels: Tensor, epsilon: float | None) -> Tensor:
        bounded = foolbox.PyTorchModel(model, bounds=(0, 1), device=x.device)
        _, clipped, _ = attack(bounded, x, foolbox.criteria.Misclassification(labels), epsilons=epsilon)
        found: Tensor = clipped
        return found

    inner = getattr(attack, "attack", attack)  # foolbox wraps an attack that it repeats
    is_minimum = isinstance(inner, import_module("foolbox.attacks.base").MinimizationAttack)
    settings_record = {"settings": re.sub(r" at 0x[0-9a-f]+", "", repr(attack))}
    return _AdaptedAttack(
        call, is_minimum, type(attack).__name__, _library_record("foolbox", type(attack).__name__) | settings_record
    )


def _run_torchattacks(attack: type, settings: Mapping[str, Any], model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    found: Tensor = attack(model, **settings)(x, labels)
    return found


def _run_art(attack: type, settings: Mapping[str, Any], model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
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
    adversarial = attack(estimator, **settings).generate(x=x.cpu().numpy(), y=labels.cpu().numpy())
    return torch.from_numpy(adversarial)


def _adapt_class(
    attack: type,
    settings: Mapping[str, Any],
    library: str,
    run: Callable[[type, Mapping[str, Any], nn.Module, Tensor, Tensor], Tensor],
) -> _AdaptedAttack:
    parameter = _strength_parameter(attack)
    quiet = {"verbose": False} if library == "art" and "verbose" in _parameters(attack) else {}

    def call(model: nn.Module, x: Tensor, labels: Tensor, epsilon: float | None) -> Tensor:
        given = {parameter: epsilon} if parameter and epsilon is not None else {}
        return run(attack, {**quiet, **settings, **given}, model, x, labels)

    return _AdaptedAttack(
        call,
        parameter is None,
        attack.__name__,
        _library_record(library, attack.__name__) | {"settings": to_plain_data(settings)},
    )


def _adapt_function(attack: Callable[..., Any], settings: Mapping[str, Any], library: str) -> _AdaptedAttack:
    parameter = _strength_parameter(attack)
    name = str(getattr(attack, "__name__", type(attack).__name__))

    def call(model: nn.Module, x: Tensor, labels: Tensor, epsilon: float | None) -> Tensor:
        given = {parameter: epsilon} if parameter and epsilon is not None else {}
        found = attack(model, x, labels, **{**settings, **given})
        if not isinstance(found, Tensor):
            raise UserError(f"{name} returned {type(found).__name__}; expected the perturbed inputs as a tensor.")
        return found

    about = _library_record(library, name) if library in _PACKAGES else {"attack": to_plain_data(attack)}
    return _AdaptedAttack(call, parameter is None, name, about | {"settings": to_plain_data(settings)})


def _library_record(library: str, attack: str) -> dict[str, Any]:
    return {"library": f"{library} {metadata.version(_PACKAGES[library])}", "attack": attack}


def _parameters(attack: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(attack).parameters
    except (TypeError, ValueError):
        return {}


def _strength_parameter(attack: Callable[..., Any]) -> str | None:
    return next((name for name in _STRENGTH_NAMES if name in _parameters(attack)), None)


def _add_norm(attack: Callable[..., Any], settings: Mapping[str, Any], p: float) -> Mapping[str, Any]:
    """Return the settings, with the norm if the attack has a parameter for it."""
    return {"norm": p, **settings} if "norm" in _parameters(attack) else settings
