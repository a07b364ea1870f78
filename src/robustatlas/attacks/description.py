"""An attack as plain data, which decides if two runs' numbers belong together, and its counterpart in this package."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from types import CodeType
from typing import Any

from torch import Tensor, nn

from robustatlas.attacks.catalogue import ATTACKS, attack_named, catalogue
from robustatlas.attacks.definition import Attack
from robustatlas.common.errors import UserError
from robustatlas.models.classifier import Classifier
from robustatlas.outcomes.base import sha256_of_tensors
from robustatlas.outcomes.records import set_parameters
from robustatlas.threats.base import ThreatModel


def to_plain_data(value: Any) -> Any:
    """Return ``value`` with everything in it as dicts, lists, strings and numbers, equal for equal numbers.

    Dataclasses are their fields and their ``version``, networks their structure and a hash of their weights, functions
    their code. Anything else needs a method ``to_record()`` that returns such plain data.
    """
    if hasattr(value, "to_record") and not isinstance(value, type):
        return to_plain_data(value.to_record()) | _version(value)
    if is_dataclass(value) and not isinstance(value, type):
        said = {f.name: to_plain_data(getattr(value, f.name)) for f in fields(value)}
        return {"kind": type(value).__name__} | said | _version(value)
    if isinstance(value, Mapping):
        return {str(key): to_plain_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain_data(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Tensor):
        return {"sha256": sha256_of_tensors({"": value})}
    if isinstance(value, Classifier):
        return {"network": to_plain_data(value.net), "normalisation": to_plain_data(value.normalisation())}
    if isinstance(value, nn.Module):
        return {"network": _hash(str(value)), "sha256": sha256_of_tensors(value.state_dict())}
    if isinstance(getattr(value, "__code__", None), CodeType):
        return _function(value)
    raise UserError(
        f"{type(value).__name__} in an attack's settings cannot be recorded: results could not be told from those with "
        "another one. Make it a dataclass, or give it a method to_record() that returns plain data."
    )


def _version(value: Any) -> dict[str, int]:
    """Return the version of an object's type, and nothing for a type without versions."""
    version = getattr(type(value), "version", None)
    return {} if version is None else {"version": version}


def _function(function: Callable[..., Any]) -> dict[str, Any]:
    """Return a function as its name, its code, and what it closes over."""
    cells = [to_plain_data(cell.cell_contents) for cell in getattr(function, "__closure__", None) or ()]
    return {"function": function.__qualname__, "code": _code(function.__code__), "closure": cells}


def _code(code: CodeType) -> str:
    constants = [_code(item) if isinstance(item, CodeType) else repr(item) for item in code.co_consts]
    return _hash(repr((code.co_code.hex(), constants, code.co_names)))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


_EXTERNAL = "robustatlas.optimizers.external"
_NOT_COMPARED = ("border", "distance")
"""Parameters that an evaluation sets itself: counterparts take those of the run."""


def counterpart_name(attack: Attack) -> str:
    """Return the name of this package's attack on the threat model of an attack of one's own.

    Empty for an attack of this package itself, and where the package has none on that threat model.

    Example:
        >>> from dataclasses import replace
        >>> ours = attack_named("linf")
        >>> counterpart_name(replace(ours, name="mine")), counterpart_name(ours)
        ('linf', '')
    """
    if _is_of_this_package(attack):
        return ""
    ours = (each for each in _package_attacks().values() if _parameters(each.threat) == _parameters(attack.threat))
    return next((each.name for each in ours), "")


def _package_attacks() -> dict[str, Attack]:
    """Return the attacks of the catalogue that no other package and no caller entered."""
    entered = [made for name, made in ATTACKS.load_usable().items() if name not in ATTACKS.builtin_names]
    others = {made.name for made in entered if isinstance(made, Attack)}
    return {name: attack for name, attack in catalogue().items() if name not in others and _has_own_parts(attack)}


def _has_own_parts(attack: Attack) -> bool:
    parts = [type(attack.threat), *(type(run.optimizer) for run in attack.runs)]
    return all(part.__module__.startswith("robustatlas.") and part.__module__ != _EXTERNAL for part in parts)


def _is_of_this_package(attack: Attack) -> bool:
    """Return if the name is one of this package's, those that it makes of several included, and so are all parts."""
    if not _has_own_parts(attack):
        return False
    if attack.name in _package_attacks():
        return True
    try:
        made = attack_named(attack.name)
    except UserError:
        return False
    return attack.name not in catalogue() and _has_own_parts(made)


def _parameters(threat: ThreatModel) -> dict[str, Any]:
    held = set_parameters(to_plain_data(threat))
    return {name: value for name, value in held.items() if name not in _NOT_COMPARED} if isinstance(held, dict) else {}
