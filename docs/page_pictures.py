"""Pictures of the page, from a real run in a browser: ``python docs/page_pictures.py`` writes docs/page/*.png.

Needs Chromium and playwright (extra ``dev``). A memory is told some things in a folder of its own, and a server shows it.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellback.memory import KnowledgeBase, Memory, open_memory

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FOLDER = Path(__file__).parent / "page"
MOST_BYTES = 150_000
TOLD = (
    (0.1, "Ana's birthday is on 3 May; she likes books about the sea.", ("family", "gifts"), ""),
    (0.2, "My sister Ana is allergic to hazelnuts.", ("family",), ""),
    (1, "The spare key of the flat is with Dona Rosa on the second floor.", ("flat",), ""),
    (3, "The dentist is Dr. Lopes, on Tuesdays from ten.", (), ""),
    (5, "We deploy the shop on Tuesdays after the stand-up, never on Fridays.", ("work",), "claude-code"),
    (12, "I prefer short answers without lists.", (), "cursor"),
    (40, "I work as a nurse at the children's hospital.", (), ""),
    (60, "My name is Marta and I live in Porto, in Rua das Flores.", (), ""),
    (90, "My bicycle is a blue Gazelle with the frame number GZ4711.", (), ""),
    (150, "We had dinner at the harbour with Rui and Lia.", (), ""),
    (400, "I take the tram number 18 to work.", (), ""),
)
PROMPTS = (
    ("Write a note for the concierge about the spare key.", {"spare key": 0.71, "Rua das Flores": 0.22}),
    ("When do we deploy the shop this week?", {"deploy the shop": 0.83, "short answers": 0.31}),
)
LEASE = """# Lease of the flat

## Rent

The rent is 890 euros a month, due on the first. Water is included, electricity is not.

## Notice

Either side may end the lease with three months' notice, in writing.

## Keys

Two keys are handed over. A lost key is replaced at the cost of the tenant.
"""


async def tell(path: Path) -> None:
    """Make the memory that the pictures show."""
    memory, now = open_memory(path), datetime.now(UTC)
    ids: dict[str, str] = {}
    for days, text, tags, client in reversed(TOLD):
        metadata = {"origin": client} if client else {}
        new = Memory(text, tags=tags, occurred_at=now - timedelta(days=days), metadata=metadata)
        report = await memory.remember(new)
        if "Ana's" in text:
            await memory.pin([report.id])
        if "dentist" in text:
            await memory.correct(report.id, "The dentist is Dr. Lopes, on Mondays from nine.")
        ids[text] = report.id
    for prompt, given in PROMPTS:
        scores = {ids[next(text for text in ids if begin in text)]: score for begin, score in given.items()}
        memory.given.record("", scores, client="claude-code", session="shop", prompt=prompt)
    documents = KnowledgeBase(memory)
    await documents.ingest_text(LEASE, source="flat/lease.md")
    await documents.ingest_text("# Boiler\n\nThe boiler is serviced each October.\n", source="flat/boiler.md")
    await memory.close()


@contextmanager
def served(path: Path, home: Path) -> Iterator[Callable[[], str]]:
    """Serve the memory at *path*; yield what gives a new link that signs in, by another process as a user's."""
    (home / "config.toml").touch()
    environment = {
        **os.environ,
        "TELLBACK_CONFIG": str(home / "config.toml"),
        "TELLBACK_TOKEN": "token-of-the-pictures",
    }
    command = [sys.executable, "-m", "tellback.agent.assistant.cli", "--memory", str(path), "serve", "--port", "0"]
    server = subprocess.Popen([*command, "--no-browser"], env=environment, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    for line in server.stderr:
        if found := re.search(r"(http://\S+)/login\?word=", line):
            break
    from tellback.agent.assistant.server.page.browser_sessions import BrowserSessions

    sessions = BrowserSessions("token-of-the-pictures")
    try:
        yield lambda: f"{found[1]}/login?word={sessions.link_word()}"
    finally:
        server.terminate()
        server.wait(30)


def say(page: Page, text: str) -> None:
    page.get_by_label("What you say").fill(text)
    page.keyboard.press("Enter")
    page.locator("#log[aria-busy=false]").wait_for()


def chat(page: Page) -> None:
    page.goto(page.url.partition("/chat")[0] + "/chat")
    say(page, "My mother moves to Braga on 3 December.")
    say(page, "How much notice must I give to end the lease?")
    page.locator("a.cite").first.click()
    page.locator("#source mark").first.wait_for()


def phone_chat(page: Page) -> None:
    say(page, "Which nuts must my sister avoid?")


def search(page: Page) -> None:
    page.goto(page.url.partition("/chat")[0] + "/memories")
    page.get_by_label("Search your memories").fill("present for my sister")
    page.locator("p.why").first.wait_for()
    page.keyboard.press("Tab")


def correction(page: Page) -> None:
    page.goto(page.url.partition("/chat")[0] + "/memories")
    page.get_by_role("link", name="The dentist is").first.click()
    page.locator(".history ins").first.wait_for()
    page.locator("#history").scroll_into_view_if_needed()


def going(path: str, act: Callable[[Page], Any] = lambda page: None) -> Callable[[Page], None]:
    """Return a scene that opens the page at *path* and does *act*."""

    def scene(page: Page) -> None:
        page.goto(page.url.partition("/chat")[0] + path)
        act(page)

    return scene


def ask_documents(page: Page) -> None:
    page.get_by_label("Ask your documents").fill("who pays for a lost key?")
    page.locator("#answers mark").first.wait_for()
    page.keyboard.press("Tab")


def forget(page: Page) -> None:
    page.get_by_role("link", name="Forget: The dentist").click()
    page.get_by_role("heading", name="With it would go").wait_for()


SCENES: tuple[tuple[str, str, tuple[int, int], Callable[[Page], None]], ...] = (
    ("memories", "light", (1100, 720), going("/memories")),
    ("search", "light", (1100, 620), search),
    ("chat", "light", (1200, 720), chat),
    ("correction", "light", (1100, 720), correction),
    ("forget", "light", (1100, 640), going("/memories", forget)),
    ("documents", "light", (1100, 720), going("/documents", ask_documents)),
    ("profile", "dark", (1100, 720), going("/profile")),
    ("health", "dark", (1100, 720), going("/health", lambda page: page.locator(".figures").wait_for())),
    ("given", "light", (1100, 640), going("/given")),
    ("phone-chat", "dark", (360, 680), phone_chat),
    ("phone-memories", "light", (360, 680), going("/memories")),
)


def take(
    browser: Browser, link: str, name: str, scheme: str, size: tuple[int, int], scene: Callable[[Page], None]
) -> None:
    """Write one picture."""
    viewport: Any = {"width": size[0], "height": size[1]}
    context = browser.new_context(
        viewport=viewport,
        color_scheme="dark" if scheme == "dark" else "light",
        timezone_id="Europe/Lisbon",
        locale="en-GB",
    )
    page = context.new_page()
    page.goto(link)
    page.wait_for_url("**/chat")
    scene(page)
    page.wait_for_timeout(300)
    picture = FOLDER / f"{name}.png"
    page.screenshot(path=picture)
    context.close()
    print(f"{picture.name}: {picture.stat().st_size / 1000:.0f} kB")
    assert picture.stat().st_size < MOST_BYTES


def main(only: list[str]) -> None:
    """Write the pictures, or those named *only*."""
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "memory.db")
        asyncio.run(tell(path))
        with served(path, Path(folder)) as link, sync_playwright() as playwright:
            options = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)
            for name, scheme, size, scene in SCENES:
                if not only or name in only:
                    take(browser, link(), name, scheme, size, scene)
            browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
