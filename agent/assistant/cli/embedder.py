"""``tellback config embedder``: lists stronger embedders, and changes the memory to one, or back.

The model is fetched first, then everything is embedded with it while the vectors in use serve, and only then the
setting is written: an interruption leaves the memory as it was, and the same command goes on.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from tellback.agent.assistant.cli.command_context import GlobalOptions, global_options, opened_memory, run
from tellback.agent.assistant.cli.config import report_change
from tellback.agent.assistant.cli.options import JsonOption
from tellback.agent.assistant.cli.output import print_json, print_note, print_table, print_text
from tellback.agent.assistant.cli.prompts import confirm_or_exit
from tellback.agent.assistant.cli.reembed import embedded_anew, print_report
from tellback.agent.assistant.config import AssistantSettings, checked_setting, with_settings
from tellback.agent.assistant.own_process import COMMAND_LINE, start_own_process
from tellback.agent.assistant.setting_checks import EMBEDDER_KINDS

STRONGER_MODELS: Final = {
    "intfloat/multilingual-e5-large": "some hundred languages",
    "sentence-transformers/paraphrase-multilingual-mpnet-base-v2": "some fifty languages",
    "BAAI/bge-base-en-v1.5": "English",
    "BAAI/bge-small-en-v1.5": "English",
    "jinaai/jina-embeddings-v2-base-de": "German and English",
    "jinaai/jina-embeddings-v2-base-es": "Spanish and English",
    "jinaai/jina-embeddings-v2-base-code": "English and program code",
}
"""Models that fastembed fetches, and the languages of their cards; with weights that may be used commercially."""


def choose_embedder(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="A model of the list, a folder with one, local, ollama:MODEL or openai:MODEL."
        ),
    ] = None,
    background: Annotated[
        bool, typer.Option("--background", help="Embed in a process of its own; doctor shows how far it is.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Fetch the model without a question.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no bar.")] = False,
    json: JsonOption = False,
) -> None:
    """List stronger embedders, or fetch one and embed everything with it.

    The vectors in use serve until all are made. The way back is the same command with the former name; `local` is the
    embedder that is installed, and fetches nothing.
    """
    options = global_options(context)
    if name is None:
        _list_models(options.configuration().settings, json=json)
        return
    asks, quiet = sys.stdin.isatty() and not (yes or json), quiet or json
    if change_embedder(context, name, asks=asks, background=background, quiet=quiet):
        report_change(context, "embedder", str(options.configuration(may_be_missing=True).path), json=json)
    elif json:
        print_json({"embedder": options.configuration().settings.embedder, "begun": name})
    else:
        print_text("embedding in the background: `tellback doctor` shows how far it is")


def change_embedder(
    context: typer.Context | GlobalOptions, name: str, *, asks: bool, background: bool = False, quiet: bool = False
) -> bool:
    """Fetch the model *name*, embed everything with it where a memory was begun, and write the setting.

    Return whether that is done; in the *background*, it is only begun.
    """
    from tellback.agent.assistant.config_file import write_settings
    from tellback.agent.assistant.wiring import make_named_embedder

    configuration = global_options(context).configuration(may_be_missing=True)
    value = str(checked_setting("embedder", embedder_setting(name)))
    wanted = with_settings(configuration.settings, {"embedder": value, "reranker": None})
    if wanted.embedder_kind == "onnx" and not Path(wanted.embedder_model).is_dir():
        _fetch(wanted, asks=asks)
    former = configuration.settings.embedder
    if configuration.settings.is_begun and value != "none":
        if background:
            memory = str(configuration.settings.memory)
            start_own_process(COMMAND_LINE, "--memory", memory, "config", "embedder", name, "--yes", "--quiet")
            return False
        with opened_memory(context) as opened:
            target, client = make_named_embedder(opened.settings, "local" if value == "auto" else value)
            try:
                report = embedded_anew(opened.memory, target, quiet=quiet)
            finally:
                if client is not None:
                    run(client.aclose())
        if not quiet:
            print_report(report)
    write_settings(configuration.path, {"embedder": value})
    if former != value and not quiet:
        print_note(f"the way back: tellback config embedder {former.removeprefix('onnx:')}")
    return True


def embedder_setting(name: str) -> str:
    """Return the setting for *name*: a kind of embedder, or an ONNX model by its name or folder."""
    if name.partition(":")[0] in EMBEDDER_KINDS:
        return name
    folder = Path(name).expanduser()
    return f"onnx:{folder.absolute() if folder.is_dir() else name}"


def _fetch(settings: AssistantSettings, *, asks: bool) -> None:
    """Fetch the named ONNX model of *settings* after a yes, unless it is here."""
    from tellback.agent.assistant.wiring import download_models
    from tellback.memory.onnx import known_models

    model = next((one for one in known_models() if one.name.lower() == settings.embedder_model.lower()), None)
    if model is not None and model.is_here:
        return
    if model is not None:
        languages = STRONGER_MODELS.get(model.name, "see its card")
        print_note(f"{model.name} is fetched from its hub: {model.cost}; languages: {languages}.")
        if asks:
            confirm_or_exit("Fetch it?", "nothing was fetched or changed")
    download_models(settings)


def _list_models(settings: AssistantSettings, *, json: bool) -> None:
    from tellback.memory.onnx import known_models

    known = {model.name: model for model in known_models()}
    models = [(known[name], languages) for name, languages in STRONGER_MODELS.items() if name in known]
    if json:
        rows = [
            {
                "name": model.name,
                "gigabytes": model.gigabytes,
                "licence": model.licence,
                "languages": languages,
                "here": model.is_here,
            }
            for model, languages in models
        ]
        print_json({"embedder": settings.embedder, "models": rows})
        return
    print_table(
        ("model", "size", "licence", "languages", "here"),
        [
            (model.name, f"{model.gigabytes:g} GB", model.licence, languages, "yes" if model.is_here else "")
            for model, languages in models
        ],
    )
    print_text()
    print_text(f"in use: {settings.embedder}")
