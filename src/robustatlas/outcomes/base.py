"""Records: what the JSON files of a run say, checked when read, since a stranger's file can be wrong; their hashes and
differences."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue, ValidationError

from robustatlas.common.documents import validation_message
from robustatlas.common.errors import UserError, shorten
from robustatlas.common.interrupts import delay_interrupts

if TYPE_CHECKING:
    from torch import Tensor


def _strict_json(value: object) -> object:
    """Return the value that strict JSON gives back: tuples become lists, infinity the text "Infinity"."""
    return json.loads(json.dumps(value), parse_constant=str)


Json = Annotated[dict[str, JsonValue], BeforeValidator(_strict_json)]


class Record(BaseModel):
    """Base of all records: immutable, nothing unknown accepted, strict JSON (infinity as "Infinity")."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    def to_json(self) -> str:
        """Return the text of the record's file."""
        with delay_interrupts():
            return self.model_dump_json(indent=2) + "\n"


class Role(Enum):
    """Role of a field of a record in the fingerprint, which is equal for equal numbers."""

    DECIDES = "decides"
    """The numbers depend on it."""

    DESCRIBES = "describes"
    """It is there for readers, or follows from what decides."""


def deciding_fields(record: type[BaseModel]) -> set[str]:
    """Return the fields of a record that decide its numbers.

    Raises:
        TypeError: a field is not annotated with exactly one :class:`Role`.

    >>> class Search(Record):
    ...     steps: Annotated[int, Role.DECIDES]
    ...     source: Annotated[str, Role.DESCRIBES] = ""
    >>> deciding_fields(Search)
    {'steps'}
    """
    roles = {name: [r for r in info.metadata if isinstance(r, Role)] for name, info in record.model_fields.items()}
    for name, found in roles.items():
        if len(found) != 1:
            raise TypeError(f"{record.__name__}.{name} must be annotated with Role.DECIDES or Role.DESCRIBES.")
    return {name for name, (role,) in roles.items() if role is Role.DECIDES}


R = TypeVar("R", bound=Record)


def parse(kind: type[R], text: str, source: str) -> R:
    """Return a record from its JSON; ``source`` names the file in the errors (:class:`UserError`)."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise UserError(f"{source} is not what it should be: {validation_message(error, 'its content')}") from error


def digest(value: Any) -> str:
    """Return twelve hexadecimal digits that identify a value, by its JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def sha256_of_array(array: NDArray[Any]) -> str:
    """Return the hash of an array's type, shape and content.

    Args:
        array: of any type and shape.

    Returns:
        64 hexadecimal digits.

    Example:
        >>> sha256_of_array(np.zeros(2)) == sha256_of_array(np.zeros((1, 2)))
        False
    """
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def sha256_of_tensors(tensors: Mapping[str, Tensor]) -> str:
    """Return the hash of named tensors (a ``state_dict``), whatever their order, device and layout (sparse ones too).

    Args:
        tensors: name -> tensor.

    Returns:
        64 hexadecimal digits.

    Example:
        >>> import torch
        >>> one, two = torch.zeros(2), torch.ones(2)
        >>> sha256_of_tensors({"a": one, "b": two}) == sha256_of_tensors({"b": two, "a": one})
        True
    """
    import torch  # here, so that reading outcomes needs no torch

    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu()
        tensor = tensor if tensor.layout == torch.strided else tensor.to_dense()
        tensor = tensor.clone(memory_format=torch.contiguous_format)  # NumPy would hold the memory of the network's own
        digest.update(f"{name}:{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def differences(known: Any, given: Any, where: str, place: str = "", there: str = "given") -> Iterator[str]:
    """Yield each number or text that differs, by its place; ``where`` the known one stands and ``there`` the given one.

    >>> list(differences({"steps": {"rate": 1}}, {"steps": {"rate": 2}}, "in the run"))
    ['steps.rate: 1 in the run, 2 given']
    """
    if isinstance(known, Mapping) and isinstance(given, Mapping):
        for key in dict.fromkeys([*known, *given]):
            inner = f"{place}.{key}" if place else str(key)
            yield from differences(known.get(key), given.get(key), where, inner, there)
    elif isinstance(known, list) and isinstance(given, list) and len(known) == len(given):
        for number, (one, other) in enumerate(zip(known, given, strict=True)):
            yield from differences(one, other, where, f"{place}.{number}", there)
    elif known != given:
        yield f"{place}: {_value_in_words(known)} {where}, {_value_in_words(given)} {there}"


def _value_in_words(value: object) -> str:
    if isinstance(value, list):
        return f"{len(value)} of them"
    return "nothing" if value is None else shorten(value)
