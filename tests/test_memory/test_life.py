"""The life of memories against a plain model: thousands of random steps on both stores, and after each both agree.

``life_model`` says what should be. A clock jumps and changes its zone, an embedder fails and talks nonsense; on disk
the file is closed and opened, and changed by two memories in turn, each of which follows what the other did. At the
end of each life everything is compared at the time of every operation. What was forgotten is in no history, and on
disk in no byte of the file.

The slow proof plays four times as many, ``--life full`` eighty times.

Inner parts, on no face: ``tellback.memory.timestamps``.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tellback.memory import (
    ArgumentError,
    CannotUndo,
    DuplicateKey,
    EmbedderError,
    LongTermMemory,
    Memory,
    Message,
    run_sync,
)
from tellback.memory.timestamps import timestamp_to_text
from tellback.vectorstore import open_store
from tests.support.slow import first_fast
from tests.test_memory.life_model import CONTENT, FIRST, LAST, MARKS, Deed, Model, Period, State

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
ZONE, EAST = timezone(timedelta(hours=-7)), timezone(timedelta(hours=5, minutes=30))
TICK = timedelta(microseconds=1)
WORD = "zebra"
CROWD = 60

MOMENTS = st.one_of(
    st.builds(
        lambda days, zone: (EPOCH + timedelta(days=days)).astimezone(zone),
        st.integers(-40, 40),
        st.sampled_from([UTC, ZONE, EAST]),
    ),
    st.sampled_from([FIRST, LAST, EPOCH]),
)
PICK = st.integers(0, 10**6)
LOOKED_AT = PICK | MOMENTS


def given(moment: datetime | None) -> datetime | None:
    """A time of the memory's own zone is given without one."""
    return moment.replace(tzinfo=None) if moment is not None and moment.tzinfo is ZONE else moment


class Moody:
    """An embedder that counts letters, unless its *mood* is to fail or to talk nonsense."""

    fingerprint = "moody/1"
    dimension = 5

    def __init__(self) -> None:
        self.mood = "well"

    async def embed(self, texts: list[str], kind: str = "document") -> np.ndarray:
        if self.mood == "failing":
            raise EmbedderError("no answer")
        return letters(texts) * (np.nan if self.mood == "raving" else 1)


def letters(texts: Sequence[str]) -> np.ndarray:
    return np.array([[1 + text.count(letter) for letter in "01234"] for text in texts], dtype=np.float32)


class Life(RuleBasedStateMachine):
    """One memory and its model."""

    engine = "numpy"

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.model = Model()
        self.embedder = Moody()
        self.time, self.zone = EPOCH, UTC
        self.words = 0
        self.memory = self.opened()
        self.other: LongTermMemory | None = None

    def opened(self) -> LongTermMemory:
        url = "numpy:" if self.engine == "numpy" else f"sqlite:///{Path(self.folder.name) / 'm.db'}"
        clock: Callable[[], Any] = lambda: given(self.time.astimezone(self.zone))  # noqa: E731 - as a clock is given
        return LongTermMemory(open_store(url), embedder=self.embedder, clock=clock, zone=ZONE)

    def closed(self) -> None:
        run_sync(self.memory.close())
        if self.other is not None:
            run_sync(self.other.close())
        self.other = None

    def teardown(self) -> None:
        with self.folder:
            try:
                self.everything_agrees()
                assert self.memory.store.verify() == []
            finally:
                self.closed()
            self.no_byte_is_left()

    def no_byte_is_left(self) -> None:
        present = b"".join(path.read_bytes() for path in Path(self.folder.name).iterdir())
        left = [text for text in self.model.gone if text.split()[-1].encode() in present]
        assert left == [], f"forgotten, and in the file: {left}"

    def text(self) -> str:
        self.words += 1
        return f"{WORD} n{self.words:06d}x"

    def pick(self, number: int) -> str:
        """A present memory by its place: ids are drawn at random, and a run must be repeatable. Often the last one
        to which something was done, so that much is done to one.
        """
        ids = list(self.model.now())
        last = [effect for deed in self.model.deeds[-1:] for effect in deed.root.effects if effect in ids]
        return last[0] if last and number % 2 else ids[number % len(ids)]

    def done(self, kind: str, effects: dict[str, State | None], operation: str | None) -> None:
        assert operation is not None
        self.model.record(Deed(operation, kind, self.time, effects), self.before)

    def begin(self) -> dict[str, State]:
        self.before = self.model.now()
        return self.before

    # remembering

    def remembered(self, made: State, **fields: Any) -> Any:
        """Remember a state, as a caller would."""
        values = {name: given(value) if name in _TIMES else value for name, value in made.items() if name != "life"}
        return run_sync(self.memory.remember(Memory(**values, **fields)))

    @precondition(lambda self: len(self.model.now()) < CROWD)
    @rule(
        start=st.none() | MOMENTS,
        stop=st.none() | MOMENTS,
        expires=st.none() | MOMENTS,
        hidden=st.booleans(),
        made_of=st.lists(PICK, max_size=2),
    )
    def remember(
        self, start: datetime | None, stop: datetime | None, expires: datetime | None, hidden: bool, made_of: list[int]
    ) -> None:
        parents = tuple(dict.fromkeys(self.pick(number) for number in made_of)) if self.begin() else ()
        fields = {"valid_from": start, "valid_to": stop, "expires_at": expires, "derived_from": parents}
        weight = None if start is None else 0.25
        made = self.model.fresh(self.text(), **fields, disabled=hidden and bool(stop), importance=weight)
        if start is not None and stop is not None and stop < start:
            with pytest.raises(ArgumentError, match="valid_to"):
                self.remembered(made)
            return
        report = self.remembered(made)
        assert (report.deferred is None) == (self.embedder.mood == "well")
        self.done("remember", {report.id: made}, report.operation)

    @rule(key=st.sampled_from(["k1", "k2"]), again=st.booleans(), expires=st.none() | MOMENTS, hidden=st.booleans())
    def remember_with_key(self, key: str, again: bool, expires: datetime | None, hidden: bool) -> None:
        before = self.begin()
        ids = [memory.id for memory in run_sync(self.memory.list(where={"key": key}))]
        text = before[ids[0]]["text"] if ids and again else self.text()
        if ids and not again:
            with pytest.raises(DuplicateKey):
                run_sync(self.memory.remember(Memory(text, key=key)))
            return
        made = self.model.fresh(text, expires_at=expires, disabled=hidden)
        report = self.remembered(made, key=key)
        if ids:
            assert (report.outcome, report.id, report.operation) == ("duplicate", ids[0], None)
        else:
            self.done("remember", {report.id: made}, report.operation)

    @precondition(lambda self: len(self.model.now()) < CROWD)
    @rule(count=st.integers(1, 4))
    def remember_many(self, count: int) -> None:
        self.begin()
        made = [self.model.fresh(self.text()) for _ in range(count)]
        reports = run_sync(self.memory.remember_many([item["text"] for item in made]))
        effects: dict[str, State | None] = {report.id: item for report, item in zip(reports, made, strict=True)}
        self.done("remember", effects, reports[0].operation)

    @precondition(lambda self: len(self.model.now()) < CROWD)
    @rule(session=st.sampled_from(["s1", "s2"]))
    def remember_turn(self, session: str) -> None:
        self.begin()
        made = [self.model.fresh(self.text()) for _ in range(2)]
        messages = [Message.user(made[0]["text"]), Message.assistant(made[1]["text"])]
        reports = run_sync(self.memory.remember_turn(session, messages))
        effects: dict[str, State | None] = {report.id: item for report, item in zip(reports, made, strict=True)}
        items = [(report.id, item["text"], self.time) for report, item in zip(reports, made, strict=True)]
        self.model.said[session] = self.model.said.get(session, []) + items
        self.done("remember", effects, reports[0].operation)

    # changing

    @precondition(lambda self: self.model.now())
    @rule(number=PICK, start=st.none() | MOMENTS, stop=st.none() | MOMENTS, same=st.sampled_from([False, False, True]))
    def correct(self, number: int, start: datetime | None, stop: datetime | None, same: bool) -> None:
        """Fields that are not given stay; memories made of the old words alone go with them."""
        before, item = self.begin(), self.pick(number)
        old = before[item]
        text = old["text"] if same else self.text()
        new = {"text": text, "valid_from": start or old["valid_from"], "valid_to": stop or old["valid_to"]}
        call = self.memory.correct(item, text, valid_from=given(start), valid_to=given(stop))
        if new["valid_from"] is not None and new["valid_to"] is not None and new["valid_to"] < new["valid_from"]:
            with pytest.raises(ArgumentError, match="valid_to"):
                run_sync(call)
            return
        report = run_sync(call)
        if all(new[name] == old[name] for name in new):
            assert (report.outcome, report.operation) == ("duplicate", None)
            return
        stale = [] if same else self.model.leaning_on(item)
        assert list(report.retired) == stale
        self.done("correct", {item: new, **dict.fromkeys(stale)}, report.operation)

    @precondition(lambda self: self.model.now())
    @rule(number=PICK, stop=st.none() | MOMENTS)
    def end(self, number: int, stop: datetime | None) -> None:
        before, item = self.begin(), self.pick(number)
        old, waiting = before[item], run_sync(self.memory.pending())
        if stop is not None and old["valid_from"] is not None and stop < old["valid_from"]:
            with pytest.raises(ArgumentError, match="valid_to"):
                run_sync(self.memory.end(item, given(stop)))
            return
        report = run_sync(self.memory.end(item, given(stop)))
        assert waiting or not run_sync(self.memory.pending()), "the vector of what ended is lost"
        if stop == old["valid_to"]:
            assert report.operation is None
            return
        new = {"text": old["text"], "valid_from": old["valid_from"], "valid_to": stop}
        self.done("end", {item: new}, report.operation)

    @precondition(lambda self: len(self.model.now()) > 1)
    @rule(number=PICK, count=st.integers(2, 3), willing=st.booleans())
    def merge(self, number: int, count: int, willing: bool) -> None:
        before = self.begin()
        able = [item for item, state in before.items() if not (willing and state["disabled"])]
        chosen = list(dict.fromkeys(able[(number + i) % len(able)] for i in range(count))) if able else []
        if len(chosen) < 2:
            return
        states, text = [before[item] for item in chosen], self.text()
        if any(state["disabled"] for state in states):
            with pytest.raises(ArgumentError, match="is disabled"):
                run_sync(self.memory.merge(chosen, text))
            return
        (first,) = run_sync(self.memory.get(chosen[:1]))
        assert first is not None
        report = run_sync(self.memory.merge(chosen, text))
        starts, stops = ([state[name] for state in states] for name in ("valid_from", "valid_to"))
        expiries = [state["expires_at"] for state in states if state["expires_at"] is not None]
        weights = [state["importance"] for state in states if state["importance"] is not None]
        marks = {
            "pinned": any(state["pinned"] for state in states),
            "tags": tuple(dict.fromkeys(tag for state in states for tag in state["tags"])),
            "importance": max(weights, default=None),
            "expires_at": min(expiries, default=None),
        }
        parents = (*states[0]["derived_from"], f"{chosen[0]}@{first.revision}", *chosen[1:])
        new = {
            "text": text,
            "valid_from": None if None in starts else min(starts),
            "valid_to": None if None in stops else max(stops),
            "derived_from": tuple(dict.fromkeys(parents)),
            **{name: value for name, value in marks.items() if value != states[0][name]},
        }
        self.done("merge", {chosen[0]: new, **dict.fromkeys(chosen[1:])}, report.operation)

    def mark(self, ids: list[str], call: Callable[[], Any], name: str, new: Callable[[Any], Any]) -> None:
        before = self.begin()
        changed = {
            item: new(before[item][name]) for item in ids if _told(new(before[item][name])) != _told(before[item][name])
        }
        operation = run_sync(call())
        assert (operation is None) == (not changed)
        if changed:
            self.done("mark", {item: {name: value} for item, value in changed.items()}, operation.id)

    @precondition(lambda self: self.model.now())
    @rule(number=PICK, other=PICK, pinned=st.booleans())
    def pin(self, number: int, other: int, pinned: bool) -> None:
        ids = list(dict.fromkeys([self.pick(number), self.pick(other)]))
        call = self.memory.pin if pinned else self.memory.unpin
        self.mark(ids, lambda: call(ids), "pinned", lambda _: pinned)

    @precondition(lambda self: self.model.now())
    @rule(number=PICK, disabled=st.booleans())
    def disable(self, number: int, disabled: bool) -> None:
        item = self.pick(number)
        call = self.memory.disable if disabled else self.memory.enable
        self.mark([item], lambda: call(item), "disabled", lambda _: disabled)

    @precondition(lambda self: self.model.now())
    @rule(number=PICK, tag=st.sampled_from("abc"), on=st.booleans(), weight=st.sampled_from([None, 0.0, 0.5, 1.0]))
    def tag_or_weigh(self, number: int, tag: str, on: bool, weight: float | None) -> None:
        item = self.pick(number)
        if on:
            self.mark(
                [item], lambda: self.memory.tag(item, [tag]), "tags", lambda old: tuple(dict.fromkeys((*old, tag)))
            )
        elif tag == "c":
            self.mark([item], lambda: self.memory.set_importance(item, weight), "importance", lambda _: weight)
        else:
            self.mark(
                [item], lambda: self.memory.untag(item, [tag]), "tags", lambda old: tuple(x for x in old if x != tag)
            )

    @precondition(lambda self: self.model.now())
    @rule(number=PICK, at=st.none() | MOMENTS)
    def expire(self, number: int, at: datetime | None) -> None:
        item = self.pick(number)
        self.mark([item], lambda: self.memory.expire(item, given(at)), "expires_at", lambda _: at)

    # undo

    def take_back(self, deed: Deed) -> None:
        before = self.begin()
        if self.model.in_the_way(deed):
            with pytest.raises(CannotUndo):
                run_sync(self.memory.undo(deed.id))
            return
        operation = run_sync(self.memory.undo(deed.id))
        assert operation.undoes == deed.id
        self.model.record(Deed(operation.id, "undo", self.time, deed.root.effects, undoes=deed), before)

    @precondition(lambda self: self.model.deeds)
    @rule()
    def undo_the_last(self) -> None:
        self.take_back(self.model.deeds[-1])

    @precondition(lambda self: self.model.deeds)
    @rule(number=PICK, root=st.booleans())
    def undo_any(self, number: int, root: bool) -> None:
        deed = self.model.deeds[-1 - number % min(len(self.model.deeds), 8)]
        self.take_back(deed.root if root else deed)

    @precondition(lambda self: self.model.periods)
    @rule(number=PICK)
    def forget(self, number: int) -> None:
        """Undone and merged memories, of which only archived versions remain, included."""
        ids = list(dict.fromkeys(period.memory for period in self.model.periods))
        item = ids[number % len(ids)]
        derived = self.model.derived_from(item)
        also = [other for other in self.model.merged_into(item) if other not in derived]
        receipt = run_sync(self.memory.forget([item]))
        assert (receipt.memories, receipt.derived, receipt.also) == ((item,), tuple(derived), tuple(sorted(also)))
        assert receipt.operation is not None
        self.model.forget(Deed(receipt.operation, "forget", self.time, dict.fromkeys([item, *derived, *also])))

    # clock, zone, reopening

    @rule(days=st.sampled_from([-30, -1, 1, 1, 5, 60]), zone=st.sampled_from([UTC, ZONE, EAST]))
    def clock_jumps(self, days: int, zone: timezone) -> None:
        self.time += timedelta(days=days, seconds=7)
        self.zone = zone

    @rule(mood=st.sampled_from(["well", "well", "failing", "raving"]))
    def embedder_changes_its_mood(self, mood: str) -> None:
        self.embedder.mood = mood

    @rule()
    def flush(self) -> None:
        run_sync(self.memory.flush())
        if self.embedder.mood == "well":
            store = self.memory.store
            left = [entry for lane in store.namespaces() for entry in store.scan(namespace=lane, embedded=False)]
            assert (left, run_sync(self.memory.pending())) == ([], 0)

    @precondition(lambda self: self.engine == "sqlite")
    @rule()
    def restart(self) -> None:
        self.closed()
        self.no_byte_is_left()
        self.memory = self.opened()
        assert run_sync(self.memory.complete()) == 0

    @precondition(lambda self: self.engine == "sqlite")
    @rule()
    def another_goes_on(self) -> None:
        """Two have the file open; what one did, the other sees."""
        self.memory, self.other = self.other or self.opened(), self.memory

    # reading

    @invariant()
    def what_there_is_agrees(self) -> None:
        now = self.model.now()
        names = (*CONTENT, *MARKS)
        every = run_sync(self.memory.list(limit=9999))
        listed = {item.id: {name: _told(getattr(item, name)) for name in names} for item in every}
        assert listed == {item: {name: _told(state[name]) for name in names} for item, state in now.items()}

    @rule()
    def recall_agrees(self) -> None:
        assert self.recalled() == self.model.present(self.time)
        pinned = {item for item, state in self.model.now().items() if state["pinned"]}
        shown = [item for item in self.model.present(self.time) if item[0] in pinned]
        assert sorted(_named(item) for item in run_sync(self.memory.pinned())) == shown

    def moment(self, at: datetime | int) -> datetime:
        """Draw a time: any, that of an operation, or a little before it."""
        if isinstance(at, datetime):
            return at
        deeds = self.model.deeds
        return deeds[at % len(deeds)].at - TICK * (at % 3 == 0) if deeds else self.time

    @rule(at=LOOKED_AT)
    def recall_of_a_time_agrees(self, at: datetime | int) -> None:
        moment = self.moment(at)
        assert self.recalled(as_of=given(moment)) == self.model.held(moment, self.time)

    @rule(at=LOOKED_AT, held=st.none() | LOOKED_AT)
    def recall_of_what_was_known_agrees(self, at: datetime | int, held: datetime | int | None) -> None:
        moment, held = self.moment(at), None if held is None else self.moment(held)
        expected = self.model.known(moment, held or self.time, self.time)
        assert self.recalled(known_at=given(moment), as_of=given(held)) == expected

    @precondition(lambda self: self.model.periods)
    @rule(number=PICK, at=st.none() | LOOKED_AT)
    def a_question_about_one_finds_it_and_nothing_hidden(self, number: int, at: datetime | int | None) -> None:
        """Neighbours in its session come along, by no search of their own."""
        moment = None if at is None else self.moment(at)
        asked = self.model.periods[number % len(self.model.periods)]
        present = self.model.present(self.time) if moment is None else self.model.held(moment, self.time)
        found = self.recalled(asked.content["text"].split()[-1], as_of=given(moment))
        assert set(found) <= set(present)
        item = (asked.memory, asked.content["text"])
        assert (item in found) == (item in present)

    @precondition(lambda self: self.model.periods)
    @rule(number=PICK)
    def history_agrees(self, number: int) -> None:
        self.history_of(self.model.periods[number % len(self.model.periods)].memory)

    def history_of(self, one: str) -> None:
        history = run_sync(self.memory.history(one))
        periods = [period for period in self.model.periods if period.memory == one]
        assert [version.text for version in history] == [period.content["text"] for period in periods[::-1]]
        assert [_known(version) for version in history] == [_spanned(period) for period in periods[::-1]]
        deeds = [deed.id for deed in self.model.deeds if one in deed.root.effects]
        assert [operation.id for operation in history.operations] == deeds[::-1]

    @rule()
    def the_log_agrees(self) -> None:
        listed = run_sync(self.memory.operations(limit=1000))
        undone = {deed.undoes.id: deed.id for deed in self.model.deeds if deed.undoes and not self.model.undone(deed)}
        assert [(item.id, item.undoes, item.undone_by, timestamp_to_text(item.at)) for item in listed] == [
            (deed.id, deed.undoes and deed.undoes.id, undone.get(deed.id), timestamp_to_text(deed.at))
            for deed in reversed(self.model.deeds)
        ]
        forgotten: set[str] = set()
        for item, deed in zip(listed, reversed(self.model.deeds), strict=True):
            forgotten |= set(deed.effects) if deed.kind == "forget" else set()
            assert sorted(change.id for change in item.changes) == sorted(deed.root.effects)
            items = [change.id for change in item.changes if change.old or change.new]
            assert forgotten.isdisjoint(items), f"the log tells of what was forgotten: {items}"

    @rule()
    def what_was_said_agrees(self) -> None:
        for session, expected in self.model.said.items():
            stated = run_sync(self.memory.conversations.load(session))
            assert [(item.memory, item.message.text, item.at) for item in stated] == expected

    @rule()
    def counts_agree(self) -> None:
        now = self.model.now().values()
        stats = run_sync(self.memory.stats())
        assert stats.memories == len(now)
        assert stats.lanes["archive"] == len(self.model.periods) - len(now)
        assert (stats.pinned, stats.disabled) == tuple(
            sum(item[name] for item in now) for name in ("pinned", "disabled")
        )
        for counted, name in ((stats.expired, "expires_at"), (stats.ended, "valid_to")):
            assert counted == sum(item[name] is not None and item[name] <= self.time for item in now)
        assert stats.tags == dict(sorted(Counter(tag for item in now for tag in item["tags"]).items()))
        shown = sum(self.model.shown(item, state["life"], self.time) for item, state in self.model.now().items())
        assert run_sync(self.memory.count(disabled=False, expired=False)) == shown

    def everything_agrees(self) -> None:
        """At the time of each operation, and just before it; and every history, and every vector."""
        hiding = {"disabled": False, "expired": False}
        for fromkey in dict.fromkeys(time for deed in self.model.deeds for time in (deed.at, deed.at - TICK)):
            held = run_sync(self.memory.list(as_of=fromkey, limit=9999, **hiding))
            assert sorted(map(_named, held)) == self.model.held(fromkey, self.time)
            known = run_sync(self.memory.list(known_at=fromkey, limit=9999, **hiding))
            assert sorted(map(_named, known)) == self.model.known(fromkey, self.time, self.time)
        for item in dict.fromkeys(period.memory for period in self.model.periods):
            self.history_of(item)
        self.recall_agrees()
        self.the_log_agrees()
        self.what_was_said_agrees()
        self.counts_agree()
        store = self.memory.store
        for entry in (entry for lane in store.namespaces() for entry in store.scan(namespace=lane)):
            assert entry.vector is None or entry.vector.tolist() == letters([entry.text])[0].tolist()

    def recalled(self, question: str = WORD, **options: Any) -> list[tuple[str, str]]:
        """Return what is found, whatever kind of utterance the classifiers take a made-up text for."""
        found = run_sync(self.memory.recall(question, 500, all_utterances=True, **options))
        ids = [hit.memory.id for hit in found] + [left.id for left in found.left_out]
        return sorted(_named(item) for item in run_sync(self.memory.get(ids)) if item is not None)


_TIMES = ("valid_from", "valid_to", "expires_at")


def _named(one: Memory) -> tuple[str, str]:
    return (one.id.partition("@")[0], one.text)


def _told(value: Any) -> Any:
    """A time with its zone: two that are equal may be told apart by it."""
    return (timestamp_to_text(value), value.utcoffset()) if isinstance(value, datetime) else value


def _known(version: Memory) -> tuple[datetime | None, datetime | None]:
    return version.recorded_at, version.retired_at


def _spanned(period: Period) -> tuple[datetime | None, datetime | None]:
    return period.recorded, period.retired


class LifeOnDisk(Life):
    """The same in a file, with restarts."""

    engine = "sqlite"


@pytest.mark.parametrize(("machine", "lives"), first_fast([(LifeOnDisk, 3), (LifeOnDisk, 24), (Life, 16)]))
def test_random_memory_operations_agree_with_a_plain_model(
    machine: type[Life], lives: int, request: pytest.FixtureRequest
) -> None:
    full = request.config.getoption("--life") == "full"
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=600 if full else lives,
            derandomize=not full,
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=checks,
            database=None,
        ),
    )
