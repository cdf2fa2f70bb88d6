"""A call of every tool of the memory server, by a client of the SDK."""

from __future__ import annotations

from typing import Any


async def call_every_tool(writer: Any, reader: Any) -> None:
    """Let *writer* store a fact and *reader*, possibly another process, call every tool on it."""
    stored = await writer.call_tool("remember", {"text": "Ana's dog is called Rex."})
    id = stored.structured_content["id"]
    arguments = {
        "search": {"query": "Ana's dog"},
        "fetch": {"id": id},
        "recall": {"query": "What is the name of Ana's dog?"},
        "profile": {},
        "list_memories": {},
        "correct": {"id": id, "text": "Ana's dog is called Max."},
        "search_documents": {"query": "Rex"},
        "list_documents": {},
        "people": {},
        "name_person": {"name": "Lena", "role": "my sister"},
        "split_person": {"name": "Lena", "role": "my sister"},
        "forget": {"ids": [id]},
    }
    tools = {tool.name for tool in (await reader.list_tools()).tools}
    assert tools == {*arguments, "remember"}
    for name, call in arguments.items():  # the reader sees the writes at once
        result = await reader.call_tool(name, call)
        assert not result.is_error, result.content
        if name in ("search", "fetch", "recall", "profile", "list_memories"):
            assert "Rex" in result.content[0].text
    assert "Max" in (await writer.call_tool("recall", {"query": "Ana's dog"})).content[0].text
