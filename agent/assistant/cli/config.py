"""``mneme config``: every setting with its value and its origin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.assistant.cli.command_context import invocation
from agent.assistant.cli.errors import reported
from agent.assistant.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from agent.assistant.config import Configuration

_DEFAULT = "default"
_ADDRESSES = ("anthropic_base_url", "base_url", "embedding_base_url", "ollama_host")


@reported
def config(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show every setting and where it comes from.

    Settings come from options, the environment and a file; keys are never shown.
    """
    configuration = invocation(context).configuration()
    settings = _settings(configuration)
    if json:
        print_json({"path": str(configuration.path), "settings": settings})
        return
    rows = [(name, one["from"], one["variable"], _words(one["value"])) for name, one in settings.items()]
    print_table(("setting", "from", "variable", "value"), rows)
    say()
    there = "" if configuration.path.exists() else " (not there; nothing needs it)"
    say(f"file: {configuration.path}{there}")


def _settings(configuration: Configuration) -> dict[str, dict[str, Any]]:
    """Return each setting by its name: ``value``, ``from`` and ``variable``."""
    from agent.assistant.config import ENVIRONMENT

    return {
        name: {
            "value": _shown(name, getattr(configuration.settings, name)),
            "from": "file" if origin == str(configuration.path) else origin,
            "variable": ENVIRONMENT[name],
        }
        for name in type(configuration.settings).model_fields
        for origin in (configuration.origins.get(name, _DEFAULT),)
    }


def _shown(name: str, value: Any) -> Any:
    """Return *value* as it may be seen: of a key, that it is set; of an address, no name or password in it."""
    from pydantic import SecretStr

    from agent.assistant.endpoints import ollama_address
    from agent.providers.http_provider import shown

    if isinstance(value, SecretStr):
        return "set"
    if name in _ADDRESSES and value is not None:
        return shown(ollama_address(value) if name == "ollama_host" else value)
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
