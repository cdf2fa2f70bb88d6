"""Watch of folders: changes are read as they come, and a folder that vanishes is waited for.

Inner parts, on no face: ``tellback.memory.documents`` and ``tellback.memory.documents.folder_watch``, for its times.
"""

from __future__ import annotations

import sys

import pytest

from tellback.memory import ArgumentError, KnowledgeBase, LongTermMemory
from tellback.memory.documents import folder_watch
from tellback.vectorstore import MissingExtra, open_store
from tests.support.embedders import FakeEmbedder

pytestmark = pytest.mark.anyio


@pytest.fixture
def knowledge(monkeypatch):
    monkeypatch.setattr(folder_watch, "_QUIET_MS", 20)
    monkeypatch.setattr(folder_watch, "_LOOK_MS", 100)
    return KnowledgeBase(LongTermMemory(open_store("numpy:"), embedder=FakeEmbedder()))


def changes(step):
    return {line.source: line.action for line in step.report.lines if line.action in ("added", "updated", "removed")}


async def test_changes_of_a_watched_folder_are_ingested_also_after_it_was_missing(knowledge, tmp_path):
    pytest.importorskip("watchfiles")
    notes, other = tmp_path / "notes", tmp_path / "other"
    for folder in (notes, other):
        folder.mkdir()
        (folder / f"{folder.name}.md").write_text(f"All about {folder.name}.")
    steps = knowledge.watch([notes, other])
    assert changes(await anext(steps)) == {"notes.md": "added", "other.md": "added"}
    (tmp_path / "draft").write_text("Something new.")
    (tmp_path / "draft").rename(notes / "new.md")  # in one step, so that no half of it is read
    assert changes(await anext(steps)) == {"new.md": "added"}
    (notes / ".hidden").write_text("Nothing to read.")
    (notes / "new.md").unlink()
    assert changes(await anext(steps)) == {"new.md": "removed"}
    other.rename(tmp_path / "away")
    gone = await anext(steps)
    assert (gone.folders, gone.report) == ((other.resolve(),), None)
    assert {info.source for info in await knowledge.documents()} == {"notes.md", "other.md"}
    (tmp_path / "away" / "more.md").write_text("More of it.")
    (tmp_path / "away").rename(other)
    assert changes(await anext(steps)) == {"more.md": "added"}
    await steps.aclose()


async def test_a_watch_needs_folders_and_its_extra(knowledge, tmp_path, monkeypatch):
    (tmp_path / "a.md").write_text("A.")
    with pytest.raises(ArgumentError, match="a folder is needed"):
        await anext(knowledge.watch(tmp_path / "a.md"))
    monkeypatch.setitem(sys.modules, "watchfiles._rust_notify", None)
    with pytest.raises(MissingExtra, match=r"pip install.*\[watch\]"):
        await anext(knowledge.watch(tmp_path))
