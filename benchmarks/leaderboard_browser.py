"""How fast the leaderboard is in a browser: the first board from disk, and ranking a thousand defenses again.

    python benchmarks/leaderboard_browser.py [--defenses 1000] [--repeats 15]

The first view is what the browser reads before rows stand on the screen: page, styles and scripts, and not the plots,
which follow. It is timed from the call of the page until a frame with rows has been handed over.

Ranking again is timed until every row stands in its place and has been painted, and told in parts: our script, styles
and layout, and the rest (paint, input, the browser's own script). Medians in milliseconds, by the clock and in
processor time of the page's main thread, which a busy machine does not stretch; `page, all threads` is the processor
time of the page's process. Once without the plots, which follow when the board is painted, and once with them.
Writes benchmarks/results/leaderboard_browser.json. Needs a Chromium (Debian: `apt-get install chromium`) and
playwright.
"""

import argparse
import base64
import gzip
import json
import os
import re
import shutil
import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

from robustatlas.metrics.references import Defense, Reference, load_reference
from robustatlas.outcomes import AccuracyTable
from robustatlas.report import pages
from robustatlas.report.leaderboard import build_leaderboard

CHANGES = {
    "toggle an attack": [".attack input[value=l1]"],
    "average or worst": ["input[name=board]:not(:checked)"],
    "sort by SC": ["th[data-key=sc] button"],
    "every attack, and the official ones": ["[data-preset=all]", "[data-preset=official]"],
}
"""What is clicked, in turn."""

UNTIL_PAINTED = """selector => new Promise((done) => {
  const target = document.querySelector(selector);
  const start = performance.now();
  target.click();
  const script = performance.now() - start;
  requestAnimationFrame(() => setTimeout(() => done([script, performance.now() - start]), 0));
})"""
"""From the click until the frame that it made has been handed over: our script, and all."""

SETTLED = "() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => setTimeout(done, 50)), 150))"
"""Whatever the page put off has been done."""


STANDING = """new MutationObserver((_, watch) => {
  if (!document.querySelector("#board > tbody > tr")) return;
  watch.disconnect();
  requestAnimationFrame(() => setTimeout(() => { globalThis.standing = performance.now(); }, 0));
}).observe(document, {childList: true, subtree: true})"""
"""When the first frame with rows has been handed over."""

RANKED_BY = ("name", "parts", "trainedOn", "clean", "accuracies", "samples", "ratios", "look")
"""What the board reads of all rows whenever it ranks; the rest is about rows that are looked at."""

RESULTS = Path(__file__).parent / "results" / "leaderboard_browser.json"


class Meter:
    """What the page's process has worked since it was read last, in milliseconds."""

    def __init__(self, browser: Any, page: Any) -> None:
        self.page = page
        self.inside = page.context.new_cdp_session(page)
        self.outside = browser.new_browser_cdp_session()
        self.inside.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.before = self._totals()

    def read(self) -> dict[str, float]:
        now = self._totals()
        spent = {name: 1000 * (now[name] - self.before[name]) for name in now}
        self.before = now
        return spent

    def _totals(self) -> dict[str, float]:
        metrics = {m["name"]: m["value"] for m in self.inside.send("Performance.getMetrics")["metrics"]}
        processes = self.outside.send("SystemInfo.getProcessInfo")["processInfo"]
        return {
            "script": metrics["ScriptDuration"],
            "styles and layout": metrics["RecalcStyleDuration"] + metrics["LayoutDuration"],
            "main thread": metrics["TaskDuration"],
            "page, all threads": sum(p["cpuTime"] for p in processes if p["type"] == "renderer"),
        }


def time_changes(browser: Any, page: Any, repeats: int) -> dict[str, dict[str, float]]:
    meter = Meter(browser, page)
    found: dict[str, dict[str, list[float]]] = {name: {} for name in CHANGES}
    for name, selectors in CHANGES.items():
        for repeat in range(repeats):
            page.evaluate(SETTLED)
            meter.read()
            script, painted = page.evaluate(UNTIL_PAINTED, selectors[repeat % len(selectors)])
            page.evaluate(SETTLED)
            spent = meter.read()
            for part, value in {"click to end of script": script, "click to paint": painted, **spent}.items():
                found[name].setdefault(part, []).append(value)
    return {name: summary(parts) for name, parts in found.items()}


def summary(parts: Mapping[str, list[float]]) -> dict[str, float]:
    medians = {part: round(statistics.median(values), 1) for part, values in parts.items()}
    return medians | {"click to paint, slowest": round(max(parts["click to paint"]), 1)}


def synthetic_defenses(reference: Reference, count: int) -> tuple[Defense, ...]:
    generator = np.random.default_rng(0)
    complete = [defense for defense in reference.defenses if not defense.missing(reference.ranked)]
    made = []
    for number in range(count):
        model = complete[number % len(complete)]
        factor = generator.uniform(0.6, 1.0)
        cells = {
            attack: {s: round(factor * v, 2) for s, v in row.items()} for attack, row in model.accuracies.cells.items()
        }
        table = AccuracyTable(round(factor * model.accuracies.clean, 2), cells)
        made.append(replace(model, name=f"Synthetic{number}", accuracies=table))
    return tuple(made)


def first_view(browser: Any, page: Any, board: Path, repeats: int) -> dict[str, float]:
    seconds, worked = [], []
    for _ in range(repeats):
        page.goto("about:blank")
        meter = Meter(browser, page)
        page.goto(board.as_uri())
        page.wait_for_function("globalThis.standing !== undefined")
        seconds.append(float(page.evaluate("globalThis.standing")))
        worked.append(meter.read()["main thread"])
    return {
        **sizes(board),
        "ms": round(statistics.median(seconds)),
        "slowest, ms": round(max(seconds)),
        "main thread, ms": round(statistics.median(worked)),
        "rows in the document": page.evaluate("document.querySelectorAll('#board > tbody > tr').length"),
    }


def sizes(board: Path) -> dict[str, int]:
    """Bytes of the first view, and of a long board those of its data, as packed, and of what every ranking needs of
    them."""
    files = [path for path in board.parent.iterdir() if path.suffix in (".html", ".css", ".js")]
    found = {
        "bytes": sum(path.stat().st_size for path in files if path.name != "plotly.min.js"),
        "plots, bytes": board.with_name("plotly.min.js").stat().st_size,
    }
    long = re.search(r'id="board-data">([^<{]+)<', board.read_text(encoding="utf-8"))
    if long is None:
        return found
    data = json.loads(gzip.decompress(base64.b64decode(long[1])))
    rows = [{key: value for key, value in row.items() if key in RANKED_BY} for row in data["defenses"]]
    return found | {
        "data, bytes": len(long[1]),
        "data for a ranking, bytes": len(pages.packed(json.dumps(data | {"defenses": rows}))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--defenses", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    reference = load_reference("multirobustbench-cifar10")
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=executable, args=flags)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.add_init_script(STANDING)
        published = build_leaderboard([], Path(folder) / "published", reference)
        large = replace(reference, defenses=synthetic_defenses(reference, arguments.defenses))
        board = build_leaderboard([], Path(folder) / "large", large)
        views = {
            f"{len(reference.defenses)} published defenses": first_view(browser, page, published, arguments.repeats),
            f"{arguments.defenses} defenses": first_view(browser, page, board, arguments.repeats),
        }
        plots = board.with_name("plotly.min.js")
        library = plots.read_text(encoding="utf-8")
        timings = {}
        for kind, text in (("table", ""), ("table and plots", library)):
            plots.write_text(text, encoding="utf-8")
            page.goto("about:blank")
            page.goto(board.as_uri())
            page.wait_for_function("document.querySelectorAll('#board > tbody > tr').length > 0")
            if text:
                page.wait_for_function("document.querySelectorAll('.plots .main-svg').length >= 4")
            timings[kind] = time_changes(browser, page, arguments.repeats)
        browser.close()
    report = {
        "first view": views,
        f"ranking {arguments.defenses} defenses again, ms": timings,
        "load": os.getloadavg(),
    }
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
