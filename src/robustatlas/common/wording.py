"""Words and numbers in sentences: lists, suggestions, durations, shortened names and the mark of masked numbers."""

import difflib
import shlex
from collections.abc import Iterable, Mapping, Sequence

UPPER_BOUND = "upper bound"
"""Note at a hypervolume whose margins come from a search for sizes: lower margins probably exist."""


def format_rough(value: float) -> str:
    """Return the text of an imprecise number, with at most three significant digits and two decimals.

    >>> format_rough(6816.0), format_rough(5.2149), format_rough(0.8571)
    ('6,820', '5.21', '0.86')
    """
    return f"{round(float(f'{value:.3g}'), 2):,g}"


def format_significant(value: float, digits: int) -> str:
    """Return the text of a number with `digits` significant digits; a large number has no exponent."""
    return f"{value:.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def pluralise(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural: "1 attack", "2 attacks"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_counts(numbers: Mapping[str, int]) -> str:
    """Return names with their counts: "linf (3), l2 (1)"."""
    return ", ".join(f"{name} ({number})" for name, number in numbers.items())


def format_duration(seconds: float) -> str:
    """Return the text of a duration in at most two units.

    >>> format_duration(0.4), format_duration(75), format_duration(7_320), format_duration(200_000)
    ('0.4 s', '1 min 15 s', '2 h 2 min', '2 d 7 h')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    total = round(seconds)
    for name, size, smaller_size, smaller_name in (
        ("d", 86_400, 3_600, "h"),
        ("h", 3_600, 60, "min"),
        ("min", 60, 1, "s"),
    ):
        if total >= size:
            rest = total % size // smaller_size
            return f"{total // size} {name} {rest} {smaller_name}" if rest else f"{total // size} {name}"
    return f"{total} s"


def format_bytes(size: float) -> str:
    """Return the text of a number of bytes.

    >>> format_bytes(2_340), format_bytes(5.1e9)
    ('2.3 kB', '5.1 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.{0 if unit == 'B' else 1}f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def ordinal(place: int) -> str:
    """Return the ordinal of a place: "1st", "21st", "112th"."""
    ending = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending}"


def join_words(items: Sequence[str]) -> str:
    """Return words as a list in a sentence: "a, b and c"."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def suggestion(given: str, known: Iterable[str], otherwise: str) -> str:
    """Return the end of a sentence about an unknown name: the most similar known name, else the text `otherwise`.

    >>> suggestion("croup", ["flip", "crop"], "known are flip and crop")
    "; did you mean 'crop'?"
    >>> suggestion("rotate", ["flip", "crop"], "known are flip and crop")
    '; known are flip and crop.'
    """
    near = nearest_name(given, known)
    return f"; did you mean {near!r}?" if near else f"; {otherwise}."


def nearest_name(given: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, or None.

    It may differ in case, in underscores, in a missing prefix or by a typing error.

    >>> known = ["linf", "corruption-fog", "learning_rate"]
    >>> [nearest_name(name, known) for name in ("lnif", "LINF", "fog", "learning_rat", "qqqq")]
    ['linf', 'linf', 'corruption-fog', 'learning_rate', None]
    """
    names, normalised = list(known), given.lower().replace("_", "-")
    for candidate in (normalised, f"corruption-{normalised}"):
        if candidate in names:
            return candidate
    return next(
        (close[0] for name in (given, normalised) if (close := difflib.get_close_matches(name, names, n=1))), None
    )


def shell_word(path: object) -> str:
    """Return a path quoted for a command that can be pasted into a shell.

    >>> shell_word("runs/a"), shell_word("runs/with space"), shell_word("-a"), shell_word("two\\nlines")
    ('runs/a', "'runs/with space'", './-a', "$'two\\\\nlines'")
    """
    text = str(path)
    text = f"./{text}" if text.startswith("-") else text
    if text.isprintable():
        return shlex.quote(text)
    escaped = "".join(char if char.isprintable() and char not in "\\'" else _shell_escape(char) for char in text)
    return f"$'{escaped}'"


def _shell_escape(char: str) -> str:
    """Return a character as it is written between ``$'`` and ``'`` in a shell."""
    escapes = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'"}
    return escapes.get(char) or (f"\\x{ord(char):02x}" if ord(char) < 128 else f"\\U{ord(char):08x}")


LONGEST_NAME = 44
"""Characters of the longest name of a model that is shown in full."""


def elide_middle(name: str, longest: int = LONGEST_NAME) -> str:
    """Return a name of at most `longest` characters, with an ellipsis instead of its middle if necessary.

    >>> elide_middle("resnet18-trained-on-everything", 15)
    'resnet1…rything'
    """
    if len(name) <= longest:
        return name
    half = (longest - 1) // 2
    return f"{name[: longest - 1 - half]}…{name[-half:]}"


def elide_names(names: Sequence[str], longest: int = LONGEST_NAME) -> list[str]:
    """Return names as :func:`elide_middle` does, and number those that become equal.

    >>> elide_names(["resnet18-standard-0", "resnet18-standard-1", "resnet18-extended-1"], 13)
    ['resnet…dard-0', 'resnet…dard-1', 'resnet…nded-1']
    >>> elide_names(["resnet18-standard-0", "resnet18-extra-standard-0"], 13)
    ['resnet…dard-0 #1', 'resnet…dard-0 #2']
    """
    short = [elide_middle(name, longest) for name in names]
    return [f"{name} #{place}" if short.count(name) > 1 else name for place, name in enumerate(short, start=1)]


def list_names(names: Iterable[str], at_most: int = 6) -> str:
    """Return the first names, and the number of the others.

    >>> list_names(["a", "b", "c"], at_most=2)
    'a, b and 1 more'
    """
    names = tuple(names)
    shown = ", ".join(names[:at_most])
    return f"{shown} and {len(names) - at_most} more" if len(names) > at_most else shown


MARK = "†"
"""Mark at the name of an attack or a model whose numbers cannot be trusted.

    Its gradients are missing, or its diagnosis found that attacks fail for a wrong reason.
    """


def add_mark(name: str, invalid: object) -> str:
    """Return a name, with the mark if ``invalid`` is true or not empty.

    >>> add_mark("linf", True), add_mark("net †", ["linf"]), add_mark("net", [])
    ('linf †', 'net †', 'net')
    """
    return f"{name} {MARK}" if invalid and not name.endswith(MARK) else name


MASKED = "upper bound only"
"""Note at a number that is not compared: it rests on attacks that follow a missing or misleading gradient."""


def label_masked(number: str, masked: object) -> str:
    """Return a number, with the note ``MASKED`` if ``masked`` is true or not empty.

    >>> label_masked("82.5", ["linf"]), label_masked("82.5", [])
    ('82.5, upper bound only', '82.5')
    """
    return f"{number}, {MASKED}" if masked else number


def masked_warning(shares: Mapping[str, float]) -> str:
    """Return sentences that explain the mark and say what to do.

    Args:
        shares: see :func:`masked_reason`.

    Example:
        >>> masked_warning({"linf": 0.25}).partition(". ")[2]
        'Repair the gradient (straight_through, surrogate), or use attacks without one (square-linf).'
    """
    return (
        f"{masked_reason(shares)} Repair the gradient (straight_through, surrogate), or use attacks without one "
        "(square-linf)."
    )


def masked_reason(shares: Mapping[str, float]) -> str:
    """Return a sentence that says why numbers are masked.

    Args:
        shares: attack -> share of the samples at which the gradient is missing or misleads.

    Example:
        >>> masked_reason({"linf": 0.25}).partition(",")[0]
        '† linf: the gradient of the margin is missing or misleads at 25 % of the samples'
    """
    places: dict[str, list[str]] = {}
    for attack, share in shares.items():
        places.setdefault("every sample" if share == 1 else f"{100 * share:.0f} % of the samples", []).append(attack)
    reasons = [
        f"{join_words(attacks)}: the gradient of the margin is missing or misleads at {where}"
        for where, attacks in places.items()
    ]
    return (
        f"{MARK} {'; '.join(reasons)}, so these robust accuracies are too high, and so is every ratio and average that "
        "counts them."
    )


def safe_file_name(name: str) -> str:
    """Return a name in which everything but letters, digits and "-_." is replaced, for files and folders.

    >>> safe_file_name("timm:resnet18"), safe_file_name("...")
    ('timm-resnet18', 'model')
    """
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.") or "model"


def format_p_value(value: float) -> str:
    """Return the text of a p-value with three decimals, or "< 0.001".

    >>> format_p_value(0.03125), format_p_value(0.0002)
    ('0.031', '< 0.001')
    """
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
