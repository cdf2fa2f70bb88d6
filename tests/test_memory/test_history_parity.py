"""Both histories give the same readings after any calls, with and without a retention.

Inner part, on no face: ``tellback.memory.history.protocol``.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tellback.memory import (
    DatabaseHistory,
    InMemoryHistory,
    Message,
    Retention,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from tellback.memory.history.protocol import HistoryRow, Summary
from tellback.vectorstore.sqlite import SqliteDatabase
from tests.support.clocks import ManualClock
from tests.support.slow import first_fast

RETENTIONS = (
    None,
    Retention(messages=4, unremembered="keep"),
    Retention(messages=3, unremembered="drop"),
    Retention(idle=timedelta(hours=3), unremembered="keep"),
    Retention(messages=5, idle=timedelta(hours=3), unremembered="drop"),
)
SESSIONS = ("s", "t")
NAMESPACES = ("", "n")


class Pair:
    """Two histories of which the same is asked; what they answer must be equal."""

    def __init__(self, database: SqliteDatabase, retention: Retention | None, seed: int) -> None:
        self.clock = ManualClock()
        history = InMemoryHistory(clock=self.clock, retention=retention)
        other = DatabaseHistory(database, clock=self.clock, retention=retention)
        self._rows = (history.rows, other.rows)
        self._seed = seed

    def ask(self, call: Callable[[Any], Any]) -> Any:
        item, other = (call(rows) for rows in self._rows)
        assert item == other, self._seed
        return item


def batch(rng: random.Random, number: int) -> list[Message]:
    if rng.random() < 0.2:
        calls = [ToolCallBlock(id=f"c{number}.{i}", name="look") for i in range(rng.randrange(1, 4))]
        results = [ToolResultBlock(call_id=item.id, content=(TextBlock(text="found"),)) for item in calls]
        return [Message.assistant(calls), *(Message.tool([item]) for item in results)]
    roles = (Message.system, Message.user, Message.user, Message.assistant)
    return [rng.choice(roles)(f"{number}.{i}") for i in range(rng.randrange(0, 4))]


def step(pair: Pair, rng: random.Random, number: int) -> None:
    session, namespace = rng.choice(SESSIONS), rng.choice(NAMESPACES)
    place: dict[str, Any] = {"namespace": namespace}
    what = rng.random()
    if what < 0.4:
        messages = batch(rng, number)
        memories = [rng.choice(("", None, f"m{rng.randrange(9)}")) for _ in messages]
        pair.ask(lambda rows: rows.append(session, messages, memories=memories, **place))
    elif what < 0.5:
        kept = pair.ask(lambda rows: [item.message for item in rows.load(session, **place)])
        chosen = [*rng.sample(kept, len(kept) // 2), *batch(rng, number)]
        pair.ask(lambda rows: rows.replace(session, chosen, **place))
    elif what < 0.6:
        numbers = [rng.randrange(1, 30) for _ in range(3)]
        pair.ask(lambda rows: rows.delete(session, numbers, **place))
    elif what < 0.63:
        pair.ask(lambda rows: rows.delete(session, None, **place))
    elif what < 0.75:
        waiting = pair.ask(lambda rows: sorted(map(known, rows.unsettled(1000))))
        some = [item for item in waiting if rng.random() < 0.5]
        pair.ask(lambda rows: settle(rows, some))
    elif what < 0.9:
        sum_up(pair, rng, session, place)
    elif what < 0.95:
        memories = [f"m{rng.randrange(9)}" for _ in range(2)]
        words = f"{rng.randrange(number + 1)}."
        pair.ask(lambda rows: rows.erase_summaries(memories, lambda text: words in text, **place))
    else:
        pair.clock.now += timedelta(minutes=rng.randrange(400))
    pair.clock.now += timedelta(seconds=1)


def sum_up(pair: Pair, rng: random.Random, session: str, place: dict[str, Any]) -> None:
    before = pair.ask(lambda rows: rows.summary(session, "brief", **place))
    stored = pair.ask(lambda rows: rows.load(session, after=before.through if before else 0, **place))
    made_of = stored[: rng.randrange(1, 6)]
    if made_of:
        numbers = [item.sequence for item in made_of]
        text = " ".join(item.message.text or "…" for item in made_of)
        summary = Summary("brief", text, numbers[-1], len(numbers) + (before.messages if before else 0))
        pair.ask(lambda rows: rows.keep_summary(session, summary, before=before, made_of=numbers, **place))


def known(row: HistoryRow) -> tuple[str, str, int, str | None]:
    return row.namespace, row.session, row.sequence, row.memory or ""


def settle(rows: Any, some: list[tuple[str, str, int, str | None]]) -> None:
    chosen = {hit[:3] for hit in some}
    found = [hit for hit in rows.unsettled(1000) if (hit.namespace, hit.session, hit.sequence) in chosen]
    rows.settle([replace(hit, memory=hit.memory or f"m-{hit.sequence}") for hit in found])


def compare(pair: Pair) -> None:
    pair.ask(lambda rows: rows.namespaces())
    pair.ask(lambda rows: sorted(map(known, rows.unsettled(1000))))
    for namespace in NAMESPACES:
        pair.ask(lambda rows, namespace=namespace: rows.sessions(namespace=namespace))
        for session in SESSIONS:
            pair.ask(lambda rows, at=(session, namespace): rows.load(at[0], namespace=at[1]))
            pair.ask(lambda rows, at=(session, namespace): rows.summary(at[0], "brief", namespace=at[1]))


@pytest.mark.slow
@pytest.mark.parametrize("retention", RETENTIONS, ids=str)
@pytest.mark.parametrize("seed", first_fast(range(4)))
def test_in_memory_and_sqlite_history_agree_after_random_calls(
    tmp_path: Path, retention: Retention | None, seed: int
) -> None:
    rng = random.Random(seed)
    with SqliteDatabase(tmp_path / "m.db") as database:
        pair = Pair(database, retention, seed)
        for number in range(80):
            step(pair, rng, number)
            compare(pair)
        assert database.verify() == []
