"""Context of a command: its global options, and the memory or assistant that it opens and closes."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tellback.agent.assistant.cli.output import print_note
from tellback.agent.assistant.local_time import use_zone
from tellback.agent.assistant.upkeep import UpkeepWatch, start_upkeep

if TYPE_CHECKING:
    import typer

    from tellback.agent.agent_memory import PassageRetriever
    from tellback.agent.assistant.config import AssistantSettings, Configuration
    from tellback.agent.assistant.wiring import Assistant, OpenedMemory

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """Global options, which hold for all commands and stand before or after one.

    *flags* are settings by name. *json*: print JSON. *lent* is a memory that is open, for a command of a chat.
    """

    flags: Mapping[str, Any] = field(default_factory=dict)
    debug: bool = False
    json: bool = False
    lent: OpenedMemory | None = None

    def configuration(self, *, may_be_missing: bool = False) -> Configuration:
        """Return the configuration of these flags, the environment and the file.

        A file that the environment names must exist, unless it *may_be_missing*, such as one that is to be written.
        """
        from tellback.agent.assistant.config import load_configuration

        environ = os.environ
        configuration = load_configuration(flags=self.flags, environ=environ, may_be_missing=may_be_missing)
        use_zone(configuration.settings.zone)
        return configuration


def required_file(settings: AssistantSettings, command: str) -> Path:
    """Return the absolute path of the memory file; for a memory on a server, the *command* is refused."""
    if settings.file is None:
        from tellback.vectorstore import UnsupportedError

        raise UnsupportedError(command, f"{settings.shown_memory} is no file; its server has backups of its own")
    return Path.cwd() / settings.file


def global_options(context: typer.Context | GlobalOptions) -> GlobalOptions:
    """Return the global options of *context*."""
    if isinstance(context, GlobalOptions):
        return context
    options: GlobalOptions | None = context.find_object(GlobalOptions)
    return options or GlobalOptions()


def run(work: Awaitable[ResultT]) -> ResultT:
    """Run *work* of the library to its end and return its result; imports the library when first called."""
    from tellback.memory import run_sync

    return run_sync(work)


def compute_in_one_thread() -> None:
    """Set linear algebra to one thread, unless the environment says otherwise; call it before numpy is imported.

    For a command that asks or keeps one thing: starting more threads takes longer than its products.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _settings(context: typer.Context | GlobalOptions) -> AssistantSettings:
    """Return the settings; print a note where a memory file of the project's former name would be overlooked.

    The command reports errors itself, so the library's log is shown only with ``--debug``.
    """
    if not global_options(context).debug:
        import logging

        for package in ("tellback.memory", "tellback.vectorstore"):
            if not (log := logging.getLogger(package)).handlers:
                log.addHandler(logging.NullHandler())
    configuration = global_options(context).configuration()
    if (former := configuration.former_memory) is not None:
        print_note(
            f"tellback: the memory of the former version is at {former}: give it as --memory, "
            f"or move {former.parent} to {Path(configuration.settings.memory).parent}"
        )
    return configuration.settings


@contextmanager
def opened_memory(context: typer.Context | GlobalOptions, *, create: bool = False) -> Iterator[OpenedMemory]:
    """Open the configured memory file; a missing one is made only with *create*."""
    settings = _settings(context)
    if (lent := global_options(context).lent) is not None:
        yield lent
        return
    from tellback.agent.assistant.wiring import open_configured_memory

    opened = open_configured_memory(settings, create=create)
    try:
        yield opened
    finally:
        run(opened.close())
        start_upkeep(settings)


def trial_memory(context: typer.Context) -> OpenedMemory | None:
    """Return an empty memory in this process where the memory file is missing, so that refused input makes no file."""
    settings = global_options(context).configuration().settings
    if settings.is_begun:
        return None
    from tellback.agent.assistant.wiring import OpenedMemory
    from tellback.memory import open_memory

    return OpenedMemory(settings, open_memory("numpy:", choose_local=False))


@contextmanager
def opened_assistant(
    context: typer.Context, *, reads_only: bool, attached: PassageRetriever | None = None
) -> Iterator[Assistant]:
    """Open the configured assistant.

    *reads_only*: a memory file that is missing or cannot be read is an error; without it, a missing file is made, and a
    turn that cannot read the memory is answered without. *attached* are documents to search beside the memory.
    """
    settings = _settings(context)
    from tellback.agent.assistant.wiring import open_assistant

    assistant = open_assistant(settings, reads_only=reads_only, attached=attached)
    watch = UpkeepWatch(settings)
    try:
        yield assistant
    finally:
        run(assistant.close())
        watch.stop()
