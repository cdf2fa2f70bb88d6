"""Resources and prompts of the memory server: a memory by its address, the profile, the newest memories; and ready-made
messages that begin a conversation with what is known, or end one by keeping it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from tellback.agent.context.rendering import DATA_NOTE
from tellback.agent.desk.consent import ClientProgram
from tellback.agent.errors import ToolFailed, shorten
from tellback.agent.mcp.memory_tools import MEMORY_ADDRESS, MemoryServerTools

if TYPE_CHECKING:
    import mcp_types
    from mcp.server.context import ServerRequestContext

    Context: TypeAlias = ServerRequestContext[Any]

PROFILE_ADDRESS: Final = "tellback://profile"
RECENT_ADDRESS: Final = "tellback://recent"
_TEXT: Final = "text/plain"
_RECENT: Final = 20
_BRIEFING: Final = f"Here is what is remembered about me. Use it as background for this conversation. {DATA_NOTE}"
_RECALL: Final = (
    "Here is what is remembered about this: {topic}\n"
    "Tell me what is known, the newest first where it differs, with dates; and say so if nothing fits."
)
_CHECKPOINT: Final = (
    "Look back at our conversation. Call remember once for each lasting fact, preference, decision or plan that I "
    "stated and that is not remembered yet: one self-contained sentence each, with names and dates. Where I changed "
    "my mind, call correct instead. Leave out what you inferred, what files or tools said, and every secret. Then list "
    "what you kept."
)
_CLIENT_LENGTH: Final = 80
ParamsT = TypeVar("ParamsT")
ResultT = TypeVar("ResultT")


def client_name(context: Context) -> str:
    """Return name and version of the client as it calls itself, in one short line; "" where it does not."""
    params = context.session.client_params
    if params is None:
        return ""
    words = f"{params.client_info.name} {params.client_info.version}"
    return shorten("".join(letter if letter.isprintable() else " " for letter in words).strip(), _CLIENT_LENGTH)


def answering(
    handler: Callable[[Context, ParamsT], Awaitable[ResultT]], sentence: Callable[[Exception], str]
) -> Callable[[Context, ParamsT], Awaitable[ResultT]]:
    """Return *handler* with its failures as errors of the protocol, in a *sentence*."""

    async def answer(context: Context, params: ParamsT) -> ResultT:
        from mcp.shared.exceptions import MCPError
        from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

        try:
            return await handler(context, params)
        except Exception as error:
            code = INVALID_PARAMS if isinstance(error, ToolFailed) else INTERNAL_ERROR
            raise MCPError(code=code, message=sentence(error)) from None

    return answer


@dataclass(frozen=True, slots=True)
class MemoryResources:
    """Handlers of requests for resources and prompts, over the tools of *service*."""

    service: Callable[[Any], Awaitable[MemoryServerTools]]

    async def list_resources(
        self, context: Context, params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListResourcesResult:
        """Return the two resources that have an address of their own."""
        import mcp_types

        described = {
            PROFILE_ADDRESS: ("profile", "Who the user is", "Pinned memories, what is known by topic, and the newest."),
            RECENT_ADDRESS: ("recent", "Newest memories", f"The {_RECENT} newest memories."),
        }
        return mcp_types.ListResourcesResult(
            resources=[
                mcp_types.Resource(uri=uri, name=name, title=title, description=description, mime_type=_TEXT)
                for uri, (name, title, description) in described.items()
            ]
        )

    async def list_templates(
        self, context: Context, params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListResourceTemplatesResult:
        """Return the address of a memory."""
        import mcp_types

        memory = mcp_types.ResourceTemplate(
            uri_template=MEMORY_ADDRESS + "{id}",
            name="memory",
            title="A memory by its id",
            description="A memory, or a passage of a document, whole.",
            mime_type=_TEXT,
        )
        return mcp_types.ListResourceTemplatesResult(resource_templates=[memory])

    async def read(self, context: Context, params: mcp_types.ReadResourceRequestParams) -> mcp_types.ReadResourceResult:
        """Return the text of a resource; an unknown address raises ``ToolFailed``."""
        import mcp_types

        text = await self._text(context, str(params.uri))
        contents = mcp_types.TextResourceContents(uri=params.uri, mime_type=_TEXT, text=text)
        return mcp_types.ReadResourceResult(contents=[contents])

    async def _text(self, context: Context, address: str) -> str:
        from tellback.agent.mcp.results import FetchedDocument

        if address == PROFILE_ADDRESS:
            return (await (await self.service(context)).profile()).text or ""
        if address == RECENT_ADDRESS:
            return (await (await self.service(context)).list_memories(_RECENT)).text or ""
        if not address.startswith(MEMORY_ADDRESS):
            known = f"{PROFILE_ADDRESS}, {RECENT_ADDRESS} and {MEMORY_ADDRESS}ID"
            raise ToolFailed(f"There is no resource {shorten(address, 80)!r}; there are {known}.")
        fetched = (await (await self.service(context)).fetch(address.removeprefix(MEMORY_ADDRESS))).output
        assert isinstance(fetched, FetchedDocument)
        return fetched.text

    async def list_prompts(
        self, context: Context, params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListPromptsResult:
        """Return the prompts."""
        import mcp_types

        topic = mcp_types.PromptArgument(name="topic", description="A question, a person, a project.", required=True)
        return mcp_types.ListPromptsResult(
            prompts=[
                mcp_types.Prompt(name="briefing", title="Brief me", description="Begin with what is known about me."),
                mcp_types.Prompt(
                    name="recall", title="Recall", description="What is known about a topic.", arguments=[topic]
                ),
                mcp_types.Prompt(
                    name="checkpoint",
                    title="Keep what we found",
                    description="Remember the lasting facts of this conversation.",
                ),
            ]
        )

    async def get_prompt(self, context: Context, params: mcp_types.GetPromptRequestParams) -> mcp_types.GetPromptResult:
        """Return the messages of a prompt; what is remembered is an embedded resource in them."""
        import mcp_types

        words, memories, address = await self._prompt(
            context, params.name, (params.arguments or {}).get("topic", "").strip()
        )
        content: list[mcp_types.TextContent | mcp_types.EmbeddedResource] = [
            mcp_types.TextContent(type="text", text=words)
        ]
        if memories:
            embedded = mcp_types.TextResourceContents(uri=address, mime_type=_TEXT, text=memories)
            content.append(mcp_types.EmbeddedResource(type="resource", resource=embedded))
        return mcp_types.GetPromptResult(
            messages=[mcp_types.PromptMessage(role="user", content=part) for part in content]
        )

    async def _prompt(self, context: Context, name: str, topic: str) -> tuple[str, str, str]:
        """Return the words of a prompt, the memories with it, and their address."""
        if name == "briefing":
            return _BRIEFING, await self._text(context, PROFILE_ADDRESS), PROFILE_ADDRESS
        if name == "checkpoint":
            return _CHECKPOINT, "", ""
        if name != "recall":
            raise ToolFailed(f"There is no prompt {shorten(name, 80)!r}; there are briefing, recall and checkpoint.")
        if not topic:
            raise ToolFailed("The prompt recall needs a topic.")
        reply = await (await self.service(context)).recall(topic, ClientProgram(client_name(context)))
        return _RECALL.format(topic=shorten(topic, 400)), reply.text or "", "tellback://recall"
