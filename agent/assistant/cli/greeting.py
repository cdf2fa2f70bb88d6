"""``tellback`` alone: where the memory is, what it can do now, and one next step.

It imports little and opens no memory, so that it appears at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tellback.agent.assistant.cli.command_context import GlobalOptions
from tellback.agent.assistant.cli.output import (
    escape_unencodable,
    format_count,
    hang,
    one_line,
    print_json,
    print_labelled,
    print_note,
    print_text,
    shown_path,
)
from tellback.agent.assistant.synced_folder import synced_warning

if TYPE_CHECKING:
    from tellback.agent.assistant.config import AssistantSettings, Configuration

_PURPOSE = "Tellback: a memory that is yours, in one file, for you and your AI agents."


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents of the memory file: counts of memories and of passages of documents, or the *problem* with it."""

    memories: int = 0
    passages: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class KnownClients:
    """Clients on this machine, by their names in commands: those that are connected, and the others."""

    connected: tuple[str, ...]
    others: tuple[str, ...]


def greet(options: GlobalOptions) -> None:
    """Print where the memory is, what it can do now, and one next step."""
    escape_unencodable()
    configuration = options.configuration()
    settings = configuration.settings
    contents, clients = _contents(configuration), _clients()
    step, purpose = _next_step(configuration, contents, clients)
    if options.json:
        print_json(
            {
                "memory": str(settings.shown_memory),
                "exists": settings.is_begun,
                "memories": contents.memories,
                "passages": contents.passages,
                "problem": contents.problem or None,
                "model": settings.model,
                "connected": clients.connected,
                "not_connected": clients.others,
                "next": step,
            }
        )
        return
    print_text(hang("", _PURPOSE))
    print_text()
    print_labelled("memory", f"{shown_path(settings.shown_memory)}: {_contents_text(contents, configuration)}")
    if settings.namespace:
        print_labelled("namespace", settings.namespace)
    print_labelled("model", settings.model or "none; questions are answered with quotes from the memory")
    print_labelled("clients", _clients_text(clients))
    print_text()
    print_labelled("next", f"{step} ({purpose})")
    print_labelled("all", "tellback --help")
    if settings.file is not None and (warning := synced_warning(settings.file)) is not None:
        print_note(f"{warning}; `tellback doctor` says what to do")


def run_greeting() -> int:
    """Print the greeting of a process without arguments; return the exit code."""
    try:
        greet(GlobalOptions())
    except BrokenPipeError:
        from tellback.agent.assistant.cli.errors import discard_stdout

        discard_stdout()
    except (Exception, KeyboardInterrupt) as error:  # the border, as of every command
        from tellback.agent.assistant.cli.errors import report_error

        return report_error(error)
    return 0


def _contents(configuration: Configuration) -> Contents:
    """Return the counts of the file in the namespace of the settings; a missing file is empty."""
    settings = configuration.settings
    if settings.file is None:
        return _contents_on_server(settings)
    if not settings.is_begun:
        return Contents()
    from tellback.memory.internals import CONVERSATION, DOCUMENTS, lane_counts
    from tellback.vectorstore import NotAStore

    try:
        counts = lane_counts(settings.file, namespace=settings.namespace)
    except NotAStore as error:
        return Contents(problem=one_line(str(error)))
    return Contents(counts.get(CONVERSATION, 0), counts.get(DOCUMENTS, 0))


def _contents_on_server(settings: AssistantSettings) -> Contents:
    from tellback.memory import MemoryLayerError, open_memory, run_sync

    try:
        memory = open_memory(settings.memory, choose_local=False)
        try:
            return Contents(run_sync(memory.count(namespace=settings.namespace)))
        finally:
            run_sync(memory.close())
    except MemoryLayerError as error:
        return Contents(problem=one_line(str(error)))


def _contents_text(contents: Contents, configuration: Configuration) -> str:
    if contents.problem:
        return "it cannot be read"
    if (former := configuration.former_memory) is not None:
        return f"not begun yet; that of the former version is at {shown_path(former)}"
    if not configuration.settings.is_begun:
        return "not begun yet"
    memories = format_count(contents.memories, "memory", "memories")
    return f"{memories}, {format_count(contents.passages, 'passage')} of documents" if contents.passages else memories


def _clients() -> KnownClients:
    from tellback.agent.assistant.clients.registry import CLIENTS

    present = [client for client in CLIENTS if client.folder.exists()]
    connected = [client.name for client in present if client.server_file.registered()]
    return KnownClients(tuple(connected), tuple(client.name for client in present if client.name not in connected))


def _clients_text(clients: KnownClients) -> str:
    connected = f"{', '.join(clients.connected)} connected" if clients.connected else ""
    others = f"{', '.join(clients.others)} here, not connected" if clients.others else ""
    return "; ".join(filter(None, (connected, others))) or "no supported client on this machine"


def _next_step(configuration: Configuration, contents: Contents, clients: KnownClients) -> tuple[str, str]:
    """Return the next command to suggest, and its purpose."""
    is_new = not configuration.settings.is_begun
    if contents.problem:
        return "tellback doctor", "says what is wrong, and what to do"
    if is_new and not configuration.path.exists():
        return "tellback init", "looks for a model and asks for your name; tellback chat works without"
    if not contents.memories:
        return "tellback chat", "tell it something"
    if clients.others and not clients.connected:
        return f"tellback install {clients.others[0]}", "gives it this memory"
    return "tellback chat", "talk, tell, ask"
