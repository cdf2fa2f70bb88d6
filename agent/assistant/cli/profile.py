"""``tellback memories profile``: what is known about the user, by topic, each statement with its memory."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tellback.agent.assistant.cli.command_context import opened_memory, run
from tellback.agent.assistant.cli.errors import describe_error
from tellback.agent.assistant.cli.listing import keep_memories
from tellback.agent.assistant.cli.options import JsonOption
from tellback.agent.assistant.cli.output import (
    format_count,
    format_day,
    hang,
    one_line,
    print_json,
    print_note,
    print_text,
)
from tellback.agent.assistant.cli.waiting import WaitingStatus

if TYPE_CHECKING:
    from tellback.agent.assistant.profile_text import ProfileText
    from tellback.agent.assistant.wiring import OpenedMemory
    from tellback.memory.internals import Profile

_LIMIT: Final = 5
_ALL: Final = 10_000
_MARGIN: Final = 14


def profile(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Show all of each topic, not only the newest.")] = False,
    rules: Annotated[bool, typer.Option("--no-model", help="List the memories by topic; ask no model.")] = False,
    json: JsonOption = False,
) -> None:
    """Say what is known about you.

    Your name, home, work, family, health, likes, things, habits and plans, then your relatives, each with the memory
    that says so. A model writes it in sentences; without one the memories are listed. #1 stands for [1] in other
    commands.
    """
    with opened_memory(context) as opened:
        known = run(opened.desk.profile(_ALL if every else _LIMIT))
        memories = {entry.memory.id: entry.memory for entry in known}
        numbers = {id: number for number, id in enumerate(memories, start=1)}
        if not json:
            keep_memories(opened.settings, [*memories.values()])
        asks = opened.settings.model is not None and not rules and bool(known)
        text = _described(opened, known, shown=not json) if asks else None
    if json:
        print_json(_profile_json(known, numbers, text))
    elif not known:
        print_text("Nothing is known about you yet. Say something about yourself, and it is.")
    elif text is not None and text.sentences:
        _print_sentences(text, numbers)
    else:
        _print_entries(known, numbers)


def _described(opened: OpenedMemory, profile: Profile, *, shown: bool) -> ProfileText | None:
    """Return the *profile* in a model's words; None where the model fails, which is printed."""
    from tellback.agent.assistant.profile_text import describe_profile
    from tellback.agent.assistant.wiring import make_http_client, make_provider

    settings = opened.settings

    async def describe() -> ProfileText:
        async with make_http_client(settings) as client:
            provider = make_provider(settings, client)
            return await describe_profile(provider, profile, share_sensitive=settings.share_sensitive)

    status = WaitingStatus(shown=shown)
    status.show("thinking")
    try:
        return run(describe())
    except Exception as error:  # whatever the model does, the memories can be listed
        status.clear()
        print_note(f"tellback: {describe_error(error)[1]}; listed by rules instead")
        return None
    finally:
        status.clear()


def _print_sentences(text: ProfileText, numbers: Mapping[str, int]) -> None:
    ids = {item.number: item.id for item in text.items}
    for sentence in text.sentences:
        marks = " ".join(f"[{numbers[ids[number]]}]" for number in sentence.items)
        print_text(f"{one_line(sentence.text)} {marks}")
    print_text()
    cited = {number for sentence in text.sentences for number in sentence.items}
    for item in text.items:
        if item.number in cited:
            print_text(f"[{numbers[item.id]}] {one_line(item.where)}")
    if text.dropped:
        print_note(f"{format_count(text.dropped, 'sentence')} of the model left out: no memory was named for it")
    print_note(f"{text.usage.input:,} + {text.usage.output:,} tokens")


def _print_entries(profile: Profile, numbers: Mapping[str, int]) -> None:
    for place, (subject, entries) in enumerate(groupby(profile, key=lambda entry: entry.subject)):
        print_text(("\n" if place else "") + (f"Your {one_line(subject)}" if subject else "You"))
        for topic, of_topic in groupby(entries, key=lambda entry: entry.topic):
            for line, entry in enumerate(of_topic):
                label = "" if line or topic == "other" else topic.value
                time = format_day(entry.since) if entry.until is None else f"until {format_day(entry.until)}"
                words = f"{one_line(entry.memory.text)} [{numbers[entry.memory.id]}] {time}".rstrip()
                print_text(hang(f"  {label:<{_MARGIN - 2}}", words))
    if profile.omitted:
        print_note(f"\nand {profile.omitted} more; --all shows them")


def _profile_json(profile: Profile, numbers: Mapping[str, int], text: ProfileText | None) -> dict[str, object]:
    entries = [
        {
            "subject": entry.subject,
            "topic": entry.topic.value,
            "number": numbers[entry.memory.id],
            "id": entry.memory.id,
            "text": entry.memory.text,
            "since": entry.since,
            "until": entry.until,
        }
        for entry in profile
    ]
    ids = {} if text is None else {item.number: item.id for item in text.items}
    sentences = (
        None
        if text is None
        else [{"text": sentence.text, "ids": [ids[number] for number in sentence.items]} for sentence in text.sentences]
    )
    return {"entries": entries, "omitted": profile.omitted, "sentences": sentences}
