"""The part of a Hugging Face model card that says how robust a model is."""

from pathlib import Path
from typing import Any

from robustatlas.common.files import write_text
from robustatlas.common.tabular import framework
from robustatlas.common.wording import strength
from robustatlas.report.exports.numbers import numbers_of, settings_of
from robustatlas.report.facts import facts_of
from robustatlas.results.result import Result


def write(result: Result, path: Path) -> str:
    """Write a card whose metadata hold the ``model-index``: clean accuracy, and robust accuracy at each strength, with
    intervals and settings; and a table of them for people. ``path``: the file, a ``README.md``; one that is there keeps
    its text and its other metadata."""
    hub = framework("huggingface_hub", "--to huggingface-card")
    facts, settings = facts_of(result), settings_of(result)
    found = []
    for number in numbers_of(facts):
        at = {} if number.strength is None else {"strength": number.strength}
        args: dict[str, Any] = at | {"low": number.value.low, "high": number.value.high, "confidence": 0.95}
        what = number.words
        found.append(
            hub.EvalResult(
                task_type="image-classification",
                dataset_type=facts.data,
                dataset_name=facts.data,
                dataset_args={"samples": facts.samples},
                metric_type="accuracy",
                metric_value=round(number.value.value, 4),
                metric_name=what if number.strength is None else f"{what} at {strength(number.strength)}",
                metric_args=args,
                metric_config=_OURS,
            )
        )
    card = hub.ModelCard(path.read_text(encoding="utf-8")) if path.is_file() else hub.ModelCard("---\n{}\n---\n")
    kept = [old for old in card.data.eval_results or [] if old.metric_config != _OURS]
    card.data.model_name = card.data.model_name or facts.name
    card.data.eval_results = [*kept, *found]
    card.text = _with_section(card.text, _section(facts, settings))
    write_text(path, str(card))
    return str(path)


_OURS = "robustatlas"
"""What marks our numbers among others of a card, so that a later export replaces them."""

_BEGIN, _END = "<!-- robustatlas -->", "<!-- /robustatlas -->"


def _with_section(text: str, section: str) -> str:
    before, found, rest = text.partition(_BEGIN)
    after = rest.partition(_END)[2] if found else ""
    return f"{before.rstrip()}\n\n{_BEGIN}\n{section}{_END}\n{after.lstrip()}".lstrip()


def _section(facts: Any, settings: dict[str, Any]) -> str:
    rows = []
    for number in numbers_of(facts):
        at = "" if number.strength is None else strength(number.strength)
        value, what = number.value, number.words
        rows.append(f"| {what} | {at} | {value.value:.1f} | {value.low:.1f} to {value.high:.1f} |")
    made = [f"- {name}: {value}" for name, value in settings.items()]
    warned = [f"- Warning: {warning}" for warning in facts.warnings]
    table = ["| | strength | % | 95 % interval |", "| --- | --- | --- | --- |", *rows]
    said = "Robust accuracies are upper bounds: an adversarial example that no attack found may still exist."
    if facts.certified:
        said += " Certified accuracies are lower bounds: no example is there."
    return "\n".join(["## Adversarial robustness", "", said, "", *table, "", *made, *warned, ""])
