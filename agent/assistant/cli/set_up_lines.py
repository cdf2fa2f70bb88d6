"""Choice of who writes the lines that say what memories are about: the command of a client here, after a yes."""

from __future__ import annotations

import shutil

from tellback.agent.assistant.cli.output import print_note
from tellback.agent.assistant.cli.prompts import confirm
from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.providers.client_command import CLIENT_COMMANDS


def cost_of_client(client: str) -> str:
    """Return what *client* would be sent to write lines, and what it costs, for a person to decide."""
    command = CLIENT_COMMANDS[client]
    return (
        f"{command.title} would be run in the background as `{command.shown}`, with your account there: it is sent the "
        "texts of memories without a line (500 characters of each, twenty at once, none marked sensitive), and answers "
        f"with a line for each. That takes about 150 tokens a memory, {command.overhead} with each call, and at most "
        f"{AssistantSettings.line_tokens:,} tokens a day (`line_tokens`)."
    )


def ask_line_client() -> str | None:
    """Ask once whether a client that is installed here may write lines; return its name, None without a yes.

    Only the first one that is found is asked about: `tellback config set lines NAME` takes another.
    """
    client = next((name for name, command in CLIENT_COMMANDS.items() if shutil.which(command.program)), None)
    if client is None:
        return None
    print_note(
        "Memories are found better by a line that says what each is about. No model is set to write them, but "
        f"{CLIENT_COMMANDS[client].title} is here."
    )
    print_note(cost_of_client(client))
    return client if confirm("Let it write them?") else None
