"""Runs of format 1 (robustatlas 0.1 before runs could grow), read so that they can be converted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BaseModel, Field, JsonValue, ValidationError

from robustatlas.documents import fault
from robustatlas.errors import UserError, first_line
from robustatlas.outcomes.columns import OUTCOME_COLUMNS, Arrays
from robustatlas.outcomes.records import (
    AttackName,
    AttackRecord,
    CallRecord,
    DataRecord,
    Identity,
    ModelRecord,
    spans_of,
)
from robustatlas.outcomes.store import Run
from robustatlas.outcomes.strengths import check_strengths
from robustatlas.outcomes.tables import CorruptFileError, read_parquet


def _increasing(strengths: tuple[float, ...]) -> tuple[float, ...]:
    check_strengths(strengths, "the attack")
    return strengths


class _Model(BaseModel):
    name: str
    sha256: str | None = None


class _Attack(BaseModel):
    strengths: Annotated[tuple[float, ...], AfterValidator(_increasing)]
    unit: str = ""
    monotone: bool = True
    parameters: dict[str, JsonValue] = Field(default_factory=dict)


class _Settings(BaseModel):
    model: _Model
    data: DataRecord
    attacks: dict[AttackName, _Attack] = Field(min_length=1)
    search: str = "descent"
    procedure: str = "default"
    seed: int = 0
    precision: str = "float32"


class _Context(BaseModel):
    created: str = ""
    command: str = ""
    warnings: tuple[str, ...] = ()


class _Manifest(BaseModel):
    settings: _Settings
    context: _Context = _Context()


@dataclass(frozen=True)
class Format1:
    """A run of format 1."""

    root: Path
    manifest: _Manifest

    @property
    def identity(self) -> Identity:
        """What it is about."""
        settings = self.manifest.settings
        model = ModelRecord(name=settings.model.name, weights_sha256=settings.model.sha256)
        return Identity(model=model, data=settings.data, created=self.manifest.context.created)

    def records(self) -> Iterator[AttackRecord]:
        """Its attacks."""
        settings = self.manifest.settings
        for name, attack in settings.attacks.items():
            parameters = dict(attack.parameters)
            threat = parameters.pop("threat", {})
            procedure: dict[str, JsonValue] = {
                "search": settings.search,
                "seed": settings.seed,
                "precision": settings.precision,
            }
            yield AttackRecord(
                name=name,
                strengths=attack.strengths,
                monotone=attack.monotone,
                threat=threat if isinstance(threat, dict) else {},
                procedure=procedure | {"format": 1, "procedure": settings.procedure, "parameters": parameters},
                unit=attack.unit,
            )

    def parts(self, attack: str) -> Iterator[tuple[Arrays, Arrays]]:
        """Outcomes and samples of each finished shard."""
        for file in sorted((self.root / "outcomes" / attack).glob("shard-*.parquet")):
            columns = read_parquet(file)
            columns.pop("minimal_strength", None)
            columns["rejected"] = np.zeros_like(columns["forward"])
            if set(columns) != set(OUTCOME_COLUMNS):
                raise CorruptFileError(f"{file} is not a table of a run of format 1; delete it and convert again.")
            yield columns, read_parquet(self.root / "samples" / file.name)


def is_format1(root: Path) -> bool:
    """Whether ``root`` holds a run of format 1."""
    try:
        content: Any = json.loads((root / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, Mapping) and content.get("format_version") == 1


def read(root: Path) -> Format1:
    """The run in ``root``."""
    try:
        return Format1(root, _Manifest.model_validate_json((root / "run.json").read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        said = fault(error, "its content") if isinstance(error, ValidationError) else f"{first_line(error)}."
        raise UserError(f"{root / 'run.json'} is not a valid manifest of format 1: {said}") from error


def copy(old: Format1, run: Run) -> None:
    """Put everything that ``old`` has finished into ``run``."""
    for record in old.records():
        parts = list(old.parts(record.name))
        if not parts:
            continue
        context = old.manifest.context
        index = np.concatenate([columns["index"] for columns, _ in parts])
        plan = CallRecord(attacks=(record.key,), spans=spans_of(index), **context.model_dump())
        run.add([record], plan)
        for columns, samples in parts:
            if not np.isin(columns["index"], run.done(record)).all():
                run.write(record, columns, samples, about={"converted from": "format 1"})
