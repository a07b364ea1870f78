"""Values of options that need a little grammar."""

from __future__ import annotations

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
