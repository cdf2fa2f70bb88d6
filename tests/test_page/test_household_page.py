"""A household on the page: each user sees their own and what is shared with them, and may do what their role allows."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import httpx

from tellback.memory import Memory
from tests.support.browser import PHONE, TOKEN, PageServer, accessibility_problems, signed_in

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser


def tell(server: PageServer, **texts: str) -> None:
    """Remember one text in each namespace; "owner" is the owner's."""

    async def work(opened):
        for namespace, text in texts.items():
            await opened.memory.remember(Memory(text), namespace="" if namespace == "owner" else namespace)

    server.run(work)


def test_a_member_on_a_phone_keeps_their_own_beside_what_the_household_shares(
    server: PageServer, browser: Browser
) -> None:
    tell(server, owner="The key of the safe is in the piano.", family="The key of the shed is in the jar.")
    token = server.add_user("ana", family="write")
    with signed_in(browser, server, token, viewport=PHONE) as (page, watched):
        page.goto(f"{server.address}/memories")
        page.get_by_label("Something to remember").fill("My key is under the mat.")
        page.get_by_role("button", name="Remember").click()
        page.get_by_text("Remembered.").wait_for()
        page.get_by_role("link", name="Memories", exact=True).first.click()
        page.get_by_role("link", name="family").click()
        page.get_by_text("The key of the shed is in the jar.").wait_for()
        page.get_by_label("Something to remember").fill("The key of the bicycle is in the drawer.")
        page.get_by_role("button", name="Remember").click()
        page.get_by_text("Remembered.").wait_for()
        page.get_by_label("What is right").fill("The key of the bicycle is in the hall.")
        page.get_by_role("button", name="Correct").click()
        page.get_by_text("Corrected.").wait_for()
        page.goto(f"{server.address}/memories")
        page.get_by_label("Search your memories").fill("Where is the key?")
        page.locator("article.memory", has_text="under the mat").wait_for()
        bicycle = page.locator("article.memory", has_text="in the hall")
        assert bicycle.locator(".chip.place").inner_text() == "in family"
        assert page.locator("article.memory", has_text="under the mat").locator(".chip.place").count() == 0
        assert "piano" not in page.content()
        found = accessibility_problems(page)
        page.get_by_role("link", name="family").click()
        found += accessibility_problems(page)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        page.goto(f"{server.address}/settings")
        page.get_by_text("to read and to write").wait_for()
        assert page.get_by_text("start the server again").count() == 0  # settings are the owner's
        found += accessibility_problems(page)
        assert page.get_by_role("link", name="Health").count() == 0
        assert page.goto(f"{server.address}/health").status == 403
        assert found == []
        assert watched.problems == []
        server.run(renewed_token)
        page.goto(f"{server.address}/memories")  # the session ends with the token
        page.get_by_text("Your memory is locked").wait_for()


async def renewed_token(opened) -> str:
    from tellback.memory.internals import Users

    return Users(opened.memory.database).renew_token("ana")


def test_a_reader_is_shown_nothing_that_would_change_something(server: PageServer, browser: Browser) -> None:
    tell(server, tim="The dentist is on Monday.", family="The key of the shed is in the jar.")
    token = server.add_user("tim", "reader", family="write")
    with signed_in(browser, server, token) as (page, watched):
        assert page.get_by_role("link", name="Chat").count() == 0
        writing = page.locator("main form[method=post], main [hx-post], main a[href*='/forget']")
        for path in (
            "/memories",
            "/memories?in=family",
            "/memories?q=key",
            "/documents",
            "/profile",
            "/memories/changes",
        ):
            page.goto(server.address + path)
            assert writing.count() == 0, path
        page.goto(f"{server.address}/memories?in=family")
        page.get_by_role("link", name="The key of the shed").click()
        page.get_by_role("heading", name="History").wait_for()
        assert writing.count() == 0
        form = page.evaluate("JSON.parse(document.body.getAttribute('hx-headers'))['x-csrf-token']")
        statuses = [
            page.request.post(server.address + path, form={"csrf": form, **fields}).status
            for path, fields in {
                "/memories": {"text": "planted"},
                "/memories?in=family": {"text": "planted"},
                "/chat": {"text": "planted"},
                "/documents/remove": {"source": "a.md"},
            }.items()
        ]
        assert statuses == [403, 403, 403, 403]
        assert watched.problems == []


PATHS = (
    "/memories", "/memories?q=key", "/memories?in=family", "/memories?in=ben", "/memories?in=", "/memories/filters",
    "/memories/m2", "/memories/m2?in=ben", "/memories/m2/forget", "/memories/changes", "/memories/conflicts",
    "/documents", "/documents?question=key", "/documents/read?source=shed.txt", "/profile", "/conversations",
    "/conversations?q=key", "/conversations/monday", "/settings", "/health", "/given",
)  # fmt: skip


def test_every_page_is_the_same_whether_others_have_nothing_or_the_same_words(tmp_path: Path) -> None:
    from tellback.memory import KnowledgeBase, Message

    alone = PageServer(tmp_path / "alone.db")
    alone.start()
    tell(alone, ana="The key of the shed is in the jar.")
    token = alone.add_user("ana")
    alone.stop()
    shutil.copy(tmp_path / "alone.db", tmp_path / "full.db")
    full = PageServer(tmp_path / "full.db")
    full.start()

    async def fill(opened):
        for namespace in ("ben", "", "family"):
            memory = Memory("The key of the shed is in the tin.", id="m2")
            await opened.memory.remember(memory, namespace=namespace)
            words = [Message.user("Where is the key of the shed?")]
            await opened.memory.remember_turn("monday", words, namespace=namespace)
            base = KnowledgeBase(opened.memory, namespace=namespace)
            await base.ingest_text(b"The key of the shed.", source="shed.txt")

    full.run(fill)
    full.add_user("ben", family="write")
    full.stop()
    answers = []
    for server in (alone, full):
        server.start()
        with httpx.Client(base_url=server.address, trust_env=False, verify=False, timeout=30) as client:
            client.post("/login", data={"token": token})
            told = [client.get(path) for path in PATHS]
            form = re.search(r'x-csrf-token": "(\w+)', told[0].text)
            assert form is not None
            answers.append([(answer.status_code, answer.text.replace(form[1], "")) for answer in told])
        server.stop()
    assert answers[0] == answers[1]
    statuses = dict(zip(PATHS, (status for status, _ in answers[0]), strict=True))
    assert statuses["/memories?q=key"] == 200
    assert {status for path, status in statuses.items() if "in=" in path or "m2" in path} == {404}
    assert "in the jar" in answers[0][1][1]


def test_attempts_to_sign_in_are_bounded_over_all_requests(server: PageServer) -> None:
    with httpx.Client(base_url=server.address, trust_env=False, verify=False, timeout=30) as client:
        answers = [client.post("/login", data={"token": f"guess-{number}"}) for number in range(21)]
        right = client.post("/login", data={"token": TOKEN})
    assert [answer.status_code for answer in answers] == [403] * 20 + [429]
    assert right.status_code == 429  # a guess is not looked at any more
    assert int(right.headers["retry-after"]) > 0
