"""Pagination of tool results that are too long for a model: cut with a note, and read page by page on demand."""

from __future__ import annotations

from collections import OrderedDict
from typing import Annotated

from pydantic import Field

from tellback.agent.errors import ToolFailed, check_count
from tellback.agent.tools.base import ToolContext, ToolOutput
from tellback.agent.tools.function import FunctionTool
from tellback.memory import TextBlock, Trust

READ_MORE_TOOL = "read_more"


class ResultPagination:
    """Cuts results after *limit* characters. The last *kept* long results can be read on with the tool ``read_more``,
    within the session that they belong to; ``tools`` holds it where *kept* is above 0."""

    def __init__(self, limit: int = 50_000, *, kept: int = 0) -> None:
        check_count("limit", limit, 200, "at least 200 characters are needed")
        check_count("kept", kept, 0)
        self._limit, self._most = limit, kept
        self._texts: OrderedDict[tuple[str, str], str] = OrderedDict()
        self.tools = (FunctionTool(self._read_more, name=READ_MORE_TOOL, trust=Trust.DOCUMENT),) if kept else ()

    def cut(self, output: ToolOutput, context: ToolContext) -> ToolOutput:
        """Return *output* as the model is to read it now."""
        blocks = (TextBlock(text=output),) if isinstance(output, str) else tuple(output)
        text = "\n".join(block.text for block in blocks if isinstance(block, TextBlock))
        if len(text) <= self._limit:
            return output
        if self._most:
            self._texts[context.session, context.call_id] = text
            while len(self._texts) > self._most:
                self._texts.popitem(last=False)
        first = self._page(text, 1, context.call_id)
        return (TextBlock(text=first), *(block for block in blocks if not isinstance(block, TextBlock)))

    async def _read_more(
        self,
        result: Annotated[str, Field(min_length=1, description="Name of the result, from the note at its end.")],
        page: Annotated[int, Field(ge=1, description="Which page, from 1.")],
        context: ToolContext,
    ) -> str:
        """Read another page of a tool's result that was too long to be shown whole."""
        text = self._texts.get((context.session, result))
        if text is None:
            raise ToolFailed(f"no long result is called {result!r}, or it is no longer kept; call the tool again")
        if page > self._pages(text):
            raise ToolFailed(f"there are {self._pages(text)} pages")
        return self._page(text, page, result)

    def _pages(self, text: str) -> int:
        return -(-len(text) // self._limit)

    def _page(self, text: str, page: int, name: str) -> str:
        start, pages = (page - 1) * self._limit, self._pages(text)
        note = f"(page {page} of {pages}, {len(text):,} characters in all"
        if not self._most:
            note += "; the rest was left out"
        elif page < pages:
            note += f'; read on with {READ_MORE_TOOL}(result="{name}", page={page + 1})'
        return f"{text[start : start + self._limit]}\n{note})"
