"""Find names and docstrings that do not say by themselves what they are.

    python tests/style/plain_code.py            # counts of each room
    python tests/style/plain_code.py --list     # every place, as file:line
    python tests/style/plain_code.py --write    # lower the limits of rooms to their counts

Three kinds of faults are counted. *names*: a function that is called by a bare participle, preposition, pronoun or
adverb, or whose name begins with one. *docstrings*: a first sentence that only continues the name above it. *endings*:
a function whose name ends with a preposition, or a class that is called by a bare participle.

The words stand in ``plain_code.toml``. The limits of rooms that are not clean yet stand in ``plain_code_limits.json``.
A room that is not listed there has no faults. Endings have one limit for all rooms.
"""

import ast
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[2]
LIMITS = Path(__file__).with_name("plain_code_limits.json")
WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("plain_code.toml").read_text(encoding="utf-8"))
NAMES = WORDS["names"]
BARE = frozenset(word for kind in ("prepositions", "pronouns", "adverbs", "participles") for word in NAMES[kind])
OPENINGS = frozenset(WORDS["docstrings"]["openings"])
ENDINGS = frozenset(WORDS["endings"]["prepositions"])
PLACES = ("docs/_tools", "benchmarks", "scripts", "examples")
"""Folders outside of the package that are rooms of their own."""

Kind = Literal["names", "docstrings", "endings"]


@dataclass(frozen=True)
class Fault:
    """One name or docstring that breaks a rule."""

    kind: Kind
    path: Path
    line: int
    text: str

    @property
    def room(self) -> str:
        """Name of the room that the file belongs to."""
        if self.kind == "endings":
            return "all rooms"
        parts = self.path.relative_to(ROOT).parts
        if parts[:2] == ("src", "robustatlas"):
            return parts[2] if len(parts) > 3 else "robustatlas"
        return next(place for place in PLACES if self.path.is_relative_to(ROOT / place))

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.kind}: {self.text}"


def is_bare_name(name: str) -> bool:
    """Return True if a name says nothing by itself.

    >>> is_bare_name("_told"), is_bare_name("chosen_attacks"), is_bare_name("margins"), is_bare_name("read_parts")
    (True, True, False, False)
    """
    words = name.strip("_").split("_")
    return name.strip("_") in BARE or (words[0] in BARE and words[0] not in NAMES["allowed_first"])


def ends_with_preposition(name: str) -> bool:
    """Return True if the last of several words of a name is a preposition.

    >>> ends_with_preposition("seed_of"), ends_with_preposition("off"), ends_with_preposition("seeds")
    (True, False, False)
    """
    words = name.strip("_").split("_")
    return len(words) > 1 and words[-1] in ENDINGS


def continues_the_name(docstring: str) -> bool:
    """Return True if a docstring cannot be read without the name above it.

    >>> continues_the_name("Whether it is so."), continues_the_name("Return the margins.")
    (True, False)
    """
    words = docstring.split()
    return bool(words) and words[0].strip(",.:;`").lower() in OPENINGS


def faults_in_file(path: Path) -> Iterator[Fault]:
    """Yield the faults of one file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            own = not node.name.startswith("__") and node.name not in NAMES["allowed"]
            if own and is_bare_name(node.name):
                yield Fault("names", path, node.lineno, node.name)
            if own and ends_with_preposition(node.name):
                yield Fault("endings", path, node.lineno, node.name)
        if isinstance(node, ast.ClassDef) and node.name.strip("_").lower() in BARE:
            yield Fault("endings", path, node.lineno, node.name)
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                text = statement.value.value
                if isinstance(text, str) and continues_the_name(text):
                    yield Fault("docstrings", path, statement.lineno, " ".join(text.split()[:9]))


def all_faults() -> list[Fault]:
    """Return the faults of the package and of the folders beside it."""
    folders = [ROOT / "src" / "robustatlas", *(ROOT / place for place in PLACES)]
    return [fault for folder in folders for path in sorted(folder.rglob("*.py")) for fault in faults_in_file(path)]


def counts_by_room(faults: list[Fault]) -> dict[str, dict[str, int]]:
    """Return room -> kind -> number of faults; rooms and kinds without faults are left out."""
    rooms: dict[str, Counter[str]] = {}
    for fault in faults:
        rooms.setdefault(fault.room, Counter())[fault.kind] += 1
    return {room: dict(sorted(rooms[room].items())) for room in sorted(rooms)}


def read_limits() -> dict[str, dict[str, int]]:
    """Return room -> kind -> largest number of faults."""
    limits: dict[str, dict[str, int]] = json.loads(LIMITS.read_text(encoding="utf-8"))
    return limits


def lower_limits() -> None:
    """Write the counts as limits where they are lower than the limits."""
    counts, limits = counts_by_room(all_faults()), read_limits()
    lowered = {
        room: {kind: low for kind, limit in kinds.items() if (low := min(limit, counts.get(room, {}).get(kind, 0)))}
        for room, kinds in limits.items()
    }
    text = json.dumps({room: kinds for room, kinds in lowered.items() if kinds}, indent=1)
    LIMITS.write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Print counts or places, or lower the limits."""
    if "--write" in sys.argv:
        lower_limits()
    faults = all_faults()
    if "--list" in sys.argv:
        print(*faults, sep="\n")
    for room, kinds in counts_by_room(faults).items():
        print(f"{room}: {', '.join(f'{count} {kind}' for kind, count in kinds.items())}")


if __name__ == "__main__":
    main()
