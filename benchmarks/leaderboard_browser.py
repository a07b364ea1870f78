"""How fast the leaderboard is in a browser: the first board from disk, and ranking 500 defenses again.

    python benchmarks/leaderboard_browser.py [--defenses 500] [--repeats 15]

Prints medians in milliseconds. Needs a Chromium (Debian: `apt-get install chromium`) and playwright.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

from robustatlas.outcomes import AccuracyTable
from robustatlas.references import Defense, Reference, load_reference
from robustatlas.report.leaderboard import build_leaderboard

TIME_CHANGES = """async (repeats) => {
  const idle = () => new Promise((done) => setTimeout(done, 400));
  const timed = async (action) => {
    await idle();
    const start = performance.now();
    action();
    document.body.offsetHeight;
    return performance.now() - start;
  };
  const element = (selector) => document.querySelector(selector);
  const changes = {
    "toggle an attack": () => element(".attack input[value=l1]").click(),
    "average or worst": () => element("input[name=board]:not(:checked)").click(),
    "sort by SC": () => element("th[data-key=sc] button").click(),
    "every attack": () => element("[data-preset=all]").click(),
    "official attacks": () => element("[data-preset=official]").click(),
  };
  const found = {};
  for (const [name, action] of Object.entries(changes)) {
    found[name] = [];
    for (let i = 0; i < repeats; i++) found[name].push(await timed(action));
  }
  return found;
}"""


def synthetic_defenses(reference: Reference, count: int) -> tuple[Defense, ...]:
    generator = np.random.default_rng(0)
    complete = [defense for defense in reference.defenses if not defense.missing(reference.ranked)]
    made = []
    for number in range(count):
        model = complete[number % len(complete)]
        factor = generator.uniform(0.6, 1.0)
        cells = {attack: {s: factor * v for s, v in row.items()} for attack, row in model.accuracies.cells.items()}
        table = AccuracyTable(factor * model.accuracies.clean, cells)
        made.append(replace(model, name=f"Synthetic{number}", accuracies=table))
    return tuple(made)


def first_paint(page: Any, address: str) -> float:
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length > 0")
    assert page.locator("#board tbody tr").count() > 0
    return float(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--defenses", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    reference = load_reference("multirobustbench-cifar10")
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=executable, args=flags)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        site = build_leaderboard([], Path(folder) / "published", reference)
        size = sum(file.stat().st_size for file in site.parent.iterdir())
        paints = [first_paint(page, site.as_uri()) for _ in range(arguments.repeats)]
        large = replace(reference, defenses=synthetic_defenses(reference, arguments.defenses))
        page.goto(build_leaderboard([], Path(folder) / "large", large).as_uri())
        page.wait_for_function("document.querySelectorAll('.plots .main-svg').length >= 4")
        timings = page.evaluate(TIME_CHANGES, arguments.repeats)
        browser.close()
    report = {
        "site, bytes": size,
        "first board, ms": round(statistics.median(paints)),
        **{f"{arguments.defenses} defenses, {name}, ms": round(statistics.median(t), 1) for name, t in timings.items()},
        **{f"{arguments.defenses} defenses, {name}, slowest ms": round(max(t), 1) for name, t in timings.items()},
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
