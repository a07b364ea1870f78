"""Values of options that need a little grammar."""

from __future__ import annotations

import math

from robustatlas.errors import UserError


def parse_strengths(given: list[str]) -> dict[str, tuple[float, ...]]:
    """``linf=0.01,0.02`` (a list) and ``linf=0.1:20`` (equal steps up to a last one) by attack.

    Example:
        >>> parse_strengths(["linf=0.1:4", "l2=0.5,1"])
        {'linf': (0.025, 0.05, 0.075, 0.1), 'l2': (0.5, 1.0)}
    """
    from robustatlas.attacks.definition import grid  # torch comes with it, and help need not wait for that

    found = {}
    for item in given:
        name, equals, values = item.partition("=")
        try:
            if ":" in values:
                last, _, count = values.partition(":")
                found[name] = grid(float(last), int(count))
            else:
                found[name] = tuple(float(value) for value in values.split(","))
        except ValueError:
            found[name] = ()
        if not equals or not name or not found[name]:
            raise UserError(
                f"--strengths {item!r} is not understood; expected NAME=0.01,0.02,0.05 or NAME=LAST:COUNT, "
                "such as linf=0.1:20."
            )
    return found


def parse_strength_of(given: str | None, option: str) -> dict[str, float] | None:
    """``linf=0.03,l2=0.5`` (a strength may be a fraction such as 8/255) by attack; {} for ``none``.

    Example:
        >>> parse_strength_of("linf=8/256,l2=0.5", "--union")
        {'linf': 0.03125, 'l2': 0.5}
    """
    if given is None:
        return None
    found: dict[str, float] = {}
    if given.strip() == "none":
        return found
    for item in given.split(","):
        name, _, value = (part.strip() for part in item.partition("="))
        above, slash, below = value.partition("/")
        try:
            strength = float(above) / (float(below) if slash else 1.0)
        except (ValueError, ZeroDivisionError):
            strength = math.nan
        if not name or name in found or not 0 < strength < math.inf:
            raise UserError(
                f"{option} {given!r} is not understood at {item.strip()!r}; expected each attack once with a strength, "
                "such as linf=8/255,l2=0.5."
            )
        found[name] = strength
    return found
