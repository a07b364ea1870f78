"""Write what every search of every attack runs, with all constants, to tests/attack_tables.txt.

    python scripts/attack_tables.py

Attacks whose table is the same stand above it together. A change of one constant shows which attacks it touches.
"""

from pathlib import Path

from robustatlas.attacks.catalogue import catalogue
from robustatlas.attacks.definition import Attack
from robustatlas.attacks.table import grouped_rows

FILE = Path(__file__).parents[1] / "tests" / "attack_tables.txt"


def table(attack: Attack) -> str:
    """Return the table of an attack: each search, its runs, its rules and its most passes."""
    lines = []
    for searches, rows in grouped_rows(attack, ("default",)):
        lines.append("  " + ", ".join(searches))
        lines += [f"    {row.role or 'most':8} {row.what}: {row.cells[0]}" for row in rows]
    return "\n".join(lines)


def tables() -> str:
    """Return the tables of all attacks by both protocols."""
    names: dict[str, list[str]] = {}
    for protocol in ("default", "paper"):
        for name, attack in catalogue(protocol).items():
            names.setdefault(table(attack), []).append(name if protocol == "default" else f"{name} (paper)")
    return "\n\n".join(f"{', '.join(same)}\n{text}" for text, same in names.items()) + "\n"


if __name__ == "__main__":
    FILE.write_text(tables(), encoding="utf-8")
