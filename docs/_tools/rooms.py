"""Draw which room of the package imports which: ``python docs/_tools/rooms.py`` writes docs/images/rooms.svg.

The order is that of the layers in pyproject.toml, which ``make lint`` holds; the dots are the imports of today's code.
"""

import ast
import tomllib
from html import escape
from pathlib import Path

from grimp import build_graph

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "images" / "rooms.svg"
ROW, LEFT, WORDS = 26, 12, 108


def rooms() -> list[str]:
    """Return the rooms from top to bottom, without the modules beside them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = [it for it in settings["tool"]["importlinter"]["contracts"] if it.get("exhaustive")]
    return [layer for layer in layers["layers"] if "|" not in layer]


def room_summary(room: str) -> str:
    """Return the first sentence of a room's docstring."""
    text = ast.get_docstring(ast.parse((ROOT / "src" / "robustatlas" / room / "__init__.py").read_text("utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ").replace("`", "").rstrip(".")


def imports(names: list[str]) -> set[tuple[str, str]]:
    """Return pairs of rooms of which the first imports the second."""
    graph = build_graph("robustatlas", cache_dir=None)
    of = {module: module.split(".")[1] for module in graph.modules if "." in module}
    pairs = {
        (of[module], of[used])
        for module in of
        for used in graph.find_modules_directly_imported_by(module)
        if used in of and of[used] != of[module]
    }
    return {(first, second) for first, second in pairs if first in names and second in names}


def picture_text(names: list[str], pairs: set[tuple[str, str]]) -> str:
    """Return the picture: rooms as rows, their imports as dots to the right, all of them above the diagonal."""
    long = {name: room_summary(name) for name in names}
    dots = LEFT + WORDS + round(6.7 * max(map(len, long.values())))
    width, height = dots + ROW * len(names) + 3 * LEFT, ROW * (len(names) + 1) + 78
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="13" role="img">',
        "<title>The rooms of robustatlas, from the command line down to what all use, and which imports which</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    top = 78
    for column, name in enumerate(names):
        x = dots + ROW * (column + 0.5)
        parts.append(f'<text x="{x}" y="{top}" transform="rotate(-60 {x} {top})" fill="#565c63">{name}</text>')
        parts.append(f'<path d="M{x} {top + 8}V{top + ROW * len(names):.0f}" stroke="#e4e1d8"/>')
    for row, name in enumerate(names):
        y = top + ROW * (row + 0.9)
        parts.append(f'<path d="M{LEFT} {y + 8:.0f}H{dots + ROW * len(names)}" stroke="#e4e1d8"/>')
        parts.append(f'<text x="{LEFT}" y="{y:.0f}" font-weight="600" fill="#14171a">{name}</text>')
        parts.append(f'<text x="{LEFT + WORDS}" y="{y:.0f}" fill="#565c63">{escape(long[name])}</text>')
        for column, other in enumerate(names):
            if (name, other) in pairs:
                parts.append(f'<circle cx="{dots + ROW * (column + 0.5)}" cy="{y - 4:.0f}" r="4.5" fill="#0a4d56"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture_text(rooms(), imports(rooms())), encoding="utf-8")
