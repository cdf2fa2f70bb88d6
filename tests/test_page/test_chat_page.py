"""Chat in the browser: what is answered as it comes, with its sources, and what was kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.browser import PageServer

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

BRIDGE = "# The bridge\n\nThe bridge was opened in 1932 by the mayor.\n"


def say(page: Page, text: str) -> None:
    page.get_by_label("What you say").fill(text)
    page.keyboard.press("Enter")
    page.locator("#log[aria-busy=false]").wait_for()


def test_what_is_told_is_kept_and_told_back_with_its_memory(server: PageServer, page: Page) -> None:
    page.goto(f"{server.address}/chat")
    say(page, "My sister Ana is allergic to hazelnuts.")
    page.get_by_text("Kept: My sister Ana").wait_for()
    say(page, "Which nuts is Ana allergic to?")
    answer = page.locator(".turn.assistant").last
    assert "hazelnuts" in answer.locator(".bubble").inner_text()
    answer.get_by_text("Not kept as a memory").wait_for()
    answer.get_by_text("Used 1 memory").click()
    answer.get_by_role("link", name="Correct: My sister").click()
    page.get_by_label("What is right").wait_for()
    page.go_back()  # the conversation is there again
    page.locator(".turn.user", has_text="Which nuts").wait_for()
    assert page.locator(".turn").count() == 4


def test_a_dropped_file_is_read_and_its_citation_opens_beside_the_answer(
    server: PageServer, page: Page, tmp_path: Path
) -> None:
    (tmp_path / "bridge.md").write_text(BRIDGE)
    page.goto(f"{server.address}/chat")
    page.locator("#pick").set_input_files(tmp_path / "bridge.md")
    page.locator("#files").get_by_text("bridge.md").wait_for()
    say(page, "When was the bridge opened?")
    answer = page.locator(".turn.assistant").last
    answer.get_by_text("bridge.md", exact=True).first.wait_for()
    answer.locator("a.cite").first.click()
    page.locator("#source mark", has_text="The bridge was opened in 1932").wait_for()
    page.keyboard.press("Escape")
    assert page.locator("#source").is_hidden()


def test_plain_requests_propose_and_a_person_does_them(server: PageServer, page: Page) -> None:
    page.goto(f"{server.address}/chat")
    say(page, "The meeting is on 14 March.")
    say(page, "No, it is on 15 March.")
    page.get_by_role("button", name="Correct", exact=True).click()
    page.get_by_text("Corrected.").wait_for()
    assert "15 March" in page.locator("article h1").inner_text()
    page.goto(f"{server.address}/chat")
    say(page, "Forget the meeting.")
    page.get_by_role("link", name="Forget …").click()
    page.get_by_role("heading", name="Forget this?").wait_for()


def test_several_lines_are_one_turn_and_a_server_that_is_gone_loses_no_words(server: PageServer, page: Page) -> None:
    page.goto(f"{server.address}/chat")
    box = page.get_by_label("What you say")
    box.fill("The garage is the third door.")
    box.press("Shift+Enter")
    box.type("It is green.")
    page.keyboard.press("Enter")
    page.get_by_text("Kept:").wait_for()
    assert page.locator(".turn.user").count() == 1
    server.stop()
    say(page, "The gate is red.")
    page.get_by_text("The server does not answer").wait_for()
    assert box.input_value() == "The gate is red."
    server.start()
    page.keyboard.press("Enter")
    page.get_by_text("Kept: The gate is").wait_for()


def test_a_turn_that_is_stopped_keeps_nothing(server: PageServer, page: Page) -> None:
    page.goto(f"{server.address}/chat")
    page.evaluate(  # an answer that does not end by itself
        """() => { window.fetch = ((real) => (path, options) => path !== "/chat" ? real(path, options)
            : new Promise((_, fail) => options.signal.addEventListener("abort",
                () => fail(new DOMException("", "AbortError")))))(window.fetch); }"""
    )
    page.get_by_label("What you say").fill("Never mind.")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped; nothing of this turn was kept.").wait_for()
    assert page.get_by_label("What you say").input_value() == "Never mind."
