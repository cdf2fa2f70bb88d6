"""Entries in the order of a field: the same of every store, whatever is written meanwhile, without reading them all."""

import random
from itertools import islice

import apsw
import pytest

from tellback.vectorstore import (
    ArgumentError,
    BusyError,
    DamageError,
    Entry,
    Space,
    WrapperStore,
    open_store,
    scan_by,
    scan_position,
)
from tellback.vectorstore.internals import OrderedStore, scan_holding, scan_outlines
from tellback.vectorstore.sqlite import SqliteDatabase, entry_reader

FIELDS = ("said", "written")
VALUES = ["2026-01-02", "2026-01-01", "", "ä", "\U0001f600", "\ufffd", None, 5, 1.5, True, ["2026"], {"a": "2026"}]


class DataOnly:
    """A store that has the data part alone."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        if name not in ("upsert", "get", "scan", "space"):
            raise AttributeError(name)
        return getattr(self._store, name)


@pytest.fixture(params=["numpy", "sqlite", "wrapped", "data only", "no index"])
def filled(request, tmp_path, monkeypatch):
    """Return what opens a store with given entries in it."""
    if request.param == "no index":
        monkeypatch.setattr(entry_reader, "_make_order_index", lambda *_: None)
    opened = []

    def fill(entries, namespace="", space=None):
        numpy = request.param in ("numpy", "data only")
        url = "numpy:" if numpy else f"sqlite:///{tmp_path / f'{len(opened)}.db'}"
        store = open_store(url, space=space)
        opened.append(store)
        store.upsert(entries, namespace=namespace)
        return {"wrapped": WrapperStore, "data only": DataOnly}.get(request.param, lambda one: one)(store)

    yield fill
    for store in opened:
        store.close()


def entries_of(chance, count):
    for number in range(count):
        reported = {field: chance.choice(VALUES) for field in FIELDS if chance.random() < 0.7}
        yield Entry(f"{chance.randrange(10**6)}-{number}", metadata={**reported, "kind": chance.choice("ab")})


def test_scan_by_gives_the_same_order_in_every_store_from_any_position(filled):
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    entries = list(entries_of(chance, 400))
    store = filled(entries)
    for reverse in (False, True):
        for where in (None, {"kind": "a"}):
            right = [item for item in entries if where is None or item.metadata["kind"] == "a"]
            right.sort(key=lambda item: scan_position(item, FIELDS), reverse=reverse)
            found = scan_by(store, FIELDS, reverse=reverse, where=where)
            assert [item.id for item in found] == [item.id for item in right]
            for position in chance.sample(range(len(right)), 12):
                rest = scan_by(
                    store, FIELDS, reverse=reverse, where=where, after=scan_position(right[position], FIELDS)
                )
                assert [item.id for item in rest] == [item.id for item in right[position + 1 :]]


def test_scan_holding_yields_every_entry_that_holds_a_text_in_its_text_or_metadata(filled):
    store = filled(
        [
            Entry("a", text='She said "Zorb".'),
            Entry("b", text="plain", metadata={"tags": ["x", 'the "Zorb"\n']}),
            Entry("c", text="before\u2028Grüße", metadata={"kind": "note"}),
            Entry("d", text="plain", metadata={"zorbs": 1}),
            Entry("e", text="plain"),
        ]
    )
    store.upsert([Entry("f", text="Zorb")], namespace="other")
    wanted = {('"Zorb"',): "ab", ("Grüße", "zorbs"): "cd", ("\u2028",): "c", ("zorb",): "d", ("missing",): "", (): ""}
    reads_all = isinstance(store, DataOnly)
    for texts, ids in wanted.items():
        found = "".join(entry.id for entry in scan_holding(store, texts))
        assert found == ("abcde" if reads_all else ids), texts
    if not reads_all:
        assert [entry.id for entry in scan_holding(store, ["Grüße"], names=["note", "plain", "zorbs"])] == ["c", "d"]
    assert list(scan_holding(store, ["Zorb"], namespace="unknown")) == []


def test_scan_outlines_tells_what_a_scan_does_without_the_vectors(filled):
    entries = [Entry(f"{number:04}", [number, 1.0], "é" * number, "", {"odd": number % 2}) for number in range(300)]
    reason = Entry("reason", text="none", no_vector="too long")
    written = [*entries, Entry("pending", text="later"), reason]
    store = filled(written, namespace="mine", space=Space("s", 2))
    for where in (None, {"odd": 1}):
        right = [
            (entry.id, entry.text, entry.metadata, 8 * (entry.vector is not None), entry.id == "pending")
            for entry in store.scan(where=where, namespace="mine")
        ]
        found = scan_outlines(store, where=where, namespace="mine")
        assert [(o.id, o.text, o.metadata, o.vector_bytes, o.pending) for o in found] == right
    assert list(scan_outlines(store)) == []


def test_scan_outlines_raises_damage_error_for_a_changed_text(store):
    with store.database.write() as connection:
        connection.execute("UPDATE entries SET text = 'another' WHERE id = 'e00400'")
    with pytest.raises(DamageError, match="e00400"):
        list(scan_outlines(store))


def test_scan_by_reads_one_namespace_and_an_unknown_namespace_is_empty(filled):
    store = filled([Entry("a", metadata={"said": "1"})], namespace="mine")
    assert [item.id for item in scan_by(store, ["said"], namespace="mine")] == ["a"]
    assert list(scan_by(store, ["said"])) == []


def test_scan_by_returns_complete_entries(filled):
    store = filled([Entry("a", None, "the text", "its context", {"said": "1", "n": 2})])
    (found,) = scan_by(store, ["said"])
    assert (found.id, found.text, found.context, found.metadata) == (
        "a",
        "the text",
        "its context",
        {"said": "1", "n": 2},
    )


def test_scan_by_sees_concurrent_writes_only_ahead_of_its_position(filled):
    store = filled([Entry(f"{number:04}", metadata={"said": f"{number:04}"}) for number in range(0, 1200, 2)])
    if isinstance(store, DataOnly) or not isinstance(store, OrderedStore):
        pytest.skip("looks at every entry first")
    seen = []
    for entry in scan_by(store, ["said"]):
        seen.append(entry.id)
        if len(seen) == 400:
            store.upsert([Entry("before", metadata={"said": "0001"}), Entry("behind", metadata={"said": "1101"})])
            store.delete(["0100", "1150"])
    assert len(seen) == len(set(seen)) == 600
    assert "behind" in seen
    assert not {"before", "1150"} & set(seen)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"fields": []}, "fields"),
        ({"fields": "said"}, "fields"),
        ({"fields": ["it's"]}, "fields"),
        ({"fields": ["said", "said"]}, "fields"),
        ({"fields": ["said"], "after": "2026"}, "after"),
        ({"fields": ["said"], "after": ("2026",)}, "after"),
        ({"fields": ["said"], "after": (2026, "a")}, "after"),
    ],
)
def test_scan_by_refuses_invalid_fields_and_positions_by_name(filled, options, named):
    with pytest.raises(ArgumentError, match=named):
        list(scan_by(filled([]), **options))


# --- the index of a file


@pytest.fixture
def store(tmp_path):
    with_entries = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    with_entries.upsert(Entry(f"e{n:05}", metadata={"said": f"{n % 700:05}"}) for n in range(3000))
    yield with_entries
    with_entries.close()


def read_rows(monkeypatch):
    """Return a list that grows by each row that is parsed, and one of each question that SQLite is asked."""
    parsed, asked = [], []
    entry_of, every = entry_reader.checked_entry, entry_reader.fetch_all
    monkeypatch.setattr(entry_reader, "checked_entry", lambda row: parsed.append(row) or entry_of(row))
    monkeypatch.setattr(entry_reader, "fetch_all", lambda *given: asked.append(given) or every(*given))
    return parsed, asked


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("after", [None, ("00350", "e00350"), ("00699", "e00000")])
def test_scan_by_fetches_few_rows_through_its_index_without_sorting_in_sqlite(store, monkeypatch, reverse, after):
    parsed, asked = read_rows(monkeypatch)
    found = list(islice(scan_by(store, ["said"], reverse=reverse, after=after), 20))
    assert len(found) == (20 if after != ("00699", "e00000") or reverse else 4)
    assert len(parsed) <= 40
    for connection, sql, values in asked:
        plan = [step for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
        assert any("USING INDEX entries_by_said (namespace=?" in step for step in plan)
        assert not any("TEMP B-TREE" in step or step.startswith("SCAN") for step in plan)
        if after is not None:
            assert any("AND <expr>" in step for step in plan)


def test_the_order_index_is_made_once_kept_by_every_write_and_gives_no_finding(store):
    list(scan_by(store, ["said"]))
    store.upsert([Entry("new", metadata={"said": "00000"})])
    store.patch({"e00001": {"said": "zz"}})
    store.erase(["e00002"])
    found = [item.id for item in scan_by(store, ["said"])]
    assert (found[-1], found.index("new"), "e00002" in found, len(found)) == ("e00001", 5, False, 3000)
    assert store.verify() == []
    store.compact()
    assert [item.id for item in scan_by(store, ["said"])] == found
    with store.database.read() as connection:
        named = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'entries_by%'").fetchall()
    assert named == [(1,)]


def test_entries_missing_in_the_order_index_raise_damage_error(store):
    list(scan_by(store, ["said"]))
    store.database.close()
    with apsw.Connection(str(store.database.path)) as raw:  # a row is written while SQLite does not know of the index
        raw.pragma("writable_schema", True)
        kept = raw.execute("SELECT * FROM sqlite_schema WHERE name = 'entries_by_said'").fetchall()
        raw.execute("DELETE FROM sqlite_schema WHERE name = 'entries_by_said'")
    raw.close()
    with apsw.Connection(str(store.database.path)) as raw:
        raw.execute("INSERT INTO entries SELECT max(key) + 1, namespace, 'x', 1, '', '', '{}', NULL, 0 FROM entries")
        raw.execute("UPDATE namespaces SET entries = entries + 1")
        raw.pragma("writable_schema", True)
        raw.execute("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", kept[0])
    raw.close()
    again = open_store(f"sqlite:///{store.database.path}")
    with pytest.raises(DamageError, match="by entries_by_said"):
        list(scan_by(again, ["said"]))
    again.close()


def test_an_erased_entry_leaves_no_bytes_in_the_order_index(tmp_path):
    store = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    store.upsert(Entry(f"e{n}", metadata={"said": f"canary {n}"}) for n in range(500))
    list(scan_by(store, ["said"]))
    store.erase([f"e{n}" for n in range(500)])
    store.close()
    assert b"canary" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_scan_by_sorts_a_read_only_file_without_an_order_index(store, monkeypatch):
    monkeypatch.setattr(SqliteDatabase, "read_only", True)
    assert [item.id for item in islice(scan_by(store, ["said"]), 2)] == ["e00000", "e00700"]
    with store.database.read() as connection:
        named = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'entries_by%'").fetchall()
    assert named == [(0,)]


def test_scan_by_answers_without_an_order_index_while_the_database_is_busy(store, monkeypatch):
    def busy(self):
        raise BusyError("write", 10.0)

    with monkeypatch.context() as patch:
        patch.setattr(SqliteDatabase, "write", busy)
        first = [item.id for item in scan_by(store, ["said"])]
    assert [item.id for item in scan_by(store, ["said"])] == first
