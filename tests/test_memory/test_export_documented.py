"""The documentation page on exports lists every line type and field that is written and read."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from tellback.memory import Message, UnreadableExport, open_memory
from tellback.memory.internals import Block
from tests.test_memory.exporting import Ticking, Toy, exported, filled, items, run, sealed

PAGE = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")


def named(row):
    """The fields that a row of the page names: what is set as code and is a name."""
    return re.findall(r"`([a-z_]+)`", row)


def rows(table):
    """The rows of the table whose first heading is *table*, by their first cell."""
    body = re.search(rf"^\| {re.escape(table)} \|.*?\n\|---\|---\|\n(.*?)\n\n", PAGE, re.S | re.M)[1]
    return {cells[1].strip(): cells[2] for cells in (line.split("|") for line in body.splitlines())}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    memory = open_memory(folder / "m.db", clock=Ticking(), embedder=Toy())
    filled(memory, folder)
    data = exported(memory, folder / "a.jsonl")
    yield folder, memory, data
    run(memory.close())


def fields_of(kind):
    """The fields that the page gives a line of *kind*."""
    inside, given = rows("in it"), named(rows("`type`")[f"`{kind}`"])
    if kind in ("passage", "version"):
        given = [item for item in given if item not in ("supersedes", "derived_from")] + named(
            rows("`type`")["`memory`"]
        )
    if kind in ("memory", "passage", "version"):
        given += named(inside["a memory"])
    return {"type", *given}


def test_the_export_page_lists_every_line_type_in_the_order_of_the_export(written):
    kinds = [kind.strip("`") for kind in rows("`type`")]
    order = list(dict.fromkeys(item["type"] for item in items(written[2])[1:]))
    assert kinds == order


def test_the_manifest_has_the_fields_shown_on_the_export_page(written):
    shown = json.loads(re.search(r"^```json\n(.*?)\n```", PAGE, re.S | re.M)[1])
    manifest = items(written[2])[0]
    assert list(shown) == list(manifest)
    assert set(shown["counts"]) == set(manifest["counts"])
    assert list(shown["space"]) == list(manifest["space"])
    assert len(shown["probes"]) == len(manifest["probes"])


@pytest.mark.parametrize("kind", [kind.strip("`") for kind in rows("`type`")])
def test_an_export_line_has_no_fields_but_those_named_on_the_export_page(written, kind):
    folder, memory, data = written
    lines = data.splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if json.loads(line)["type"] == kind)
    (folder / "odd.jsonl").write_bytes(
        b"".join(sealed([*lines[:first], lines[first].replace(b"{", b'{"odd": 1, ', 1), *lines[first + 1 :]]))
    )
    with pytest.raises(UnreadableExport) as error:
        run(memory.import_(folder / "odd.jsonl"))
    known = re.search(r"only (.*) are fields", str(error.value))[1].split(", ")
    assert set(known) == fields_of(kind)
    assert {field for item in items(data) if item["type"] == kind for field in item} <= set(known)


def test_nested_fields_of_export_lines_are_those_named_on_the_export_page(written):
    inside, found = rows("in it"), items(written[2])
    assert set(named(inside["`message`"])) == set(Message.model_fields)
    blocks = [set(get_arg.model_fields) - {"type"} for get_arg in get_args(get_args(Block)[0])]
    given = [set(named(part)[1:]) for part in inside["a block"].split("by it:")[1].split(". `data`")[0].split(";")]
    assert given == blocks
    assert {field for get_arg in found for field in get_arg.get("source", {}) if get_arg["type"] != "document"} <= set(
        named(inside["`source`"])
    )
    changes = [change for get_arg in found if get_arg["type"] == "operation" for change in get_arg["changes"]]
    assert {field for change in changes for field in change} == set(named(inside["`changes`"]))
