"""A real Chromium for the pages, with an eye on the console and on every request."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from browser.browser_helpers import HOSTILE, complete_result, synthetic_result, without_plots
from robustatlas.metrics.references import Reference, load_reference
from robustatlas.report.leaderboard import build_leaderboard
from robustatlas.report.page import build_report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    executable = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        executable = None
    if executable is None:
        if os.environ.get("ROBUSTATLAS_REQUIRE_BROWSER") == "1":
            pytest.fail("ROBUSTATLAS_REQUIRE_BROWSER=1, but there is no Chromium, or no playwright to drive it")
        pytest.skip("no Chromium found")
    with sync_playwright() as playwright:
        arguments = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        yield browser
        browser.close()


class Tab:
    """One tab for all tests, and one address for all pages of a kind.

    Reading the plots' library takes a core for three seconds in a new tab or from a new address, and no time where the
    browser knows it.
    """

    def __init__(self, browser: Any, folder: Path) -> None:
        self.complaints: list[str] = []
        self.folder = folder
        self.unchanged: Path | None = None
        self.page = browser.new_page()
        self.page.set_default_timeout(20_000)
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(f"script: {error}"))
        self.page.on("requestfailed", self._miss)
        self.page.on("request", self._see)
        self.page.on("dialog", self._answer)

    def open(self, path: Path, fragment: str = "", width: int = 1440, height: int = 900, scheme: str = "light") -> Any:
        """Load a page of a local file as somebody does who was never here."""
        if self.page.url.startswith("file:"):
            self.page.evaluate("localStorage.clear()")
            self.page.goto("about:blank")
        self.unchanged = None
        self._show(width, height, scheme)
        self.page.goto(self._put(path).as_uri() + fragment)
        return self.page

    def look(self, path: Path, fragment: str = "", width: int = 1440, height: int = 900, scheme: str = "light") -> Any:
        """The page as its address says, loaded before where all tests since then have left it like that."""
        if self.unchanged != path:
            self.open(path, fragment, width, height, scheme)
        else:
            self._show(width, height, scheme)
            if self.page.evaluate("location.hash") != fragment:
                self.page.evaluate(TURN, fragment)
        self.unchanged = path
        return self.page

    def _put(self, path: Path) -> Path:
        """The page where the last one of its kind was."""
        library = path.with_name("plotly.min.js")
        if not library.exists():
            return Path(shutil.copy(path, self.folder / "report.html"))
        kind = "board" if library.stat().st_size else "table"
        return shutil.copytree(path.parent, self.folder / kind, dirs_exist_ok=True) / path.name

    def _show(self, width: int, height: int, scheme: str) -> None:
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(media="screen", color_scheme=scheme)
        self.page.evaluate("scrollTo(0, 0)")

    def _see(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:", "about:")):
            self.complaints.append(f"request to {request.url}")

    def _miss(self, request: Any) -> None:
        if request.failure != "net::ERR_ABORTED":  # another page was opened before this one had all its files
            self.complaints.append(f"failed: {request.url}: {request.failure}")

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text}")

    def _answer(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()


TURN = """fragment => new Promise(done => {
    const painted = () => requestAnimationFrame(() => setTimeout(done, 1));
    addEventListener('popstate', () => setTimeout(painted, 61), {once: true});
    location.hash = fragment;
})"""
"""The page draws its plots 60 ms and a frame after the last change: its timers end before these."""


@pytest.fixture(scope="session")
def tab(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Tab:
    return Tab(chromium, tmp_path_factory.mktemp("tab"))


@pytest.fixture
def visit(tab: Tab) -> Iterator[Callable[..., Any]]:
    """Open a page of a local file; at the end nothing may have been logged, failed, or asked of the network."""
    tab.complaints.clear()
    yield tab.open
    assert tab.complaints == []


@pytest.fixture
def look(tab: Tab) -> Iterator[Callable[..., Any]]:
    """As `visit`, for tests that leave nothing behind but what the address says: those in a row share one load."""
    tab.complaints.clear()
    yield tab.look
    assert tab.complaints == []


@pytest.fixture(scope="session")
def reference() -> Reference:
    return load_reference("multirobustbench-cifar10")


@pytest.fixture(scope="session")
def full_page(tmp_path_factory: pytest.TempPathFactory, reference: Reference) -> Path:
    run = complete_result(reference, reference.ranked, HOSTILE)
    trained_on = {HOSTILE: {"linf": 8 / 255}}
    return build_report([run], tmp_path_factory.mktemp("report") / "report.html", reference, trained_on)


@pytest.fixture(scope="session")
def comparison_page(tmp_path_factory: pytest.TempPathFactory, reference: Reference) -> Path:
    runs = [
        synthetic_result(reference, attacks, name, data="arrays")
        for attacks, name in ((("linf", "l2"), "one"), (("linf",), HOSTILE))
    ]
    return build_report(runs, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, reference: Reference) -> Path:
    own = synthetic_result(reference, reference.ranked, "our-model")
    hostile = synthetic_result(reference, ("linf", "l2"), HOSTILE)
    about = {
        "our-model": {"trained_on": {"linf": 8 / 255}, "architecture": "tiny", "url": "javascript:alert(2)"},
        HOSTILE: {"title": "<img src=x onerror=alert(3)>", "notes": "</script><script>alert(4)</script>"},
    }
    return build_leaderboard([own, hostile], tmp_path_factory.mktemp("site"), reference, about=about)


@pytest.fixture(scope="session")
def published_site(tmp_path_factory: pytest.TempPathFactory, reference: Reference) -> Path:
    return build_leaderboard([], tmp_path_factory.mktemp("published"), reference)


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory, site: Path) -> Path:
    """`site` without plots."""
    return without_plots(shutil.copytree(site.parent, tmp_path_factory.mktemp("table") / "board") / site.name)


@pytest.fixture(scope="session")
def published_table(tmp_path_factory: pytest.TempPathFactory, published_site: Path) -> Path:
    """`published_site` without plots."""
    folder = tmp_path_factory.mktemp("table") / "board"
    return without_plots(shutil.copytree(published_site.parent, folder) / published_site.name)


@pytest.fixture(scope="session")
def own_board(tmp_path_factory: pytest.TempPathFactory, reference: Reference) -> Path:
    """A board that no reference fits."""
    runs = [
        synthetic_result(reference, ("linf", "l2"), name, samples, data="arrays")
        for name, samples in (("one", 200), ("two", 90))
    ]
    return build_leaderboard(runs, tmp_path_factory.mktemp("own"), None)
