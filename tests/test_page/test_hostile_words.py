"""Hostile words on the page: what memories, documents, names and models say does nothing and loads nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from tellback.memory import Memory
from tests.support.browser import PageServer, signed_in

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

OUT = "http://127.0.0.1:9/out"
HOSTILE = (
    "<script>alert(1)</script>",
    f"<img src={OUT}.png onerror=alert(1)>",
    f'"><svg onload=alert(1)><image href="{OUT}.svg"/></svg>',
    f"</textarea></title><iframe src={OUT}></iframe>",
    f"<style>@import '{OUT}.css'; body {{ display: none }}</style>",
    f"<link rel=stylesheet href={OUT}.css><base href={OUT}>",
    f"<meta http-equiv=refresh content='0;url={OUT}'>",
    "<a href=javascript:alert(1)>click</a> [click](javascript:alert(1)) [x](data:text/html,<script>alert(1)</script>)",
    f"![pixel]({OUT}.gif) [![x]({OUT}.gif)]({OUT}) <{OUT}> {OUT}",
    f'```[1]" onload=alert(1)\ncode\n```\n\n| a |\n|:-:|\n| ![x]({OUT}.gif) |',
    "{{ 7 * 7 }} {% include 'base.html' %} ${alert(1)} hx-on:load=alert(1) <div hx-get=/logout hx-trigger=load></div>",
    "\u202egnp.exe\u202c \u2066\u202d abc \x00\x1b[31m",
    "<math><mi//xlink:href='data:x,<script>alert(1)</script>'>",
)
LONG = "W" * 100_000


def pages_of(page: Page, server: PageServer, ids: list[str]) -> None:
    """Visit every page that shows what was said."""
    others = "iframe, object, embed, base, main script, main style, main img:not([src^='/static/'])"
    paths = [
        "/memories", "/memories?q=alert", "/memories/filters", "/memories/changes", "/memories/conflicts", "/profile",
        "/documents", "/documents?question=alert", "/conversations", "/conversations?q=alert", "/chat",
        "/given", "/health",
    ]  # fmt: skip
    for path in [*paths, *(f"/memories/{id}" for id in ids), *(f"/memories/{id}/forget" for id in ids[:3])]:
        page.goto(server.address + path)
        assert page.evaluate("getComputedStyle(document.body).display") != "none"
        assert page.locator(others).count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth + 1"), path


def test_memories_tags_names_and_clients_are_shown_and_are_nothing_else(server: PageServer, page: Page) -> None:
    async def work(opened):
        ids = []
        for number, text in enumerate(HOSTILE):
            name = text.replace("\x00", "")[:100]
            new = Memory(text.replace("\x00", ""), tags=(name,), speaker=name, about="alert: x", session=f"s{number}",
                         metadata={"origin": name})  # fmt: skip
            report = await opened.memory.remember(new)
            ids.append(report.id)
            await opened.memory.correct(report.id, f"My name is {new.text}")
            prompt = f"{name} alert"
            opened.memory.given.record("", {report.id: 1.0}, client=name, session=name, prompt=prompt)
        ids.append((await opened.memory.remember(Memory(f"alert {LONG}"))).id)
        return ids

    pages_of(page, server, server.run(work))
    page.goto(f"{server.address}/memories")
    assert "<script>alert(1)</script>" in page.locator("#results").inner_text()
    assert "\u202e" not in page.content()


def test_documents_and_their_names_are_shown_and_are_nothing_else(server: PageServer, page: Page) -> None:
    async def work(opened):
        base = opened.knowledge()
        for number, text in enumerate(HOSTILE):
            words = text.replace("\x00", "")
            await base.ingest_text(
                f"# alert {words[:60]}\n\nIt says alert: {words}\n", source=f"{number} {words[:60]!r}.md"
            )
        await base.ingest_text(f"It says alert {LONG}", source="long.txt")
        return [info.source for info in await base.documents()]

    sources = server.run(work)
    assert len(sources) > 5
    pages_of(page, server, [])
    page.goto(f"{server.address}/documents?question=alert")
    for number in range(min(5, page.locator("#answers a").count())):
        page.locator("#answers a").nth(number).click()
        page.get_by_role("link", name="All of the document").click()
        page.get_by_text("as they were read").wait_for()
        page.goto(f"{server.address}/documents?question=alert")


@contextmanager
def model(words: str) -> Iterator[str]:
    """Serve the wire format of OpenAI with a model that says *words*; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for piece in (words[at : at + 40] for at in range(0, len(words), 40)):
                chunk = {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]}
                self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
            self.wfile.write(f"data: {json.dumps(last)}\n\ndata: [DONE]\n\n".encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}/v1"
        listening.shutdown()


def test_what_a_model_says_is_shown_and_is_nothing_else(tmp_path: Path, browser: Browser) -> None:
    words = "\n\n".join(text.replace("\x00", "") for text in HOSTILE) + "\n\n**bold** and `code`"
    with model(words) as address:
        server = PageServer(tmp_path / "m.db", {"model": "a-model", "base_url": address, "model_server": "openai"})
        server.start()
        with signed_in(browser, server) as (page, watched):
            page.goto(f"{server.address}/chat")
            page.get_by_label("What you say").fill("Say it.")
            page.keyboard.press("Enter")
            answer = page.locator(".turn.assistant")
            answer.locator("strong", has_text="bold").wait_for()
            assert "<script>alert(1)</script>" in answer.inner_text()
            assert (
                answer.locator("a[href^='javascript'], a[href^='data'], a[href^='http'], img, script, style").count()
                == 0
            )
            page.reload()
            page.locator(".turn.assistant strong").wait_for()
            assert watched.problems == []
        server.stop()


@pytest.mark.parametrize("name", ["../../etc/passwd.md", "..\\..\\boot.md", "/abs/<img src=x>.md", "a\u202edm.exe.md"])
def test_names_of_uploaded_files_stay_names(server: PageServer, page: Page, name: str) -> None:
    page.goto(f"{server.address}/documents")
    file = {"name": name.rsplit("/", 1)[-1], "mimeType": "text/markdown", "buffer": b"# A\n\nIt is a text.\n"}
    page.locator("input[name=files]").set_input_files(file)
    page.locator("#outcome").get_by_text("1 passage").wait_for()
    page.goto(f"{server.address}/documents")
    assert page.locator("li.card").count() == 1
    assert "\u202e" not in page.content()
