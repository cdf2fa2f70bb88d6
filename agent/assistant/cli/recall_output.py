"""The answer of ``tellback recall``: the memory is asked, and the hits are printed with source, time and score.

Without the library that reads command lines: the plain forms of the command do without it (``plain_recall``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Unpack

from agent.assistant.cli.command_context import GlobalOptions, opened_memory, run
from agent.assistant.cli.excerpt import excerpt, question_pattern
from agent.assistant.cli.json_output import found_json
from agent.assistant.cli.listing import keep_listing
from agent.assistant.cli.output import (
    describe_profile,
    format_day,
    matched_terms_line,
    note_shortened,
    one_line,
    print_json,
    print_line,
    print_note,
    print_text,
    score_line,
)
from agent.assistant.cli.short_ids import short_id

if TYPE_CHECKING:
    from agent.assistant.wiring import OpenedMemory
    from memory import Hit, RecallOptions, RecallResult

_ABSTENTION_NOTES = {
    "nothing": "not sure that this is about it; the nearest:",
    "other": "something like it was said, but by or about someone else:",
}


def print_recall(
    settings: GlobalOptions,
    question: str,
    k: int,
    *,
    full: bool = False,
    json: bool = False,
    narrow: Callable[[OpenedMemory], RecallOptions] | None = None,
    **options: Unpack[RecallOptions],
) -> None:
    """Ask the memory of *settings*, and print at most *k* hits; *options* are those of ``LongTermMemory.recall``.

    *narrow* returns further ones, which the open memory is needed for.
    """
    explain = options.get("explain", False)
    with opened_memory(settings) as opened:
        asked: RecallOptions = {**options, "namespace": opened.namespace}
        if narrow is not None:
            asked = {**asked, **narrow(opened)}
        found = run(opened.memory.recall(question, k, **asked))
        if not json:
            memories = [hit.memory for hit in found]
            keep_listing(
                "memories", opened, [memory.id for memory in memories], [memory.revision for memory in memories]
            )
        profile = describe_profile(opened.memory) if explain and not json else ""
    if json:
        print_json(found_json(found, explain=explain, around=bool(options.get("neighbours"))))
    else:
        _print_hits(found, question_pattern(question), explain=explain, full=full)
        if profile:
            print_note(f"embedder profile: {profile}")


def _print_hits(found: RecallResult, pattern: re.Pattern[str] | None, *, explain: bool, full: bool) -> None:
    shortened = False
    for text in found.notes:
        print_note(text)
    if not found.hits:
        print_text("Nothing is remembered about that.")
    elif found.abstain is not None:
        print_note(_ABSTENTION_NOTES[found.abstain])
    days = {hit.memory.id: format_day(hit.memory.occurred_at or hit.memory.recorded_at) for hit in found}
    for number, hit in enumerate(found, start=1):
        mark = f"{number}. "
        margin = " " * len(mark)
        # Further lines stand deeper than the line below: no text can pass for its own origin.
        lines, cut = excerpt(hit.memory.text, pattern, indent=len(margin) + 4, full=full)
        shortened |= cut
        print_line(mark + f"\n{margin}  ".join(lines))
        print_text(margin + _hit_origin_line(hit, days, full=full))
        for side, turns in (("before", hit.before), ("after", hit.after)):
            for turn in turns:
                who = "" if hit.partition == "documents" else one_line(turn.speaker or turn.role or turn.kind) + ": "
                print_text(f"{margin}{side}: {who}{one_line(turn.text)}", indent=margin + "  ")
        if explain:
            print_text(margin + score_line(hit.score, hit.parts))
            print_text(f"{margin}words: {one_line(matched_terms_line(hit.matched))}")
            if hit.memory.utterance is not None:
                reason = hit.memory.utterance_reason
                print_text(f"{margin}said: {hit.memory.utterance.value}" + (f" ({reason})" if reason else ""))
    if shortened:
        note_shortened()


def _hit_origin_line(hit: Hit, days: Mapping[str, str], *, full: bool) -> str:
    """Return origin, day, score and id of a hit in one line, and its newer or older statement; *days* are by id."""
    memory, source = hit.memory, hit.memory.source
    if source is not None and source.document is not None:
        page = f", p. {source.page}" if source.page is not None else ""
        parts = [source.document + page, " > ".join(source.heading)]
    else:
        parts = [memory.speaker or memory.role or memory.kind, format_day(memory.occurred_at or memory.recorded_at)]
    shown = (lambda id: id) if full else short_id
    parts += [f"score {hit.score:.2f}", shown(memory.id)]
    if hit.outdated_by is not None:
        until = f"until {days[hit.outdated_by]}, " if days.get(hit.outdated_by) else ""
        parts.append(f"{until}outdated by {shown(hit.outdated_by)}")
    if hit.later_than is not None:
        parts.append(f"later than {shown(hit.later_than)}, may have changed it")
    return " · ".join(one_line(part) for part in parts if part)
