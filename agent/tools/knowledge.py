"""Document tools: a model searches passages and lists the documents. It changes none of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from agent.context.rendering import rendered
from agent.context_items import passage_item
from agent.tools.function import FunctionTool
from memory import KnowledgeBase, Trust

_LISTED = 200


def knowledge_tools(knowledge: KnowledgeBase, *, prefix: str = "") -> tuple[FunctionTool, ...]:
    """Return ``search_documents`` and ``list_documents`` over *knowledge*; *prefix* tells several apart."""
    tools = _KnowledgeTools(knowledge)
    functions: dict[str, Callable[..., Any]] = {
        "search_documents": tools.search_documents,
        "list_documents": tools.list_documents,
    }
    return tuple(
        FunctionTool(function, name=prefix + name, trust=Trust.DOCUMENT, recalls=True)
        for name, function in functions.items()
    )


class _KnowledgeTools:
    def __init__(self, knowledge: KnowledgeBase) -> None:
        self._knowledge = knowledge

    async def search_documents(
        self,
        question: Annotated[str, Field(min_length=1, description="What to look for, in plain words.")],
        limit: Annotated[int, Field(ge=1, le=20, description="How many passages at most.")] = 5,
    ) -> str:
        """Search the documents; returns passages as data, each with its source, page and section."""
        passages = await self._knowledge.retrieve(question, limit)
        items = [replace(passage_item(one), number=place) for place, one in enumerate(passages, start=1)]
        if not items:
            return "No document has anything about this."
        note = "none of these may be about it" if passages.abstain is not None else f"{len(items)} found"
        return rendered(items, f"Passages ({note})")

    async def list_documents(self) -> str:
        """List the documents that can be searched."""
        documents = await self._knowledge.documents()
        lines = [f"{one.source} ({one.title})" if one.title else one.source for one in documents[:_LISTED]]
        more = [f"… and {len(documents) - _LISTED} more"] if len(documents) > _LISTED else []
        return "\n".join([*lines, *more]) or "There are no documents."
