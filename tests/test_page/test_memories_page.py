"""Memories in the browser: what a person finds, corrects, marks, forgets and takes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellback.memory import Memory
from tests.support.browser import PageServer

if TYPE_CHECKING:
    from playwright.sync_api import Page


def remember(server: PageServer, *texts: str) -> list[str]:
    async def work(opened):
        return [(await opened.memory.remember(Memory(text))).id for text in texts]

    return server.run(work)


def texts_of(server: PageServer) -> list[str]:
    async def work(opened):
        return sorted(memory.text for memory in await opened.desk.page(limit=100))

    return server.run(work)


def test_a_memory_is_written_found_as_one_types_and_told_why(server: PageServer, page: Page) -> None:
    remember(server, "The rent is 890 euros.", "My sister Ana is allergic to hazelnuts.")
    page.goto(f"{server.address}/memories")
    page.get_by_label("Something to remember").fill("The spare key is with Dona Rosa.")
    page.get_by_role("button", name="Remember").click()
    page.get_by_text("Remembered.").wait_for()
    page.get_by_role("link", name="Memories", exact=True).first.click()
    page.get_by_label("Search your memories").fill("spare key")
    page.wait_for_url("**q=spare*")
    first = page.locator("article.memory").first
    first.get_by_text("Found: says “spare”, “key”").wait_for()
    assert "Dona Rosa" in first.inner_text()
    page.get_by_label("Search your memories").fill("hazelnuts")
    page.locator("article.memory").first.get_by_text("Ana").wait_for()
    page.go_back()  # a page of the history is loaded whole
    page.locator("article.memory").first.get_by_text("Dona Rosa").wait_for()
    assert page.get_by_role("navigation").is_visible()


def test_a_correction_shows_what_was_before_and_is_taken_back(server: PageServer, page: Page) -> None:
    (id,) = remember(server, "The dentist is Dr. Lopes, on Tuesdays.")
    page.goto(f"{server.address}/memories/{id}")
    page.get_by_label("What is right").fill("The dentist is Dr. Lopes, on Mondays.")
    page.get_by_role("button", name="Correct").click()
    page.get_by_text("Corrected.").wait_for()
    assert page.locator(".history del").all_inner_texts() == ["Tuesdays"]
    assert page.locator(".history ins").all_inner_texts() == ["Mondays"]
    page.locator("#notice").get_by_role("button", name="Undo").click()
    page.get_by_text("Undone.").wait_for()
    assert texts_of(server) == ["The dentist is Dr. Lopes, on Tuesdays."]


def test_a_memory_is_pinned_in_the_list_tagged_and_given_an_end(server: PageServer, page: Page) -> None:
    (id,) = remember(server, "I work at the harbour.")
    page.goto(f"{server.address}/memories")
    page.get_by_role("button", name="Pin: I work").click()
    page.get_by_role("button", name="Unpin: I work").wait_for()
    page.locator("#notice").get_by_text("Pinned.").wait_for()
    page.goto(f"{server.address}/memories/{id}")
    page.get_by_label("Add tags").fill("work, harbour")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_text("Tagged.").wait_for()
    page.get_by_label("It held until the end of").fill("2026-01-31")
    page.locator("form", has=page.get_by_label("It held until")).get_by_role("button").click()
    page.locator("article").get_by_text("held until 31 January").wait_for()
    page.locator("article").get_by_role("link", name="#harbour").click()
    page.locator("article.memory").get_by_text("I work at the harbour.").wait_for()


def test_forgetting_shows_first_what_goes_along_and_can_be_undone(server: PageServer, page: Page) -> None:
    async def work(opened):
        (turn,) = await opened.memory.remember_many([Memory("My locker is number 12.")])
        await opened.memory.remember(Memory("Locker: 12.", derived_from=(turn.id,)))
        return turn.id

    id = server.run(work)
    page.goto(f"{server.address}/memories/{id}")
    page.get_by_role("link", name="Forget").click()
    page.get_by_text("1 other memory").wait_for()
    page.get_by_text("Locker: 12.", exact=True).wait_for()
    assert len(texts_of(server)) == 2  # nothing is done before a yes
    page.get_by_role("button", name="Forget").click()
    page.get_by_text("Forgotten. For seven days").wait_for()
    assert texts_of(server) == []
    page.locator("#notice").get_by_role("button", name="Undo").click()
    page.get_by_text("Undone.").wait_for()
    assert texts_of(server) == ["Locker: 12.", "My locker is number 12."]


def test_contradictions_stand_side_by_side_and_one_click_settles_them(server: PageServer, page: Page) -> None:
    remember(server, "I live in Lisbon.", "I live in Porto.")
    page.goto(f"{server.address}/memories/conflicts")
    page.locator(".conflict article", has_text="Porto").get_by_role("button", name="This one holds").click()
    page.get_by_text("Settled.").wait_for()
    page.goto(f"{server.address}/memories/conflicts")
    page.get_by_text("No two memories contradict each other.").wait_for()


def test_a_memory_that_one_expected_says_why_it_was_not_found(server: PageServer, page: Page) -> None:
    (id,) = remember(server, "The boiler is serviced in October.")
    page.goto(f"{server.address}/memories/{id}")
    page.get_by_role("button", name="Switch off").click()
    page.get_by_label("A question that should have found it").fill("When is the boiler serviced?")
    page.get_by_role("button", name="Ask").click()
    page.get_by_text("It is disabled.").wait_for()


def test_two_windows_do_not_overwrite_each_other_and_a_form_sent_twice_is_done_once(
    server: PageServer, page: Page
) -> None:
    (id,) = remember(server, "The meeting is at nine.")
    page.goto(f"{server.address}/memories/{id}")
    other = page.context.new_page()
    other.goto(f"{server.address}/memories/{id}")
    other.get_by_label("What is right").fill("The meeting is at ten.")
    other.get_by_role("button", name="Correct").click()
    other.get_by_text("Corrected.").wait_for()
    page.get_by_label("What is right").fill("The meeting is at eleven.")
    page.get_by_role("button", name="Correct").click()
    page.get_by_text("was changed meanwhile").wait_for()
    assert "The meeting is at eleven." in page.locator("#notice").inner_text()
    assert texts_of(server) == ["The meeting is at ten."]
    page.goto(f"{server.address}/memories")
    page.get_by_label("Something to remember").fill("Bread on Saturday.")
    page.get_by_role("button", name="Remember").dblclick()
    page.wait_for_url("**/memories/*")
    assert texts_of(server) == ["Bread on Saturday.", "The meeting is at ten."]


def test_older_memories_come_page_by_page_under_their_days(server: PageServer, page: Page) -> None:
    remember(server, *(f"Note number {number} of many." for number in range(60)))
    page.goto(f"{server.address}/memories")
    assert page.locator("article.memory").count() == 50
    page.get_by_role("link", name="Show older ones").click()
    page.get_by_text("Note number 0 of many.").wait_for()
    assert page.locator("article.memory").count() == 60
    assert "60 memories" in page.locator("#counted").inner_text()
