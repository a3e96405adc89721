"""Fixtures for tests that look at a page, wherever they are: `page`, `new_page`, `watch`, `browser`."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bundle
import chromium
import pytest

ROOT = Path(__file__).parents[1]
OUTSIDE = re.compile(
    r"^(?!(file|data|blob|about|chrome-extension):|(http|ws)s?://(127\.0\.0\.1|localhost|\[::1\])[:/])"
)
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",  # which containers, and root, cannot have
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    # Also stops what no page asked for, and WebSockets, which request interception does not see.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE ::1",
]


SLOW_KINDS = ("browser", "lab", "packaging")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set the markers that follow from fixtures, and run slow kinds last so that a slip shows early."""
    for item in items:
        for kind in ("browser", "lab"):
            if kind in getattr(item, "fixturenames", ()):
                item.add_marker(kind)

    def slowness(item: pytest.Item) -> int:
        marked = {marker.name for marker in item.iter_markers()}
        return max((place for place, kind in enumerate(SLOW_KINDS, 1) if kind in marked), default=0)

    items.sort(key=slowness)


@dataclass
class Watch:
    """What went wrong in a test's pages. A test that provokes an error clears the list it expects it in."""

    blocked: list[str] = field(default_factory=list)
    page_errors: list[str] = field(default_factory=list)
    console_errors: list[str] = field(default_factory=list)


@pytest.fixture(scope="session", autouse=True)
def front_end() -> None:
    """Build the bundles anew if their sources are newer: never test yesterday's code."""
    bundle.build_if_stale(ROOT)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium for the whole run."""
    executable = chromium.find()
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        pytest.fail("Playwright is not installed: run `make setup`")
    if executable is None:
        pytest.fail("no working Chromium was found: run `make setup`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def watch(request: pytest.FixtureRequest) -> Iterator[Watch]:
    """Fail the test at its end if a page wanted the network or had an error."""
    watch = Watch()
    yield watch
    # JupyterLab itself logs errors that are none of ours.
    console_errors = [] if "lab" in request.fixturenames else watch.console_errors
    problems = {
        "requests that left this machine": watch.blocked,
        "uncaught errors": watch.page_errors,
        "console errors": console_errors,
    }
    lines = [f"{what}:\n  " + "\n  ".join(found) for what, found in problems.items() if found]
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)


@pytest.fixture
def new_page(browser: Any, watch: Watch) -> Iterator[Callable[..., Any]]:
    """Open watched pages: `new_page(color_scheme="dark", device_scale_factor=2)`, any context option."""
    contexts = []

    def block(route: Any) -> None:
        watch.blocked.append(route.request.url)
        route.abort()

    def note_socket(socket: Any) -> None:
        if OUTSIDE.match(socket.url):
            watch.blocked.append(socket.url)

    def note_console(message: Any) -> None:
        if message.type == "error":
            watch.console_errors.append(message.text)

    def open_page(**options: Any) -> Any:
        context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 900}, "device_scale_factor": 1, **options}
        )
        contexts.append(context)
        context.set_default_timeout(15_000)
        context.route(OUTSIDE, block)
        page = context.new_page()
        page.on("websocket", note_socket)
        page.on("console", note_console)
        page.on("pageerror", lambda error: watch.page_errors.append(str(error)))
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def page(new_page: Callable[..., Any]) -> Any:
    """Return a watched page of 1280 x 900 pixels, light, at device scale 1."""
    return new_page()


RECORDINGS = {
    "FSDP2": "test_fsdp2.py::test_collectives_are_those_recorded[",
    "DDP": "test_ddp.py::test_collectives_are_those_recorded[",
    "DeepSpeed": "test_deepspeed.py::test_collectives_in_issue_order[",
}
"""The tests that hold a program against a recording, by system."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count the recordings that are reproduced op for op."""
    for system, test in RECORDINGS.items():
        reports = {
            outcome: sum(test in report.nodeid for report in terminalreporter.getreports(outcome))
            for outcome in ("passed", "failed", "xfailed")
        }
        if any(reports.values()):
            terminalreporter.line(
                f"{system}: {reports['passed']} of {sum(reports.values())} recordings reproduced op for op"
            )
