"""``tellback config``: every setting with its value and its origin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.assistant.cli.command_context import global_options
from agent.assistant.cli.errors import with_error_report
from agent.assistant.cli.output import print_json, print_table, print_text

if TYPE_CHECKING:
    from agent.assistant.config import Configuration

_DEFAULT_ORIGIN = "default"
_ADDRESS_SETTINGS = ("anthropic_base_url", "base_url", "embedding_base_url", "ollama_host")


@with_error_report
def config(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show every setting and where it comes from.

    Settings come from options, the environment and a file; keys are never shown.
    """
    configuration = global_options(context).configuration()
    settings = _settings_json(configuration)
    if json:
        print_json({"path": str(configuration.path), "settings": settings})
        return
    rows = [
        (name, setting["from"], setting["variable"], _setting_text(setting["value"]))
        for name, setting in settings.items()
    ]
    print_table(("setting", "from", "variable", "value"), rows)
    print_text()
    absence = "" if configuration.path.exists() else " (not there; nothing needs it)"
    print_text(f"file: {configuration.path}{absence}")


def _settings_json(configuration: Configuration) -> dict[str, dict[str, Any]]:
    """Return each setting by its name: ``value``, ``from`` and ``variable``."""
    from agent.assistant.config import ENVIRONMENT_VARIABLES

    return {
        name: {
            "value": _redacted_setting(name, getattr(configuration.settings, name)),
            "from": "file" if origin == str(configuration.path) else origin,
            "variable": ENVIRONMENT_VARIABLES[name],
        }
        for name in type(configuration.settings).model_fields
        for origin in (configuration.origins.get(name, _DEFAULT_ORIGIN),)
    }


def _redacted_setting(name: str, value: Any) -> Any:
    """Return *value* for display: "set" for a key, an address without user name and password."""
    from pydantic import SecretStr

    from agent.assistant.endpoints import ollama_address
    from agent.providers.http_provider import redacted_url

    if isinstance(value, SecretStr):
        return "set"
    if name in _ADDRESS_SETTINGS and value is not None:
        return redacted_url(ollama_address(value) if name == "ollama_host" else value)
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def _setting_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
