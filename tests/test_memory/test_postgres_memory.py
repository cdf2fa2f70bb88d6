"""A memory on a server: the same calls as on a file, two workers on one memory, and what is said of erased bytes.

A move is broken off inside of ``tellback.vectorstore.table_copy``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tellback.vectorstore.table_copy as table_copy
from tellback.memory import (
    ArgumentError,
    HashingEmbedder,
    LongTermMemory,
    Memory,
    Message,
    migrate_memory,
    open_memory,
    run_sync,
)
from tellback.vectorstore import Connection, NotAStore, UnsupportedError
from tests.support.postgres import PostgresServer, counted_round_trips
from tests.support.slow import first_fast
from tests.support.snippets import Block, blocks

TEXTS = ["I moved to Lisbon in May.", "My dentist is Doctor Weber.", "The cellar has a quagga in it."]


@pytest.fixture
def worker(postgres: PostgresServer, tmp_path: Path) -> Callable[[], Any]:
    @contextmanager
    def opened() -> Iterator[LongTermMemory]:
        memory = open_memory(postgres.address(tmp_path), embedder=HashingEmbedder())
        try:
            yield memory
        finally:
            run_sync(memory.close())

    return opened


def texts(memory: LongTermMemory, question: str, **options: Any) -> list[str]:
    return [hit.memory.text for hit in run_sync(memory.recall(question, **options)).hits]


def test_what_one_worker_remembers_another_recalls_at_its_next_call(worker: Callable[[], Any]) -> None:
    with worker() as one, worker() as two:
        for text in TEXTS:
            run_sync(one.remember(text))
            assert texts(two, text)[0] == text
        (id,) = [memory.id for memory in run_sync(two.list()) if "dentist" in memory.text]
        run_sync(two.correct(id, "My dentist is Doctor Bauer."))
        assert texts(one, "Who is my dentist?")[0] == "My dentist is Doctor Bauer."
        run_sync(one.undo(run_sync(one.operations())[0].id))
        assert texts(two, "Who is my dentist?")[0] == "My dentist is Doctor Weber."
    with worker() as again:
        assert sorted(memory.text for memory in run_sync(again.list())) == sorted(TEXTS)
        assert again.store.verify() == []


def test_remembering_waits_for_the_server_four_times(worker: Callable[[], Any]) -> None:
    with counted_round_trips() as counted, worker() as memory:
        run_sync(memory.remember_many([f"Note {number} is about the cellar." for number in range(30)]))
        begun = counted()
        for number, text in enumerate(TEXTS):
            assert run_sync(memory.remember(f"{text} Word{number} is new.")).stored
        assert counted() - begun <= 4 * len(TEXTS)
        begun = counted()
        run_sync(memory.remember_many([f"Letter {number} is from Ana." for number in range(200)]))
        assert counted() - begun <= 5  # as many for a batch


def test_answers_on_a_server_equal_those_of_a_file(worker: Callable[[], Any], tmp_path: Path) -> None:
    file = open_memory(tmp_path / "m.db", embedder=HashingEmbedder())
    with worker() as server:
        for number, text in enumerate(TEXTS * 3):
            memory = Memory(f"{text} Number {number}.", id=f"m{number}", tags=["a"] if number % 2 else [])
            for home in (file, server):
                run_sync(home.remember(memory))
        for question in ("Where do I live?", "dentist", "Number 4", "cellar quagga"):
            results = [run_sync(home.recall(question, k=5)).hits for home in (file, server)]
            scored = [[(hit.memory.id, round(hit.score, 6)) for hit in hits] for hits in results]
            assert scored[0] == scored[1], question
    run_sync(file.close())


def test_writers_of_many_workers_lose_no_memory_and_fold_the_same_text_once(worker: Callable[[], Any]) -> None:
    def remember(number: int) -> None:
        with worker() as memory:
            for text in TEXTS:
                run_sync(memory.remember(text, namespace="shared"))
                run_sync(memory.remember(f"{text} Number {number}.", namespace=f"own{number}"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(remember, range(4)))
    with worker() as memory:
        assert sorted(item.text for item in run_sync(memory.list(namespace="shared"))) == sorted(TEXTS)
        for number in range(4):
            assert len(run_sync(memory.list(namespace=f"own{number}"))) == 3
        assert memory.store.verify() == []


def test_clocks_of_workers_that_differ_change_neither_the_order_of_the_log_nor_what_holds(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    ahead, behind = (
        open_memory(postgres.address(tmp_path), embedder=HashingEmbedder(), clock=lambda at=at: at)
        for at in (now + timedelta(hours=2), now)
    )
    id = run_sync(ahead.remember("My dentist is Doctor Weber.")).id
    run_sync(behind.correct(id, "My dentist is Doctor Bauer."))
    run_sync(ahead.remember_turn("s", [Message.user("First."), Message.assistant("Yes.")]))
    run_sync(behind.remember_turn("s", [Message.user("Second."), Message.assistant("Yes.")]))
    for memory in (ahead, behind):
        assert texts(memory, "Who is my dentist?")[0] == "My dentist is Doctor Bauer."
        said = [kept.message.text for kept in run_sync(memory.conversations.load("s"))]
        assert said == ["First.", "Yes.", "Second.", "Yes."]
    corrected = next(done for done in run_sync(ahead.operations()) if done.kind == "correct")
    run_sync(ahead.undo(corrected.id))
    assert texts(behind, "Who is my dentist?")[0] == "My dentist is Doctor Weber."
    for memory in (ahead, behind):
        run_sync(memory.close())


def test_the_bulk_load_of_one_namespace_stalls_no_recall_of_another(worker: Callable[[], Any]) -> None:
    with worker() as loading, worker() as asking, ThreadPoolExecutor(1) as pool:
        run_sync(asking.remember(TEXTS[0], namespace="b"))
        load = [f"{text} Number {number}." for number in range(500) for text in TEXTS]
        done = pool.submit(run_sync, loading.remember_many(load, namespace="a"))
        answered = 0
        while not done.done():
            assert texts(asking, "Lisbon", namespace="b")[0] == TEXTS[0]
            assert run_sync(asking.remember(f"Note {answered}.", namespace="b")).stored
            answered += 1
        assert answered > 5
        assert len(done.result()) == len(load)


def test_a_turn_keeps_its_messages_and_their_memories_in_one_transaction(worker: Callable[[], Any]) -> None:
    with worker() as memory:
        turn = [Message.user("I keep bees in the garden."), Message.assistant("Noted.")]
        run_sync(memory.remember_turn("s", turn))
        assert [kept.message.text for kept in run_sync(memory.conversations.load("s"))] == [m.text for m in turn]
        assert texts(memory, "bees")[0] == "I keep bees in the garden."


def test_a_forgetting_leaves_no_row_and_its_receipt_names_what_a_server_keeps(worker: Callable[[], Any]) -> None:
    with worker() as memory:
        for text in TEXTS:
            run_sync(memory.remember(text))
        texts(memory, "quagga")
        (id,) = [item.id for item in run_sync(memory.list()) if "quagga" in item.text]
        receipt = run_sync(memory.forget([id]))
        assert [(copy.kind, copy.path) for copy in receipt.unreached] == [("server", "postgresql")]
        assert "write-ahead log" in receipt.unreached[0].note
        assert not any("quagga" in text for text in texts(memory, "quagga"))
        verified = run_sync(memory.verify_forgotten(receipt))
        assert verified.left == ()
        assert receipt.unreached[0].note in verified.notes
        with memory.database.read() as connection:
            for (table,) in connection.execute(connection.dialect.tables):
                rows = connection.execute(f"SELECT * FROM {table}")
                assert not [row for row in rows if "quagga" in repr(row)], table


def test_a_memory_moves_to_a_server_and_back_with_all_that_belongs_to_it(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    address, old, new = postgres.address(tmp_path), tmp_path / "old.db", tmp_path / "new.db"
    file = open_memory(old, embedder=HashingEmbedder())
    ids = [run_sync(file.remember(f"{text} \1\0")).id for text in TEXTS]
    run_sync(file.remember_turn("s", [Message.user("I keep bees."), Message.assistant("Noted.")]))
    run_sync(file.correct(ids[1], "My dentist is Doctor Bauer."))
    run_sync(file.forget([ids[2]]))
    before = _shown(file)
    run_sync(file.close())
    bytes_before = old.read_bytes()
    rows = migrate_memory(old, address)
    assert rows == migrate_memory(address, new)
    assert old.read_bytes() == bytes_before
    for place in (address, new):
        memory = open_memory(place, embedder=HashingEmbedder())
        assert _shown(memory) == before
        assert memory.store.verify() == []
        run_sync(memory.remember(Memory("Later.", key="later")))
        run_sync(memory.undo(run_sync(memory.operations())[0].id))
        assert run_sync(memory.remember(Memory(TEXTS[2], id=ids[2]))).reason == "forgotten"
        run_sync(memory.close())


@pytest.mark.parametrize("to_server", [True, False])
def test_a_move_that_is_broken_off_anywhere_goes_on_and_nobody_opens_a_part_of_it(
    to_server: bool, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / "m.db", postgres.address(tmp_path)]
    old, new = places if to_server else reversed(places)
    memory = open_memory(old, embedder=HashingEmbedder())
    run_sync(memory.remember_many([f"{text} Number {number}." for number in range(4) for text in TEXTS]))
    run_sync(memory.remember_turn("s", [Message.user("I keep bees."), Message.assistant("Noted.")]))
    before, batches = _shown(memory), table_copy._batches
    run_sync(memory.close())
    written: list[int] = []

    def breaking(connection: Connection, table: str, after: Sequence[Any] | None) -> Iterator[list[tuple[Any, ...]]]:
        for batch in batches(connection, table, after):
            written.append(len(batch))
            if len(written) % 7 == 0:
                raise ConnectionError("broken off")
            yield batch

    monkeypatch.setattr(table_copy, "_BATCH", 3)
    monkeypatch.setattr(table_copy, "_batches", breaking)
    for _ in range(3):
        with pytest.raises(ConnectionError):
            migrate_memory(old, new)
        with pytest.raises(NotAStore, match="has not ended"):
            open_memory(new)
    monkeypatch.setattr(table_copy, "_batches", batches)
    migrate_memory(old, new)
    moved = open_memory(new, embedder=HashingEmbedder())
    assert _shown(moved) == before
    run_sync(moved.close())


def test_a_dump_that_is_restored_is_the_memory_and_moves_into_a_file(
    worker: Callable[[], Any], postgres: PostgresServer, tmp_path: Path
) -> None:
    """After it the tables were made in another order."""
    with worker() as memory:
        run_sync(memory.remember_turn("s", [Message.user("I keep bees."), Message.assistant("Noted.")]))
        before, schema = _shown(memory), memory.database.schema
    dump, name = tmp_path / "dump", f"restored_{schema}"
    postgres.run("pg_dump", "-U", "owner", "-Fc", "-f", str(dump), f"--schema={schema}", "postgres")
    postgres.run("createdb", "-U", "owner", name)
    postgres.run("psql", "-q", "-U", "owner", "-c", "CREATE EXTENSION vector", name)
    postgres.run("pg_restore", "-U", "owner", "-d", name, str(dump))
    restored = postgres.address(tmp_path).replace("/postgres?", f"/{name}?")
    migrate_memory(restored, tmp_path / "m.db")
    for place in (restored, tmp_path / "m.db"):
        memory = open_memory(place, embedder=HashingEmbedder())
        assert _shown(memory) == before
        run_sync(memory.close())


def test_a_move_whose_original_was_written_between_its_parts_is_refused(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "m.db", postgres.address(tmp_path)
    memory = open_memory(old, embedder=HashingEmbedder())
    id = run_sync(memory.remember(TEXTS[0])).id
    monkeypatch.setattr(table_copy, "_compared", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        migrate_memory(old, new)
    monkeypatch.undo()
    run_sync(memory.correct(id, TEXTS[1]))
    run_sync(memory.close())
    with pytest.raises(ArgumentError, match="nobody writes"):
        migrate_memory(old, new)


def _shown(memory: LongTermMemory) -> list[Any]:
    hits = [run_sync(memory.recall(question)).hits for question in ("Lisbon", "dentist", "bees", "quagga")]
    return [
        [[(hit.memory, round(hit.score, 6)) for hit in found] for found in hits],
        run_sync(memory.list()),
        run_sync(memory.operations()),
        run_sync(memory.conversations.load("s")),
        memory.database.identity,
    ]


def test_a_place_that_holds_something_is_not_copied_to_and_stays_as_it_was(
    worker: Callable[[], Any], postgres: PostgresServer, tmp_path: Path
) -> None:
    with worker() as memory:
        run_sync(memory.remember(TEXTS[0]))
    file = tmp_path / "m.db"
    run_sync(open_memory(file, choose_local=False).close())
    for source, target in ((file, postgres.address(tmp_path)), (postgres.address(tmp_path), file)):
        with pytest.raises(ArgumentError, match="a new place is needed"):
            migrate_memory(source, target)
    with worker() as memory:
        assert [item.text for item in run_sync(memory.list())] == TEXTS[:1]


def test_a_backup_into_a_file_is_refused_by_name(worker: Callable[[], Any]) -> None:
    with worker() as memory, pytest.raises(UnsupportedError, match="in no file"):
        asyncio.run(memory.backup())


def _blocks() -> list[Block]:
    """Return the blocks that open a memory; those about its file apart."""
    found = [block for block in blocks() if block.language == "python" and 'open_memory("' in block.code]
    of_files = ("backup(", "salvage_memory(", "proof.files")
    return [block for block in found if not any(word in block.code for word in of_files)]


@pytest.mark.first_install
@pytest.mark.parametrize("block", first_fast(_blocks()), ids=str)
def test_the_documents_programs_run_on_a_server(
    block: Block, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    on_server = re.sub(
        r'open_memory\("(\w+\.db)"', lambda name: f'open_memory("{postgres.address(tmp_path / name[1])}"', block.code
    )
    exec(compile(on_server, f"{block.page}.md", "exec"), {"__name__": "__main__"})


def test_a_memory_with_an_index_on_the_server_recalls_the_same_and_loads_nothing(worker: Callable[[], Any]) -> None:
    notes = [f"The parcel number {number} waits at counter {number % 17}." for number in range(300)]
    with worker() as memory:
        run_sync(memory.remember_many([*notes, *TEXTS]))
        questions = ["Where does parcel number 211 wait?", "When did I move?", "Who is my dentist?"]
        before = [texts(memory, question)[0] for question in questions]
        (name,) = memory.store.namespaces()
        memory.store.build_index(name)
    with worker() as memory:
        assert [texts(memory, question)[0] for question in questions] == before
        run_sync(memory.remember("My optician is Doctor Roth."))
        assert texts(memory, "Who is my optician?")[0] == "My optician is Doctor Roth."
        id = run_sync(memory.recall("Who is my dentist?")).hits[0].memory.id
        run_sync(memory.forget([id]))
        assert all("dentist" not in text for text in texts(memory, "Who is my dentist?"))
        with memory.store.view([name]) as view:
            assert not view.in_memory(namespace=name)
