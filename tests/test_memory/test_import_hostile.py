"""Hostile import files: refused by line number before any write, or imported without harm."""

import base64
import json

import pytest

from tellback.memory import Memory, Trust, UnreadableExport, open_memory
from tests.test_memory.exporting import Ticking, Toy, exported, filled, items, run, sealed

DEEP = json.loads("[" * 120 + "]" * 120)
HUGE = 10**400
LATE = 2**63
ONES = base64.b64encode(b"\0\0\x80\x3f" * 8).decode()
ZEROS = base64.b64encode(bytes(32)).decode()
NAN = base64.b64encode(b"\0\0\xc0\x7f" * 8).decode()
ENDLESS = "1e999"
"""Read as infinity by anything that reads JSON; stands for itself in a line, without quotes."""


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """The lines of an export with something of everything."""
    folder = tmp_path_factory.mktemp("source")
    memory = open_memory(folder / "m.db", clock=Ticking(), embedder=Toy())
    filled(memory, folder)
    found = exported(memory, folder / "a.jsonl").splitlines(keepends=True)
    run(memory.close())
    return found


@pytest.fixture
def other(tmp_path):
    memory = open_memory(tmp_path / "n.db", clock=Ticking(), embedder=Toy())
    yield memory
    run(memory.close())


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    """Memory that every refused file must leave unchanged."""
    memory = open_memory(tmp_path_factory.mktemp("victim") / "v.db", clock=Ticking(), embedder=Toy())
    run(memory.remember("here before"))
    yield memory
    run(memory.close())


def changed(lines, kind, fields, at=None):
    """The lines with *fields* put into the first of a *kind*, and a first line that fits; and which line that is."""
    of_kind = (number for number, line in enumerate(lines) if json.loads(line)["type"] == kind)
    position = next(of_kind) if at is None else at
    item = {key: value for key, value in {**json.loads(lines[position]), **fields}.items() if value is not ...}
    text = json.dumps(item, ensure_ascii=True).replace(f'"{ENDLESS}"', ENDLESS)
    line = text.encode() + b"\n"
    return position + 1, b"".join(sealed([*lines[:position], line, *lines[position + 1 :]]))


BAD = {
    "memory": [
        *({"text": bad} for bad in (None, 5, " ", "x\ud800")),
        *({"id": bad} for bad in (None, "", 7, "x\0", "x" * 2000)),
        *({"beside": bad} for bad in ([], {"x": DEEP}, {"x": ENDLESS}, {"": 1}, {"x": "\ud800"}, {"kind": "fact"})),
        *({"metadata": bad} for bad in ([], "x", {"x": DEEP}, {"x": ENDLESS}, {"": 1})),
        *({"importance": bad} for bad in (HUGE, -HUGE, ENDLESS, 2, "1", True)),
        *(
            {"recorded_at": bad}
            for bad in ("", "yesterday", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00", 5, "0000-01-01")
        ),
        *({"vector": bad} for bad in (ZEROS, NAN, ONES + "!", "AAAA", "é", 5, [1.0] * 8)),
        *({"sequence": bad} for bad in (-1, 1.5, "1", True)),
        *({"derived_from": bad} for bad in ("x", [5], [None], [""])),
        *({"tags": bad} for bad in ("x", [5], None)),
        *({"scopes": bad} for bad in ("x", [], {"a": 5}, {"": "x"})),
        *({"source": bad} for bad in ("x", {"page": 0}, {"heading": "x"}, {"strange": 1})),
        *({"pinned": bad} for bad in (1, "yes", None)),
        *({"beside": {bad: 1}} for bad in ("pinned", "document", "scope.x", "meta.x", "source.session")),
        *({"beside": {bad: 1}} for bad in ("expires_at_offset", "revision")),
        {"no_vector": ""},
        {"trust": "owner"},
        {"actor": "root"},
        {"collection": "guide"},
        {"version": 1},
        {"namespace": "somebody else"},
    ],
    "passage": [{"collection": bad} for bad in (..., None, "", 5, "a\0", "é" * 400)],
    "version": [
        *({"version": bad} for bad in (..., 0, -1, 1.5, "1", True, 2, LATE, HUGE)),
        *({"withdrawn": bad} for bad in (1, "no", None)),
    ],
    "message": [
        *({"session": bad} for bad in (..., "", 5, "a\0", "x" * 2000)),
        *({"sequence": bad} for bad in (..., 0, -1, 1.5, "1", 10**16, LATE, HUGE)),
        *({"at": bad} for bad in (..., "", "yesterday", "2026-01-01T00:00:00")),
        *({"memory": bad} for bad in (5, "a\0")),
        *({"message": bad} for bad in (..., 5, {}, {"role": "root", "blocks": []})),
        {"message": {"role": "user", "blocks": [{"type": "image", "media_type": "image/png", "data": "!"}]}},
        {"message": {"role": "user", "blocks": [{"type": "text", "text": "\ud800"}]}},
        {"message": {"role": "user", "blocks": [{"type": "text", "text": "x"}], "metadata": {"x": ENDLESS}}},
        {"strange": 1},
    ],
    "session": [{"session": ""}, {"next": 0}, {"next": LATE}, {"next": "5"}, {"strange": 1}],
    "operation": [
        *({"id": bad} for bad in (..., "", 5)),
        *({"kind": bad} for bad in (..., "", "export", "import")),
        *({"undoes": bad} for bad in (5, "")),
        *({"changes": bad} for bad in (..., {}, [5], [{}], [{"id": "x", "gone": 1}], [{"id": "x", "strange": 1}])),
        *({"changes": [{"id": "x", "before": bad}]} for bad in (0, "1", LATE, HUGE)),
        *(
            {"changes": [{"id": "x", "new": bad}]}
            for bad in ([], {"x": DEEP}, {"importance": ENDLESS}, {"x": "\ud800"})
        ),
        {"changes": [{"id": "x"}, {"id": "x", "gone": True}]},
        {"actor": "root"},
        {"at": "yesterday"},
        {"strange": 1},
    ],
    "document": [
        *({"collection": bad} for bad in (..., "", 5)),
        *({"source": bad} for bad in (..., "", "a\0")),
        *({"chunks": bad} for bad in (..., "x", [5])),
        {"location": 5},
        {"modified": "2026-01-01"},
        {"strange": 1},
    ],
    "forgotten": [{"id": ...}, {"id": 5}, {"at": ...}, {"at": "x"}, {"collection": ""}, {"strange": 1}],
}


@pytest.mark.parametrize(("kind", "fields"), [(kind, fields) for kind, those in BAD.items() for fields in those])
def test_import_refuses_an_invalid_item_by_its_line_number_before_any_write(lines, victim, tmp_path, kind, fields):
    line, data = changed(lines, kind, fields)
    (tmp_path / "bad.jsonl").write_bytes(data)

    async def refused():
        with pytest.raises(UnreadableExport) as error:
            await victim.import_(tmp_path / "bad.jsonl", trust="user")
        return error.value, await victim.list(), await victim.operations()

    error, memories, operations = run(refused())
    assert (error.line, len(str(error)) < 1000) == (line, True)
    assert [entry.text for entry in memories] == ["here before"]
    assert len(operations) == 1


@pytest.mark.parametrize(
    "text", ["5", "null", "[]", "{}", '{"type": ["memory"]}', '{"type": "manifest"}', '{"type": ""}']
)
def test_import_refuses_a_line_that_is_not_an_item(lines, victim, tmp_path, text):
    (tmp_path / "bad.jsonl").write_bytes(lines[0] + text.encode() + b"\n" + b"".join(lines[1:]))
    with pytest.raises(UnreadableExport, match=r"line 2: (the line is no JSON object|item\.type: )"):
        run(victim.import_(tmp_path / "bad.jsonl", trust="user"))


@pytest.mark.parametrize("kind", list(BAD))
def test_import_refuses_a_duplicate_item(lines, victim, tmp_path, kind):
    largest = max(n for n, line in enumerate(lines) if json.loads(line)["type"] == kind)
    (tmp_path / "bad.jsonl").write_bytes(b"".join(sealed([*lines, lines[largest]])))
    with pytest.raises(UnreadableExport, match=r"is there twice|counted from 1") as error:
        run(victim.import_(tmp_path / "bad.jsonl", trust="user"))
    assert error.value.line == len(lines) + 1


FIRST = [
    *({"space": bad} for bad in (5, {}, {"fingerprint": "x", "dimension": 0, "metric": "cosine"})),
    *({"vectors": bad} for bad in (..., "no", 1)),
    *({"probes": bad} for bad in (5, [], ["AAAA"], [NAN])),
    *({"counts": bad} for bad in (..., [], {"memory": -1}, {"memory": True}, {"memory": 10**30})),
    *({"version": bad} for bad in (..., 0, 2, "1", True, HUGE)),
    *({"hash": bad} for bad in (..., "", "0" * 64, 5)),
    {"format": "another"},
    {"selection": "all"},
]


@pytest.mark.parametrize("fields", FIRST)
def test_import_refuses_an_invalid_header_line(lines, victim, tmp_path, fields):
    head = {key: value for key, value in {**json.loads(lines[0]), **fields}.items() if value is not ...}
    (tmp_path / "bad.jsonl").write_bytes(b"".join([json.dumps(head).encode() + b"\n", *lines[1:]]))
    with pytest.raises(UnreadableExport):
        run(victim.import_(tmp_path / "bad.jsonl", trust="user"))


@pytest.mark.parametrize("space", [{"dimension": 7}, {"metric": "dot"}, {"dimension": 10**12}])
def test_the_space_in_an_export_header_does_not_set_the_space_of_a_new_memory(lines, other, tmp_path, space):
    head = json.loads(lines[0])
    head |= {"space": head["space"] | space, "probes": None, "counts": dict.fromkeys(head["counts"], 0)}
    (tmp_path / "bad.jsonl").write_bytes(b"".join(sealed([json.dumps(head).encode() + b"\n"])))
    run(other.import_(tmp_path / "bad.jsonl", trust="user"))
    assert other.store.space is None
    assert run(other.remember("It embeds as it did.")).deferred is None


def test_import_accepts_dangling_links_without_damage(lines, other, tmp_path):
    _, data = changed(lines, "memory", {"derived_from": ["nobody", "x@9"], "supersedes": "nobody@3"})
    _, data = changed(data.splitlines(keepends=True), "message", {"memory": "nobody"})
    dangling = [{"id": "nobody", "before": 99}, {"id": "nobody else", "gone": True}]
    _, data = changed(data.splitlines(keepends=True), "operation", {"changes": dangling, "undoes": "none"})
    _, data = changed(data.splitlines(keepends=True), "document", {"chunks": ["nothing"]})
    (tmp_path / "a.jsonl").write_bytes(data)
    run(other.import_(tmp_path / "a.jsonl", trust="user"))
    first = exported(other, tmp_path / "b.jsonl")
    for each in run(other.list()):
        assert run(other.history(each.id)).versions
    odd = next(json.loads(line)["id"] for line in data.splitlines() if b'"nobody", "before"' in line)
    with pytest.raises(Exception, match="nobody") as error:
        run(other.undo(odd))
    assert type(error.value).__name__ == "CannotUndo"
    assert other.store.verify() == []
    assert sum(each["type"] == "message" for each in items(first)) == 5


def test_an_imported_operation_does_not_replace_an_existing_operation_record(lines, other, tmp_path):
    made = run(other.export(tmp_path / "own.jsonl")).operation
    (tmp_path / "bad.jsonl").write_bytes(changed(lines, "operation", {"id": made})[1])
    planned, done = (run(other.import_(tmp_path / "bad.jsonl", trust="user", dry_run=dry)) for dry in (True, False))
    assert planned.left == done.left == {"operation": 1}
    assert [operation.kind for operation in run(other.operations()) if operation.id == made] == ["export"]


def test_an_untrusted_import_keeps_document_trust_and_no_key_after_a_further_export_and_import(other, tmp_path):
    stranger = open_memory(tmp_path / "m.db", clock=Ticking(), embedder=Toy())
    run(stranger.remember(Memory("Pay to account 1.", key="account", pinned=True)))
    exported(stranger, tmp_path / "a.jsonl")
    run(stranger.close())
    run(other.import_(tmp_path / "a.jsonl"))
    mine = run(other.remember(Memory("Pay to account 2.", key="account"))).id
    exported(other, tmp_path / "b.jsonl")
    run(other.import_(tmp_path / "b.jsonl"))
    again = run(other.remember(Memory("Pay to account 2.", key="account")))
    assert (again.outcome.value, again.id) == ("duplicate", mine)
    (theirs,) = [entry for entry in run(other.list()) if entry.id != mine]
    assert (theirs.trust, theirs.pinned, theirs.key) == (Trust.DOCUMENT, False, None)
