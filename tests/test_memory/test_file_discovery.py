"""Discovering and reading files: which are taken, which are left out and why, and what is never opened.

Inner parts, on no face: ``memory.documents.discovery``, ``memory.documents.loaders.base``,
``memory.documents.loaders.markdown``, ``memory.documents.loaders.pdf``, ``memory.documents.loaders.registry``,
``memory.documents.loaders.text``.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory import ArgumentError, LoadError
from memory.documents.discovery import DocumentFile, check_paths, discover_files
from memory.documents.loaders.base import read_file
from memory.documents.loaders.markdown import MarkdownLoader
from memory.documents.loaders.pdf import PdfLoader
from memory.documents.loaders.registry import LoaderRegistry
from memory.documents.loaders.text import TextLoader
from memory.internals import IngestLine


def names(items):
    return [(item.source, "found" if isinstance(item, DocumentFile) else item.reason) for item in items]


# choosing and reading files


def test_file_extensions_in_any_case_choose_the_loader():
    loaders = LoaderRegistry()
    assert isinstance(loaders.choose("A.MD"), MarkdownLoader)
    assert isinstance(loaders.choose("main.py"), TextLoader)
    assert isinstance(loaders.choose("a.pdf"), PdfLoader)
    assert isinstance(loaders.choose("README"), TextLoader)


def test_an_unknown_file_extension_has_no_loader_unless_the_file_is_given():
    loaders = LoaderRegistry()
    assert loaders.choose("a.xyz") == "no loader for .xyz files"
    assert isinstance(loaders.choose("a.xyz", by_name=True), TextLoader)
    assert "HTML" in loaders.choose("a.html", by_name=True)


def test_a_registered_loader_is_chosen_for_its_file_extension():
    mine = TextLoader()
    assert LoaderRegistry({".XYZ": mine}).choose("a.xyz") is mine


def test_read_file_returns_bytes_and_modification_time(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"x")
    os.utime(path, (0, 86400))
    assert read_file(path, "a.txt") == (b"x", datetime(1970, 1, 2, tzinfo=UTC))


def test_a_file_above_the_limit_is_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * 11)
    assert read_file(path, "a.txt", limit=11)[0] == b"x" * 11
    with pytest.raises(LoadError, match="more than"):
        read_file(path, "a.txt", limit=10)


def test_a_missing_file_is_a_load_error(tmp_path):
    with pytest.raises(LoadError, match="cannot be read"):
        read_file(tmp_path / "none", "none")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_a_link_and_a_device_are_never_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "real.txt").write_text("x")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    for path in (tmp_path / "pipe.txt", tmp_path / "link.txt", Path("/dev/zero")):
        with pytest.raises(LoadError, match="not a regular file"):
            read_file(path, path.name)


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
        ("picture.png", "no loader for .png files"),
    ]


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
