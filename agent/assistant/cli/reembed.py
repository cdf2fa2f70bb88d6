"""``tellback reembed``: vectors of another embedder for everything, beside those in use until the switch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tellback.agent.assistant.cli.command_context import global_options, opened_memory, run
from tellback.agent.assistant.cli.options import JsonOption
from tellback.agent.assistant.cli.output import format_count, print_json, print_note, print_text, progress_bar

if TYPE_CHECKING:
    from tellback.memory import Embedder, LongTermMemory
    from tellback.memory.internals import ReembeddingReport


def reembed(
    context: typer.Context,
    abandon: Annotated[
        bool, typer.Option("--abandon", help="Drop what was embedded so far, and stay with the vectors in use.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Embed everything, also where the vectors are this embedder's already.")
    ] = False,
    no_switch: Annotated[
        bool, typer.Option("--no-switch", help="Embed, and leave it to a later call to use the new vectors.")
    ] = False,
    download: Annotated[
        bool,
        typer.Option("--download", help="First fetch the models that the settings name as onnx:MODEL."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no bar.")] = False,
    json: JsonOption = False,
) -> None:
    """Embed everything anew with the embedder that is set.

    The vectors in use serve until all are made. Interrupted or killed, the same command goes on where it stopped.
    """
    if abandon and (again or no_switch or download):
        raise typer.BadParameter("goes with no other option", param_hint="--abandon")
    from tellback.agent.assistant.wiring import download_models, make_reembedding_target

    if download:
        download_models(global_options(context).configuration().settings)
    with opened_memory(context) as opened:
        if abandon:
            dropped = run(opened.memory.abandon_reembedding())
            if json:
                print_json({"abandoned": dropped})
            else:
                print_text("dropped; the vectors in use stay" if dropped else "no re-embedding was under way")
            return
        if opened.memory.embedder is None:
            from tellback.vectorstore import MissingExtra

            local = MissingExtra("it", "local").install
            raise typer.BadParameter(
                f"no embedder is set: local ({local}), ollama:MODEL, onnx:MODEL or openai:MODEL",
                param_hint="TELLBACK_EMBEDDER",
            )
        target = make_reembedding_target(opened.settings)
        report = embedded_anew(opened.memory, target, switch=not no_switch, again=again, quiet=json or quiet)
    if json:
        print_json(report)
        return
    print_report(report)


def embedded_anew(
    memory: LongTermMemory, target: Embedder | None, *, switch: bool = True, again: bool = False, quiet: bool
) -> ReembeddingReport:
    """Embed everything in *memory* with *target* (None: its own embedder), with a bar unless *quiet*."""
    with progress_bar("embedding", quiet=quiet) as advance:
        work = memory.reembed(
            target, switch=switch, again=again, on_progress=lambda step: advance(step.done, step.total)
        )
        try:
            return run(work)
        except KeyboardInterrupt:
            print_note(
                "what was embedded so far is kept: the same command goes on, `tellback reembed --abandon` drops it"
            )
            raise


def print_report(report: ReembeddingReport) -> None:
    """Print how many entries were embedded, and by what."""
    if report.already:
        print_text(f"nothing to do: everything has vectors of {report.space}")
        return
    line = f"{format_count(report.embedded, 'entry', 'entries')} embedded with {report.space}"
    if report.truncated:
        line += f", {report.truncated} of them cut"
    if report.without:
        line += f"; {report.without} without a vector (nothing to embed, or refused)"
    print_text(line)
    if not report.switched:
        print_text(f"{report.before} is still in use; `tellback reembed` switches")
