"""Against a real server of models, llama.cpp's ``llama-server``, where one is named:

    LIVE_SERVER=http://127.0.0.1:8944 python -m pytest tests/test_agent/test_live_server.py

It speaks both formats. The tests check no wording: the server answers with token counts, survives a stream closed in
the middle, and reports a request too long for its window as a context overflow.

Inner parts, on no face: ``tellback.agent.errors``, ``tellback.agent.providers.accumulator``.
"""

from __future__ import annotations

import asyncio
import os

import pytest

from tellback.agent import AnthropicProvider, ModelSettings, OpenAICompatibleProvider, Request, TextPiece
from tellback.agent.errors import ContextOverflow
from tellback.agent.providers.accumulator import collect_response, open_stream
from tellback.memory import Message

SERVER = os.environ.get("LIVE_SERVER", "").rstrip("/")
pytestmark = pytest.mark.skipif(not SERVER, reason="LIVE_SERVER names no llama-server")
MAKE = {
    "openai": lambda: OpenAICompatibleProvider(f"{SERVER}/v1", "any"),
    "anthropic": lambda: AnthropicProvider("any", base_url=SERVER, version="2023-06-01"),
}
every_format = pytest.mark.parametrize("name", MAKE)


def ask(text: str, tokens: int = 16) -> Request:
    return Request((Message.user(text),), settings=ModelSettings(max_tokens=tokens, temperature=0))


@every_format
def test_the_live_server_answers_with_token_counts(name: str) -> None:
    response = asyncio.run(collect_response(MAKE[name](), ask("Hello")))
    assert response.message.blocks
    assert response.usage.input > 0
    assert 0 < response.usage.output <= 16


@every_format
def test_the_live_server_answers_again_after_a_stream_closed_in_the_middle(name: str) -> None:
    async def leave() -> None:
        provider = MAKE[name]()
        async with open_stream(provider, ask("Count to a thousand.", 400)) as deltas:
            async for delta in deltas:
                if isinstance(delta, TextPiece):
                    break
        await collect_response(provider, ask("Hello", 4))
        await provider.aclose()

    asyncio.run(leave())


@every_format
def test_a_request_too_long_for_the_live_server_is_a_context_overflow(name: str) -> None:
    with pytest.raises(ContextOverflow):
        asyncio.run(collect_response(MAKE[name](), ask("word " * 200_000)))
