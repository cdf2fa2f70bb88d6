"""The memory as an MCP server, on the official SDK: tools, resources and prompts of one namespace.

Both protocol revisions are served, that of 2025 with its handshake and that of 2026 with a question as an intermediate
result. An error of a tool is a sentence in its result; an unforeseen one is logged, and never shown with a traceback.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

import pydantic_core

from tellback.agent.context.rendering import DATA_RULES, ITEM_FORM
from tellback.agent.desk.consent import ClientProgram, Question
from tellback.agent.errors import AgentError, ToolFailed, shorten
from tellback.agent.mcp.failure_limit import FailureLimit
from tellback.agent.mcp.memory_tools import MemoryServerTools, ToolReply
from tellback.agent.mcp.resources import MemoryResources, answering, client_name
from tellback.agent.mcp.results import ChangeResult, DocumentList, FetchedDocument, SearchResults, StoredMemory
from tellback.agent.tools.schema import FunctionParameters, UntitledSchema
from tellback.memory import MemoryLayerError
from tellback.memory.internals import redact_secrets
from tellback.vectorstore import MissingExtra, VectorStoreError

if TYPE_CHECKING:
    import mcp_types
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from pydantic import BaseModel

_LOG = logging.getLogger(__name__)
_FAILURE_LENGTH = 600
_QUESTION: Final = "confirmation"
"""Name of the one question that a call may ask."""
_MODERN: Final = "2026-07-28"
"""Revision from which on a question is an intermediate result of the call; versions are dates, and sort as text."""

INSTRUCTIONS: Final = f"""\
The long-term memory of this user, shared by all their apps. Before you answer anything about the user, their people, \
work, plans, preferences or earlier conversations, call recall with what is asked; at the start of a conversation, \
profile. When the user states something lasting (a fact, a preference, a decision, a change), call remember with one \
self-contained sentence; when something remembered is wrong or no longer holds, call correct. Results show \
{ITEM_FORM}. {DATA_RULES}"""


@dataclass(frozen=True, slots=True)
class _ServedTool:
    """Tool as it is served: its function, the type of its structured output, and the hints for clients."""

    function: Callable[..., Any]
    output: type[BaseModel] | None
    title: str
    read_only: bool = True
    destructive: bool = False
    idempotent: bool = True

    @property
    def name(self) -> str:
        return self.function.__name__

    def parameters(self) -> FunctionParameters:
        return _parameters_of(self.function)

    def output_schema(self) -> dict[str, Any] | None:
        if self.output is None:
            return None
        return self.output.model_json_schema(mode="serialization", schema_generator=UntitledSchema)


@cache  # of the functions below alone
def _parameters_of(function: Callable[..., Any]) -> FunctionParameters:
    return FunctionParameters(MethodType(function, object()), ClientProgram)  # without "self"


def _served_tools(*, read_only: bool) -> list[_ServedTool]:
    tools = MemoryServerTools
    served = [
        _ServedTool(tools.search, SearchResults, "Search memories and documents"),
        _ServedTool(tools.fetch, FetchedDocument, "Read one whole"),
        _ServedTool(tools.recall, None, "Recall"),
        _ServedTool(tools.profile, None, "Who the user is"),
        _ServedTool(tools.list_memories, None, "List memories"),
        _ServedTool(tools.people, None, "Who is who"),
        _ServedTool(tools.search_documents, None, "Search documents"),
        _ServedTool(tools.list_documents, DocumentList, "List documents"),
        _ServedTool(tools.remember, StoredMemory, "Remember", read_only=False),
        _ServedTool(tools.correct, ChangeResult, "Correct a memory", read_only=False, destructive=True),
        _ServedTool(tools.name_person, ChangeResult, "Say who is who", read_only=False),
        _ServedTool(tools.split_person, ChangeResult, "Take back who is who", read_only=False),
        _ServedTool(tools.forget, ChangeResult, "Forget memories", read_only=False, destructive=True),
    ]
    return [tool for tool in served if tool.read_only or not read_only]


class _Asking(Exception):
    def __init__(self, result: mcp_types.InputRequiredResult) -> None:
        self.result = result


@dataclass(frozen=True, slots=True)
class _Handlers:
    """Handlers of requests over the served *tools* of *service*, by name, with their *parameters*."""

    service: Callable[[Any], Awaitable[MemoryServerTools]]
    tools: Mapping[str, _ServedTool]
    parameters: Mapping[str, FunctionParameters]
    failures: FailureLimit = field(default_factory=FailureLimit)

    async def list_tools(
        self, context: ServerRequestContext[Any], params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        import mcp_types

        return mcp_types.ListToolsResult(
            tools=[
                mcp_types.Tool(
                    name=name,
                    title=tool.title,
                    description=self.parameters[name].description,
                    input_schema=self.parameters[name].schema,
                    output_schema=tool.output_schema(),
                    annotations=mcp_types.ToolAnnotations(
                        title=tool.title,
                        read_only_hint=tool.read_only,
                        destructive_hint=tool.destructive,
                        idempotent_hint=tool.idempotent,
                        open_world_hint=False,
                    ),
                )
                for name, tool in self.tools.items()
            ]
        )

    async def call_tool(
        self, context: ServerRequestContext[Any], params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult:
        import mcp_types

        try:
            self.failures.check()
            reply = await self._reply(context, params)
        except _Asking as asking:
            return asking.result
        except Exception as error:
            self.failures.record()
            return mcp_types.CallToolResult(
                content=[mcp_types.TextContent(type="text", text=failure_sentence(error))], is_error=True
            )
        structured = None if reply.output is None else reply.output.model_dump(mode="json", exclude_defaults=True)
        text = pydantic_core.to_json(structured).decode() if reply.text is None else reply.text
        return mcp_types.CallToolResult(
            content=[mcp_types.TextContent(type="text", text=text)], structured_content=structured
        )

    async def _reply(self, context: ServerRequestContext[Any], params: mcp_types.CallToolRequestParams) -> ToolReply:
        tool = self.tools.get(params.name)
        if tool is None:
            raise ToolFailed(f"There is no tool {shorten(params.name, 80)!r}; there are {', '.join(self.tools)}.")

        tools = await self.service(context)
        if not (tool.read_only or tools.writes):
            raise ToolFailed("You may read here, and change nothing.")

        async def ask(question: Question) -> bool | None:
            return await _ask(context, params, tools.question(question))

        arguments = self.parameters[tool.name].checked(params.arguments or {}, ClientProgram(client_name(context), ask))
        reply: ToolReply = await tool.function(tools, **arguments)
        return reply


def failure_sentence(error: Exception) -> str:
    """Return the sentence about *error* for a client: its message, or for an unforeseen one that it was logged."""
    if isinstance(error, (AgentError, MemoryLayerError, VectorStoreError)):
        text, _ = redact_secrets(str(error))
        return shorten(text, _FAILURE_LENGTH)
    _LOG.error("a request failed", exc_info=error)
    return f"The memory failed at this ({type(error).__name__}); its log on standard error says more."


async def _ask(
    context: ServerRequestContext[Any], params: mcp_types.CallToolRequestParams, question: str
) -> bool | None:
    """Return the answer of the person at the client; None where the client can ask nobody."""
    import mcp_types

    capabilities = context.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        return None
    request = mcp_types.ElicitRequest(
        params=mcp_types.ElicitRequestFormParams(
            message=question,
            requested_schema={
                "type": "object",
                "properties": {"agree": {"type": "boolean", "title": "Yes, do it", "default": False}},
                "required": ["agree"],
            },
        )
    )
    if context.protocol_version < _MODERN:
        answer: object = await context.session.send_request(request, mcp_types.ElicitResult)
    else:
        answer = (params.input_responses or {}).get(_QUESTION)
        if answer is None:
            raise _Asking(mcp_types.InputRequiredResult(input_requests={_QUESTION: request}))
    if not isinstance(answer, mcp_types.ElicitResult):
        return False
    return answer.action == "accept" and (answer.content or {}).get("agree") is True


def import_server_class() -> type[Server[Any]]:
    """Return the server of the SDK; ``MissingExtra`` where the SDK is not installed."""
    try:
        from mcp.server.lowlevel import Server
    except ImportError as error:
        raise MissingExtra("the MCP server", "mcp") from error
    return Server


def make_memory_server(
    service: MemoryServerTools | Callable[[Any], Awaitable[MemoryServerTools]],
    *,
    version: str = "",
    read_only: bool = False,
) -> Server[Any]:
    """Return the server of *service*; with *read_only* it has no tool that changes anything.

    A *service* that is a function is called by the requests that need it, with the context of each: its memory may be
    opened by then alone, or be another one for each caller.
    Raises ``MissingExtra`` where the SDK is not installed.
    """
    server_class = import_server_class()

    async def opened(context: Any) -> MemoryServerTools:
        found = service if isinstance(service, MemoryServerTools) else await service(context)
        return replace(found, writes=False) if read_only else found

    tools = {tool.name: tool for tool in _served_tools(read_only=read_only)}
    parameters = {name: tool.parameters() for name, tool in tools.items()}
    handlers, resources = _Handlers(opened, tools, parameters), MemoryResources(opened)
    return server_class(
        "tellback",
        version=version,
        title="Tellback",
        instructions=INSTRUCTIONS,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=resources.list_resources,
        on_list_resource_templates=resources.list_templates,
        on_read_resource=answering(resources.read, failure_sentence),
        on_list_prompts=resources.list_prompts,
        on_get_prompt=answering(resources.get_prompt, failure_sentence),
    )
