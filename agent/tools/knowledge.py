"""Document tools: a model searches passages and lists the documents. It changes none of them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from agent.context.rendering import render_items
from agent.context_items import item_from_passage
from agent.tools.base import ToolContext
from agent.tools.function import FunctionTool
from agent.tools.memory import search_note
from memory import KnowledgeBase, Trust

_MAX_DOCUMENTS = 200


def knowledge_tools(knowledge: KnowledgeBase, *, prefix: str = "") -> tuple[FunctionTool, ...]:
    """Return ``search_documents`` and ``list_documents`` over *knowledge*; *prefix* tells several apart."""

    async def search_documents(
        question: Annotated[str, Field(min_length=1, description="What to look for, in plain words.")],
        context: ToolContext,
        limit: Annotated[int, Field(ge=1, le=20, description="How many passages at most.")] = 5,
    ) -> str:
        """Search the documents; returns passages as data, each with its source, page and section."""
        began = time.perf_counter()
        passages = await knowledge.retrieve(question, limit)
        note = await search_note("knowledge", passages, time.perf_counter() - began, context)
        items = [replace(item_from_passage(passage), number=number) for number, passage in enumerate(passages, start=1)]
        if not items:
            return f"No passage was found ({note})." if passages.degraded else "No document has anything about this."
        return render_items(items, f"Passages ({note})")

    async def list_documents() -> str:
        """List the documents that can be searched."""
        documents = await knowledge.documents()
        lines = [
            f"{document.source} ({document.title})" if document.title else document.source
            for document in documents[:_MAX_DOCUMENTS]
        ]
        more = [f"… and {len(documents) - _MAX_DOCUMENTS} more"] if len(documents) > _MAX_DOCUMENTS else []
        return "\n".join([*lines, *more]) or "There are no documents."

    return tuple(
        FunctionTool(function, name=prefix + function.__name__, trust=Trust.DOCUMENT, recalls=True)
        for function in (search_documents, list_documents)
    )
