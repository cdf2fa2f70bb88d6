"""Model of a memory in plain Python: the model that ``test_life`` holds a real one against.

It knows no archive and no versions in place. What there is now, and what held at a time, it tells by playing the
operations that stand, in their order; what was known at a time, from a list of periods that is only ever appended to.
Two ids are one memory's two lives where it was undone and its key used anew; marks are kept for each life apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
CONTENT = ("text", "valid_from", "valid_to", "derived_from")
MARKS = ("pinned", "disabled", "tags", "importance", "expires_at")
HIDING = ("disabled", "expires_at")
State = dict[str, Any]


@dataclass
class Deed:
    """An operation: what it set of each memory (None: the memory went), and which it took back."""

    id: str
    kind: str
    at: datetime
    effects: dict[str, State | None]
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
    content: State
    recorded: datetime
    retired: datetime | None = None


@dataclass
class Model:
    """The state that a memory should have."""

    deeds: list[Deed] = field(default_factory=list)
    periods: list[Period] = field(default_factory=list)
    marks: dict[tuple[str, int], State] = field(default_factory=dict)
    said: dict[str, list[tuple[str, str, datetime]]] = field(default_factory=dict)
    """By session: what was said, each with its memory and when."""
    gone: set[str] = field(default_factory=set)
    """Texts that were forgotten."""
    lives: int = 0

    def fresh(self, text: str, **fields: Any) -> State:
        """Return the new fields of a memory."""
        self.lives += 1
        empty: State = {"valid_from": None, "valid_to": None, "derived_from": (), "pinned": False, "disabled": False}
        return {"text": text, "life": self.lives, **empty, "tags": (), "importance": None, "expires_at": None, **fields}

    def standing(self) -> list[Deed]:
        """The operations that stand: those that were not taken back, or were done again; in their first order."""
        toggles = [item.root.id for item in self.deeds if item.undoes is not None]
        return [item for item in self.deeds if item.undoes is None and toggles.count(item.id) % 2 == 0]

    def now(self) -> dict[str, State]:
        """Memories by id."""
        state: dict[str, State] = {}
        for deed in self.standing():
            for memory, effect in deed.effects.items():
                if effect is None:
                    state.pop(memory, None)
                else:
                    state[memory] = {**state.get(memory, {}), **effect}
        return state

    def held(self, at: datetime, now: datetime) -> list[tuple[str, str]]:
        """Return the memories valid at a time, as known today."""
        open_: dict[str, tuple[datetime, State]] = {}
        spans: list[tuple[str, datetime, datetime | None, State]] = []
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
                old: State = {}
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
        """Return the memories valid at one time, as known at another."""
        return sorted(
            (item.memory, item.content["text"])
            for item in self.periods
            if item.recorded <= at
            and (item.retired is None or at < item.retired)
            and valid(item.content, held)
            and self.shown(item.memory, item.life, now)
        )

    def present(self, now: datetime) -> list[tuple[str, str]]:
        """Return the memories that are current today."""
        return sorted(
            (item, state["text"])
            for item, state in self.now().items()
            if valid(state, now) and self.shown(item, state["life"], now)
        )

    def shown(self, memory: str, life: int, now: datetime) -> bool:
        marks = self.marks[memory, life]
        return not marks["disabled"] and (marks["expires_at"] is None or marks["expires_at"] > now)

    def in_the_way(self, deed: Deed) -> bool:
        """Return whether an operation cannot be undone."""
        later = self.deeds[self.deeds.index(deed) + 1 :]
        if deed.kind == "forget" or self.undone(deed):
            return True
        for memory in deed.root.effects:
            if any(item.kind == "forget" and memory in item.effects for item in later):
                return True
            on = [item for item in later if memory in item.root.effects]
            odd = {item.root.id: item for item in on if sum(other.root is item.root for other in on) % 2}
            mine = deed.touches(memory)
            for item in odd.values():
                if "*" in mine | item.touches(memory) or mine & item.touches(memory):
                    return True
        return False

    def undone(self, deed: Deed) -> bool:
        """Return whether an undo of *deed* is in effect."""
        return any(item.undoes is deed and not self.undone(item) for item in self.deeds)

    def record(self, deed: Deed, before: dict[str, State]) -> None:
        """Append *deed* and record what is known from now on."""
        self.deeds.append(deed)
        after = self.now()
        for memory in deed.root.effects:
            old, new = before.get(memory), after.get(memory)
            if not (old is not None and new is not None and deed.root.kind == "mark"):
                for period in self.periods:
                    if period.memory == memory and period.retired is None:
                        period.retired = deed.at
                if new is not None:
                    content = {name: new[name] for name in CONTENT}
                    self.periods.append(Period(memory, new["life"], deed, content, deed.at))
            if new is not None:
                self._remark(memory, old, new)

    def _remark(self, memory: str, old: State | None, new: State) -> None:
        """Hide a memory and those of its versions that had what it had."""
        self.marks.setdefault((memory, new["life"]), {name: new[name] for name in HIDING})
        for name in HIDING if old is not None and old["life"] == new["life"] else ():
            for (other, _), marks in self.marks.items():
                if old is not None and other == memory and marks[name] == old[name]:
                    marks[name] = new[name]

    def leaning_on(self, memory: str) -> list[str]:
        """Return the memories made of a memory alone, and of those alone."""
        return self._made_of(memory, {item: {*state["derived_from"]} for item, state in self.now().items()})

    def derived_from(self, memory: str) -> list[str]:
        """Return the memories derived from a memory; archived ones count with every source that they ever had."""
        moment = self.now()
        parents = {item: {*state["derived_from"]} for item, state in moment.items()}
        for period in self.periods:
            if period.memory not in moment:
                parents.setdefault(period.memory, set()).update(period.content["derived_from"])
        return self._made_of(memory, parents)

    def _made_of(self, memory: str, parents: dict[str, set[str]]) -> list[str]:
        gone = {memory}
        while more := {item for item, of in parents.items() if of and of <= gone} - gone:
            gone |= more
        return sorted(gone - {memory})

    def merged_into(self, memory: str) -> list[str]:
        """Return the memories that were merged into a memory, and into those."""
        found: list[str] = []
        left = [memory]
        while left:
            item = left.pop()
            for period in self.periods:
                if period.memory == item and period.deed.kind == "merge" and next(iter(period.deed.effects)) == item:
                    gone = [other for other in period.deed.effects if other != item and other not in self.now()]
                    left += [other for other in gone if other not in found]
                    found += [other for other in gone if other not in found]
        return found

    def forget(self, deed: Deed) -> None:
        """Erase the memories that *deed* names, with every reference to them."""
        gone = set(deed.effects)
        self.gone |= {item.content["text"] for item in self.periods if item.memory in gone}
        self.periods = [item for item in self.periods if item.memory not in gone]
        self.said = {session: [item for item in stated if item[0] not in gone] for session, stated in self.said.items()}
        effects = [effect for item in self.deeds for effect in item.effects.values() if effect is not None]
        for state in (*effects, *(item.content for item in self.periods)):
            if "derived_from" in state:
                state["derived_from"] = tuple(item for item in state["derived_from"] if item not in gone)
        self.deeds.append(deed)


def valid(content: State, at: datetime) -> bool:
    start, stop = content["valid_from"], content["valid_to"]
    return (start is None or start <= at) and (stop is None or at < stop)
