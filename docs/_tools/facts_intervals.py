"""Table of the widths of intervals of accuracies by the number of images."""

from facts_stored import table

from robustatlas.metrics import proportion_interval

SAMPLES = (100, 200, 500, 1_000, 2_000, 5_000, 10_000)
ACCURACIES = (50, 70, 90, 98)


def interval_widths_table() -> str:
    """Return half of the width of the interval of an accuracy, in percentage points, by the number of images."""
    heads = ("50 %", *(f"{accuracy} or {100 - accuracy} %" for accuracy in ACCURACIES[1:]))
    rows = [(f"{samples:,}", *(half_width(accuracy, samples) for accuracy in ACCURACIES)) for samples in SAMPLES]
    return table(("images", *heads), rows, 5)


def half_width(accuracy: int, samples: int) -> str:
    """Return half of the width of the interval of an accuracy in percent, as the table shows it."""
    known = proportion_interval(accuracy * samples // 100, samples)
    return f"{(known.high - known.low) / 2:.1f}"
