"""``mneme why-not``: why a question did not find a memory, or at which place it did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from agent.assistant.cli.explained import score_line
from agent.assistant.cli.failures import reported
from agent.assistant.cli.inputs import given_text
from agent.assistant.cli.opened import opened_memory
from agent.assistant.cli.output import print_json, say
from agent.assistant.cli.printable import one_line
from agent.assistant.cli.shapes import why_not_json

if TYPE_CHECKING:
    from memory import WhyNot


@reported
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
    words = given_text(question, name="QUESTION", what="a question")
    from memory import run_sync

    with opened_memory(context) as place:
        answer = run_sync(place.memory.why_not(words, id, k, namespace=place.namespace, tags=tuple(tag or ())))
    if json:
        print_json(why_not_json(answer))
    else:
        _show(answer)


def _show(answer: WhyNot) -> None:
    say(f"{answer.stage}: {one_line(answer.reason)}")
    if answer.score is None or answer.needed is None:
        return
    say(f"score {score_line(answer.score, answer.parts)}")
    say(f"the last hit has {answer.needed:.2f}")
    places = (("by words", answer.by_words), ("by vector", answer.by_vector))
    said = [f"number {at} {name}" for name, at in places if at is not None]
    if said:
        say(", ".join(said))
