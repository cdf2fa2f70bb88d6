"""Choice of the model that answers: named by options, chosen from what servers list, or the first one found here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tellback.agent.assistant.cli.command_context import run
from tellback.agent.assistant.cli.errors import describe_error
from tellback.agent.assistant.cli.output import format_count, one_line, print_note
from tellback.agent.assistant.cli.prompts import ask_line, hidden_line
from tellback.agent.assistant.config import AssistantSettings, Configuration, ConfigurationError
from tellback.agent.assistant.model_servers import SERVICES, FoundServers, ModelServer, find_servers, server_at
from tellback.agent.assistant.setting_checks import NO_MODEL
from tellback.agent.providers.open import PROVIDER_KINDS

_LISTED_MODELS: Final = 20
_NAMED_IN_NOTE: Final = 3


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Chosen model: the *values* of settings (None takes one out), and the *key* of the endpoint at *address*.

    *key* is None where none was given. *note* is a remark on the choice for the user.
    """

    values: Mapping[str, str | None] = field(default_factory=dict)
    address: str = ""
    key: str | None = None
    note: str = ""


async def named_model(
    model: str | None, server: str | None, key: str | None, configuration: Configuration
) -> ModelChoice:
    """Return the choice that options name: a *model*, the *server* that has it, and its *key*.

    Without *server*, a server on this machine that lists the model is taken; without *model*, the server's first.
    """
    if model is not None and model.strip().lower() == NO_MODEL:
        return ModelChoice({"model": None})
    prefix, _, name = (model or "").partition(":")
    if server is None and prefix in PROVIDER_KINDS:
        server = prefix
    name = name if prefix in PROVIDER_KINDS and name else model or ""
    if server is not None:
        chosen = await server_at(server, configuration, key)
    else:
        here = (await find_servers(configuration)).servers
        lister = next((place for place in here if name in place.models), None)
        if lister is None:
            listed = ", ".join(known for place in here for known in place.models) or "no model"
            raise ConfigurationError(
                f"no server here has the model {model!r}; there is {listed}; --server names another place"
            )
        chosen = lister
    if not name:
        return _first_of(chosen, key)
    note = "" if name in chosen.models else f"{chosen.title} does not list {one_line(name)}"
    return ModelChoice(chosen.settings_for(name), chosen.address, key, note)


def default_model(found: FoundServers, settings: AssistantSettings) -> ModelChoice | None:
    """Return the first model on this machine, unless one is set up; a paid service is only named in a note."""
    if settings.model is not None:
        return None
    local = next((server for server in found.servers if server.chat_models), None)
    if local is not None:
        return _first_of(local, None)
    for name, (title, _, _) in SERVICES.items():
        if any(server.title == title for server in found.services):
            return ModelChoice(note=f"A key for {title} is set: `tellback init --server {name} --model NAME` uses it.")
    return None


def choose_model(found: FoundServers, configuration: Configuration) -> ModelChoice | None:
    """Ask which model shall answer; None keeps the present one."""
    settings = configuration.settings
    servers = [*found.servers, *found.services]
    current = [f"{settings.model}, as now"] if settings.model is not None else []
    labels = [
        *current,
        *map(_server_label, found.servers),
        *(f"{server.title}, whose key is set" for server in found.services),
        "another service or server, by key or address",
        "none: questions are answered with quotes",
    ]
    if not servers:
        print_note("No model server answers on this machine, and no key is set; all works without.")
    while True:
        number = _ask_number("Which model shall answer?", labels, suggested=1 if servers or current else len(labels))
        place = number - 1 - len(current)
        if place < 0:
            return None
        if number == len(labels):
            return ModelChoice({"model": None})
        try:
            choice = (
                _choose_at(servers[place], configuration) if place < len(servers) else _choose_elsewhere(configuration)
            )
        except Exception as error:  # a server that fails: the user may choose another
            print_note(describe_error(error)[1])
            continue
        if choice is not None:
            return choice


def _choose_at(server: ModelServer, configuration: Configuration) -> ModelChoice | None:
    if not server.models and server.key_setting is not None and not server.settings:
        server = run(server_at(server.prefix.rstrip(":"), configuration))
    return _choose_of(server, None)


def _choose_elsewhere(configuration: Configuration) -> ModelChoice | None:
    """Ask for an address or a service, and its key; None goes back."""
    address = ask_line("openai, anthropic, or an address such as http://192.168.1.4:8000/v1", None)
    if not address:
        return None
    key = hidden_line("Its key, which is not shown (Enter: none)") or None
    return _choose_of(run(server_at(address, configuration, key)), key)


def _choose_of(server: ModelServer, key: str | None) -> ModelChoice | None:
    """Ask which model of *server*; None goes back."""
    models = server.chat_models or server.models
    if not models:
        pull = ": `ollama pull NAME` fetches one" if server.prefix == "ollama:" else ""
        print_note(f"{server.title} has no model{pull}")
        return None
    if len(models) == 1:
        print_note(f"{server.title} has one model: {one_line(models[0])}")
        return ModelChoice(server.settings_for(models[0]), server.address, key)
    shown = models
    while True:
        for number, name in enumerate(shown[:_LISTED_MODELS], 1):
            print_note(f"  {number:2}  {one_line(name)}")
        if len(shown) > _LISTED_MODELS:
            print_note(f"      and {len(shown) - _LISTED_MODELS} more: a part of the name finds them")
        answer = ask_line("Number or name", "1")
        if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= min(len(shown), _LISTED_MODELS):
            return ModelChoice(server.settings_for(shown[int(answer) - 1]), server.address, key)
        matching = _matching(answer, models) or _matching(answer, server.models)
        if len(matching) == 1:
            return ModelChoice(server.settings_for(matching[0]), server.address, key)
        if not matching:
            print_note(f"{server.title} has no model of that name")
        shown = matching or models


def _matching(part: str, models: Sequence[str]) -> tuple[str, ...]:
    """Return the one of *models* whose name is *part*, else those whose name contains it, ignoring case."""
    lowered = part.lower()
    same = tuple(name for name in models if name.lower() == lowered)
    return same or tuple(name for name in models if lowered in name.lower())


def _first_of(server: ModelServer, key: str | None) -> ModelChoice:
    models = server.chat_models or server.models
    if not models:
        raise ConfigurationError(f"{server.title} at {server.address} has no model")
    first, *others = models
    names = ", ".join(others[:_NAMED_IN_NOTE]) + (", …" if len(others) > _NAMED_IN_NOTE else "")
    note = f"{server.title} has others, too: {names}; `tellback init --model NAME` takes one." if others else ""
    return ModelChoice(server.settings_for(first), server.address, key, note)


def _server_label(server: ModelServer) -> str:
    count = len(server.chat_models or server.models)
    models = format_count(count, "model") if count else "which has no model yet"
    return f"{server.title}, {models}"


def _ask_number(question: str, labels: Sequence[str], *, suggested: int) -> int:
    """Ask which of *labels*, numbered from 1, is meant."""
    while True:
        print_note(question)
        for number, label in enumerate(labels, 1):
            print_note(f"  {number}  {one_line(label)}")
        answer = ask_line("Number", str(suggested))
        if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(labels):
            return int(answer)
        print_note(f"a number from 1 to {len(labels)} is needed")
