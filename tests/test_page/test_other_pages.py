"""About me, conversations, health: what they show and do; and what every page is to a screen reader and on a phone."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING

import pytest

from tellback.memory import Memory
from tests.support.browser import PHONE, PageServer, accessibility_problems, signed_in

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

TEXTS = (
    "My name is Marta.", "I live in Porto.", "I live in Lisbon.", "My sister Ana is a nurse.", "I am allergic to nuts.",
    "The rent is 890 euros, due on the first.",
)  # fmt: skip


def fill(server: PageServer) -> str:
    """Give the memory something of everything; return the id of a memory."""

    async def work(opened):
        memory = opened.memory
        ids = [(await memory.remember(Memory(text, tags=("life",)))).id for text in TEXTS]
        await memory.pin([ids[0]])
        await memory.correct(ids[-1], "The rent is 910 euros, due on the first.")
        await opened.knowledge().ingest_text("# Lease\n\nThe lease ends in May 2030.\n", source="lease.md")
        return ids[-1]

    return server.run(work)


def test_what_is_known_about_a_person_stands_by_topic_with_its_source(server: PageServer, page: Page) -> None:
    fill(server)
    page.goto(f"{server.address}/profile")
    home = page.get_by_label("home", exact=True)
    home.get_by_text("I live in Lisbon.").wait_for()
    known, lately = page.locator(".topics").last.bounding_box(), page.get_by_label("Lately").bounding_box()
    assert known is not None
    assert lately is not None
    assert lately["y"] - known["y"] - known["height"] >= 12  # the cards do not touch
    home.get_by_role("link", name="Correct: I live in Lisbon.").click()
    page.get_by_label("What is right").wait_for()


def test_conversations_are_searched_read_and_gone_on_with(server: PageServer, page: Page) -> None:
    for text in ("My bicycle is a blue Gazelle.", "The concert is in June."):
        page.goto(f"{server.address}/chat")
        page.get_by_label("What you say").fill(text)
        page.keyboard.press("Enter")
        page.get_by_text("Kept:").wait_for()
    page.goto(f"{server.address}/conversations")
    assert page.locator("li.card").count() == 2
    page.get_by_label("Search conversations").fill("bicycle")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=bicycle")
    assert page.locator("li.card").count() == 1
    page.get_by_role("link", name="My bicycle", exact=False).first.click()
    page.get_by_role("link", name="Go on").click()
    page.locator(".turn.user", has_text="blue Gazelle").wait_for()


def test_an_export_of_another_assistant_is_taken_in_and_an_own_one_is_taken_away(
    server: PageServer, page: Page, tmp_path: Path
) -> None:
    said = {
        "uuid": "m1", "sender": "human", "text": "My cat is called Miso.", "created_at": "2026-01-02T03:04:05Z",
        "content": [{"type": "text", "text": "My cat is called Miso."}],
    }  # fmt: skip
    talk = {"uuid": "c1", "name": "Cats", "created_at": "2026-01-02T03:04:05Z", "chat_messages": [said]}
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps([talk]))
    page.goto(f"{server.address}/conversations")
    page.get_by_label("Export", exact=True).set_input_files(tmp_path / "data.zip")
    page.get_by_role("button", name="Import").click()
    page.get_by_text("1 messages kept").wait_for()
    page.goto(f"{server.address}/conversations")
    page.get_by_text("Cats").wait_for()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download an export").click()
    waiting.value.save_as(tmp_path / "mine.jsonl")
    assert "My cat is called Miso." in (tmp_path / "mine.jsonl").read_text(encoding="utf-8")
    (tmp_path / "no.zip").write_bytes(b"nothing")
    page.get_by_label("Export", exact=True).set_input_files(tmp_path / "no.zip")
    page.get_by_role("button", name="Import").click()
    page.get_by_text("This is no export").wait_for()


def test_health_checks_the_rows_and_makes_a_backup(server: PageServer, page: Page) -> None:
    fill(server)
    page.goto(f"{server.address}/health")
    page.get_by_role("button", name="Check every row").click()
    page.get_by_text("Every row is as it was written.").wait_for()
    page.get_by_role("button", name="Make a backup now").click()
    page.get_by_text("A backup is made").wait_for()
    assert page.locator("tbody tr").count() == 1


PATHS = (
    "/chat", "/memories", "/memories?q=rent", "/memories?tag=life", "/memories/ID", "/memories/ID/forget",
    "/memories/changes", "/memories/conflicts", "/documents?question=lease", "/documents/read?source=lease.md",
    "/profile", "/conversations", "/health", "/settings", "/memories/nothing",
)  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_keeps_anybody_out(server: PageServer, browser: Browser, scheme: str) -> None:
    id = fill(server)
    found = []
    size = PHONE if scheme == "dark" else {"width": 1200, "height": 800}
    with signed_in(browser, server, color_scheme=scheme, viewport=size) as (page, watched):
        for path in PATHS:
            page.goto(server.address + path.replace("ID", id))
            page.wait_for_load_state("networkidle")
            found += [f"{path}: {problem}" for problem in accessibility_problems(page)]
            if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
                found.append(f"{path}: wider than the screen")
        page.goto(f"{server.address}/memories")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        assert watched.problems == []
    assert found == []


def test_times_are_those_of_the_browsers_zone_and_clock(server: PageServer, browser: Browser) -> None:
    from datetime import UTC, datetime

    async def work(opened):
        at = datetime(2026, 3, 1, 3, 30, tzinfo=UTC)
        return (await opened.memory.remember(Memory("The ferry leaves.", occurred_at=at))).id

    id = server.run(work)
    for zone, locale, shown in (("America/New_York", "en-US", "28 February 2026, 10:30 PM"),
                                ("Asia/Tokyo", "en-GB", "1 March 2026, 12:30")):  # fmt: skip
        with signed_in(browser, server, timezone_id=zone, locale=locale) as (page, _):
            page.goto(f"{server.address}/memories/{id}")
            page.get_by_text(shown.replace(" 2026", "") if datetime.now(UTC).year == 2026 else shown).wait_for()
