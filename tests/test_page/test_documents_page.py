"""Documents in the browser: what is read and what is not, questions to them, and the cited place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.browser import PageServer

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page


def test_files_and_folders_are_read_and_what_is_not_says_why(server: PageServer, page: Page, tmp_path: Path) -> None:
    folder = tmp_path / "house"
    (folder / "papers").mkdir(parents=True)
    (folder / "papers" / "rent.md").write_text("# Rent\n\nThe rent is 890 euros, due on the first.\n")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 broken")
    (folder / ".hidden").write_text("not read")
    page.goto(f"{server.address}/documents")
    page.locator("[data-folder]").set_input_files(folder)
    page.get_by_text("Show all documents").wait_for()
    outcome = page.locator("#outcome").inner_text()
    assert "house/papers/rent.md" in outcome
    assert "not read" in outcome
    assert ".hidden" not in outcome
    page.get_by_text("Show all documents").click()
    page.get_by_role("heading", name="1 document").wait_for()
    page.get_by_label("Ask your documents").fill("How much is the rent?")
    page.locator("#answers mark", has_text="890 euros").first.wait_for()
    page.locator("#answers a").first.click()
    page.get_by_role("link", name="All of the document").click()
    page.get_by_text("1 passage, as they were read").wait_for()


def test_a_document_is_erased_after_a_second_click(server: PageServer, page: Page) -> None:
    async def work(opened):
        await opened.knowledge().ingest_text("# Old\n\nThis is old.\n", source="old.md")

    server.run(work)
    page.goto(f"{server.address}/documents")
    page.locator("summary", has_text="Remove").click()
    page.get_by_role("button", name="Erase it").click()
    page.get_by_text("No document was read yet.").wait_for()
