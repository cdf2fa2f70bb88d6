"""One race: all stores on one set of rows, filled, opened cold, asked, written to, in turns."""

from __future__ import annotations

import random
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.about import load, version_of
from benchmarks.child import in_turns as processes_in_turns
from benchmarks.child import printed
from benchmarks.stores import measures as m
from benchmarks.stores.asking import Asked, Call, StoreFailed, in_turns
from benchmarks.stores.contenders import Contender
from benchmarks.stores.data import Data
from benchmarks.stores.measurement import Failure, Results, measured
from benchmarks.stores.truth import Truth

K = 10
_AGREED = 20
"""Queries whose answers an exact store must have right before anything is timed; filtered ones of the others too."""
_SEEN_CALLS = 6
_BASELINE = "import numpy, apsw, pydantic; print(1, flush=True)"
_COLD = "benchmarks.stores.cold"
_ADD_AT, _SEEN_AT, _ELSEWHERE_AT, _DELETE_AT = 0, 400, 800, 1_200
"""Offsets of the extra rows of each measure of writing."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Extent of a race: *rounds* of at most *calls* calls or *seconds* seconds."""

    rounds: int = 10
    calls: int = 12
    seconds: float = 0.5
    bulk_rounds: int = 3
    cold_rounds: int = 7
    recall_queries: int = 200


class Race:
    """The stores *contenders* on the rows in *data*; what was measured, and what failed, is added to *results*."""

    def __init__(
        self, contenders: Sequence[Contender], data: Path, folder: Path, results: Results, *, seed: int, pace: Pace,
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._contenders = {item.key: item for item in contenders}
        self._data_folder, self._folder, self._results = data, folder, results
        self._data = Data(data)
        self._seed, self._pace, self._say = seed, pace, say
        self._rng = random.Random(seed)
        self._failed: set[tuple[str, str]] = set()

    def run(self, *, reading_only: bool) -> None:
        """Run the whole race; *reading_only* leaves cold starts, memory and what is written one by one out."""
        about = self._data.about
        made = f"{about.n:,} {about.name}: {about.made}; load average {load()} before it"
        self._results.about.setdefault("rows", []).append(made)
        self._fill(again=not reading_only)
        self._weigh()
        if not reading_only:
            self._cold()
        with ExitStack() as stack:
            stores = self._started(stack)
            self._check(stores)
            self._read(stores)
            if not reading_only:
                self._write(stores)

    def folder_of(self, key: str) -> Path:
        """Return the folder of a store's files."""
        return self._folder / key

    def record(
        self, store: str, measure: str, blocks: Sequence[Sequence[float]], *, recall: float | None = None
    ) -> None:
        """Keep a measurement of this race."""
        about, contender = self._data.about, self._contenders.get(store)
        version = version_of(contender.package) if contender else "-"
        rows = {"data": about.name, "n": about.n, "d": about.d, "version": version}
        recall = None if recall is None else round(recall, 4)
        self._results.measurements.append(measured(store, measure, blocks, recall=recall, **rows))

    def _fill(self, *, again: bool) -> None:
        """Fill every store, and with *again* some that are thrown away, with texts and without."""
        self._say("filling")
        fillers = [item for item in self._contenders.values() if item.file_of is None]
        rates: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
        for number in range(self._pace.bulk_rounds if again else 1):
            for contender in self._rng.sample(fillers, len(fillers)):
                folder = self.folder_of(contender.key) if number == 0 else self._folder / "spare"
                if contender.key in self._contenders:
                    for measure, rate in self._rates(contender, folder, without_text=again):
                        rates[contender.key, measure].append([rate])
                        self._say(f"  {contender.title}: {measure} {rate:,.0f} rows/s")
                shutil.rmtree(self._folder / "spare", ignore_errors=True)
        for (key, measure), blocks in rates.items():
            self.record(key, measure, blocks)
        for contender in [item for item in self._contenders.values() if item.file_of is not None]:
            if self.folder_of(contender.file_of or "").is_dir():
                shutil.copytree(self.folder_of(contender.file_of or ""), self.folder_of(contender.key))
            else:
                self._fail(contender, "everything", f"there is no file of {contender.file_of} to open")

    def _rates(self, contender: Contender, folder: Path, *, without_text: bool) -> Iterator[tuple[str, float]]:
        """Fill a store in *folder*, and one without texts beside it; yield the rows a second of each."""
        n = self._data.about.n
        try:
            with closing(Asked(contender, folder, self._data_folder)) as asked:
                yield m.BULK_TEXT, n / asked.ask("fill", text=True)["seconds"]
                if without_text:
                    beside = str(self._folder / "spare" / "without")
                    yield m.BULK, n / asked.ask("fill", text=False, into=beside)["seconds"]
                asked.ask("close")
        except StoreFailed as error:
            self._fail(contender, "everything", str(error))

    def _weigh(self) -> None:
        for key, contender in self._contenders.items():
            if "file" in contender.measures:
                size = sum(file.stat().st_size for file in self.folder_of(key).rglob("*") if file.is_file())
                self.record(key, m.FILE, [[size / 1e6]])

    def _cold(self) -> None:
        """Start each store in new processes for a vector, and for a text where it can; weigh its memory."""
        self._say("opening cold")
        about = self._data.about
        commands = {(m.IMPORTS, m.COLD): (sys.executable, "-c", _BASELINE)}
        opened = [item for item in self._contenders.values() if "cold" in item.measures]
        words = {
            item.key: (item.adapter, str(self.folder_of(item.key)), str(about.d), str(about.n), str(self._data_folder))
            for item in opened
        }
        for item in opened:
            commands[item.key, m.COLD] = (sys.executable, "-m", _COLD, "vector", *words[item.key])
            if "text" in item.measures:
                commands[item.key, m.COLD_TEXT] = (sys.executable, "-m", _COLD, "text", *words[item.key])

        def failed(name: tuple[str, str], why: str) -> None:
            self._fail(self._contenders[name[0]], name[1], why)

        started = processes_in_turns(commands, rounds=self._pace.cold_rounds, seed=self._seed, failed=failed)
        for (key, measure), starts in started.items():
            self.record(key, measure, [[seconds] for seconds in starts.first])
        for item in opened:
            try:
                used = printed(_COLD, "memory", *words[item.key])
            except RuntimeError as error:
                self._fail(item, m.MEMORY, str(error))
            else:
                self.record(item.key, m.MEMORY, [[used]])

    def _started(self, stack: ExitStack) -> dict[str, Asked]:
        stores = {}
        for key, contender in list(self._contenders.items()):
            try:
                asked = Asked(contender, self.folder_of(key), self._data_folder)
            except StoreFailed as error:
                self._fail(contender, "everything", str(error))
            else:
                stores[key] = stack.enter_context(closing(asked))
        return stores

    def _check(self, stores: Mapping[str, Asked]) -> None:
        """Exact stores must be right, our own agree to the last digit, rows that come back be the right ones."""
        self._say("checking answers")
        truth = Truth(self._data, max(self._pace.recall_queries, 64))
        self._recalls: dict[tuple[str, str], float] = {}
        marks: dict[str, dict[str, str]] = {}
        for key, store in stores.items():
            contender = store.contender
            asked = {m.SEARCH: self._pace.recall_queries} if contender.approximate else {}
            kinds: dict[str, str | None] = {m.SEARCH: None}
            if "filter" in contender.measures:
                kinds |= m.FILTERS
            try:
                for measure, kind in kinds.items():
                    answer = store.ask("answers", count=asked.get(measure, _AGREED), k=K, kind=kind)
                    if not answer["rows"]:
                        raise StoreFailed(f"{measure}: a row came back with another text or kind")
                    self._recalls[key, measure] = truth.recall(answer["ids"], K, kind)
                    if contender.ours and not contender.approximate:
                        marks.setdefault(measure, {}).setdefault(answer["mark"], key)
                        if len(marks[measure]) > 1:
                            raise StoreFailed(f"{measure}: other scores than {next(iter(marks[measure].values()))}")
                if "many" in contender.measures:
                    self._recalls[key, m.MANY] = truth.recall(store.ask("many_answers", k=K)["ids"], K)
            except StoreFailed as error:
                if "search" in contender.measures:
                    self._fail(contender, "answers", str(error))
                continue
            for measure in [*kinds, m.MANY]:
                got = self._recalls.get((key, measure), 1.0)
                if got < 1.0 and not contender.approximate:
                    self._fail(contender, measure, f"an exact store found only {got:.3f} of the truth")

    def _read(self, stores: Mapping[str, Asked]) -> None:
        block = {"calls": self._pace.calls, "seconds": self._pace.seconds, "k": K}

        def asking(what: str, **more: Any) -> Call:
            return lambda store, at: store.times("timed", what=what, start=at * self._pace.calls, **block, **more)

        self._turns(stores, m.SEARCH, "search", asking("search"))
        for measure, kind in m.FILTERS.items():
            self._turns(stores, measure, "filter", asking("search", kind=kind))
        self._turns(stores, m.TEXT, "text", asking("text"))
        self._turns(stores, m.MANY, "many", asking("many"), rounds=min(4, self._pace.rounds))

    def _write(self, stores: Mapping[str, Asked]) -> None:
        calls = self._pace.calls

        def add(store: Asked, at: int) -> list[float]:
            return store.times("add", extra=_extra(_ADD_AT, at, calls))

        def seen(store: Asked, at: int) -> list[float]:
            return store.times("add_and_see", extra=_extra(_SEEN_AT, at, _SEEN_CALLS))

        def delete(store: Asked, at: int) -> list[float]:
            store.ask("add_together", extra=_extra(_DELETE_AT, at, calls))
            return store.times("delete", extra=_extra(_DELETE_AT, at, calls))

        self._turns(stores, m.ADD, "add", add)
        self._turns(stores, m.SEEN, "seen", seen)
        self._seen_elsewhere(stores)
        self._turns(stores, m.DELETE, "delete", delete)

    def _seen_elsewhere(self, stores: Mapping[str, Asked]) -> None:
        with ExitStack() as stack:
            durable = {key: store for key, store in stores.items() if store.contender.durable}
            others = {
                key: stack.enter_context(closing(Asked(store.contender, self.folder_of(key), self._data_folder)))
                for key, store in durable.items()
                if "seen" in store.contender.measures
            }
            for other in others.values():
                other.ask("answers", count=2, k=K)

            def elsewhere(store: Asked, at: int) -> list[float]:
                times = []
                for extra in _extra(_ELSEWHERE_AT, at, _SEEN_CALLS):
                    (wrote,) = store.times("add", extra=[extra])
                    answer = others[store.contender.key].ask("see", extra=extra)
                    if not answer["seen"]:
                        raise StoreFailed("another process did not find the row that was just written")
                    times.append(wrote + answer["times"][0])
                return times

            self._turns({key: stores[key] for key in others}, m.SEEN_ELSEWHERE, "seen", elsewhere)

    def _turns(
        self, stores: Mapping[str, Asked], measure: str, needs: str, call: Call, *, rounds: int | None = None
    ) -> None:
        self._say(measure)
        able = [store for key, store in stores.items() if needs in store.contender.measures and key in self._contenders]
        able = [store for store in able if (store.contender.key, measure) not in self._failed]

        def failed(contender: Contender, why: str) -> None:
            self._fail(contender, measure, why)

        counted = in_turns(able, rounds or self._pace.rounds, call, self._rng, failed=failed)
        for key, blocks in counted.items():
            self.record(key, measure, blocks, recall=self._recalls.get((key, measure)))

    def _fail(self, contender: Contender, what: str, why: str) -> None:
        self._say(f"  {contender.title}: {what} not measured: {why}")
        self._failed.add((contender.key, what))
        self._results.failures.append(Failure(contender.key, what, why, self._data.about.name, self._data.about.n))
        if what in ("everything", "answers"):
            self._contenders.pop(contender.key, None)


def _extra(start: int, at: int, count: int) -> list[int]:
    """Return the extra rows of round *at*, *count* a round."""
    return list(range(start + at * count, start + (at + 1) * count))
