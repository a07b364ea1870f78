"""Records: what files of a run say in JSON, read back and checked by pydantic, since a stranger's file can be wrong."""

import json
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue, ValidationError

from robustatlas.common.documents import validation_message
from robustatlas.common.errors import UserError
from robustatlas.common.interrupts import delay_interrupts


def _strict_json(value: object) -> object:
    """``value`` as strict JSON gives it back: tuples become lists, infinity the text "Infinity"."""
    return json.loads(json.dumps(value), parse_constant=str)


Json = Annotated[dict[str, JsonValue], BeforeValidator(_strict_json)]


class Record(BaseModel):
    """Base of all records: immutable, nothing unknown accepted, strict JSON (infinity as "Infinity")."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    def to_json(self) -> str:
        """Return the text of the record's file."""
        with delay_interrupts():
            return self.model_dump_json(indent=2) + "\n"


R = TypeVar("R", bound=Record)


def parse(kind: type[R], text: str, source: str) -> R:
    """A record from its JSON; ``source`` names the file in the errors (:class:`UserError`)."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise UserError(f"{source} is not what it should be: {validation_message(error, 'its content')}") from error
