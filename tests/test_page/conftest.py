"""A server of the page, and a browser that has signed in to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("fastapi", reason="the extra 'web' is not installed")
pytest.importorskip("jinja2", reason="the extra 'web' is not installed")

from tests.support.browser import CHROMIUM, PageServer, running_browser, signed_in

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PageServer]:
    started = PageServer(tmp_path / "m.db")
    started.start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium for the tests of one file: its loop runs in this thread, where tests of other files run theirs."""
    pytest.importorskip("playwright", reason="playwright is not installed (extra 'dev')")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with running_browser() as started:
        yield started


@pytest.fixture
def page(server: PageServer, browser: Browser) -> Iterator[Page]:
    """A page of a signed-in browser; what the policy of content refuses, or a request elsewhere, fails the test."""
    with signed_in(browser, server) as (shown, watched):
        yield shown
        assert watched.problems == []
