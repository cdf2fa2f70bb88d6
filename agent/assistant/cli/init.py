"""``tellback init``: sets up the model, the user's name, language and time zone, by questions or by options.

Nothing is written before the last answer. A key is typed unseen, and is kept in the system's keyring or a private file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tellback.agent.assistant.cli.command_context import GlobalOptions, global_options, run
from tellback.agent.assistant.cli.options import JsonOption
from tellback.agent.assistant.cli.output import print_json, print_labelled, print_note, print_text, shown_path
from tellback.agent.assistant.cli.prompts import YES_ANSWERS, ask_line, ask_on_terminal, confirm, read_text_argument
from tellback.agent.assistant.cli.set_up_lines import ask_line_client
from tellback.agent.assistant.cli.set_up_model import ModelChoice, choose_model, default_model, named_model
from tellback.agent.assistant.cli.waiting import WaitingStatus
from tellback.agent.assistant.config import (
    AssistantSettings,
    Configuration,
    UnusableSetting,
    checked_setting,
    with_settings,
)
from tellback.agent.assistant.local_time import machine_zone
from tellback.agent.assistant.model_servers import FoundServers, find_servers
from tellback.agent.assistant.synced_folder import SYNCED_REMEDY, synced_warning

_FACTS_COST: Final = "one more request each time, of about 400 tokens, your words and what is known of them"
_NO_MODEL: Final = "none: questions are answered with quotes from the memory"


def init(
    context: typer.Context,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Your name.")] = None,
    zone: Annotated[str | None, typer.Option(metavar="ZONE", help="Your time zone, such as Europe/Lisbon.")] = None,
    server: Annotated[
        str | None,
        typer.Option(metavar="SERVER", help="Of the model: ollama, openai, anthropic, or an address."),
    ] = None,
    key_stdin: Annotated[bool, typer.Option("--key-stdin", help="Read the server's key from standard input.")] = False,
    facts: Annotated[
        bool | None, typer.Option("--facts/--no-facts", help="Have the model look for facts in what you state.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: take what is given, and what is found.")] = False,
    json: JsonOption = False,
) -> None:
    """Set up model, name, language and time zone.

    Looks for Ollama, llama.cpp and LM Studio on this machine and for keys in the environment, and asks. With --yes, and
    where there is no terminal, it takes what is given (--memory, --model and --language too) and what it finds here. It
    can be run again. Nothing is needed: without a model, questions are answered with quotes.
    """
    options = global_options(context)
    asks = sys.stdin.isatty() and not (yes or json or key_stdin)
    key = read_text_argument(["-"], name="--key-stdin", what="key").strip() if key_stdin else None
    given = {"name": name, "zone": zone, "extract_facts": facts}
    set_up(options, given=given, server=server, key=key, asks=asks)


def offer_set_up(options: GlobalOptions) -> None:
    """Ask whether to set up now, and do so after a yes; an abort changes nothing."""
    print_note("This is the first conversation here, and no model is set up.")
    if not confirm("Look for one, and ask for your name, language and time zone? It takes a minute."):
        print_note("`tellback init` does so at any time.")
        return
    try:
        set_up(options, given={}, asks=True, is_first_chat=True)
    except (typer.Abort, KeyboardInterrupt):
        print_note("\nnothing was set up; `tellback init` does so at any time")


def set_up(
    options: GlobalOptions,
    *,
    given: Mapping[str, str | bool | None],
    server: str | None = None,
    key: str | None = None,
    asks: bool,
    is_first_chat: bool = False,
) -> None:
    """Set up the *given* settings, and where it *asks*, those of the answers; write and report them."""
    configuration = options.configuration(may_be_missing=True)
    settings = configuration.settings
    values = _checked(given)
    warning = None if settings.file is None else synced_warning(settings.file)
    if asks:
        kind = "on a server" if settings.file is None else "one file"
        print_note(f"The memory is {kind}: {shown_path(settings.shown_memory)}")
        if warning is not None:
            print_note(f"{warning}: {SYNCED_REMEDY}")
    servers = FoundServers()
    model: ModelChoice | None = None
    if options.flags.get("model") is not None or server is not None:
        model = run(named_model(options.flags.get("model"), server, key, configuration))
    else:
        servers = _search(configuration, asks=asks)
        model = choose_model(servers, configuration) if asks else default_model(servers, settings)
    chosen = settings if model is None else with_settings(settings, model.values)
    if asks:
        values |= _asked(values, chosen, options)
    if options.flags.get("memory") is not None:
        values["memory"] = str(settings.memory if settings.file is None else settings.file.absolute())
    if (language := options.flags.get("language")) is not None:
        values["language"] = _known_language(language)
    _write(configuration, values, model)
    if asks and not is_first_chat and not settings.offline and settings.embedder == "auto":
        _offer_embedder(options)
    after = options.configuration(may_be_missing=True)
    if options.json:
        _print_object(after, servers, values, warning)
    else:
        _print_report(after, model, asks=asks, warning=None if asks else warning, is_first_chat=is_first_chat)


def _checked(given: Mapping[str, Any]) -> dict[str, str | bool | None]:
    """Return the *given* settings that are not None, checked; an unusable value raises ``BadParameter``."""
    values = {name: value for name, value in given.items() if value is not None}
    for name, value in values.items():
        try:
            values[name] = checked_setting(name, value)
        except UnusableSetting as error:
            raise typer.BadParameter(f"{error.expected}, got {value!r}", param_hint=f"--{name}") from None
    return values


def _search(configuration: Configuration, *, asks: bool) -> FoundServers:
    status = WaitingStatus(shown=asks)
    status.show("looking for models on this machine…")
    try:
        return run(find_servers(configuration))
    finally:
        status.clear()


def _asked(
    given: Mapping[str, Any], settings: AssistantSettings, options: GlobalOptions
) -> dict[str, str | bool | None]:
    """Ask for the settings that were not *given*; return the answers by setting."""
    answers: dict[str, str | bool | None] = {}
    if "name" not in given:
        suggested = settings.name or _login_name()
        answers["name"] = _ask_setting("name", "Your name", suggested)
    if options.flags.get("language") is None and not settings.is_begun:
        answers["language"] = _ask_language(settings.language)
    if "zone" not in given:
        machine = machine_zone() or "UTC"
        zone = _ask_setting("zone", "Your time zone", settings.zone or machine)
        answers["zone"] = None if zone == machine else zone
    if "extract_facts" not in given and settings.model is not None:
        print_note(f"The model can look for facts in what you state: {_FACTS_COST}.")
        usual = settings.extract_facts
        answer = ask_line("Shall it?", "yes" if usual else "no").lower()
        answers["extract_facts"] = answer in YES_ANSWERS or (usual and answer not in ("n", "no"))
    if settings.model is None and "lines" not in given and not settings.line_client:
        answers["lines"] = ask_line_client()
    return {name: answer for name, answer in answers.items() if name != "lines" or answer}


def _ask_setting(name: str, question: str, suggested: str | None) -> str | None:
    """Ask until the setting *name* can have the answer; Enter takes the *suggested* one."""
    while True:
        answer = ask_line(question, suggested)
        try:
            value = checked_setting(name, answer)
        except UnusableSetting as error:
            print_note(error.expected)
        else:
            return None if value is None else str(value)


def _offer_embedder(options: GlobalOptions) -> None:
    """Ask for a stronger embedder, where the extra that runs one is installed, and change to it."""
    if find_spec("fastembed") is None:
        return
    from tellback.agent.assistant.cli.embedder import STRONGER_MODELS, change_embedder

    print_note("A stronger embedder can be fetched, which finds more in other words and takes more time for each text:")
    for number, (name, languages) in enumerate(STRONGER_MODELS.items(), 1):
        print_note(f"  {number}  {name} ({languages})")
    answer = ask_on_terminal("Which number (Enter: none):")
    if answer.isdecimal() and 0 < int(answer) <= len(STRONGER_MODELS):
        change_embedder(options, list(STRONGER_MODELS)[int(answer) - 1], asks=True)


def _ask_language(suggested: str | None) -> str | None:
    """Ask for the language of the new memory; None for English."""
    from tellback.vectorstore import ArgumentError

    locale = (os.environ.get("LC_ALL") or os.environ.get("LANG") or "en").partition("_")[0].lower()
    suggested = suggested or (locale if len(locale) == 2 else "en")
    while True:
        answer = ask_line("Language you will use (en, de, es, …)", suggested) or "en"
        try:
            return _known_language(answer)
        except ArgumentError:
            print_note("its code is needed, such as en, de, es, zh or fr")


def _known_language(language: str) -> str | None:
    """Return *language* if texts of it can be analyzed, None for English; an unknown one raises ``ArgumentError``."""
    from tellback.memory.internals import analyzer_language
    from tellback.vectorstore import Analyzer

    return None if Analyzer(analyzer_language(language)).language == "english" else language


def _login_name() -> str | None:
    """Return the full name of the account that runs this, where the system knows one."""
    try:
        import pwd

        name = pwd.getpwuid(os.getuid()).pw_gecos.partition(",")[0].strip()
        return name if os.getuid() and name else None
    except (ImportError, KeyError):
        return None


def _write(configuration: Configuration, values: Mapping[str, str | bool | None], model: ModelChoice | None) -> None:
    from tellback.agent.assistant.config_file import write_settings

    write_settings(configuration.path, {**({} if model is None else model.values), **values})
    if model is not None and model.key is not None:
        from tellback.agent.assistant.key_store import keep_key, keys_path

        keep_key(keys_path(configuration.path), model.address, model.key)


def _print_report(
    configuration: Configuration,
    model: ModelChoice | None,
    *,
    asks: bool,
    warning: str | None,
    is_first_chat: bool,
) -> None:
    settings, path = configuration.settings, configuration.path
    if asks:
        print_note()
    lines = {
        "memory": shown_path(settings.shown_memory) + ("" if settings.is_begun else ", begun with what you tell first"),
        "model": settings.model or _NO_MODEL,
        "key": _key_line(configuration),
        "name": settings.name,
        "language": settings.language,
        "zone": settings.zone,
        "lines": f"written by {settings.line_client}'s own command" if settings.line_client else None,
        "facts": "looked for by the model in what you state" if settings.extract_facts else None,
    }
    for label, text in lines.items():
        if text:
            print_labelled(label, text)
    if path.exists():
        print_labelled("settings", shown_path(path))
    if model is not None and model.note:
        print_note(model.note)
    if settings.model is None:
        print_note("`tellback init` looks for a model again, when there is one.")
    if warning is not None:
        print_note(f"{warning}: {SYNCED_REMEDY}")
    for name in ("model", "name", "language", "zone", "extract_facts"):
        if not (origin := configuration.origins.get(name, str(path))).startswith(("--", str(path))):
            print_note(f"     -> {origin} is set, too, and beats the file")
    if not is_first_chat:
        print_text()
        print_text("next: tellback chat")


def _key_line(configuration: Configuration) -> str | None:
    """Return the place of the key of the model's endpoint in words; None where there is no key."""
    settings = configuration.settings
    name = settings.key_setting
    if settings.model is None or name is None or (key := getattr(settings, name)) is None:
        return None
    from tellback.agent.assistant.key_store import kept_in, keys_path

    origin, path = configuration.origins[name], keys_path(configuration.path)
    if origin not in ("keyring", str(path)):
        return f"from {origin}, which is not kept here"
    return f"in {kept_in(Path(shown_path(path)), key)}"


def _print_object(
    configuration: Configuration, servers: FoundServers, values: Mapping[str, Any], warning: str | None
) -> None:
    settings = configuration.settings
    print_json(
        {
            "path": str(configuration.path),
            "memory": str(settings.shown_memory),
            "model": settings.model,
            "key": _key_line(configuration),
            **{name: getattr(settings, name) for name in ("name", "language", "zone", "extract_facts")},
            "servers": [
                {"server": server.title, "address": server.address, "models": server.models}
                for server in servers.servers
            ],
            "keys_for": [server.title for server in servers.services],
            "warning": warning,
        }
    )
