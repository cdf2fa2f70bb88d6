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


def test_a_backup_is_made_taken_away_and_put_back_after_its_plan_was_shown(
    server: PageServer, page: Page, tmp_path: Path
) -> None:
    fill(server)
    page.goto(f"{server.address}/health")
    page.get_by_role("button", name="Check everything").click()
    page.get_by_text("every row is as it was written").wait_for(timeout=90_000)  # a process of its own reads them
    page.get_by_role("button", name="Make a backup now").click()
    page.get_by_text("A backup is made").wait_for()
    backups = page.get_by_role("region", name="Backups").locator("tbody tr")
    assert backups.count() == 1
    with page.expect_download() as waiting:
        backups.get_by_role("link", name="Download").click()
    waiting.value.save_as(tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_bytes().startswith(b"SQLite format 3")
    page.goto(f"{server.address}/memories")
    page.get_by_label("Something to remember").fill("The ferry leaves at nine.")
    page.get_by_role("button", name="Remember").click()
    page.get_by_text("Remembered.").wait_for()
    page.goto(f"{server.address}/health")
    page.get_by_role("link", name="Put back").click()
    page.get_by_text("1 change of yours since then would be gone").wait_for()
    page.get_by_role("button", name="Put it back").click()
    page.get_by_text("is put back: ").wait_for(timeout=60_000)
    page.goto(f"{server.address}/memories")
    page.get_by_text("The rent is 910 euros").wait_for()
    assert page.get_by_text("The ferry leaves").count() == 0
    assert [path for path in tmp_path.iterdir() if "before-restore" in path.name]


def test_settings_are_changed_checked_and_hold_at_once(server: PageServer, page: Page) -> None:
    page.goto(f"{server.address}/settings")
    page.get_by_label("Your time zone").fill("Lisbon")
    page.get_by_label("Your name").fill("Marta")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("the name of a time zone is needed").wait_for()
    assert not server.config.exists()
    assert page.get_by_label("Your name").input_value() == "Marta"  # what was typed is still there
    page.get_by_label("Your time zone").fill("Europe/Lisbon")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Saved: name, zone.").wait_for(timeout=60_000)
    assert server.config.read_text() == 'name = "Marta"\nzone = "Europe/Lisbon"\n'

    async def name(opened):
        return opened.settings.name

    assert server.run(name) == "Marta"
    assert page.get_by_label("A backup is made each day").is_disabled()  # a variable sets it
    page.goto(f"{server.address}/health")
    page.get_by_role("button", name="A link for another browser").click()
    link = page.locator("#link").inner_text()
    other = page.context.browser.new_page()
    other.goto(link)
    other.wait_for_url("**/chat")
    other.context.close()


def test_what_prompts_were_given_is_shown_with_its_reason_and_marked_as_not_useful(
    server: PageServer, page: Page
) -> None:
    async def work(opened):
        ids = [(await opened.memory.remember(Memory(text))).id for text in TEXTS[:4]]
        for number in range(21):
            words = f"Where does Marta live, number {number}?"
            scores = {ids[0]: 0.8, ids[1]: 0.5}
            opened.memory.given.record("", scores, client="claude-code", session="s", prompt=words)
        await opened.memory.forget([ids[1]])
        return ids[0]

    id = server.run(work)
    page.goto(f"{server.address}/given")
    assert page.locator("article.given").count() == 20
    first = page.locator("article.given").first
    first.get_by_text("Given: it says “Marta” (score 0.80)").wait_for()
    first.get_by_role("button", name="Not useful: My name is Marta.").click()
    first.get_by_text("not given any more to prompts like this one").wait_for()

    async def marked(opened):
        return opened.memory.given.not_useful("", "Where does Marta live?", [id])

    assert server.run(marked) == {id}
    first.get_by_role("button", name="Useful after all").click()
    first.get_by_role("button", name="Not useful").wait_for()
    assert server.run(marked) == set()
    page.get_by_role("link", name="Older ones").click()
    page.get_by_text("number 0?").wait_for()
    assert page.locator("article.given").count() == 1


PATHS = (
    "/chat", "/memories", "/memories?q=rent", "/memories?tag=life", "/memories/ID", "/memories/ID/forget",
    "/memories/changes", "/memories/conflicts", "/documents?question=lease", "/documents/read?source=lease.md",
    "/profile", "/conversations", "/given", "/health", "/health/restore?name=BACKUP", "/settings", "/memories/nothing",
)  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_keeps_anybody_out(server: PageServer, browser: Browser, scheme: str) -> None:
    id, found = fill(server), []
    server.add_user("ana", family="write")

    async def more(opened):
        opened.memory.given.record("", {id: 0.8}, client="codex", session="s", prompt="What is the rent?")
        return (await opened.memory.backup()).path.name

    backup = server.run(more)
    size = PHONE if scheme == "dark" else {"width": 1200, "height": 800}
    with signed_in(browser, server, color_scheme=scheme, viewport=size) as (page, watched):
        for path in PATHS:
            page.goto(server.address + path.replace("ID", id).replace("BACKUP", backup))
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
