"""The life of memories against a plain model: thousands of random steps on both stores, and after each both agree.

The model knows no archive and no versions in place. What there is now, and what held at a time, it tells by playing the
operations that stand, in their order; what was known at a time, from a list of periods that is only ever appended to.
What was forgotten is in no history, and on disk in no byte of the file.

``--life full`` plays twenty times as many.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
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

from memory import CannotUndo, DuplicateKey, EmbedderError, LongTermMemory, Memory, Message, run_sync
from memory.times import to_text
from vectorstore import open_store

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
CONTENT = ("text", "valid_from", "valid_to")
MARKS = ("pinned", "disabled", "tags", "importance", "expires_at")
WORD = "zebra"

MOMENTS = st.one_of(
    st.integers(-40, 40).map(lambda days: EPOCH + timedelta(days=days)),
    st.sampled_from([FIRST, LAST, EPOCH]),
)
PICK = st.integers(0, 10**6)
LOOKED_AT = PICK | MOMENTS


class Moody:
    """An embedder that counts letters and fails while it is told to."""

    fingerprint = "moody/1"
    dimension = 5

    def __init__(self) -> None:
        self.fails = False

    async def embed(self, texts: list[str], kind: str = "document") -> np.ndarray:
        if self.fails:
            raise EmbedderError("no answer")
        return np.array([[1 + text.count(letter) for letter in "01234"] for text in texts], dtype=np.float32)


# --- the model


@dataclass
class Deed:
    """An operation: what it set of each memory (None: the memory went), and which it took back."""

    id: str
    kind: str
    at: datetime
    effects: dict[str, dict[str, Any] | None]
    undoes: Deed | None = None

    @property
    def root(self) -> Deed:
        return self if self.undoes is None else self.undoes.root

    def touches(self, memory: str) -> set[str]:
        effect = self.root.effects[memory]
        return {"*"} if effect is None or "life" in effect else set(effect)


@dataclass
class Period:
    """A time, by the clock, in which something was known."""

    memory: str
    life: int
    deed: Deed
    content: dict[str, Any]
    recorded: datetime
    retired: datetime | None = None


@dataclass
class Model:
    """What should be."""

    deeds: list[Deed] = field(default_factory=list)
    periods: list[Period] = field(default_factory=list)
    marks: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    said: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """By session: what was said, each with its memory."""
    gone: set[str] = field(default_factory=set)
    """Texts that were forgotten."""
    lives: int = 0

    def standing(self) -> list[Deed]:
        """The operations that stand: those that were not taken back, or were done again; in their first order."""
        toggles = [one.root.id for one in self.deeds if one.undoes is not None]
        return [one for one in self.deeds if one.undoes is None and toggles.count(one.id) % 2 == 0]

    def now(self) -> dict[str, dict[str, Any]]:
        """What there is, by id."""
        state: dict[str, dict[str, Any]] = {}
        for deed in self.standing():
            for memory, effect in deed.effects.items():
                if effect is None:
                    state.pop(memory, None)
                else:
                    state[memory] = {**state.get(memory, {}), **effect}
        return state

    def held(self, at: datetime, now: datetime) -> list[tuple[str, str]]:
        """What is held today to have been so at a time."""
        open_: dict[str, tuple[datetime, dict[str, Any]]] = {}
        spans: list[tuple[str, datetime, datetime, dict[str, Any]]] = []
        for deed in self.standing():
            begins = [
                effect["valid_from"] or deed.at for effect in deed.effects.values() if effect and "text" in effect
            ]
            for memory, effect in deed.effects.items():
                if deed.kind == "forget":
                    open_.pop(memory, None)
                    spans = [span for span in spans if span[0] != memory]
                    continue
                if effect is not None and "text" not in effect:
                    if memory in open_:
                        open_[memory] = (open_[memory][0], {**open_[memory][1], **effect})
                    continue
                begin = begins[0]
                if effect is not None and deed.kind == "end":
                    begin = effect["valid_from"] or open_[memory][0]
                if memory in open_:
                    start, old = open_.pop(memory)
                    spans.append((memory, start, begin, old))
                if effect is not None and deed.kind == "remember":
                    open_[memory] = (effect["valid_from"] or FIRST, effect)
                elif effect is not None:
                    open_[memory] = (begin, {**old, **effect})
        spans += [(memory, start, None, old) for memory, (start, old) in open_.items()]
        return sorted(
            (memory, old["text"])
            for memory, start, stop, old in spans
            if start <= at
            and (stop is None or at < stop)
            and (old["valid_to"] is None or at < old["valid_to"])
            and self.shown(memory, old["life"], now)
        )

    def known(self, at: datetime, held: datetime, now: datetime) -> list[tuple[str, str]]:
        """What was known at a time to hold at another one."""
        return sorted(
            (one.memory, one.content["text"])
            for one in self.periods
            if one.recorded <= at
            and (one.retired is None or at < one.retired)
            and valid(one.content, held)
            and self.shown(one.memory, one.life, now)
        )

    def shown(self, memory: str, life: int, now: datetime) -> bool:
        marks = self.marks[memory, life]
        return not marks["disabled"] and (marks["expires_at"] is None or marks["expires_at"] > now)

    def in_the_way(self, deed: Deed) -> bool:
        """Whether a deed cannot be taken back."""
        later = self.deeds[self.deeds.index(deed) + 1 :]
        if deed.kind == "forget" or self.undone(deed):
            return True
        for memory in deed.root.effects:
            if any(one.kind == "forget" and memory in one.effects for one in later):
                return True
            on = [one for one in later if memory in one.root.effects]
            odd = {one.root.id: one for one in on if sum(other.root is one.root for other in on) % 2}
            mine = deed.touches(memory)
            for one in odd.values():
                if "*" in mine | one.touches(memory) or mine & one.touches(memory):
                    return True
        return False

    def undone(self, deed: Deed) -> bool:
        """Whether an operation that takes *deed* back stands."""
        return any(one.undoes is deed and not self.undone(one) for one in self.deeds)

    def record(self, deed: Deed, before: dict[str, dict[str, Any]]) -> None:
        """Put *deed* at the end, and write down what is known from now on."""
        self.deeds.append(deed)
        after = self.now()
        for memory in deed.root.effects:
            old, new = before.get(memory), after.get(memory)
            same = old is not None and new is not None and deed.root.kind in ("mark",)
            if not same:
                for period in self.periods:
                    if period.memory == memory and period.retired is None:
                        period.retired = deed.at
                if new is not None:
                    content = {name: new[name] for name in CONTENT}
                    self.periods.append(Period(memory, new["life"], deed, content, deed.at))
            if new is not None:
                self.remark(memory, old, new)

    def remark(self, memory: str, old: dict[str, Any] | None, new: dict[str, Any]) -> None:
        key = (memory, new["life"])
        self.marks.setdefault(key, {name: new[name] for name in ("disabled", "expires_at")})
        for name in ("disabled", "expires_at") if old is not None and old["life"] == new["life"] else ():
            for (other, _), marks in self.marks.items():
                if other == memory and marks[name] == old[name]:
                    marks[name] = new[name]

    def merged_into(self, memory: str) -> list[str]:
        """What was merged into a memory, and into that, and is not there any more."""
        found: list[str] = []
        left = [memory]
        while left:
            one = left.pop()
            for period in self.periods:
                if period.memory == one and period.deed.kind == "merge" and next(iter(period.deed.effects)) == one:
                    gone = [other for other in period.deed.effects if other != one and other not in self.now()]
                    left += [other for other in gone if other not in found]
                    found += [other for other in gone if other not in found]
        return found

    def forget(self, memories: list[str]) -> None:
        self.gone |= {one.content["text"] for one in self.periods if one.memory in memories}
        self.periods = [one for one in self.periods if one.memory not in memories]
        for session, said in self.said.items():
            self.said[session] = [(memory, text) for memory, text in said if memory not in memories]


def valid(content: dict[str, Any], at: datetime) -> bool:
    start, stop = content["valid_from"], content["valid_to"]
    return (start is None or start <= at) and (stop is None or at < stop)


# --- the steps


class Life(RuleBasedStateMachine):
    """One memory and its model."""

    engine = "numpy"

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.model = Model()
        self.embedder = Moody()
        self.time = EPOCH
        self.words = 0
        self.sessions = 0
        self.memory = self.opened()

    def opened(self) -> LongTermMemory:
        url = "numpy:" if self.engine == "numpy" else f"sqlite:///{Path(self.folder.name) / 'm.db'}"
        return LongTermMemory(open_store(url), embedder=self.embedder, clock=lambda: self.time, zone=UTC)

    def teardown(self) -> None:
        assert self.memory.store.verify() == []
        run_sync(self.memory.close())
        self.no_byte_is_left()
        self.folder.cleanup()

    def no_byte_is_left(self) -> None:
        there = b"".join(path.read_bytes() for path in Path(self.folder.name).iterdir())
        left = [text for text in self.model.gone if text.split()[-1].encode() in there]
        assert left == [], f"forgotten, and in the file: {left}"

    def text(self) -> str:
        self.words += 1
        return f"{WORD} n{self.words:06d}x"

    def pick(self, number: int) -> str:
        """One that is there, by its place: ids are drawn at random, and a run must be repeatable."""
        ids = list(self.model.now())
        return ids[number % len(ids)]

    def done(self, kind: str, effects: dict[str, dict[str, Any] | None], operation: str | None) -> None:
        assert operation is not None
        self.model.record(Deed(operation, kind, self.time, effects), self.before)

    def begin(self) -> dict[str, dict[str, Any]]:
        self.before = self.model.now()
        return self.before

    def fresh(self, text: str, **fields: Any) -> dict[str, Any]:
        self.model.lives += 1
        empty = {"valid_from": None, "valid_to": None, "pinned": False, "disabled": False, "tags": ()}
        return {"text": text, "life": self.model.lives, **empty, "importance": None, "expires_at": None, **fields}

    # remembering

    @rule(start=st.none() | MOMENTS, pinned=st.booleans(), disabled=st.booleans())
    def remember(self, start: datetime | None, pinned: bool, disabled: bool) -> None:
        self.begin()
        made = self.fresh(self.text(), valid_from=start, pinned=pinned, disabled=disabled and pinned)
        given = {name: value for name, value in made.items() if name != "life"}
        report = run_sync(self.memory.remember(Memory(**given)))
        assert (report.deferred is not None) == self.embedder.fails
        self.done("remember", {report.id: made}, report.operation)

    @rule(key=st.sampled_from(["k1", "k2"]), again=st.booleans())
    def remember_with_key(self, key: str, again: bool) -> None:
        before = self.begin()
        ids = [one.id for one in run_sync(self.memory.list(where={"key": key}))]
        text = before[ids[0]]["text"] if ids and again else self.text()
        if ids and not again:
            with pytest.raises(DuplicateKey):
                run_sync(self.memory.remember(Memory(text, key=key)))
            return
        report = run_sync(self.memory.remember(Memory(text, key=key)))
        if ids:
            assert (report.outcome, report.id) == ("duplicate", ids[0])
        else:
            self.done("remember", {report.id: self.fresh(text)}, report.operation)

    @precondition(lambda self: len(self.model.now()) < 60)
    @rule(count=st.integers(1, 4))
    def remember_many(self, count: int) -> None:
        self.begin()
        made = [self.fresh(self.text()) for _ in range(count)]
        reports = run_sync(self.memory.remember_many([one["text"] for one in made]))
        effects = {report.id: one for report, one in zip(reports, made, strict=True)}
        self.done("remember", effects, reports[0].operation)

    @precondition(lambda self: len(self.model.now()) < 60)
    @rule()
    def remember_turn(self) -> None:
        self.begin()
        self.sessions += 1
        made = [self.fresh(self.text()) for _ in range(2)]
        messages = [Message.user(made[0]["text"]), Message.assistant(made[1]["text"])]
        reports = run_sync(self.memory.remember_turn(f"s{self.sessions}", messages))
        effects = {report.id: one for report, one in zip(reports, made, strict=True)}
        self.model.said[f"s{self.sessions}"] = [(id, one["text"]) for id, one in effects.items()]
        self.done("remember", effects, reports[0].operation)

    # changing

    @precondition(lambda self: self.model.now())
    @rule(number=PICK, start=st.none() | MOMENTS)
    def correct(self, number: int, start: datetime | None) -> None:
        before, one, text = self.begin(), self.pick(number), self.text()
        old = before[one]
        start = start or old["valid_from"]
        if start is not None and old["valid_to"] is not None and old["valid_to"] < start:
            start = old["valid_from"]
        report = run_sync(self.memory.correct(one, text, valid_from=start))
        new = {"text": text, "valid_from": start, "valid_to": old["valid_to"]}
        self.done("correct", {one: new}, report.operation)

    @precondition(lambda self: self.model.now())
    @rule(number=PICK, stop=st.none() | MOMENTS)
    def end(self, number: int, stop: datetime | None) -> None:
        before, one = self.begin(), self.pick(number)
        old = before[one]
        if stop is not None and old["valid_from"] is not None and stop < old["valid_from"]:
            stop = old["valid_from"]
        report = run_sync(self.memory.end(one, stop))
        if stop == old["valid_to"]:
            assert report.operation is None
            return
        self.done(
            "end", {one: {"text": old["text"], "valid_from": old["valid_from"], "valid_to": stop}}, report.operation
        )

    @precondition(lambda self: len([one for one in self.model.now().values() if not one["disabled"]]) > 1)
    @rule(number=PICK, count=st.integers(2, 3))
    def merge(self, number: int, count: int) -> None:
        before = self.begin()
        able = [one for one, state in before.items() if not state["disabled"]]
        chosen = list(dict.fromkeys(able[(number + i) % len(able)] for i in range(count)))
        states, text = [before[one] for one in chosen], self.text()
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
        new = {
            "text": text,
            "valid_from": None if None in starts else min(starts),
            "valid_to": None if None in stops else max(stops),
            **{name: value for name, value in marks.items() if value != states[0][name]},
        }
        self.done("merge", {chosen[0]: new, **dict.fromkeys(chosen[1:])}, report.operation)

    def mark(self, ids: list[str], call: Callable[[], Any], name: str, new: Callable[[Any], Any]) -> None:
        before = self.begin()
        changed = {one: new(before[one][name]) for one in ids if new(before[one][name]) != before[one][name]}
        operation = run_sync(call())
        assert (operation is None) == (not changed)
        if changed:
            self.done("mark", {one: {name: value} for one, value in changed.items()}, operation.id)

    @precondition(lambda self: self.model.now())
    @rule(number=PICK, other=PICK, pinned=st.booleans())
    def pin(self, number: int, other: int, pinned: bool) -> None:
        ids = list(dict.fromkeys([self.pick(number), self.pick(other)]))
        call = self.memory.pin if pinned else self.memory.unpin
        self.mark(ids, lambda: call(ids), "pinned", lambda _: pinned)

    @precondition(lambda self: self.model.now())
    @rule(number=PICK, disabled=st.booleans())
    def disable(self, number: int, disabled: bool) -> None:
        one = self.pick(number)
        call = self.memory.disable if disabled else self.memory.enable
        self.mark([one], lambda: call(one), "disabled", lambda _: disabled)

    @precondition(lambda self: self.model.now())
    @rule(number=PICK, tag=st.sampled_from("abc"), on=st.booleans())
    def tag(self, number: int, tag: str, on: bool) -> None:
        one = self.pick(number)
        if on:
            self.mark([one], lambda: self.memory.tag(one, [tag]), "tags", lambda old: tuple(dict.fromkeys((*old, tag))))
        else:
            self.mark(
                [one], lambda: self.memory.untag(one, [tag]), "tags", lambda old: tuple(x for x in old if x != tag)
            )

    @precondition(lambda self: self.model.now())
    @rule(number=PICK, weight=st.sampled_from([None, 0.0, 0.5, 1.0]))
    def weigh(self, number: int, weight: float | None) -> None:
        one = self.pick(number)
        self.mark([one], lambda: self.memory.set_importance(one, weight), "importance", lambda _: weight)

    @precondition(lambda self: self.model.now())
    @rule(number=PICK, at=st.none() | MOMENTS)
    def expire(self, number: int, at: datetime | None) -> None:
        one = self.pick(number)
        self.mark([one], lambda: self.memory.expire(one, at), "expires_at", lambda _: at)

    # taking back

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
    @rule(number=PICK)
    def undo_any(self, number: int) -> None:
        self.take_back(self.model.deeds[-1 - number % min(len(self.model.deeds), 8)])

    @precondition(lambda self: self.model.periods)
    @rule(number=PICK)
    def forget(self, number: int) -> None:
        """Those too that were undone or merged away, of which only old versions are left."""
        ids = list(dict.fromkeys(period.memory for period in self.model.periods))
        one = ids[number % len(ids)]
        also = self.model.merged_into(one)
        receipt = run_sync(self.memory.forget([one]))
        assert (receipt.memories, receipt.derived, receipt.also) == ((one,), (), tuple(sorted(also)))
        assert receipt.operation is not None
        self.model.forget([one, *also])
        self.model.deeds.append(Deed(receipt.operation, "forget", self.time, dict.fromkeys([one, *also])))

    # the world

    @rule(days=st.sampled_from([-30, -1, 1, 1, 5, 60]))
    def clock_jumps(self, days: int) -> None:
        self.time += timedelta(days=days, seconds=7)

    @rule()
    def embedder_changes_its_mood(self) -> None:
        self.embedder.fails = not self.embedder.fails

    @rule()
    def flush(self) -> None:
        run_sync(self.memory.flush())
        if not self.embedder.fails:
            assert run_sync(self.memory.pending()) == 0

    @precondition(lambda self: self.engine == "sqlite")
    @rule()
    def restart(self) -> None:
        run_sync(self.memory.close())
        self.no_byte_is_left()
        self.memory = self.opened()
        assert run_sync(self.memory.complete()) == 0

    # looking

    @invariant()
    def what_there_is_agrees(self) -> None:
        now = self.model.now()
        names = (*CONTENT, *MARKS)
        every = run_sync(self.memory.list(limit=9999))
        listed = {one.id: {name: getattr(one, name) for name in names} for one in every}
        assert listed == {one: {name: state[name] for name in names} for one, state in now.items()}

    @rule()
    def recall_agrees(self) -> None:
        expected = sorted(
            (one, state["text"])
            for one, state in self.model.now().items()
            if valid(state, self.time) and self.model.shown(one, state["life"], self.time)
        )
        assert self.recalled() == expected

    def moment(self, at: datetime | int) -> datetime:
        """A time, or that of one of the operations."""
        if isinstance(at, datetime):
            return at
        return self.model.deeds[at % len(self.model.deeds)].at if self.model.deeds else self.time

    @rule(at=LOOKED_AT)
    def recall_of_a_time_agrees(self, at: datetime | int) -> None:
        at = self.moment(at)
        expected = self.model.held(at, self.time)
        assert self.recalled(as_of=at) == expected
        hiding = {"disabled": False, "expired": False}
        assert sorted(_named(one) for one in run_sync(self.memory.list(as_of=at, **hiding))) == expected

    @rule(at=LOOKED_AT, held=st.none() | LOOKED_AT)
    def recall_of_what_was_known_agrees(self, at: datetime | int, held: datetime | int | None) -> None:
        at, held = self.moment(at), None if held is None else self.moment(held)
        expected = self.model.known(at, held or self.time, self.time)
        assert self.recalled(known_at=at, as_of=held) == expected
        listed = run_sync(self.memory.list(known_at=at, as_of=held, disabled=False, expired=False))
        assert sorted(_named(one) for one in listed) == expected

    @precondition(lambda self: self.model.now())
    @rule(number=PICK)
    def history_agrees(self, number: int) -> None:
        one = self.pick(number)
        history = run_sync(self.memory.history(one))
        periods = [period.content["text"] for period in self.model.periods if period.memory == one]
        assert [version.text for version in history] == periods[::-1]
        deeds = [deed.id for deed in self.model.deeds if one in deed.root.effects]
        assert [operation.id for operation in history.operations] == deeds[::-1]

    @rule()
    def the_log_agrees(self) -> None:
        listed = run_sync(self.memory.operations(limit=1000))
        assert [(one.id, one.undoes) for one in listed] == [
            (deed.id, deed.undoes and deed.undoes.id) for deed in reversed(self.model.deeds)
        ]
        for one, deed in zip(listed, reversed(self.model.deeds), strict=True):
            assert to_text(one.at) == to_text(deed.at)

    @precondition(lambda self: self.model.said)
    @rule(number=PICK)
    def what_was_said_agrees(self, number: int) -> None:
        session = list(self.model.said)[number % len(self.model.said)]
        said = run_sync(self.memory.conversations.load(session))
        assert [(one.memory, one.message.text) for one in said] == self.model.said[session]

    @rule()
    def counts_agree(self) -> None:
        now = self.model.now().values()
        stats = run_sync(self.memory.stats())
        assert stats.memories == len(now)
        assert stats.lanes["archive"] == len(self.model.periods) - len(now)
        assert (stats.pinned, stats.disabled) == tuple(sum(one[name] for one in now) for name in ("pinned", "disabled"))
        expired = [one["expires_at"] is not None and one["expires_at"] <= self.time for one in now]
        assert stats.expired == sum(expired)

    def recalled(self, **options: Any) -> list[tuple[str, str]]:
        found = run_sync(self.memory.recall(WORD, 500, **options))
        ids = [hit.memory.id for hit in found] + [left.id for left in found.left_out]
        return sorted(_named(one) for one in run_sync(self.memory.get(ids)) if one is not None)


def _named(one: Memory) -> tuple[str, str]:
    return (one.id.partition("@")[0], one.text)


class LifeOnDisk(Life):
    """The same in a file, with restarts."""

    engine = "sqlite"


@pytest.mark.parametrize("machine", [Life, LifeOnDisk])
def test_thousands_of_steps_agree_with_a_plain_model(machine: type[Life], request: pytest.FixtureRequest) -> None:
    full = request.config.getoption("--life") == "full"
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=600 if full else 30,
            derandomize=not full,
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=checks,
            database=None,
        ),
    )
