"""``tellback recall`` and ``tellback why-not``: hits for a question with source, time and score, and why one is
missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agent.assistant.cli.command_context import opened_memory
from agent.assistant.cli.errors import with_error_report
from agent.assistant.cli.json_output import found_json, why_not_json
from agent.assistant.cli.output import format_day, one_line, print_json, print_note, print_text
from agent.assistant.cli.parsing import parse_scopes, parse_time
from agent.assistant.cli.prompts import read_text_argument
from agent.assistant.cli.text import matched_terms_line, score_line

if TYPE_CHECKING:
    from memory import Hit, RecallResult
    from memory.internals import WhyNot

_ABSTENTION_NOTES = {
    "nothing": "nothing here seems to be about that; the nearest is:",
    "other": "something like it was said, but by or about someone else:",
}


@with_error_report
def recall(
    context: typer.Context,
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="What you want to know; '-' reads it from standard input.")
    ],
    k: Annotated[int, typer.Option("-k", metavar="COUNT", help="How many hits at most.", min=1)] = 5,
    tag: Annotated[
        list[str] | None, typer.Option(metavar="TAG", help="Only what has this tag; may be repeated.")
    ] = None,
    scope: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only of this scope; may be repeated.")
    ] = None,
    as_of: Annotated[str | None, typer.Option(metavar="TIME", help="What held then, as is known now.")] = None,
    known_at: Annotated[str | None, typer.Option(metavar="TIME", help="What was known then.")] = None,
    around: Annotated[
        str,
        typer.Option(
            metavar="COUNT", help="So many turns or passages before and after each hit, or its whole 'exchange'."
        ),
    ] = "0",
    explain: Annotated[bool, typer.Option("--explain", help="Show what each score is made of.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what is known about QUESTION, best first."""
    words = read_text_argument(question, name="QUESTION", what="a question")
    turns = _parse_around(around)
    from memory import run_sync

    with opened_memory(context) as opened:
        found = run_sync(
            opened.memory.recall(
                words,
                k,
                namespace=opened.namespace,
                tags=tuple(tag or ()),
                scopes=parse_scopes(scope or (), name="--scope"),
                as_of=parse_time(as_of, name="--as-of"),
                known_at=parse_time(known_at, name="--known-at"),
                explain=explain,
                neighbours=turns,
            )
        )
    if json:
        print_json(found_json(found, explain=explain, around=bool(turns)))
    else:
        _print_hits(found, explain=explain)


def _parse_around(around: str) -> int | Literal["exchange"]:
    if around == "exchange":
        return "exchange"
    if not around.isascii() or not around.isdigit():
        raise typer.BadParameter("a number or 'exchange' is needed", param_hint="'--around'")
    return int(around)


def _print_hits(found: RecallResult, *, explain: bool) -> None:
    for text in found.notes:
        print_note(text)
    if not found.hits:
        print_text("Nothing is remembered about that.")
    elif found.abstain is not None:
        print_note(_ABSTENTION_NOTES[found.abstain])
    for number, hit in enumerate(found, start=1):
        mark = f"{number}. "
        # Further lines stand deeper than the line below: no text can pass for its own origin.
        print_text(mark + hit.memory.text, indent=" " * (len(mark) + 2))
        print_text(" " * len(mark) + _hit_origin_line(hit))
        for side, turn in (*(("before", turn) for turn in hit.before), *(("after", turn) for turn in hit.after)):
            who = "" if hit.partition == "documents" else one_line(turn.speaker or turn.role or turn.kind) + ": "
            print_text(" " * len(mark) + f"{side}: {who}{one_line(turn.text)}", indent=" " * (len(mark) + 2))
        if explain:
            print_text(" " * len(mark) + score_line(hit.score, hit.parts))
            print_text(" " * len(mark) + "words: " + one_line(matched_terms_line(hit.matched)))


def _hit_origin_line(hit: Hit) -> str:
    """Return origin, day, score and id of a hit in one line."""
    memory, source = hit.memory, hit.memory.source
    if source is not None and source.document is not None:
        page = f", p. {source.page}" if source.page is not None else ""
        parts = [source.document + page, " > ".join(source.heading)]
    else:
        parts = [memory.speaker or memory.role or memory.kind, format_day(memory.occurred_at or memory.recorded_at)]
    newer = f"outdated by {hit.outdated_by}" if hit.outdated_by is not None else ""
    return " · ".join(one_line(part) for part in (*parts, f"score {hit.score:.2f}", memory.id, newer) if part)


@with_error_report
def why_not(
    context: typer.Context,
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="What was asked; '-' reads it from standard input.")
    ],
    id: Annotated[str, typer.Argument(metavar="ID", help="The memory or passage that was expected.")],
    k: Annotated[int, typer.Option("-k", metavar="COUNT", help="How many hits were asked for.", min=1)] = 5,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="As it was given to recall.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say why QUESTION does not find ID.

    The first stage that stopped the memory is named, or its place in the ranking.
    """
    words = read_text_argument(question, name="QUESTION", what="a question")
    from memory import run_sync

    with opened_memory(context) as opened:
        answer = run_sync(opened.memory.why_not(words, id, k, namespace=opened.namespace, tags=tuple(tag or ())))
    if json:
        print_json(why_not_json(answer))
    else:
        _print_why_not(answer)


def _print_why_not(answer: WhyNot) -> None:
    print_text(f"{answer.stage}: {one_line(answer.reason)}")
    if answer.score is None or answer.needed is None:
        return
    print_text(f"score {score_line(answer.score, answer.parts)}")
    print_text(f"the last hit has {answer.needed:.2f}")
    ranks = (("by words", answer.by_words), ("by vector", answer.by_vector))
    if texts := [f"number {rank} {name}" for name, rank in ranks if rank is not None]:
        print_text(", ".join(texts))
