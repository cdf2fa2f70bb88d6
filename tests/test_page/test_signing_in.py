"""Signing in to the page, and what a browser that has not may see."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import httpx

from tests.support.browser import TOKEN, PageServer, signed_in

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page


def client(server: PageServer) -> httpx.Client:
    return httpx.Client(base_url=server.address, trust_env=False, verify=False, timeout=30)


def test_a_link_signs_in_once_and_its_cookie_is_for_this_site_alone(server: PageServer) -> None:
    link = server.link()
    with client(server) as browser:
        answer = browser.get(link)
        cookie = answer.headers["set-cookie"].lower()
        assert (answer.status_code, browser.get("/memories").status_code) == (200, 200)
    with client(server) as second:
        assert second.get(link).status_code == 403
        assert second.get("/memories").headers["location"] == "/login"
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


PATHS = (
    "/",
    "/memories",
    "/memories/filters",
    "/memories/changes",
    "/logout",
    "/memories/x/forget",
    "/chat",
    "/documents",
)


def test_without_signing_in_no_page_is_shown_and_no_form_is_taken(server: PageServer) -> None:
    with client(server) as browser:
        for path in PATHS:
            assert browser.get(path).headers["location"] == "/login", path
            assert browser.post(path, data={"text": "x"}).status_code == 303, path
            assert browser.get(path, headers={"HX-Request": "true"}).status_code == 401, path
            forged = {"Cookie": f"tellback-{server.port}=9999999999.x.y"}
            assert browser.get(path, headers=forged).status_code == 303, path


def test_a_form_without_its_token_or_from_another_page_is_refused(server: PageServer) -> None:
    with client(server) as browser:
        browser.get(server.link())
        bare = browser.post("/memories", data={"text": "planted"})
        wrong = browser.post("/memories", data={"text": "planted", "csrf": "0" * 32})
        foreign = browser.post("/memories", data={"text": "planted"}, headers={"Origin": "http://evil.example"})
        api = browser.get("/api/v1/stats")
        listed = browser.get("/memories").text
    assert [answer.status_code for answer in (bare, wrong, foreign, api)] == [403, 403, 403, 401]
    assert "planted" not in listed


def test_every_answer_keeps_scripts_styles_frames_and_caches_of_others_out(server: PageServer) -> None:
    with client(server) as browser:
        answers = [
            browser.get("/login"),
            browser.get(server.link()),
            browser.get("/memories"),
            browser.get("/memories/no"),
        ]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert " style=" not in answer.text
        assert "<script>" not in answer.text
    assert answers[-1].status_code == 404


def test_the_token_signs_in_and_signing_out_ends_the_session(server: PageServer, browser: Browser) -> None:
    page: Page = browser.new_page()
    page.goto(f"{server.address}/memories")
    page.get_by_label("Token or link").fill("not-the-token-of-it")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("does not open it").wait_for()
    page.get_by_label("Token or link").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/chat")
    cookies = page.context.cookies()
    page.goto(f"{server.address}/settings")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_text("Your memory is locked").wait_for()
    page.context.add_cookies(cookies)  # it was ended, and not only taken from the browser
    page.goto(f"{server.address}/memories")
    page.get_by_text("Your memory is locked").wait_for()
    page.context.close()


def test_a_session_outlives_a_restart_and_an_expired_one_says_so(tmp_path: Path, browser: Browser) -> None:
    ahead = 0.0
    server = PageServer(tmp_path / "m.db", clock=lambda: time.time() + ahead)
    server.start()
    with signed_in(browser, server) as (page, watched):
        page.goto(f"{server.address}/memories")
        server.stop()
        page.get_by_label("Search your memories").fill("gone")
        page.get_by_text("The server does not answer").wait_for()
        server.start()
        page.get_by_label("Search your memories").fill("back")
        page.get_by_text("Nothing like that is remembered.").wait_for()
        ahead = 40 * 86_400.0
        page.get_by_label("Search your memories").fill("later")
        page.get_by_text("You were signed out").wait_for()
        assert watched.problems == []
    server.stop()
