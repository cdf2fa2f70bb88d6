"""Loaders: text from bytes, unreadable files with a reason, hostile files.

Inner parts, on no face: ``tellback.memory.documents.document``, ``tellback.memory.documents.loaders.base``,
``tellback.memory.documents.loaders.markdown``, ``tellback.memory.documents.loaders.pdf``,
``tellback.memory.documents.loaders.text``.
"""

from __future__ import annotations

import codecs
import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.memory import ArgumentError, LoadError, load_document
from tellback.memory.documents.document import Document, content_hash
from tellback.memory.documents.loaders.base import LoadLimits
from tellback.memory.documents.loaders.markdown import first_heading, parse_front_matter, read_markdown
from tellback.memory.documents.loaders.pdf import clean_text, join_pages, read_pdf
from tellback.memory.documents.loaders.text import decode_text
from tellback.vectorstore import MissingExtra
from tests.support.pdf import make_pdf

FIXTURES = Path(__file__).parents[1] / "fixtures/documents"

# text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_text_with_a_byte_order_mark_or_in_utf8_is_read(encoding):
    assert decode_text("Grüße, 世界\n".encode(encoding), "a.txt") == ("Grüße, 世界\n", ())


def test_big_endian_utf16_is_read_by_its_mark():
    assert decode_text(codecs.BOM_UTF16_BE + "né".encode("utf-16-be"), "a.txt")[0] == "né"


def test_line_ends_come_back_as_newlines():
    assert decode_text(b"a\r\nb\rc\n", "a.txt")[0] == "a\nb\nc\n"


def test_windows_1252_text_is_read_with_a_note():
    text, notes = decode_text("Caf\u00e9 \u2013 na\u00efve".encode("cp1252"), "a.txt")
    assert text == "Café \u2013 naïve"
    assert notes == ("not UTF-8; read as Windows-1252",)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x81\x8d caf\xe9", "not UTF-8 text"),
        ("日本語のテキスト".encode("shift-jis"), "not UTF-8 text"),
        (b"caf\xe9 \x02\x03", "not UTF-8 text"),
        (b"plain\0text", "NUL"),
        (b"\xff\xfeA", "begins as UTF-16"),
        ("ascii in UTF-16 without a mark".encode("utf-16-le"), "NUL"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "NUL"),
        (bytes(range(1, 32)) * 20, "control characters"),
    ],
)
def test_decode_text_refuses_non_text_bytes_with_the_reason(data, reason):
    with pytest.raises(LoadError, match=reason) as caught:
        decode_text(data, "notes.txt")
    assert caught.value.source == "notes.txt"


def test_a_log_with_terminal_colours_is_text():
    assert decode_text(b"\x1b[31merror\x1b[0m\tline\n" * 50, "a.log")[0].startswith("\x1b[31m")


@given(st.binary(max_size=400))
def test_any_bytes_give_text_or_a_load_error(data):
    try:
        text, _ = decode_text(data, "x")
    except LoadError:
        return
    assert "\0" not in text
    assert "\r" not in text
    text.encode()


# Markdown


def test_front_matter_becomes_fields_and_stays_out_of_the_body():
    data = (
        b"---\ntitle: 'The Plan'\ntags: [alpha, beta]\nauthor: Ada # a comment\n"
        b"links:\n  - one\n  - two\n---\n# Head\n\nText.\n"
    )
    loaded = read_markdown(data, "a.md")
    assert loaded.title == "The Plan"
    assert loaded.tags == ("alpha", "beta")
    assert loaded.metadata == {"author": "Ada", "links": ["one", "two"]}
    assert loaded.text.encode() == data
    assert loaded.text[loaded.body :] == "# Head\n\nText.\n"


def test_tags_and_links_of_notes_are_kept():
    data = (
        "---\ntags: ['#garden', beds]\n---\n# Head\n\n#todo/now See [[Plan|the plan]], ![[Map#North]] (#x), #1, #fff.\n"
        "```\n#define X [[1]]\n```\n`#code` #garden #三月\n"
    )
    loaded = read_markdown(data.encode(), "a.md")
    assert loaded.tags == ("garden", "beds", "todo/now", "三月")
    assert loaded.metadata == {"links": ["Plan", "Map"]}


def test_toml_front_matter_is_read():
    loaded = read_markdown(b'+++\ntitle = "T"\ndate = 2024-05-01\nweight = 3\n+++\nText', "a.md")
    assert (loaded.title, loaded.metadata) == ("T", {"date": "2024-05-01", "weight": 3})


def test_front_matter_lines_not_understood_are_counted_in_a_note():
    head = parse_front_matter("---\ntitle: A\nnested:\n  deep: 1\nblock: |\n  text\n---\nBody")
    assert head.fields == {"title": "A"}
    assert head.notes == ("front matter: 3 lines not understood",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "---",
        "---\n",
        "---\nno end: here\n",
        "Text\n---\na: b\n---\n",
        "---\nJust prose between rules.\n---\nMore",
        "+++\nnot toml\n+++\n",
    ],
)
def test_a_text_without_front_matter_keeps_its_whole_body(text):
    assert parse_front_matter(text).end == 0


@given(st.text(alphabet="-+a: \n[]'\"#|", max_size=60))
def test_parse_front_matter_accepts_any_text(text):
    head = parse_front_matter(text)
    assert 0 <= head.end <= len(text)
    json.dumps(dict(head.fields), allow_nan=False)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# One\n## Two", "One"),
        ("Intro\n\n## Deeper ##\n", "Deeper"),
        ("Title\n=====\ntext", "Title"),
        ("```\n# not this\n```\n# This", "This"),
        ("~~~~\n~~~\n# not this\n~~~~\n# This", "This"),
        ("# C#", "C#"),
        ("- item\n---\ntext", ""),
        ("#hashtag, no heading", ""),
        ("", ""),
    ],
)
def test_the_first_heading_is_found(text, title):
    assert first_heading(text) == title


@pytest.mark.parametrize(
    "text",
    [
        "a" * 100_000,
        "# " + "a #" * 30_000,
        "---\n" + "a " * 50_000,
        "- " * 50_000,
        "=\n" * 50_000,
        "a-\n" * 30_000,
        " " * 100_000,
    ],
)
def test_loader_patterns_finish_on_hostile_texts(text):
    # a pattern that backtracks would need hours here; the suite turns a hang into a traceback
    assert read_markdown(text.encode(), "a.md").text == text
    assert join_pages([text])[0].strip("-\n ").startswith(text.strip("-\n ")[:1])


# PDF


def test_a_pdf_gives_its_pages_and_title():
    loaded = read_pdf(make_pdf("First page.", "Second (page).", title="A Report"), "a.pdf")
    assert loaded.title == "A Report"
    assert [loaded.text[start:end] for start, end in loaded.pages] == ["First page.", "Second (page)."]


@pytest.fixture
def no_tesseract(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))  # the machine may have it, and would read the empty pages


def test_an_empty_page_keeps_its_number(no_tesseract):
    loaded = read_pdf(make_pdf("One.", "", "Three."), "a.pdf")
    document = Document(source="a.pdf", title="", text=loaded.text, media_type="x", pages=loaded.pages)
    assert document.page_at(loaded.text.index("Three")) == 3


def test_a_pdf_without_text_is_refused(no_tesseract):
    with pytest.raises(LoadError, match="no text layer"):
        read_pdf(make_pdf("", ""), "scan.pdf")


@pytest.fixture
def silent_tesseract(monkeypatch, tmp_path):
    if sys.platform == "win32":
        pytest.skip("the program stands in as a shell script")
    (tmp_path / "tesseract").write_text("#!/bin/sh\n")
    (tmp_path / "tesseract").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")


def test_a_pdf_with_empty_pages_is_refused_where_scans_are_recognised_too(silent_tesseract):
    with pytest.raises(LoadError, match="no text in it"):
        read_pdf(make_pdf("", ""), "scan.pdf")


def test_an_encrypted_pdf_is_refused():
    with pytest.raises(LoadError, match="encrypted"):
        read_pdf((FIXTURES / "encrypted.pdf").read_bytes(), "a.pdf")


def test_a_pdf_has_the_path_of_its_bookmarks():
    loaded = read_pdf((FIXTURES / "bookmarks.pdf").read_bytes(), "a.pdf")
    assert [path for _, path in loaded.outline] == [("Care",), ("Care", "Watering")]
    assert loaded.text[loaded.outline[1][0] :].startswith("2 Watering")


def test_a_damaged_page_of_a_pdf_is_left_out_where_scans_are_recognised_too(silent_tesseract):
    first, *others = make_pdf("One.", "Two.", "Three.").split(b"<< /Type /Page /P")
    damaged = b"<< /Type /Nope /P".join([first + b"<< /Type /Page /P" + others[0], *others[1:]])
    loaded = read_pdf(damaged, "a.pdf")
    assert loaded.text.startswith("One.")
    assert loaded.notes == ("damaged pages, left out: 2",)


def test_bytes_that_are_not_a_pdf_are_refused():
    with pytest.raises(LoadError, match="not a PDF"):
        read_pdf(b"hello", "a.pdf")


def test_a_broken_pdf_is_refused():
    with pytest.raises(LoadError, match="not a readable PDF"):
        read_pdf(b"%PDF-1.4\nnothing else", "a.pdf")


def test_a_pdf_with_too_many_pages_is_refused():
    with pytest.raises(LoadError, match="more than 10 characters"):
        read_pdf(make_pdf("a long line of text"), "a.pdf", LoadLimits(characters=10))


def test_a_missing_library_names_the_install_line(monkeypatch):
    monkeypatch.setattr("tellback.memory.documents.loaders.registry.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"PDF files needs the extra 'docs'.*pip install .*\[docs\]"):
        load_document(make_pdf("x"), "a.pdf")


def test_running_heads_and_page_numbers_are_left_out_of_a_pdf():
    bodies = [f"The {word} page says something." for word in ("first", "second", "third", "fourth")]
    pages = [f"Handbook {number} / 4\n{body}\nPage {number}" for number, body in enumerate(bodies, start=1)]
    loaded = read_pdf(make_pdf(*pages), "a.pdf")
    assert [loaded.text[start:end] for start, end in loaded.pages] == bodies


def test_words_broken_at_line_ends_are_mended_and_compounds_kept():
    text, _ = join_pages(["The exam-\nple is well\ufffeknown, a well-known one; see A-\nB."])
    assert text == "The example is well-known, a well-known one; see A-\nB."


def test_ligatures_and_stray_characters_are_cleaned():
    assert clean_text("e\ufb03cient \ufb01nd\0\ud800").startswith("efficient find")


def test_join_pages_puts_no_empty_line_into_a_sentence_across_pages():
    text, pages = join_pages(["It goes", "on. End.", "New."])
    assert text == "It goes\non. End.\n\nNew."
    assert [text[a:b] for a, b in pages] == ["It goes", "on. End.", "New."]


# the document as a value


def test_offsets_between_pages_belong_to_the_earlier_one():
    document = Document(source="a", title="", text="ab  cd", media_type="x", pages=((0, 2), (4, 6)))
    assert [document.page_at(offset) for offset in range(6)] == [1, 1, 1, 1, 2, 2]
    assert document.page_breaks(0, 6) == ((4, 2),)
    assert document.page_breaks(4, 6) == ()


@pytest.mark.parametrize(
    ("argument", "fields"),
    [
        ("source", {"source": ""}),
        ("body", {"body": 5}),
        ("pages", {"pages": ((0, 9),)}),
        ("pages", {"pages": ((2, 3), (0, 1))}),
    ],
)
def test_an_impossible_document_is_refused(argument, fields):
    with pytest.raises(ArgumentError) as caught:
        Document(**{"source": "a", "title": "", "text": "abc", "media_type": "x"} | fields)
    assert caught.value.argument == argument


def test_the_content_hash_names_bytes_and_reader():
    hashes = {content_hash(b"a", "r/1"), content_hash(b"b", "r/1"), content_hash(b"a", "r/2")}
    assert len(hashes) == 3
    assert content_hash(b"a", "r/1") in hashes
