"""``tellback memories given``: which memories prompts were given, and which of them were not useful."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tellback.agent.assistant.cli.command_context import opened_memory, run
from tellback.agent.assistant.cli.listing import keep_memories
from tellback.agent.assistant.cli.options import JsonOption, LimitOption
from tellback.agent.assistant.cli.output import (
    format_minute,
    one_line,
    print_json,
    print_note,
    print_table,
    print_text,
)
from tellback.agent.assistant.cli.short_ids import resolve_id
from tellback.agent.desk.results import GivenItem
from tellback.agent.short_ids import short_id
from tellback.memory import Memory

if TYPE_CHECKING:
    from tellback.agent.assistant.wiring import OpenedMemory

_DEFAULT_PROMPTS = 10


def given(
    context: typer.Context,
    limit: LimitOption = _DEFAULT_PROMPTS,
    not_useful: Annotated[
        str | None,
        typer.Option("--not-useful", metavar="ID", help="The memory was not useful to the last prompt that got it."),
    ] = None,
    useful: Annotated[str | None, typer.Option("--useful", metavar="ID", help="Take such a mark back.")] = None,
    json: JsonOption = False,
) -> None:
    """List what prompts of chat and of other clients were given.

    A memory that is marked is not given any more to clients' prompts that share half of their words with the marked
    one. All other prompts and every recall here find it as before.
    """
    if not_useful is not None and useful is not None:
        raise typer.BadParameter("only one of --useful and --not-useful can be given", param_hint="--useful")
    word = not_useful or useful
    with opened_memory(context) as opened:
        if word is not None:
            id = resolve_id(opened, word)
            found = [opened.memory.given.mark(opened.namespace, id, useful=useful is not None)]
        else:
            found = [*opened.memory.given.recent(opened.namespace, limit)]
        prompts = [GivenItem.of(prompt) for prompt in found]
        memories = _memories(opened, prompts)
        if not json and word is None:
            keep_memories(opened.settings, list(memories.values()))
    if json:
        print_json({"given": [prompt.model_dump() for prompt in prompts]})
    elif word is not None:
        mark = "is given again to" if useful is not None else "is not given any more to"
        print_note(f"{short_id(id)} {mark} prompts like: {one_line(prompts[0].prompt)}")
    elif not prompts:
        print_text("No prompt was given a memory yet.")
    else:
        _print(prompts, memories)


def _memories(opened: OpenedMemory, prompts: Sequence[GivenItem]) -> dict[str, Memory]:
    """Return the memories that *prompts* were given, by id, in the order of the listing."""
    ids = list(dict.fromkeys(given.id for prompt in prompts for given in prompt.memories))
    found = run(opened.memory.get(ids, namespace=opened.namespace))
    return {memory.id: memory for memory in found if memory is not None}


def _print(prompts: Sequence[GivenItem], memories: Mapping[str, Memory]) -> None:
    numbers = {id: str(number) for number, id in enumerate(memories, start=1)}
    for prompt in prompts:
        print_text(f"{format_minute(prompt.at)}  {prompt.client}  {one_line(prompt.prompt)}", indent="  ")
        rows = []
        for given in prompt.memories:
            mark = "" if given.is_useful else "not useful"
            text = memories[given.id].text if given.id in memories else "(archived)"
            rows.append((numbers.get(given.id, ""), short_id(given.id), f"{given.score:.2f}", mark, text))
        print_table(("#", "id", "score", "marked", "text"), rows, whole=2)
    print_note("was one of no use?", command="tellback memories given --not-useful ID")
