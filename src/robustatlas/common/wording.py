"""How things are called in front of people: labels and groups of attacks, numbers, and words in a row."""

import difflib
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class AttackLabel:
    """The words for one attack: `label` in tables and under plots, `group` in lists."""

    label: str
    group: str


NORMS = "Norms"
SHAPE = "Shape"
CODEC = "JPEG"
COLOUR = "Colour"
PERCEPTION = "Perception"
WEATHER = "Weather and texture"
OCCLUSION = "Occlusion"
EVERYDAY = "Everyday changes"
UNFORESEEN = "ImageNet-UA"
COMPOSED = "Composed"
CORRUPTION = "Common corruptions"
OTHER = "Other"

_SETS = (NORMS, SHAPE, CODEC, COLOUR, PERCEPTION, WEATHER, OCCLUSION, EVERYDAY, UNFORESEEN)
GROUPS = (*_SETS, COMPOSED, CORRUPTION, OTHER)

_MEMBERS = {
    NORMS: ("linf", "l2", "l1", "l0"),
    SHAPE: ("elastic", "stadv", "affine", "perspective"),
    CODEC: ("jpeg-linf", "jpeg-l2", "jpeg-l1"),
    COLOUR: ("recolor", "hue", "saturation", "brightness", "contrast"),
    PERCEPTION: ("lpips",),
    WEATHER: ("fog", "snow", "gabor"),
    OCCLUSION: ("patch",),
    EVERYDAY: (
        "rotation", "translation", "translation-percent", "zoom", "shear", "tilt", "crop", "exposure", "gamma",
        "contrast-percent", "saturation-percent", "blur", "motion-blur", "noise", "jpeg-quality", "resolution",
        "occlusion", "fog-density", "rain-density", "snow-density",
    ),
    COMPOSED: ("carben",),
}  # fmt: skip
_GROUP_OF = {attack: group for group, attacks in _MEMBERS.items() for attack in attacks}
_SPELT = {
    "linf": "L∞", "jpeg-linf": "JPEG L∞", "jpeg-l2": "JPEG L2", "jpeg-l1": "JPEG L1", "stadv": "StAdv",
    "recolor": "ReColor", "lpips": "LPIPS", "carben": "CARBEN",
}  # fmt: skip
"""Labels that are not the name with a capital and spaces."""

_UA = "ua-"
_UA_ACRONYMS = ("fbm", "hsv", "jpeg")


def wording(attack: str) -> AttackLabel:
    """The words for `attack`; one that is not in the list keeps its own name.

    >>> [wording(name).label for name in ("linf", "ua-jpeg", "corruption-gaussian-noise", "mine")]
    ['L∞', 'UA JPEG', 'Gaussian noise', 'mine']
    """
    if attack.startswith("corruption-"):
        name = _with_capital(attack.removeprefix("corruption-"))
        taken = any(name == _label(known) for known in _GROUP_OF)
        return AttackLabel(f"{name} corruption" if taken else name, CORRUPTION)
    if attack.startswith(_UA):
        name = attack.removeprefix(_UA)
        return AttackLabel(f"UA {name.upper() if name in _UA_ACRONYMS else name}", UNFORESEEN)
    if attack in _GROUP_OF:
        return AttackLabel(_label(attack), _GROUP_OF[attack])
    return AttackLabel(attack, COMPOSED if "+" in attack else OTHER)


def _label(attack: str) -> str:
    return _SPELT.get(attack) or _with_capital(attack.replace("-percent", ", %"))


def _with_capital(name: str) -> str:
    words = name.replace("-", " ")
    return (words[:1].upper() + words[1:]).replace("Jpeg", "JPEG")


UPPER_BOUND = "upper bound"
"""Of a hypervolume whose margins fell out of another search: lower ones probably exist."""


def axis(unit: str, *, of: str) -> str:
    """Return what stands under an axis of strengths of the attack `of`: its unit ("[0, 1]" in one line), or "strength".

    >>> axis("100 - quality", of="jpeg-quality"), axis("", of="mine")
    ('quality', 'strength')
    """
    unit = unit_as_typed(unit, of=of)
    return unit.replace(", ", ",\u00a0") if "[" in unit else unit or "strength"


_FALLS_FROM = {"jpeg-quality": 100.0, "resolution": 100.0}

FALLEN = "100 - "
"""The beginning of the unit of an attack whose typed strengths fall."""


def unit_as_typed(unit: str, *, of: str) -> str:
    """Return the unit of strengths of the attack `of` as people type them.

    >>> unit_as_typed("100 - quality", of="jpeg-quality"), unit_as_typed("pixels", of="blur")
    ('quality', 'pixels')
    """
    return unit if falls_from(of) is None else unit.removeprefix(FALLEN)


def falls_from(attack: str) -> float | None:
    """Return the typed strength at which `attack` changes nothing and from which typed strengths fall as harm grows;
    None where typed strengths rise.

    >>> falls_from("jpeg-quality"), falls_from("jpeg-quality.wrong"), falls_from("linf")
    (100.0, 100.0, None)
    """
    return _FALLS_FROM.get(attack.partition(".")[0])


def value_as_typed(attack: str, value: float) -> float:
    """Return a strength or size of `attack` as people type it; -inf stands for "never" where typed strengths fall.

    The other direction is :func:`robustatlas.outcomes.strengths.read_strength`, which says where each belongs.

    >>> value_as_typed("jpeg-quality", 70.0), value_as_typed("linf", 0.1)
    (30.0, 0.1)
    """
    top = falls_from(attack)
    return value if top is None else round(top - value, 10)


def size(value: float, *, of: str) -> str:
    """Write a size of the attack `of` as people type it, with three significant digits; "never" stands for inf.

    >>> size(0.0123456, of="linf"), size(float("inf"), of="linf"), size(70.0, of="jpeg-quality")
    ('0.0123', 'never', '30')
    """
    return "never" if math.isinf(value) else significant(value_as_typed(of, value), 3)


def strength(value: float, digits: int = 4, *, of: str) -> str:
    """Write a strength of the attack `of` as people type it; see :func:`text_as_typed`.

    >>> strength(8 / 255, of="linf"), strength(5.0, of="jpeg-quality")
    ('8/255', '95')
    """
    return text_as_typed(value_as_typed(of, value), digits)


def interval(low: float, high: float, digits: int = 4, *, of: str) -> str:
    """Write an interval of strengths or sizes of the attack `of` as people type them, the smaller typed one first.

    >>> interval(0.1, 0.2, of="linf"), interval(20.0, 60.0, of="resolution")
    ('[0.1, 0.2]', '[40, 80]')
    """
    ends = ["never" if math.isinf(end) else significant(value_as_typed(of, end), digits) for end in (low, high)]
    return f"[{', '.join(ends if falls_from(of) is None else reversed(ends))}]"


def words_up_to(attack: str) -> str:
    """Return the words before the most harmful of several strengths of `attack`.

    >>> words_up_to("linf"), words_up_to("resolution")
    ('up to', 'down to')
    """
    return "up to" if falls_from(attack) is None else "down to"


def word_beyond(attack: str) -> str:
    """Return the word before a strength of `attack` for all that is more harmful.

    >>> word_beyond("linf"), word_beyond("resolution")
    ('beyond', 'below')
    """
    return "beyond" if falls_from(attack) is None else "below"


def text_as_typed(value: float, digits: int = 4) -> str:
    """Write a strength that is already as people type it: as a part of 255 that no decimal or simpler fraction is, else
    with `digits` significant digits.

    >>> [text_as_typed(value) for value in (8 / 255, 128 / 255, 0.2, 1 / 3, 2000.0)]
    ['8/255', '128/255', '0.2', '0.3333', '2000']
    """
    steps = round(255 * value) if 0 < value < _LEVELS_END else 0
    in_levels = abs(255 * value - steps) < _WHOLE * steps and 255 // math.gcd(steps, 255) > _SIMPLE
    return f"{steps}/255" if in_levels else significant(value, digits)


_WHOLE = 1e-6
"""Parts of 255 are whole up to this relative difference: .03137 is not 8/255, and a float32 is."""
_SIMPLE = 15
"""Fractions with denominators up to this one are written otherwise, such as 0.2 or a third."""
_LEVELS_END = 40.0
"""Strengths from here on are not parts of 255."""


def rough(value: float) -> str:
    """A number that a few images decide, with no more than three significant digits and two decimals.

    >>> rough(6816.0), rough(5.2149), rough(0.8571)
    ('6,820', '5.21', '0.86')
    """
    return f"{round(float(f'{value:.3g}'), 2):,g}"


def significant(value: float, digits: int) -> str:
    """Write a number with `digits` significant digits, and never with an exponent where the number is large."""
    return f"{value:.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def counted(number: int, noun: str) -> str:
    """A number of things: "1 attack", "2 attacks"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def counts(numbers: Mapping[str, int]) -> str:
    """Numbers by name: "linf (3), l2 (1)"."""
    return ", ".join(f"{name} ({number})" for name, number in numbers.items())


def duration(seconds: float) -> str:
    """A length of time in two units at most.

    >>> duration(0.4), duration(75), duration(7_320), duration(200_000)
    ('0.4 s', '1 min 15 s', '2 h 2 min', '2 d 7 h')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    rest = round(seconds)
    for name, size, below, smaller in (("d", 86_400, 3_600, "h"), ("h", 3_600, 60, "min"), ("min", 60, 1, "s")):
        if rest >= size:
            fine = rest % size // below
            return f"{rest // size} {name} {fine} {smaller}" if fine else f"{rest // size} {name}"
    return f"{rest} s"


def volume(size: float) -> str:
    """A number of bytes.

    >>> volume(2_340), volume(5.1e9)
    ('2.3 kB', '5.1 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.{0 if unit == 'B' else 1}f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def ordinal(place: int) -> str:
    """A place: "1st", "21st", "112th"."""
    ending = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending}"


def listed(items: Sequence[str]) -> str:
    """Words in a row: "a, b and c"."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def instead(given: str, known: Iterable[str], otherwise: str) -> str:
    """The end of a sentence about a name that there is not: the nearest one that there is, else something to know.

    >>> instead("croup", ["flip", "crop"], "known are flip and crop")
    "; did you mean 'crop'?"
    >>> instead("rotate", ["flip", "crop"], "known are flip and crop")
    '; known are flip and crop.'
    """
    near = nearest(given, known)
    return f"; did you mean {near!r}?" if near else f"; {otherwise}."


def nearest(given: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant: other case, underscores, a missing prefix, a slip of the fingers.

    >>> known = ["linf", "corruption-fog", "learning_rate"]
    >>> [nearest(name, known) for name in ("lnif", "LINF", "fog", "learning_rat", "qqqq")]
    ['linf', 'linf', 'corruption-fog', 'learning_rate', None]
    """
    names, plain = list(known), given.lower().replace("_", "-")
    for candidate in (plain, f"corruption-{plain}"):
        if candidate in names:
            return candidate
    return next((close[0] for name in (given, plain) if (close := difflib.get_close_matches(name, names, n=1))), None)


def in_shell(path: object) -> str:
    """A path as a word of a command that can be pasted into a shell.

    >>> in_shell("runs/a"), in_shell("runs/with space"), in_shell("-a"), in_shell("two\\nlines")
    ('runs/a', "'runs/with space'", './-a', "$'two\\\\nlines'")
    """
    text = str(path)
    text = f"./{text}" if text.startswith("-") else text
    if text.isprintable():
        return shlex.quote(text)
    spelt = "".join(char if char.isprintable() and char not in "\\'" else _spelt(char) for char in text)
    return f"$'{spelt}'"


def _spelt(char: str) -> str:
    """A character as ``$'...'`` of a shell spells it."""
    known = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'"}
    return known.get(char) or (f"\\x{ord(char):02x}" if ord(char) < 128 else f"\\U{ord(char):08x}")


LONGEST_NAME = 44
"""Characters of a model's name that are shown; the middle of a longer one is left out."""


def shortened(name: str, longest: int = LONGEST_NAME) -> str:
    """A name without its middle where it is too long.

    >>> shortened("resnet18-trained-on-everything", 15)
    'resnet1…rything'
    """
    if len(name) <= longest:
        return name
    half = (longest - 1) // 2
    return f"{name[: longest - 1 - half]}…{name[-half:]}"


def shortened_apart(names: Sequence[str], longest: int = LONGEST_NAME) -> list[str]:
    """Names without their middles, numbered where that makes them the same.

    >>> shortened_apart(["resnet18-standard-0", "resnet18-standard-1", "resnet18-extended-1"], 13)
    ['resnet…dard-0', 'resnet…dard-1', 'resnet…nded-1']
    >>> shortened_apart(["resnet18-standard-0", "resnet18-extra-standard-0"], 13)
    ['resnet…dard-0 #1', 'resnet…dard-0 #2']
    """
    short = [shortened(name, longest) for name in names]
    return [f"{name} #{place}" if short.count(name) > 1 else name for place, name in enumerate(short, start=1)]


def some(names: Iterable[str], at_most: int = 6) -> str:
    """The first few names, and how many more there are.

    >>> some(["a", "b", "c"], at_most=2)
    'a, b and 1 more'
    """
    names = tuple(names)
    shown = ", ".join(names[:at_most])
    return f"{shown} and {len(names) - at_most} more" if len(names) > at_most else shown


MARK = "†"
"""At the name of an attack or a model whose gradients are missing, or whose numbers a diagnosis speaks against."""


def marked(name: str, invalid: object) -> str:
    """A name with the mark, where something is ``invalid``.

    >>> marked("linf", True), marked("net †", ["linf"]), marked("net", [])
    ('linf †', 'net †', 'net')
    """
    return f"{name} {MARK}" if invalid and not name.endswith(MARK) else name


def unmarked(name: str) -> str:
    """A name without the mark."""
    return name.removesuffix(f" {MARK}")


MASKED = "upper bound only"
"""Beside a number that may not compete: it rests on attacks whose gradients the model does not give, or gives
falsely."""


def beside_masked(number: str, masked: object) -> str:
    """A number, and what it is where something is ``masked``.

    >>> beside_masked("82.5", ["linf"]), beside_masked("82.5", [])
    ('82.5, upper bound only', '82.5')
    """
    return f"{number}, {MASKED}" if masked else number


def invalid_sentence(shares: Mapping[str, float]) -> str:
    """What the mark says, and what to do; ``shares``: as of :func:`why_masked`.

    >>> invalid_sentence({"linf": 0.25}).partition(". ")[2]
    'Repair the gradient (straight_through, surrogate), or use attacks without one (square-linf).'
    """
    return (
        f"{why_masked(shares)} Repair the gradient (straight_through, surrogate), or use attacks without one "
        "(square-linf)."
    )


def why_masked(shares: Mapping[str, float]) -> str:
    """Why numbers are masked, in a sentence; ``shares``: attack -> share of the samples at which the model gave it no
    gradient, or one that misleads.

    >>> why_masked({"linf": 0.25}).partition(",")[0]
    '† linf: the gradient of the margin is missing or misleads at 25 % of the samples'
    """
    places: dict[str, list[str]] = {}
    for attack, share in shares.items():
        places.setdefault("every sample" if share == 1 else f"{100 * share:.0f} % of the samples", []).append(attack)
    said = [
        f"{listed(attacks)}: the gradient of the margin is missing or misleads at {where}"
        for where, attacks in places.items()
    ]
    return (
        f"{MARK} {'; '.join(said)}, so these robust accuracies are too high, and so is every ratio and average that "
        "counts them."
    )


def in_path(name: str) -> str:
    """``name`` as that of a file or folder.

    >>> in_path("timm:resnet18"), in_path("...")
    ('timm-resnet18', 'model')
    """
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.") or "model"
