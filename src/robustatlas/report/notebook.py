"""The view of a result in a notebook: accuracies at each strength, the curves, and what certificates prove."""

import math
from base64 import b64encode
from collections.abc import Iterator
from io import BytesIO

import matplotlib as mpl
from matplotlib.figure import Figure

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.escaping import figure_text, html_text
from robustatlas.common.typed_strengths import format_size
from robustatlas.common.wording import MASKED, add_mark, format_counts, pluralise
from robustatlas.metrics.figures import plot_curves, plot_two_sided
from robustatlas.metrics.figures.paper import STYLE
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.outcomes.bounds import upper_bound_status
from robustatlas.outcomes.display import classes_in
from robustatlas.report.accuracy_blocks import AccuracyBlock, accuracy_blocks
from robustatlas.report.numbers.definitions import worst_case_points
from robustatlas.report.numbers.headline import choose_headline, headline_of
from robustatlas.report.numbers.number import WORST, Number, Status
from robustatlas.report.numbers.of_run import numbers_of_run
from robustatlas.report.numbers.texts import range_text, status_text, value_text
from robustatlas.report.words import (
    headline_sentence,
    is_worst_case_shown,
    median_sentence,
    percent,
    worst_case_in_words,
)
from robustatlas.results.result import Result

_MOST_CURVES = 6
"""Attacks whose curves are drawn; of more the first ones, as their names stand in the table."""
_ACROSS = 3
"""Curves beside each other."""
_WIDE, _HIGH = 2.3, 1.9
"""Inches of one curve."""
_DOTS = 160
"""Dots per inch of the picture, which is shown at 96 per inch."""

_SMALL = "font-size: 0.8em; opacity: 0.75"


def result_html(result: Result) -> str:
    """Return what a notebook shows of a result, with the rows that `robustatlas show` prints.

    Example:
        >>> run = Result.from_arrays([0, 1], [0, 0], {"linf": [0.15, 0.0]}, {"linf": [0.1, 0.2]}, model="net")
        >>> "50.0" in result_html(run) and "<img" in result_html(run)
        True
    """
    judged = result.select_judged()
    numbers = numbers_of_run(result, worst_case_points(judged))
    name = add_mark(result.name, result.is_suspect)
    parts = [
        f"<p><b>{html_text(name)}</b> on {pluralise(result.samples, 'sample')} of {html_text(result.data)} "
        f"({classes_in(result)}): {result.clean_accuracy:.1f} % clean accuracy.</p>"
    ]
    if (leading := headline_of(numbers, choose_headline([judged]))) is not None:
        parts.append(f"<p><b>{html_text(headline_sentence(leading))}.</b></p>")
    parts += [_table(block) for block in accuracy_blocks(result, numbers)]
    parts.append(f'<p style="{_SMALL}">Percent of the images that stay correct, with 95 % intervals.</p>')
    if (worst := numbers.find(WORST)) is not None and is_worst_case_shown(worst):
        parts.append(f"<p><b>{html_text(percent(worst))}</b> withstand {html_text(worst_case_in_words(worst))}.</p>")
    if (median := numbers.weakest_attack()) is not None:
        parts.append(f"<p>{html_text(median_sentence(median))}</p>")
    parts += [f'<p style="{_SMALL}">{html_text(sentence)}</p>' for sentence in _remarks(result)]
    if result.attacks:
        parts.append(_picture(result))
    return f'<div style="overflow-x: auto; line-height: 1.35">{"".join(parts)}</div>'


def _table(block: AccuracyBlock) -> str:
    """Return the accuracies of attacks at the same strengths as a table."""
    heads = "".join(f"<th>{html_text(heading)}</th>" for heading in block.headings)
    rows = "".join(
        f'<tr><th style="text-align: left; white-space: pre">{html_text(label)}</th>'
        f"{''.join(map(_cell, found))}<td>{mean:.1f}</td></tr>"
        for label, found, mean in block.rows
    )
    head = f'<tr><th style="text-align: left">strength</th>{heads}<th>mean</th></tr>'
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def _cell(number: Number) -> str:
    status = "" if number.status is Status.CERTIFIED else status_text(number)  # of which its row speaks
    below = filter(None, [range_text(number), status])
    small = "".join(f'<br><span style="{_SMALL}; white-space: nowrap">{html_text(text)}</span>' for text in below)
    return f'<td style="text-align: right">{html_text(value_text(number))}{small}</td>'


def _remarks(result: Result) -> Iterator[str]:
    """Yield what has to be said of the run, of single attacks and of certificates, one sentence each."""
    if result.diagnosis is not None:
        yield result.diagnosis.sentence
    yield from (f"Warning: {warning}" for warning in result.warnings)
    for attack in result.attacks:
        said = [MASKED] if masked_shares(result, [attack]) else []
        said += [only] if (only := upper_bound_status(result.outcome(attack).unsearched)) else []
        if said:
            yield f"{attack}: {'; '.join(said)}."
    for row, held in result.certified_sizes.items():
        median = format_size(held.median_size, attack=held.attack)
        yield f"{row}: certified by {', '.join(held.methods)}; the median certified size is {median}."
    if result.missing:
        yield f"Not finished, samples missing: {format_counts(result.missing)}."


def _picture(result: Result) -> str:
    """Return the curves as a picture inside the page: of both sides where a certificate is known."""
    drawn = result.attacks[:_MOST_CURVES]
    across = min(len(drawn), _ACROSS)
    down = math.ceil(len(drawn) / across)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(across * _WIDE, down * _HIGH), layout="constrained")
        panels = figure.subplots(down, across, squeeze=False).flat
        for attack, axes in zip(drawn, panels, strict=False):
            if attack in result.certified_sizes:
                plot_two_sided(result.two_sided(attack), axes)
            else:
                plot_curves(result.curve(attack), axes)
            axes.set_title(figure_text(attack_label(attack).label))
            if (legend := axes.get_legend()) is not None:
                legend.remove()
        for axes in list(panels):
            axes.remove()
        written = BytesIO()
        figure.savefig(written, format="png", dpi=_DOTS, facecolor="white")
    width = round(across * _WIDE * 96)
    names = ", ".join(attack_label(attack).label for attack in drawn)
    source = f"data:image/png;base64,{b64encode(written.getvalue()).decode('ascii')}"
    lower = "; at the lower lines it is certified" if any(attack in result.certified_sizes for attack in drawn) else ""
    caption = f'<p style="{_SMALL}">Robust accuracy over the size of the change{lower}.</p>'
    return f'{caption}<img src="{source}" width="{width}" alt="Robustness curves: {html_text(names)}">'
