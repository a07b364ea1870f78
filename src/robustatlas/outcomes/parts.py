"""What each part of a run says of itself, so that a file in a wrong place is not believed."""

from __future__ import annotations

from collections.abc import Mapping

from robustatlas.outcomes.records import AttackRecord, Identity, parse

ATTACK, OF_RUN = "attack", "about"
"""Names, in a part's metadata, of the key of its attack and of the model and data that it is about."""


def said_of(identity: Identity, record: AttackRecord | None) -> dict[str, str]:
    """What a part of a run says; ``record``: of its attack, None for clean samples."""
    said = {OF_RUN: identity.shortened().model_dump_json()}
    return said if record is None else {ATTACK: record.key, **said}


def misplaced(said: Mapping[str, str], identity: Identity, record: AttackRecord | None, place: str) -> str | None:
    """A sentence where a part says that it is of another attack, model or data; None where it belongs there."""
    if record is not None and said.get(ATTACK, record.key) != record.key:
        return f"{place} holds results of {said[ATTACK]}, not of {record.key}"
    if OF_RUN not in said:
        return None
    differences = identity.shortened().differences(parse(Identity, said[OF_RUN], place))
    return f"{place} is of another run: {'; '.join(differences)}" if differences else None


def anonymous(said: Mapping[str, str]) -> bool:
    """Whether a part says nothing of what it is about, as those of earlier versions."""
    return OF_RUN not in said
