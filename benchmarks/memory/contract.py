"""The contract of adapters, as a check that anyone can run on a system of their own before they measure it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.memory.process import SystemFailed, SystemProcess, python_with
from benchmarks.memory.protocol import Item, Question, Settings
from benchmarks.memory.registry import Entry

ITEMS = tuple(
    Item(f"m{number}", text, speaker, "user", "s1", f"2026-03-01T10:0{number}:00+00:00")
    for number, (speaker, text) in enumerate(
        [
            ("Ana", "The tram was late again this morning."),
            ("Ben", "I bought a cello from a violin maker."),
            ("Ana", "It rained the whole weekend."),
            ("Ben", "My landlord raised the rent."),
        ]
    )
)
QUESTION = Question("q1", "Which cello did Ben buy?", "2026-03-02T10:00:00+00:00")


def violations(entry: Entry, settings: Settings) -> Iterator[str]:
    """Yield what the system of *entry* does against the contract; nothing for one that keeps it.

    Whether it finds anything is no part of it. Raises ``Unavailable`` where it cannot be opened.
    """
    settings = replace(settings, gold={QUESTION.id: ("m1",)} if entry.oracle else {}, options=dict(entry.options))
    system = SystemProcess(entry.place, python_with(entry.packages), settings)
    try:
        yield from _violations(system, entry)
    except SystemFailed as error:
        yield f"it raised {error}"
    finally:
        system.close()


def _violations(system: SystemProcess, entry: Entry) -> Iterator[str]:
    for time in ("first", "second"):  # a reset forgets, and can be repeated
        system.call("reset")
        system.ingest(ITEMS[:2])
        system.ingest(ITEMS[2:])
        system.call("ready")
        for k in (1, 3, 50):
            hits = system.search(QUESTION, k, 1_000)["hits"]
            ids = [id for id, _, _ in hits if id]
            if len(hits) > k and not entry.whole:
                yield f"{len(hits)} hits for k = {k}"
            if len(ids) != len(set(ids)):
                yield f"an item is found twice for k = {k}, {time} time: {ids}"
            if strange := set(ids) - {item.id for item in ITEMS}:
                yield f"{sorted(strange)} are ids of no item"
            if any(not id and not text for id, _, text in hits):
                yield "a hit has neither an id nor a text"
            scores = [score for _, score, _ in hits]
            if scores != sorted(scores, reverse=True):
                yield f"scores do not fall: {scores}"
        again = system.search(QUESTION, 50, 1_000)["hits"]
        if [id for id, _, _ in again] != [id for id, _, _ in hits]:
            yield "the same question finds other hits the second time"
    usage = system.call("usage")["value"]
    if not isinstance(usage, dict) or not all(isinstance(value, int | float) for value in usage.values()):
        yield f"usage is {usage}, not numbers by name"
