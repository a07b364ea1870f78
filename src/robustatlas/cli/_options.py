"""Values of options that need a little grammar."""

import math
from collections.abc import Sequence

from robustatlas.common.errors import UserError
from robustatlas.common.scalars import parse_fraction
from robustatlas.common.typed_strengths import falling_scale_start, text_as_typed
from robustatlas.outcomes.strengths import parse_grid, read_strength

_FORMS = "expected NAME=0.01,0.02,0.05 or NAME=LAST:COUNT, such as linf=8/255:20"


def split_names(given: Sequence[str] | None, default: Sequence[str] = ()) -> list[str]:
    """Return the names of a list option, which may be given several times and with commas; `default` without it.

    Example:
        >>> split_names(["linf,l2", "l1"])
        ['linf', 'l2', 'l1']
    """
    if given is None:
        return list(default)
    return [name.strip() for item in given for name in item.split(",") if name.strip()]


def parse_strengths(given: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """``linf=2/255,4/255`` (a list) and ``linf=0.1:20`` (equal steps up to a last one) by attack.

    Example:
        >>> parse_strengths(["linf=0.1:4", "l2=1/2,1"])
        {'linf': (0.025, 0.05, 0.075, 0.1), 'l2': (0.5, 1.0)}
    """
    found: dict[str, tuple[float, ...]] = {}
    for item in given:
        name, _, values = (part.strip() for part in item.partition("="))
        if not name or not values:
            raise UserError(f"--strengths {item!r} is not understood; {_FORMS}.")
        if name in found:
            raise UserError(f"--strengths is given twice for {name}; give all its strengths at once.")
        found[name] = parse_grid(values, name, f"--strengths {item!r}")
    return found


def parse_attack_strengths(given: Sequence[str] | None, option: str) -> dict[str, float] | None:
    """Return the strength of each attack in `linf=8/255,l2=0.5`, an empty dictionary for `none`."""
    if not given:
        return None
    found: dict[str, float] = {}
    joined = ",".join(given)
    if joined.strip() == "none":
        return found
    for item in joined.split(","):
        name, _, value = (part.strip() for part in item.partition("@" if "@" in item else "="))
        strength, top, sign = (
            read_strength(value, name),
            falling_scale_start(name),
            "@" if option == "--headline" else "=",
        )
        if name in found:
            raise UserError(f"{option} {joined!r} names {name} twice; give each attack once.")
        if not name or math.isnan(strength):
            raise UserError(
                f"{option} {joined!r} is not understood at {item.strip()!r}; expected each attack once with a "
                f"strength, such as linf{sign}8/255,l2{sign}0.5."
            )
        if not 0 < strength < math.inf:
            limit = "above 0" if top is None else f"below {text_as_typed(top)}, where it changes nothing"
            raise UserError(
                f"{option} {item.strip()} is no strength of {name}: they lie {limit}, such as "
                f"{name}{sign}{'0.1' if top is None else text_as_typed(0.8 * top)}."
            )
        found[name] = strength
    return found


def parse_statistic(given: str | None, option: str) -> float | tuple[float, ...] | None:
    """A mean or deviation: one number, or one for each channel with commas.

    Example:
        >>> parse_statistic("0.5", "--mean"), parse_statistic("0.49,0.48,0.45", "--mean")
        (0.5, (0.49, 0.48, 0.45))
    """
    if given is None:
        return None
    values = tuple(parse_fraction(value) for value in given.split(","))
    if not all(map(math.isfinite, values)):
        raise UserError(f"{option} {given!r} is not understood; expected a number, or one per channel: 0.49,0.48,0.45.")
    return values if len(values) > 1 else values[0]
