"""The endpoints of models, over real HTTP on both sides: what passes, what is given, what is kept.

Official clients ask, scripted servers of ours answer.

Inner parts, on no face: ``tellback.agent.http_listener``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'web' is not installed")

import httpx
from fastapi import FastAPI

from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.hooks import run_log
from tellback.agent.assistant.server.proxy.endpoints import ModelEndpoints
from tellback.agent.assistant.server.proxy.turn_keeper import BROKEN_OFF
from tellback.agent.assistant.setting_checks import Secret
from tellback.agent.assistant.wiring import open_configured_memory
from tellback.agent.testing import AnthropicServer, OpenAIServer, RawReply, Reply, ScriptedServer, call
from tellback.memory import Memory, open_memory
from tellback.memory.http import HttpClient
from tellback.memory.internals import Quota, User, Users
from tests.support.served_memory import TOKEN, serving

openai: Any = None
anthropic: Any = None
pytestmark = [pytest.mark.anyio, pytest.mark.slow]
KEY = "sk-upstream-0123456789"
TABLE = "My walnut table is 180 cm long."
ASKED = {"role": "user", "content": "How long is my walnut table?"}
COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "scripted",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "180 cm."}}],
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "scripted",
    "content": [{"type": "text", "text": "180 cm."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


@pytest.fixture(scope="module", autouse=True)
def clients() -> None:
    """Import the official clients: not with this file, since each worker collects it, and they take seconds."""
    for name in ("openai", "anthropic"):
        globals()[name] = pytest.importorskip(name, reason="the client is in the extra dev")


@dataclass(frozen=True)
class Setting:
    """A memory file, a model that is scripted, and the address of our server between a client and it."""

    settings: AssistantSettings
    model: ScriptedServer
    address: str
    openai: Any
    anthropic: Any

    @property
    def http(self) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        return httpx.AsyncClient(base_url=self.address, headers=headers, trust_env=False, verify=False, timeout=60)

    async def kept(self) -> list[tuple[str, str, str]]:
        """Return role, session and text of each message that is kept, oldest first: once the server has ended."""
        opened = open_configured_memory(self.settings)
        page = await opened.memory.list(order="oldest", limit=100)
        await opened.close()
        return [(memory.role or "", memory.session or "", memory.text) for memory in page if memory.session]


@asynccontextmanager
async def endpoints(path: Path, model: ScriptedServer, *known: str | Memory, **settings: Any) -> AsyncIterator[Setting]:
    """Yield the setting of a memory at *path* that has *known*, in front of *model*."""
    with model:
        if isinstance(model, AnthropicServer):
            place = {"model": "anthropic:m", "anthropic_base_url": model.url, "anthropic_api_key": Secret(KEY)}
        else:
            place = {"model": "openai:m", "base_url": model.url, "api_key": Secret(KEY)}
        chosen = AssistantSettings(memory=path / "m.db", **{"embedder": "none", **place, **settings})
        opened = open_configured_memory(chosen)
        for memory in known:
            await opened.memory.remember(memory)
        await opened.close()
        async with (
            serving(chosen) as address,
            openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=TOKEN, max_retries=0) as one,
            anthropic.AsyncAnthropic(base_url=address, api_key=TOKEN, max_retries=0) as other,
        ):
            yield Setting(chosen, model, address, one, other)


def whole(answer: dict[str, Any], **fields: Any) -> RawReply:
    return RawReply([json.dumps(answer).encode()], content_type="application/json", **fields)


async def test_what_was_told_in_one_conversation_is_given_in_another_and_the_answer_names_it(tmp_path: Path) -> None:
    async with endpoints(tmp_path, OpenAIServer(Reply("Noted."), Reply("180 cm."))) as setting:
        told = [{"role": "user", "content": TABLE}]
        stream = await setting.openai.chat.completions.create(model="tellback", messages=told, stream=True)
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]) == "Noted."
        stream = await setting.openai.chat.completions.create(model="other", messages=[ASKED], stream=True)
        chunks = [chunk async for chunk in stream]
        first, second = setting.model.requests
    kept = await setting.kept()
    assert (first.body["model"], second.body["model"]) == ("m", "other")
    assert second.body["messages"][0]["content"].startswith(f"{ASKED['content']}\n\n<tellback-memories")
    assert TABLE in second.body["messages"][0]["content"]
    (given,) = chunks[0].tellback["memories"]
    assert given["text"] == TABLE
    assert [text for _, _, text in kept] == [TABLE, "Noted.", ASKED["content"], "180 cm."]
    assert len({session for _, session, _ in kept}) == 2  # each of them unnamed


async def test_all_of_a_request_passes_as_it_came_but_the_memories_after_the_newest_message(tmp_path: Path) -> None:
    request = (
        ' {"messages" : [ {"role":"system","content":"Be \\u0062rief."},{"role":"user","content":"1.0 \\/ é"},\n'
        '{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f",'
        '"arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"x"},\t'
        '{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},'
        '{"type":"text","text":"How long is my walnut table?"} ],"role":"user"}],"model":"m", "temperature":1e0,'
        '"logit_bias":{"50256":-100},"tools":[],"unknown":{"deep":[1,2.50,null]},"seed":12345678901234567890} '
    ).encode()
    async with endpoints(tmp_path, OpenAIServer(*[whole(COMPLETION)] * 3), TABLE) as setting, setting.http as client:
        for mode in ("off", "read", "write"):
            answer = await client.post(
                "/v1/chat/completions", content=request, headers={"x-tellback-memory": mode, "x-unknown": "yes"}
            )
            assert answer.status_code == 200
        off, read, write = setting.model.requests
    kept = await setting.kept()
    assert off.content == request
    assert off.headers["x-unknown"] == "yes"
    assert read.content == write.content != request
    before, _, after = request.partition(b'table?"} ]')
    assert read.content.startswith(before + b'table?"} ,{"type": "text", "text": "<tellback-memories')
    assert read.content.endswith(b'"}]' + after)
    assert TABLE in json.loads(read.content)["messages"][4]["content"][2]["text"]
    assert [text for _, _, text in kept] == [ASKED["content"], "180 cm."]  # of the last alone


async def test_a_message_of_anthropics_keeps_its_cache_marks_and_gets_the_memories_behind_them(tmp_path: Path) -> None:
    marked = {"type": "text", "text": ASKED["content"], "cache_control": {"type": "ephemeral"}}
    async with endpoints(tmp_path, AnthropicServer(whole(MESSAGE), Reply("180 cm.")), TABLE) as setting:
        client = setting.anthropic
        asked = {"model": "tellback", "max_tokens": 10, "messages": [{"role": "user", "content": [marked]}]}
        message = await client.messages.create(**asked, metadata={"user_id": "u", "session": "bench"})
        async with client.messages.stream(**asked, extra_headers={"x-tellback-session": "other"}) as stream:
            streamed = await stream.get_final_message()
        first, second = setting.model.requests
    kept = await setting.kept()
    blocks = first.body["messages"][0]["content"]
    assert blocks[0] == marked
    assert TABLE in blocks[1]["text"]
    assert first.body["metadata"] == {"user_id": "u"}  # the provider would refuse the name of a session
    assert "metadata" not in second.body
    assert [given["text"] for given in message.tellback["memories"]] == [TABLE]
    assert [given["text"] for given in streamed.tellback["memories"]] == [TABLE]
    assert (message.content[0].text, streamed.content[0].text) == ("180 cm.", "180 cm.")
    assert {session for _, session, _ in kept} == {"anthropic:bench", "anthropic:other"}


async def test_a_turn_with_tools_is_asked_once_given_the_same_again_and_kept_once(tmp_path: Path) -> None:
    replies = (Reply("Let me see.", calls=(call("measure"),)), Reply("180 cm [{}]."))
    async with endpoints(tmp_path, OpenAIServer(*replies, Reply("Still.")), TABLE) as setting:
        client = setting.openai.chat.completions

        async def ask(messages: list[Any]) -> str:
            stream = await client.create(model="m", messages=messages, stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

        calls = [{"id": "c1", "type": "function", "function": {"name": "measure", "arguments": "{}"}}]
        tools = [{"role": "assistant", "content": "Let me see.", "tool_calls": calls}]
        tools += [{"role": "tool", "tool_call_id": "c1", "content": "Oak Lane 4"}]
        await ask([ASKED])
        answered = await ask([ASKED, *tools])
        again = [ASKED, *tools, {"role": "assistant", "content": answered}, {"role": "user", "content": "And now?"}]
        await ask(again)
        first, second, third = [request.body["messages"] for request in setting.model.requests]
    kept = await setting.kept()
    assert second[0] == first[0] != ASKED
    assert third[0] == ASKED  # what was said before is as the client sent it
    assert [text for _, _, text in kept] == [ASKED["content"], "180 cm [{}].", "And now?", "Still."]


async def test_what_is_forgotten_between_two_steps_of_a_turn_is_not_given_again(tmp_path: Path) -> None:
    async with endpoints(tmp_path, OpenAIServer(Reply(calls=(call("f"),)), Reply("Well.")), TABLE) as setting:
        client = setting.http
        async with client:
            await client.post("/v1/chat/completions", json={"model": "m", "stream": True, "messages": [ASKED]})
            (memory,) = (await client.get("/api/v1/memories", params={"contains": "walnut", "kind": "fact"})).json()[
                "memories"
            ]
            plan = (await client.post("/api/v1/forget", json={"ids": [memory["id"]]})).json()
            await client.post("/api/v1/forget", json={"ids": [memory["id"]], "confirm": plan["confirm"]})
            tool = {"role": "tool", "tool_call_id": "c1", "content": "x"}
            await client.post("/v1/chat/completions", json={"model": "m", "stream": True, "messages": [ASKED, tool]})
        first, second = setting.model.requests
    assert b"180 cm" in first.content
    assert b"180 cm" not in second.content


async def test_the_same_turn_asked_again_is_kept_once_with_both_answers(tmp_path: Path) -> None:
    async with endpoints(tmp_path, OpenAIServer(Reply("One."), Reply("Two."), Reply("Three."))) as setting:
        said = [{"role": "user", "content": "I sold the boat in May."}]
        async with setting.http as client:
            for messages in (said, said, [*said, {"role": "assistant", "content": "Two."}, *said]):
                await client.post("/v1/chat/completions", json={"model": "m", "stream": True, "messages": messages})
    kept = await setting.kept()
    assert [text for role, _, text in kept if role == "assistant"] == ["One.", "Two.", "Three."]
    assert [role for role, _, _ in kept].count("user") == 2  # said twice, asked three times


async def test_a_reply_that_breaks_off_is_kept_as_far_as_it_came_and_says_so(tmp_path: Path) -> None:
    model = OpenAIServer(Reply("The boat is gr", error="overloaded"))
    async with endpoints(tmp_path, model) as setting, setting.http as client:
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "My boat is green."}]}
        answer = await client.post("/v1/chat/completions", json=body)
    kept = await setting.kept()
    assert "overloaded" in answer.text
    assert [text for _, _, text in kept] == ["My boat is green.", f"The boat is gr {BROKEN_OFF}"]


async def test_events_come_as_the_model_sends_them_and_a_reader_who_leaves_ends_its_work(tmp_path: Path) -> None:
    chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m"}
    event = json.dumps({**chunk, "choices": [{"index": 0, "delta": {"content": "Green"}, "finish_reason": None}]})
    silent = RawReply([f"data: {event}\n\n".encode(), 600.0, b"data: [DONE]\n\n"])
    async with endpoints(tmp_path, OpenAIServer(silent)) as setting:
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Which colour has my boat?"}]}
        async with setting.http as client, client.stream("POST", "/v1/chat/completions", json=body) as answer:
            lines = answer.aiter_lines()
            first = json.loads((await anext(lines)).removeprefix("data: "))  # while the model is silent
        setting.model.stopping.set()
    kept = await setting.kept()  # the end of the server waits for what is being kept
    assert first["choices"][0]["delta"]["content"] == "Green"
    assert [text for _, _, text in kept] == ["Which colour has my boat?", f"Green {BROKEN_OFF}"]


async def test_errors_and_limits_of_the_model_pass_and_what_is_between_server_and_browser_does_not(
    tmp_path: Path,
) -> None:
    headers = (("retry-after", "7"), ("x-request-id", "r-1"), ("x-ratelimit-remaining-requests", "0"))
    cookie = (("set-cookie", "a=b"), ("access-control-allow-origin", "*"))
    busy = RawReply([b'{"error": {"message": "slow down"}}'], 429, "application/json", (*headers, *cookie))
    async with endpoints(tmp_path, OpenAIServer(busy), TABLE) as setting:
        with pytest.raises(openai.RateLimitError, match="slow down") as raised:
            await setting.openai.chat.completions.create(model="m", messages=[ASKED])
        (sent,) = setting.model.requests
    kept = await setting.kept()
    answer = raised.value.response
    assert {name: answer.headers[name] for name, _ in headers} == dict(headers)
    assert not {name for name, _ in cookie} & set(answer.headers)
    assert answer.json() == {"error": {"message": "slow down"}}
    assert (sent.headers["authorization"], TOKEN in str(sent.headers)) == (f"Bearer {KEY}", False)
    assert not kept  # the client asks again


async def test_a_token_in_the_header_of_anthropics_key_is_enough_and_the_key_takes_its_place(tmp_path: Path) -> None:
    async with endpoints(tmp_path, AnthropicServer(whole(MESSAGE))) as setting:
        async with httpx.AsyncClient(base_url=setting.address, trust_env=False, verify=False, timeout=60) as client:
            body = {"model": "m", "max_tokens": 9, "messages": [ASKED]}
            refused = await client.post("/v1/messages", json=body, headers={"x-api-key": "another"})
            answer = await client.post("/v1/messages", json=body, headers={"x-api-key": TOKEN})
        (sent,) = setting.model.requests
    assert (refused.status_code, answer.status_code) == (401, 200)
    assert (sent.headers["x-api-key"], "authorization" in sent.headers) == (KEY, False)


async def test_a_request_in_another_format_than_the_models_is_refused_by_name(tmp_path: Path) -> None:
    async with endpoints(tmp_path, AnthropicServer()) as setting:
        with pytest.raises(openai.BadRequestError, match="its messages, model, tools cannot be carried") as raised:
            await setting.openai.chat.completions.create(model="m", messages=[ASKED], tools=[])
        assert raised.value.code == "other_wire_format"
        with pytest.raises(openai.BadRequestError, match="one of off, read, write"):
            await setting.openai.chat.completions.create(
                model="m", messages=[ASKED], extra_headers={"x-tellback-memory": "no"}
            )
        assert not setting.model.requests


async def test_without_a_model_or_where_it_does_not_answer_the_error_is_one_of_the_clients(tmp_path: Path) -> None:
    with OpenAIServer() as gone:
        url = gone.url
    async with endpoints(tmp_path, OpenAIServer(), base_url=url) as setting:
        with pytest.raises(openai.InternalServerError, match="is the server running") as raised:
            await setting.openai.chat.completions.create(model="m", messages=[ASKED])
        assert raised.value.status_code == 502
    async with (
        serving(AssistantSettings(memory=tmp_path / "other.db", embedder="none")) as address,
        anthropic.AsyncAnthropic(base_url=address, api_key=TOKEN, max_retries=0) as client,
    ):
        with pytest.raises(anthropic.BadRequestError, match="no model is configured"):
            await client.messages.create(model="m", max_tokens=9, messages=[ASKED])


@pytest.mark.parametrize("keep", ["prompts", "nothing"])
async def test_what_is_kept_of_other_clients_holds_here_too(tmp_path: Path, keep: str) -> None:
    async with endpoints(tmp_path, OpenAIServer(whole(COMPLETION)), hook_keep=keep) as setting:
        await setting.openai.chat.completions.create(model="m", messages=[ASKED])
    kept = await setting.kept()
    assert [text for _, _, text in kept] == {"prompts": [ASKED["content"]], "nothing": []}[keep]


async def test_each_user_has_a_memory_of_their_own_and_who_cannot_write_is_told_that_nothing_is_kept(
    tmp_path: Path,
) -> None:
    memory = open_memory(tmp_path / "m.db", choose_local=False)
    users = Users(memory.database)
    ana = users.add(User("ana", "ana"))
    reader = users.add(User("ben", "ben", "reader"))
    full = users.add(User("eve", "eve", quota=Quota(memories=1)))
    await memory.close()
    async with endpoints(tmp_path, OpenAIServer(*[whole(COMPLETION)] * 4)) as setting, setting.http as client:

        async def answer(token: str, text: str) -> dict[str, Any]:
            body = {"model": "m", "messages": [{"role": "user", "content": text}]}
            headers = {"authorization": f"Bearer {token}"}
            return (await client.post("/v1/chat/completions", json=body, headers=headers)).json()["tellback"]

        assert "notes" not in await answer(ana, TABLE)
        (note,) = (await answer(reader, ASKED["content"]))["notes"]
        (other,) = (await answer(full, ASKED["content"]))["notes"]
        given = [await answer(ana, ASKED["content"])]
        sent = [request.body["messages"][0]["content"] for request in setting.model.requests]
    assert note.startswith("this turn is not kept: you may read here")
    assert other.startswith("this turn is not kept: ")
    assert ["180 cm" in text for text in sent] == [True, False, False, True]
    assert [item["text"] for item in given[0]["memories"]] == [TABLE]
    kept = open_memory(tmp_path / "m.db", choose_local=False)
    assert {name: await kept.count(namespace=name) for name in ("ana", "ben", "eve", "")} == {
        "ana": 4,
        "ben": 0,
        "eve": 0,
        "": 0,
    }
    await kept.close()


async def test_a_pause_of_the_hooks_is_one_of_the_endpoints(tmp_path: Path) -> None:
    async with endpoints(tmp_path, OpenAIServer(whole(COMPLETION)), TABLE) as setting:
        run_log.pause()
        try:
            answer = await setting.openai.chat.completions.create(model="m", messages=[ASKED])
        finally:
            run_log.resume()
        (sent,) = setting.model.requests
    kept = await setting.kept()
    assert (sent.body["messages"], answer.model_extra, kept) == ([ASKED], {}, [])


async def test_secrets_are_kept_masked_and_a_clients_own_requests_are_not_kept(tmp_path: Path) -> None:
    task = "### Task:\nGenerate a concise title.\n### Chat History:\n<chat_history>\nUSER: My boat\n</chat_history>"
    async with endpoints(tmp_path, OpenAIServer(whole(COMPLETION), whole(COMPLETION))) as setting:
        create = setting.openai.chat.completions.create
        await create(model="m", messages=[{"role": "user", "content": task}])
        secret = "My API key is sk-proj-a1B2c3D4e5F6g7H8i9J0k1L2."
        await create(model="m", messages=[{"role": "user", "content": secret}])
        sent = setting.model.requests[1].body["messages"][0]["content"]
    kept = await setting.kept()
    assert sent == secret  # what the user sends to the model is the user's
    assert len(kept) == 2
    assert "a1B2c3" not in str(kept)


async def test_sensitive_memories_go_to_a_model_on_this_machine_and_to_no_other(tmp_path: Path) -> None:
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.content.decode())
        return httpx.Response(200, json=COMPLETION)

    near = AssistantSettings(
        memory=tmp_path / "m.db", embedder="none", model="openai:m", base_url="http://127.0.0.1:9/v1"
    )
    opened = open_configured_memory(near)
    await opened.memory.remember(Memory(TABLE, sensitive=True))
    for settings in (near, replace(near, base_url="https://models.example/v1")):
        there = replace(opened, settings=settings)

        async def of(request: object, *, writes: bool, there: Any = there) -> Any:
            return there

        client = HttpClient(transport=httpx.MockTransport(answer))
        app = FastAPI()
        app.include_router(ModelEndpoints(of, client=client).router)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as asking:
            body = {"model": "m", "messages": [ASKED]}
            await asking.post("/v1/chat/completions", json=body, headers={"x-tellback-memory": "read"})
    await opened.close()
    assert ["180 cm long" in text for text in sent] == [True, False]


@contextmanager
def serve_command(memory: Path, model: ScriptedServer) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Yield the address and the process of ``tellback serve``, which is killed at the end."""
    vendor = "ANTHROPIC" if isinstance(model, AnthropicServer) else "OPENAI"
    place = {f"{vendor}_BASE_URL": model.url, f"{vendor}_API_KEY": KEY}
    named = {"TELLBACK_MODEL": f"{vendor.lower()}:m", "TELLBACK_TOKEN": TOKEN, **place}
    command = [sys.executable, "-m", "tellback", "--memory", str(memory), "serve", "--port", "0"]
    environment = {**os.environ, **named, "TELLBACK_EMBEDDER": "none"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stderr is not None
        (address,) = re.findall(r"at (http://\S+);", process.stderr.readline())
        yield address, process
    finally:
        process.kill()
        process.communicate()


def test_a_server_that_was_killed_remembers_what_another_client_told_it(tmp_path: Path) -> None:
    with OpenAIServer(Reply("Noted."), Reply("180 cm.")) as model:
        with serve_command(tmp_path / "m.db", model) as (address, _):
            with openai.OpenAI(base_url=f"{address}/v1", api_key=TOKEN) as client:
                told = [{"role": "user", "content": TABLE}]
                assert list(client.chat.completions.create(model="tellback", messages=told, stream=True))
            headers = {"authorization": f"Bearer {TOKEN}"}
            listed = httpx.get(f"{address}/api/v1/memories", headers=headers, trust_env=False, verify=False, timeout=60)
            while listed.json()["total"] < 2:  # the reply ends before its turn is kept
                listed = httpx.get(
                    f"{address}/api/v1/memories", headers=headers, trust_env=False, verify=False, timeout=60
                )
        with serve_command(tmp_path / "m.db", model) as (address, _):
            body = {"model": "tellback", "stream": True, "messages": [ASKED]}
            httpx.post(
                f"{address}/v1/chat/completions", json=body, headers=headers, trust_env=False, verify=False, timeout=60
            )
        assert TABLE in model.requests[1].body["messages"][0]["content"]


def test_the_programs_of_the_how_to_run_as_they_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "any-client.md").read_text(encoding="utf-8")
    programs = re.findall(r"^```text\n(from .*?)^```$", page, re.MULTILINE | re.DOTALL)
    models = (OpenAIServer(whole(COMPLETION), whole(COMPLETION)), AnthropicServer(Reply("With Mrs Duarte.")))
    for program, model in zip(programs, models, strict=True):
        with model, serve_command(tmp_path / "m.db", model) as (address, _):
            names: dict[str, Any] = {}
            exec(program.replace("http://127.0.0.1:8930", address).replace("…the token…", TOKEN), names)
            names["client"].close()
        assert "The spare key is with Mrs Duarte." in capsys.readouterr().out


def test_llm_from_its_own_environment_is_given_what_it_was_told(tmp_path: Path) -> None:
    if not (command := os.environ.get("LLM_CLI")):
        pytest.skip("LLM_CLI names no command: python -m venv V && V/bin/pip install llm, and LLM_CLI=V/bin/llm")
    with OpenAIServer(Reply("Noted."), Reply("180 cm.")) as model:
        with serve_command(tmp_path / "m.db", model) as (address, _):
            fields = {"model_id": "tellback", "model_name": "tellback", "api_base": f"{address}/v1"}
            (tmp_path / "extra-openai-models.yaml").write_text(json.dumps([{**fields, "api_key_name": "tellback"}]))
            (tmp_path / "keys.json").write_text(json.dumps({"tellback": TOKEN}))
            environment = {**os.environ, "LLM_USER_PATH": str(tmp_path)}
            printed = [
                subprocess.run(
                    [command, "-m", "tellback", prompt], env=environment, capture_output=True, text=True, check=True
                ).stdout.strip()
                for prompt in (TABLE, ASKED["content"])
            ]
        assert TABLE in model.requests[1].body["messages"][0]["content"]
    assert printed == ["Noted.", "180 cm."]


async def test_models_are_listed_and_texts_embedded_as_the_official_clients_ask(tmp_path: Path) -> None:
    async with endpoints(tmp_path, OpenAIServer(models=("a", "b")), embedder="static") as setting:
        assert [model.id async for model in setting.openai.models.list()] == ["a", "b"]
        vectors = await setting.openai.embeddings.create(model="tellback", input=["green boat", "ein grünes Boot"])
        floats = await setting.openai.embeddings.create(model="tellback", input="green boat", encoding_format="float")
        with pytest.raises(openai.NotFoundError, match="model: tellback is needed"):
            await setting.openai.embeddings.create(model="text-embedding-3-small", input="green boat")
        with pytest.raises(openai.BadRequestError, match="no tokens of others"):
            await setting.openai.embeddings.create(model="tellback", input=[1, 2])
        opened = open_configured_memory(setting.settings)
        own = await opened.memory.embedder.embed(["green boat"])
        await opened.close()
    assert len(vectors.data) == 2
    assert vectors.data[0].embedding == floats.data[0].embedding == [float(number) for number in own[0]]
    async with endpoints(tmp_path, AnthropicServer(models=("c",))) as setting:
        assert [model.id async for model in setting.anthropic.models.list()] == ["c"]
