"""Formats of documents: files as their own programs and libraries write them become text with its structure.

Inner parts, on no face: ``tellback.memory.documents.document``, ``tellback.memory.documents.loaders.base``,
``tellback.memory.documents.loaders.code``, ``tellback.memory.documents.loaders.registry``.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from tellback.memory import LoadError
from tellback.memory.documents.document import Document
from tellback.memory.documents.loaders.base import LoadLimits
from tellback.memory.documents.loaders.code import read_code
from tellback.memory.documents.loaders.registry import LoaderRegistry

FIXTURES = Path(__file__).parents[1] / "fixtures/documents"


def load(name: str, data: bytes, **limits: int):
    """Return the document, read in this process as the worker would."""
    loaders = LoaderRegistry(limits=LoadLimits(**limits), isolated=False)
    return loaders.for_content(loaders.choose(name, by_name=True), data, name).load(data, name)


def load_file(name: str):
    return load(name, (FIXTURES / name).read_bytes())


def lines_of(loaded) -> list[int | None]:
    """Return the line of the file for the first character of each line of the text."""
    document = Document(source="a", title="", text=loaded.text, media_type="x", lines=loaded.lines)
    starts = [0, *(index + 1 for index, character in enumerate(loaded.text) if character == "\n")]
    return [document.line_at(start) for start in starts if loaded.text[start:].split("\n")[0]]


# Office files, books, mail; written by python-docx, python-pptx, openpyxl, odfpy, ebooklib, nbformat and email


def test_a_word_document_keeps_headings_lists_and_tables():
    loaded = load_file("trip.docx")
    assert (loaded.title, loaded.metadata["author"]) == ("Trip to Porto", "Ada")
    assert loaded.text == (
        "# Trip to Porto\n\nWe leave on Monday.\n\n# Packing\n\n- Boots\n  - Wool socks\n- Map\n\n## Steps\n\n"
        "1. Book the train.\n2. Tell Ben.\n\n| Day | Plan |\n|---|---|\n| Tuesday | River cruise |\n\n"
        "A last line\nafter a break."
    )


def test_a_presentation_has_a_page_for_each_slide():
    loaded = load_file("talk.pptx")
    assert [loaded.text[start:end] for start, end in loaded.pages] == [
        "## Quarter\n\n- Sales grew\n  - by nine per cent\n\nNotes:\n\nThank the team.",
        "## Figures\n\n| month | sales |\n|---|---|\n| May | 12 |",
    ]


def test_a_workbook_has_a_record_for_each_row_of_its_visible_sheets():
    loaded = load_file("staff.xlsx")
    assert loaded.text == (
        "# Staff\nName: Ada; Born: 1990-05-01; Salary: 4100.5\n"
        "Name: Ben; Born: 1985-01-02 08:30; Salary: 3900; Left: True\n\n# Sums\ntotal; 8000.5"
    )
    assert lines_of(loaded) == [1, 2, 3, 1, 2]


def test_an_opendocument_text_keeps_headings_lists_and_tables():
    assert load_file("garden.odt").text == (
        "# Garden\n\nRoses need sun.\n\n- spade\n- hose\n\n| plant | water |\n|---|---|\n| rose | daily |"
    )


def test_a_book_has_its_chapters_in_order_without_navigation():
    loaded = load_file("lighthouse.epub")
    assert (loaded.title, dict(loaded.metadata)) == ("The Lighthouse", {"author": "Ada"})
    assert loaded.text == "# Arrival\n\nThe keeper came in May.\n\n# Storm\n\nThe lamp went out."


def test_a_notebook_has_its_cells_and_the_text_of_their_outputs():
    loaded = load_file("means.ipynb")
    assert loaded.title == "Means"
    assert loaded.text == ("# Means\n\nHow a mean is computed.\n\n```python\nprint(sum([1, 2]) / 2)\n```\n\n    1.5")


def test_a_mail_has_its_head_its_text_and_readable_attachments():
    loaded = load_file("keys.eml")
    assert loaded.title == "Keys of the cabin ☂"
    assert loaded.metadata["from"] == "Ada <ada@example.com>"
    assert loaded.text.startswith("From: Ada <ada@example.com>\nTo: ben@example.com\nDate: Mon, 02 Nov 2026")
    assert "\n\nThe keys lie under the blue pot.\n\n# Route" in loaded.text
    assert [path for _, path in loaded.outline] == [("route.md",)]
    assert loaded.notes == ("attachment pot.png: a picture",)


def test_a_mailbox_has_a_section_for_each_message():
    box = b"From ada Mon Nov  2 10:00:00 2026\n" + (FIXTURES / "keys.eml").read_bytes()
    box += b"\nFrom ben Tue Nov  3 10:00:00 2026\nSubject: Re: Keys\nFrom: ben@example.com\n\nFrom here it is near.\n"
    loaded = load("inbox.mbox", box)
    assert [path[0] for _, path in loaded.outline] == ["Keys of the cabin ☂", "Keys of the cabin ☂", "Re: Keys"]
    assert loaded.text[loaded.outline[2][0] :].endswith("From here it is near.")


def test_a_calendar_has_a_record_for_each_event():
    text = (
        "BEGIN:VCALENDAR\r\nX-WR-CALNAME:Home\r\nBEGIN:VEVENT\r\nDTSTART;TZID=Europe/Paris:20261102T183000\r\n"
        'SUMMARY:Dinner\\, late\r\nATTENDEE;CN="Ben B":mailto:ben@example.com\r\nLOCATION:At the\r\n  mill\r\n'
        "BEGIN:VALARM\r\nDESCRIPTION:ring\r\nEND:VALARM\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    )
    loaded = load("home.ics", text.encode())
    assert loaded.title == "Home"
    assert (
        loaded.text == "start: 2026-11-02 18:30; what: Dinner, late; with: Ben B <ben@example.com>; where: At the mill"
    )


# data


@pytest.mark.parametrize(
    ("name", "data", "text", "lines"),
    [
        ("a.csv", 'name,age\nAda,36\n\n"Ben, B",\n', "name: Ada; age: 36\nname: Ben, B", [2, 4]),
        ("a.csv", 'name;note\nAda;"two\nlines"\nBen;x\n', "name: Ada; note: two lines\nname: Ben; note: x", [2, 4]),
        ("a.tsv", "1\t2\n3\t4\n", "1; 2\n3; 4", [1, 2]),
        ("a.csv", "name,age\n", "name, age", [None]),
        ("a.jsonl", '{"a": 1, "b": null}\n\n{"a": [2, "x"]}\n', "a: 1\na: 2, x", [1, 3]),
        ("a.json", '[{"a": {"b": true}, "c": [{"d": "e"}]}, 7]', "a.b: true; c.1.d: e\n\n7", [None, None]),
        (
            "a.json",
            json.dumps({"n": "Ada", "text": "long " * 50}),
            "n: Ada\n\ntext: " + "long " * 49 + "long",
            [None, None],
        ),
    ],
)
def test_rows_and_objects_become_records_with_their_fields(name, data, text, lines):
    loaded = load(name, data.encode())
    assert loaded.text == text
    assert lines_of(loaded) == lines


def test_restructured_text_becomes_markdown_line_by_line():
    text = (
        "=====\nTrees\n=====\n\n.. _label:\n\n"
        "Oaks are :term:`tall <height>`, see `the site <http://x>`_ and ``ls -l``::\n\n    # plant\n    dig()\n\n"
        "Birches\n-------\n\n.. note:: They are white.\n\n.. code-block:: python\n   :linenos:\n\n   plant()\n\n"
        ".. function:: grow(tree)\n\n   Make it taller.\n\n.. a comment\n   of two lines\n"
    )
    loaded = load("trees.rst", text.encode())
    assert loaded.title == "Trees"
    assert loaded.text == (
        "\n# Trees\n\n\n\n\nOaks are `tall`, see the site and `ls -l`:\n```\n# plant\ndig()\n```\n## Birches\n\n\n"
        "Note: They are white.\n\n\n\n```python\nplant()\n```\n`grow(tree)`\n\n   Make it taller.\n\n\n\n"
    )


@pytest.mark.parametrize(
    ("code", "paths"),
    [
        (
            "import os\n\n@cache\ndef f():\n    pass\n\nclass A(B):\n    def m(self): ...\n",
            [("f",), ("A",), ("A", "m")],
        ),
        ("export default async function run() {}\n\nclass Store {\n  constructor() {}\n}\n", [("run",), ("Store",)]),
        ("func (s *Store) Get(k string) {\n}\ntype Key string\n", [("Get",), ("Key",)]),
        ("pub(crate) fn a<T>() {}\nimpl<T> Show for B {\n    fn c(&self) {}\n}\n", [("a",), ("Show",), ("Show", "c")]),
        ("CREATE TABLE IF NOT EXISTS users (id INT);\n", [("users",)]),
        ("x = 1\n# the class of trees\n", []),
    ],
)
def test_definitions_are_the_sections_of_source_code(code, paths):
    loaded = read_code(code.encode(), "a")
    assert [path for _, path in loaded.outline] == paths
    assert all(loaded.text[start - 1 : start] in ("", "\n") for start, _ in loaded.outline)


RTF = r"""{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\info{\title Harbour rules}}
\f0 The caf\'e9 opens at nine.\par Boats moor at the {\b north} pier.\par}"""
LATEX = r"""\documentclass{article}
\title{The \emph{harbour}}
\begin{document}
\maketitle
\section{Mooring}\label{sec:mooring}
Boats moor at the \textbf{north} pier~\cite{pier}. % ask Ana
The fee is 12\% of $x_1$.\\[2pt] High tide: \[h > 2\]
\begin{itemize}
  \item Pay at the \texttt{office}.
\end{itemize}
\begin{verbatim}
% moor --fast
\end{verbatim}
\end{document}
"""


@pytest.mark.parametrize(
    ("name", "data", "title", "text"),
    [
        ("rules.rtf", RTF, "Harbour rules", "The café opens at nine.\n\nBoats moor at the north pier."),
        (
            "rules.tex",
            LATEX,
            "The harbour",
            (
                "## Mooring\n\nBoats moor at the north pier.\nThe fee is 12% of $x_1$.\n"
                "High tide: \\[h > 2\\]\n\n- Pay at the `office`.\n\n"
                "```\n% moor --fast\n```"
            ),
        ),
    ],
)
def test_marked_up_text_becomes_its_words(name, data, title, text):
    loaded = load(name, data.encode())
    assert (loaded.title, loaded.text) == (title, text)


# hostile files


def packed(members: dict[str, bytes | str], **options) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, **options) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


WORD = '<w:document xmlns:w="w"><w:body>{}</w:body></w:document>'
ENTITIES = '<!DOCTYPE x [<!ENTITY a "{}">]>'
DEEP = 1_000


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.docx", packed({"word/document.xml": WORD.format("<w:p/>" * 300_000)}), "unpacks to more than 1 MB"),
        ("a.docx", packed({"word/document.xml": ENTITIES.format("&b;" * 9) + WORD.format("")}), "declares entities"),
        ("a.odt", packed({"content.xml": ENTITIES.format("x") + "<a>&a;</a>"}), "declares entities"),
        ("a.xlsx", packed({"xl/workbook.xml": '<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>'}), "declares entities"),
        ("a.docx", packed({"word/document.xml": WORD.format("<w:x>" * DEEP + "</w:x>" * DEEP)}), "too deeply"),
        ("a.docx", packed({"word/other.xml": "x"}), "document.xml is missing"),
        ("a.docx", packed({"word/document.xml": "<cut"}), "no XML"),
        ("a.docx", (FIXTURES / "trip.docx").read_bytes()[:20_000], "damaged"),
        ("a.pptx", b"PK\x03\x04nothing", "damaged"),
        ("a.epub", packed({"META-INF/container.xml": "<c/>", "META-INF/rights.xml": "<r/>"}), "protected"),
        ("a.json", b"[" * 100_000, "nested too deeply"),
        ("a.json", b"[" * 150 + b"{}" + b"]" * 150, "nested too deeply"),
        ("a.json", b"{'a': 1}", "no JSON"),
        ("a.jsonl", b'{"a": 1}\n{"a"\n', "line 2 is no JSON"),
        ("a.csv", b'a,b\n"' + b"x" * 200_000, "not that of a table"),
        ("a.ipynb", b"[1]", "not a notebook"),
        ("a.eml", b"just words\n", "no headers"),
        ("a.mbox", b"just words\n", "not a mailbox"),
        ("a.ics", b"just words\n", "not a calendar"),
    ],
)
def test_a_hostile_or_damaged_file_is_refused_by_name_and_reason(name, data, reason):
    with pytest.raises(LoadError, match=reason) as caught:
        load(name, data, unpacked=1_000_000)
    assert caught.value.source == name


def test_an_archive_member_larger_than_its_declared_size_is_bounded():
    data = bytearray(packed({"word/document.xml": WORD.format("<w:p/>" * 300_000)}))
    size = len(WORD.format("<w:p/>" * 300_000)).to_bytes(4, "little")
    assert data.count(size) == 2
    with pytest.raises(LoadError, match=r"cannot be unpacked|unpacks to more|no XML"):
        load("a.docx", bytes(data.replace(size, (100).to_bytes(4, "little"))), unpacked=1_000_000)
