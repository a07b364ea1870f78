"""Strengths and sizes of attacks as people type and read them, and the standard strengths of papers."""

import math

from robustatlas.common.wording import format_significant

STANDARD_STRENGTHS = {"linf": (8 / 255, "8/255"), "l2": (0.5, "0.5"), "l1": (12.0, "12")}
"""Attack -> the strength at which papers give its robust accuracy, and its text there."""

STANDARD_TOLERANCE = 0.1
"""Relative difference up to which a strength of a grid counts as the standard one."""


def axis_label(unit: str, *, attack: str) -> str:
    """Return the label of an axis of strengths: the unit of `attack` as typed, or "strength" if it has none.

    >>> axis_label("100 - quality", attack="jpeg-quality"), axis_label("", attack="mine")
    ('quality', 'strength')
    """
    unit = unit_as_typed(unit, attack=attack)
    # A no-break space keeps an interval such as "[0, 1]" in one line.
    return unit.replace(", ", ",\u00a0") if "[" in unit else unit or "strength"


_FALLING_SCALE_STARTS = {"jpeg-quality": 100.0, "resolution": 100.0}

FALLING_UNIT_PREFIX = "100 - "
"""Beginning of the unit of an attack whose typed strengths fall as it gets stronger, such as "100 - quality"."""


def unit_as_typed(unit: str, *, attack: str) -> str:
    """Return the unit of the strengths of `attack` as people type them.

    >>> unit_as_typed("100 - quality", attack="jpeg-quality"), unit_as_typed("pixels", attack="blur")
    ('quality', 'pixels')
    """
    return unit if falling_scale_start(attack) is None else unit.removeprefix(FALLING_UNIT_PREFIX)


def falling_scale_start(attack: str) -> float | None:
    """Return the typed strength at which `attack` changes nothing, if typed strengths fall as it gets stronger.

    None means that typed strengths rise, as those of most attacks do.

    >>> falling_scale_start("jpeg-quality"), falling_scale_start("jpeg-quality.wrong"), falling_scale_start("linf")
    (100.0, 100.0, None)
    """
    return _FALLING_SCALE_STARTS.get(attack.partition(".")[0])


def value_as_typed(attack: str, value: float) -> float:
    """Return a strength or size of `attack` as people type it; inf becomes -inf if typed strengths fall.

    The inverse is :func:`robustatlas.outcomes.strengths.read_strength`.

    >>> value_as_typed("jpeg-quality", 70.0), value_as_typed("linf", 0.1)
    (30.0, 0.1)
    """
    start = falling_scale_start(attack)
    return value if start is None else round(start - value, 10)


def format_size(value: float, *, attack: str) -> str:
    """Return the text of a size of `attack` as typed, with three significant digits; inf is "never".

    >>> format_size(0.0123456, attack="linf"), format_size(70.0, attack="jpeg-quality")
    ('0.0123', '30')
    """
    return "never" if math.isinf(value) else format_significant(value_as_typed(attack, value), 3)


def format_strength(value: float, digits: int = 4, *, attack: str) -> str:
    """Return the text of a strength of `attack` as typed; see :func:`text_as_typed`.

    >>> format_strength(8 / 255, attack="linf"), format_strength(5.0, attack="jpeg-quality")
    ('8/255', '95')
    """
    return text_as_typed(value_as_typed(attack, value), digits)


def format_interval(low: float, high: float, digits: int = 4, *, attack: str) -> str:
    """Return the text of an interval of strengths or sizes of `attack` as typed, the smaller number first.

    >>> format_interval(0.1, 0.2, attack="linf"), format_interval(20.0, 60.0, attack="resolution")
    ('[0.1, 0.2]', '[40, 80]')
    """
    ends = [
        "never" if math.isinf(end) else format_significant(value_as_typed(attack, end), digits) for end in (low, high)
    ]
    return f"[{', '.join(ends if falling_scale_start(attack) is None else reversed(ends))}]"


def range_words(attack: str) -> str:
    """Return the words that precede the strongest of several typed strengths of `attack`.

    >>> range_words("linf"), range_words("resolution")
    ('up to', 'down to')
    """
    return "up to" if falling_scale_start(attack) is None else "down to"


def word_beyond(attack: str) -> str:
    """Return the word that, before a typed strength of `attack`, means all stronger ones.

    >>> word_beyond("linf"), word_beyond("resolution")
    ('beyond', 'below')
    """
    return "beyond" if falling_scale_start(attack) is None else "below"


def text_as_typed(value: float, digits: int = 4) -> str:
    """Return the text of a strength that is already as typed.

    Parts of 255 are written as such, unless a simpler fraction or decimal is equal; other numbers with `digits`
    significant digits.

    >>> [text_as_typed(value) for value in (8 / 255, 128 / 255, 0.2, 1 / 3, 2000.0)]
    ['8/255', '128/255', '0.2', '0.3333', '2000']
    """
    steps = round(255 * value) if 0 < value < _LEVELS_LIMIT else 0
    in_levels = (
        abs(255 * value - steps) < _WHOLE_TOLERANCE * steps
        and 255 // math.gcd(steps, 255) > _LARGEST_SIMPLE_DENOMINATOR
    )
    return f"{steps}/255" if in_levels else format_significant(value, digits)


_WHOLE_TOLERANCE = 1e-6
"""Relative difference up to which a number is a part of 255: 8/255 in float32 is one, and .03137 is not."""
_LARGEST_SIMPLE_DENOMINATOR = 15
"""Fractions with denominators up to this one are written as decimals, such as 0.2 or 0.3333."""
_LEVELS_LIMIT = 40.0
"""Strengths from this one on are counted in other units than parts of 255."""
