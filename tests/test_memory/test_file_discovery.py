"""Discovery and reading of files: included files, skipped files with their reason, files never opened.

Inner parts, on no face: ``tellback.memory.documents.discovery``, ``tellback.memory.documents.ignore_rules``,
``tellback.memory.documents.loaders.base``,
``tellback.memory.documents.loaders.registry``, ``tellback.memory.documents.loaders.text``.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tellback.memory import ArgumentError, LoadError
from tellback.memory.documents.discovery import DocumentFile, check_paths, discover_files
from tellback.memory.documents.ignore_rules import IgnoreRules
from tellback.memory.documents.loaders.base import read_file
from tellback.memory.documents.loaders.registry import LoaderRegistry, Unreadable
from tellback.memory.internals import FileSelection, IngestLine


def names(items):
    return [(item.source, "found" if isinstance(item, DocumentFile) else item.reason) for item in items]


# choosing and reading files


def format_of(data: bytes, name: str) -> str:
    """Return the name of the loader that reads a file that was given by name."""
    loaders = LoaderRegistry()
    chosen = loaders.choose(name, by_name=True)
    assert not isinstance(chosen, Unreadable), chosen
    return loaders.for_content(chosen, data, name).name.partition("/")[0]


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("A.MD", b"# x", "markdown"),
        ("main.py", b"x = 1", "code"),
        ("a.pdf", b"%PDF-1.4", "pdf"),
        ("README", b"x", "text"),
        ("page.HTM", b"<p>x", "html"),
        ("NOTES", b"plain words", "text"),
        ("download", b"%PDF-1.7 ...", "pdf"),
        ("saved", b"\n<!-- saved --><!DOCTYPE html><p>x", "html"),
        ("wrong.txt", b"%PDF-1.7 ...", "pdf"),
        ("wrong.pdf", b"<html><p>x", "html"),
        ("a.xyz", b"plain words", "text"),
        ("notes.md.gz", b"\x1f\x8b...", "gzip"),
        ("packed.txt", b"\x1f\x8b...", "gzip"),
    ],
)
def test_the_loader_is_chosen_by_ending_and_content(name, data, expected):
    assert format_of(data, name) == expected


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [("blob", b"\x00\x01\x02", "binary"), ("a.txt", bytes.fromhex("d0cf11e0a1b11ae1"), "old")],
)
def test_content_of_no_readable_format_is_refused_by_name(name, data, reason):
    with pytest.raises(LoadError, match=reason) as caught:
        format_of(data, name)
    assert caught.value.source == name


def test_a_file_of_an_unknown_ending_is_read_only_when_given():
    assert LoaderRegistry().choose("a.xyz") == Unreadable("no loader for .xyz files")
    assert LoaderRegistry().choose("a.xyz", by_name=True) is None


def test_a_registered_loader_is_chosen_for_its_file_extension():
    mine = LoaderRegistry().choose("a.txt")
    assert LoaderRegistry({".XYZ": mine}).choose("a.xyz") is mine


def test_read_file_returns_bytes_and_modification_time(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"x")
    os.utime(path, (0, 86400))
    assert read_file(path, "a.txt", limit=9) == (b"x", datetime(1970, 1, 2, tzinfo=UTC))


def test_a_file_above_the_limit_is_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * 11)
    assert read_file(path, "a.txt", limit=11)[0] == b"x" * 11
    with pytest.raises(LoadError, match="more than"):
        read_file(path, "a.txt", limit=10)


def test_a_missing_file_is_a_load_error(tmp_path):
    with pytest.raises(LoadError, match="cannot be read"):
        read_file(tmp_path / "none", "none", limit=9)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_a_link_and_a_device_are_never_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "real.txt").write_text("x")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    for path in (tmp_path / "pipe.txt", tmp_path / "link.txt", Path("/dev/zero")):
        with pytest.raises(LoadError, match="not a regular file"):
            read_file(path, path.name, limit=9)


# discovering


def test_a_folder_is_discovered_in_order_and_skipped_paths_have_a_reason(tmp_path):
    for name in (
        "b.md",
        "a/z.txt",
        "a/a.md",
        ".git/config.md",
        "node_modules/x.md",
        ".env",
        "picture.png",
        "LICENSE",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    found = list(discover_files(check_paths(tmp_path), LoaderRegistry()))
    assert names(found) == [
        (".env", "hidden"),
        (".git/", "hidden"),
        ("LICENSE", "found"),
        ("a/a.md", "found"),
        ("a/z.txt", "found"),
        ("b.md", "found"),
        ("node_modules/", "a folder that tools fill"),
        ("picture.png", "a picture"),
    ]


LEFT_OUT = {
    "app.min.js": "minified code",
    "app.js.map": "a source map",
    "genindex-A.html": "the index of a manual",
    "searchindex.js": "a search index",
    "theme.css": "a style sheet",
    "uv.lock": "a lock file",
    "build/": "a folder that tools fill",
    "python/": "a virtual environment",
}


def make_files(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


def found_names(root: Path, **selection) -> list[str]:
    items = discover_files(check_paths(root), LoaderRegistry(), FileSelection(**selection))
    return [item.source for item in items if isinstance(item, DocumentFile)]


def test_files_without_text_of_their_own_are_left_out_unless_included(tmp_path):
    make_files(
        tmp_path, "a.js", "build/b.md", "python/pyvenv.cfg", "python/c.md", *(n for n in LEFT_OUT if n[-1] != "/")
    )
    assert dict(names(discover_files(check_paths(tmp_path), LoaderRegistry()))) == LEFT_OUT | {"a.js": "found"}
    assert found_names(tmp_path, include=["build/**", "*.css", "*.js"]) == ["a.js", "build/b.md", "theme.css"]
    assert found_names(tmp_path, include=["genindex-*.html", "searchindex.js"]) == ["genindex-A.html", "searchindex.js"]


def test_ignore_files_and_patterns_choose_the_files_of_a_folder(tmp_path):
    make_files(tmp_path, "a.md", "drafts/b.md", "drafts/keep.md", "log/c.txt", "sub/d.md", "sub/log/e.txt", "sub/f.txt")
    (tmp_path / ".gitignore").write_text("# drafts\n/drafts/*\n!keep.md\nlog/\n")
    (tmp_path / "sub/.ignore").write_text("f.*\n")
    assert found_names(tmp_path) == ["a.md", "drafts/keep.md", "sub/d.md"]
    assert found_names(tmp_path, ignore_files=False, exclude=["*.txt", "drafts"]) == ["a.md", "sub/d.md"]
    assert found_names(tmp_path, include=["sub"], exclude=["sub/log"]) == ["sub/d.md"]
    assert found_names(tmp_path, include=["sub", "f.txt"]) == ["sub/d.md", "sub/f.txt"]
    (tmp_path / "sub/d.md").write_text("longer")
    assert "sub/d.md" not in found_names(tmp_path, max_size=5)


def test_the_ignore_file_of_a_repository_holds_in_the_folders_below_it(tmp_path):
    make_files(tmp_path, ".git/HEAD", "docs/a.md", "docs/secret.md")
    (tmp_path / ".gitignore").write_text("secret.md")
    assert found_names(tmp_path / "docs") == ["a.md"]


@pytest.mark.parametrize(
    ("pattern", "path", "matched"),
    [
        ("a.md", "x/a.md", True),
        ("/a.md", "x/a.md", False),
        ("x/a.md", "x/a.md", True),
        ("x/a.md", "y/x/a.md", False),
        ("**/x/*.md", "y/x/a.md", True),
        ("x/**", "x/y/a.md", True),
        ("x/**/a.md", "x/a.md", True),
        ("*.md", "a.mdx", False),
        ("a?.md", "a/.md", False),
        ("[a-c].md", "b.md", True),
        ("[!a-c].md", "b.md", False),
        ("\\!a.md", "!a.md", True),
        ("a.md   ", "a.md", True),
        ("(a+)+$", "a", False),
        ("[", "[", True),
    ],
)
def test_patterns_are_those_of_git(pattern, path, matched):
    assert IgnoreRules.parse([pattern], "/r").matches(f"/r/{path}") is matched


def test_a_given_file_is_found_even_when_hidden_and_of_unknown_kind(tmp_path):
    path = tmp_path / ".notes"
    path.write_text("x")
    assert names(discover_files(check_paths([path]), LoaderRegistry())) == [(".notes", "found")]


def test_a_file_given_twice_is_found_once(tmp_path):
    (tmp_path / "a.md").write_text("x")
    assert len(list(discover_files(check_paths([tmp_path, tmp_path / "a.md", tmp_path]), LoaderRegistry()))) == 1


def test_a_link_is_followed_only_to_an_otherwise_skipped_file_inside_the_folder(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "secret.md"
    (root / ".store").mkdir(parents=True)
    outside.write_text("x")
    (root / "real.md").write_text("x")
    (root / ".store/blob.md").write_text("x")
    (root / "a-out.md").symlink_to(outside)
    (root / "b-in.md").symlink_to(root / "real.md")
    (root / "c-hidden.md").symlink_to(root / ".store/blob.md")
    (root / "d-nowhere.md").symlink_to(root / "gone")
    (root / "e-circle.md").symlink_to(root / "e-circle.md")
    (root / "f-folder").symlink_to(root / ".store")
    assert names(discover_files(check_paths(root), LoaderRegistry())) == [
        (".store/", "hidden"),
        ("a-out.md", "a link that leaves the folder"),
        ("b-in.md", "a link to a file that is read itself"),
        ("c-hidden.md", "found"),
        ("d-nowhere.md", "a link that leads nowhere"),
        ("e-circle.md", "a link that leads nowhere"),
        ("f-folder", "a link to a folder"),
        ("real.md", "found"),
    ]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_pipes_and_sockets_in_a_folder_are_skipped(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "a.md")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("b.md")
        assert stat.S_ISSOCK((tmp_path / "b.md").stat().st_mode)
        assert names(discover_files(check_paths(tmp_path), LoaderRegistry())) == [
            ("a.md", "a pipe, not a regular file"),
            ("b.md", "a socket, not a regular file"),
        ]


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes exist on Linux")
def test_a_file_name_that_is_not_utf8_is_skipped(tmp_path):
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.md")).write_text("x")
    (item,) = discover_files(check_paths(tmp_path), LoaderRegistry())
    assert isinstance(item, IngestLine)
    assert "not UTF-8" in item.reason


@pytest.mark.parametrize("bad", ["", "none", "a\0b", 3, []])
def test_unusable_paths_are_refused(bad, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError) as caught:
        check_paths(bad if isinstance(bad, list) else [bad])
    assert caught.value.argument == "paths"
