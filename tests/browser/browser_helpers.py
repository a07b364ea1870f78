"""Made-up runs, and the accessibility check, for the tests in the browser."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from robustatlas.metrics.references import Reference
from robustatlas.outcomes.certified import CertifiedSizes
from robustatlas.outcomes.identity import circumstances
from robustatlas.results.result import Result
from run_files import record_run

AXE = Path(__file__).with_name("axe.min.js")
"""axe-core 4.14.1, Mozilla Public License 2.0, https://github.com/dequelabs/axe-core (used by these tests only)."""

HOSTILE = "<script>alert(1)</script>"


def synthetic_result(
    reference: Reference,
    attacks: tuple[str, ...],
    name: str,
    samples: int = 200,
    scale: float = 0.35,
    data: str = "cifar10",
    **more: Any,
) -> Result:
    generator = np.random.default_rng(7)
    labels = generator.integers(0, 10, samples)
    correct = generator.random(samples) < 0.85
    strengths = {attack: reference.accuracies.strengths(attack) for attack in attacks}
    sizes = {
        attack: np.where(correct, generator.exponential(scale * grid[-1], samples), 0.0)
        for attack, grid in strengths.items()
    }
    predictions = np.where(correct, labels, (labels + 1) % 10)
    return Result.from_arrays(labels, predictions, sizes, strengths, model=name, data=data, **more)


def complete_result(reference: Reference, attacks: tuple[str, ...], name: str) -> Result:
    """A made-up run with everything a report can show: margins, cost, warnings and adversarial examples."""
    generator = np.random.default_rng(11)
    plain = synthetic_result(reference, attacks, name)
    clean = np.where(plain.minimal_size(attacks[0]) > 0, 0.8, -0.2).astype(np.float32)
    outcomes = {
        attack: replace(
            outcome,
            margins=np.where(outcome.minimal_size[:, None] <= outcome.strengths, -0.1, 0.3).astype(np.float32),
            forward=generator.integers(20, 400, len(plain.index)),
            backward=generator.integers(20, 400, len(plain.index)),
            seconds=12.5,
        )
        for attack, outcome in plain.outcomes.items()
    }
    table = replace(plain, clean_margin=clean, outcomes=outcomes)
    warnings = ("The gradient is zero for 12% of the images.", f"Named {HOSTILE}.")
    images = generator.random((len(plain.index), 3, 8, 8), dtype=np.float32)
    run = record_run(
        None, table, images=images, about=circumstances(), warnings=warnings, command="robustatlas evaluate"
    )
    return Result.from_run(run)


def with_certificates(run: Result, attacks: tuple[str, ...] = ("linf", "l2")) -> Result:
    """The run, as if a part of each size found were certified."""
    certified = {
        attack: CertifiedSizes(
            attack, 0.6 * run.minimal_size(attack), ("crown",), strengths=tuple(run.strengths(attack).tolist())
        )
        for attack in attacks
    }
    return replace(run, certified_sizes=certified)


IN_THE_DARK = """(ask => {
    document.documentElement.dataset.theme = "dark";
    const answer = ask();
    delete document.documentElement.dataset.theme;
    return answer;
})"""
"""What a function of the page gives while its theme is dark."""


def without_plots(page: Path) -> Path:
    """A board whose plots' library is empty: most of what loading it takes, for tests that ask for no plot."""
    (page.parent / "plotly.min.js").write_text("", encoding="utf-8")
    return page


def serious_problems(page: Any, *rules: str) -> list[str]:
    """What axe-core calls serious or critical, by all its rules or by these."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    options = {"resultTypes": ["violations"], "preload": False} | ({"runOnly": rules} if rules else {})
    found = page.evaluate("options => axe.run(document, options)", options)["violations"]
    return [
        f"{violation['id']}: {violation['nodes'][0]['html'][:160]} {violation['nodes'][0].get('failureSummary', '')}"
        for violation in found
        if violation["impact"] in ("serious", "critical")
    ]


def address(page: Any) -> str:
    return str(page.evaluate("location.href"))


def rows(page: Any) -> dict[str, list[str]]:
    """Name -> the texts of the cells of its row, in the order of the page."""
    found: list[list[str]] = page.evaluate(
        "[...document.querySelectorAll('#board > tbody > tr:not(.detail)')].map(tr =>"
        " [tr.querySelector('th').dataset.name, ...['rank', 'cr', 'clean', 'sc', 'seen', 'uar', 'samples'].map(key =>"
        " tr.querySelector(`td[data-key=${key}]`)?.innerText.trim() ?? '')])"
    )
    return {name: cells for name, *cells in found}


def number(text: str) -> float:
    return float(text.split("\n")[0].replace(",", ""))


def place(text: str) -> int:
    """By the number alone: below the range that the intervals leave open, or what stands there by itself."""
    return int(text.split("\n")[1].split()[0] if "by number" in text else text)


def downloaded(page: Any, kind: str) -> str:
    with page.expect_download() as waiting:
        page.click(f"[data-export={kind}]")
    return Path(waiting.value.path()).read_text(encoding="utf-8")


def exported(page: Any) -> dict[str, Any]:
    return json.loads(downloaded(page, "json"))


def wait_for_plots(page: Any) -> None:
    page.wait_for_function("document.querySelectorAll('.plots .main-svg').length >= 4")


def wait_for_overview(page: Any) -> None:
    page.wait_for_function("document.querySelector('#plot-overview .main-svg') !== null")
