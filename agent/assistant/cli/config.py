"""``tellback config``: every setting with its value and its origin, and changes of the configuration file.

Secrets are never shown, and are not taken from the command line, which other users of the machine may read.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from tellback.agent.assistant.cli.command_context import global_options, run
from tellback.agent.assistant.cli.errors import EXIT_FAILED
from tellback.agent.assistant.cli.options import JsonOption
from tellback.agent.assistant.cli.output import print_json, print_note, print_table, print_text
from tellback.agent.assistant.cli.prompts import confirm, hidden_line, read_text_argument

if TYPE_CHECKING:
    from tellback.agent.assistant.config import Configuration

NameArgument: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="Which setting.")]
_KEPT = ("file", "keys", "keyring", "default")
"""Origins that `tellback config set` writes, and that of an unset setting."""
_NO_FILE = " (not there; nothing needs it)"


def list_settings(context: typer.Context, json: JsonOption = False) -> None:
    """Show every setting and where it comes from.

    Settings come from options, the environment and a file; keys are never shown.
    """
    from tellback.agent.assistant.config import SETTINGS
    from tellback.agent.assistant.key_store import kept_in, keys_path, read_keys

    configuration = global_options(context).configuration()
    settings = {name: _shown_setting(configuration, name) for name in SETTINGS}
    path = keys_path(configuration.path)
    keys = [
        {"endpoint": _shown_address(endpoint), "kept_in": kept_in(path, key)}
        for endpoint, key in read_keys(path).items()
    ]
    if json:
        print_json({"path": str(configuration.path), "settings": settings, "keys": keys})
        return
    rows = [
        (name, setting["from"], setting["variable"], _setting_text(setting["value"]))
        for name, setting in settings.items()
    ]
    print_table(("setting", "from", "variable", "value"), rows)
    print_text()
    print_text(f"file: {configuration.path}{'' if configuration.path.exists() else _NO_FILE}")
    for key in keys:
        print_text(f"key: for {key['endpoint']}, in {key['kept_in']}")


def get_setting(context: typer.Context, name: NameArgument, json: JsonOption = False) -> None:
    """Print the value of one setting, or only that it is set where it is a secret."""
    from tellback.agent.assistant.config_file import known_setting

    configuration, name = global_options(context).configuration(), known_setting(name)
    setting = _shown_setting(configuration, name)
    if json:
        print_json({"setting": name, **setting})
    else:
        print_text(_setting_text(setting["value"]))


def set_setting(
    context: typer.Context,
    name: NameArgument,
    value: Annotated[
        str | None, typer.Argument(metavar="[VALUE]", help="Its value; '-' reads it from standard input.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write a setting into the configuration file.

    The rest of the file stays as it is. A key is asked for, or read from standard input ('-').
    """
    from tellback.agent.assistant.config import KEY_SETTINGS
    from tellback.agent.assistant.config_file import known_setting, write_settings

    name = known_setting(name)
    if value is not None and value != "-" and name in KEY_SETTINGS:
        raise typer.BadParameter(
            f"a key is not given on the command line, where others may read it: tellback config set {name}",
            param_hint="VALUE",
        )
    if value == "-":
        value = read_text_argument(["-"], name="value", what="value").strip()
    elif value is None:
        if not sys.stdin.isatty():
            raise typer.BadParameter("a value is needed; '-' reads it from standard input", param_hint="VALUE")
        if not (value := hidden_line(name)):
            raise typer.BadParameter("nothing was given", param_hint="VALUE")
    from tellback.agent.assistant.setting_checks import place

    if name == "memory" and isinstance(chosen := place(value), Path):
        value = str(Path.cwd() / chosen)
    configuration = global_options(context).configuration(may_be_missing=True)
    if name not in KEY_SETTINGS:
        if name == "lines":
            _confirm_line_client(value)
        write_settings(configuration.path, {name: value})
        report_change(context, name, str(configuration.path), json=json)
        return
    from tellback.agent.assistant.key_store import keep_key, kept_in, keys_path

    endpoint, file = configuration.settings.endpoint_of(name), keys_path(configuration.path)
    key = keep_key(file, endpoint, value)
    write_settings(configuration.path, {name: None})
    report_change(context, name, f"for {_shown_address(endpoint)}, in {kept_in(file, key)}", json=json)


def _confirm_line_client(value: str) -> None:
    """Say what a client that is to write lines would be sent, and ask where there is a terminal."""
    from tellback.agent.assistant.cli.set_up_lines import cost_of_client
    from tellback.agent.assistant.setting_checks import LINE_CLIENTS

    if (client := value.partition(":")[0]) not in LINE_CLIENTS:
        return
    print_note(cost_of_client(client))
    if sys.stdin.isatty() and not confirm("Let it write?"):
        raise typer.Exit(EXIT_FAILED)


def unset_setting(context: typer.Context, name: NameArgument, json: JsonOption = False) -> None:
    """Take a setting out of the configuration file."""
    from tellback.agent.assistant.config import KEY_SETTINGS
    from tellback.agent.assistant.config_file import known_setting, write_settings

    name, configuration = known_setting(name), global_options(context).configuration()
    changed = write_settings(configuration.path, {name: None})
    if name in KEY_SETTINGS:
        from tellback.agent.assistant.key_store import keys_path, remove_key

        endpoint = configuration.settings.endpoint_of(name)
        changed |= remove_key(keys_path(configuration.path), endpoint)
    if not changed:
        print_note(f"{name} is not set in {configuration.path}")
    report_change(context, name, str(configuration.path), json=json)


def show_path(context: typer.Context, json: JsonOption = False) -> None:
    """Print the path of the configuration file, which need not be there."""
    path = global_options(context).configuration().path
    if json:
        print_json({"path": str(path), "exists": path.exists()})
    else:
        print_text(str(path))


def list_models(context: typer.Context, json: JsonOption = False) -> None:
    """List the models that the endpoint of the settings has."""
    settings = global_options(context).configuration().settings
    from tellback.agent.assistant.config import ConfigurationError
    from tellback.agent.assistant.wiring import make_http_client, make_provider

    endpoints = (settings.api_key, settings.base_url, settings.anthropic_api_key, settings.ollama_host)
    if settings.model is None and not any(endpoints):
        variables = "OPENAI_API_KEY, OPENAI_BASE_URL, ANTHROPIC_API_KEY or OLLAMA_HOST"
        raise ConfigurationError(
            f"no endpoint of models is set; {variables} names one, and `tellback init` looks for servers here"
        )

    async def list_available() -> list[dict[str, Any]]:
        async with make_http_client(settings) as client:
            provider: Any = make_provider(replace(settings, model=settings.model or "any"), client)
            available = await provider.models()  # the provider of each endpoint lists its models
        return [{"model": model.name, "title": model.title, "context": model.context} for model in available]

    models = run(list_available())
    current = settings.model_endpoint.name
    if json:
        print_json(
            {"endpoint": _shown_address(settings.model_endpoint.url), "model": current or None, "models": models}
        )
        return
    print_table(
        ("model", "in use", "context"),
        [
            (
                str(row["model"]),
                "yes" if row["model"] == current else "",
                f"{row['context']:,}" if row["context"] else "",
            )
            for row in models
        ],
    )
    if not models:
        print_text(f"{_shown_address(settings.model_endpoint.url)} has no models")


def report_change(context: typer.Context, name: str, place: str, *, json: bool) -> None:
    """Print the value that holds now, and in which *place* it was written; note an option or a variable that wins."""
    configuration = global_options(context).configuration()
    setting = _shown_setting(configuration, name)
    if json:
        print_json({"setting": name, **setting, "path": str(configuration.path)})
        return
    print_text(f"{name}: {_setting_text(setting['value']) or 'not set'} ({place})")
    if setting["from"] not in _KEPT:
        print_note(f"     -> {setting['from']} is set, too, and beats the file")


def _shown_setting(configuration: Configuration, name: str) -> dict[str, Any]:
    from tellback.agent.assistant.config import ENVIRONMENT_VARIABLES

    origin = configuration.origins.get(name, "default")
    files = {str(configuration.path): "file", str(configuration.path.with_suffix(".keys.toml")): "keys"}
    return {
        "value": _redacted_setting(name, getattr(configuration.settings, name)),
        "from": files.get(origin, origin),
        "variable": ENVIRONMENT_VARIABLES.get(name, ""),
    }


def _redacted_setting(name: str, value: Any) -> Any:
    """Return *value* for display: "set" for a key, an address without user name and password."""
    from tellback.agent.assistant.config import ADDRESS_SETTINGS
    from tellback.agent.assistant.setting_checks import Secret, without_password
    from tellback.agent.providers.open import ollama_address

    if isinstance(value, Secret):
        return "set"
    if name == "memory" and isinstance(value, str):
        return without_password(value)
    if name in ADDRESS_SETTINGS and value is not None:
        return _shown_address(ollama_address(value) if name == "ollama_host" else value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _shown_address(address: str) -> str:
    from tellback.memory.http import safe_url

    return safe_url(address)


def _setting_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
