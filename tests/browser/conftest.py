"""A real Chromium for the pages, with an eye on the console and on every request."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from robustatlas.references import Reference, load_reference


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
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Open a page of a local file; at the end nothing may have been logged, failed, or asked of the network."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def check_request(request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            complaints.append(f"request to {request.url}")

    def check_message(message: Any) -> None:
        if message.type in ("error", "warning"):
            complaints.append(f"console: {message.text}")

    def show_dialog(dialog: Any) -> None:
        complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open_page(path: Path, fragment: str = "", width: int = 1440, scheme: str = "light") -> Any:
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", check_message)
        page.on("pageerror", lambda error: complaints.append(f"script: {error}"))
        page.on("requestfailed", lambda request: complaints.append(f"failed: {request.url}"))
        page.on("request", check_request)
        page.on("dialog", show_dialog)
        page.goto(path.as_uri() + fragment)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="session")
def reference() -> Reference:
    return load_reference("multirobustbench-cifar10")
