"""Chunkers: the contract, headings, sizes in tokens.

Inner parts, on no face: ``tellback.memory.chunking``, ``tellback.memory.chunking.markdown``,
``tellback.memory.testing.chunker_contract``, ``tellback.memory.chunking.sentences``.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.memory import ArgumentError, Chunker, EstimatingCounter, MarkdownChunker, TextChunker
from tellback.memory.chunking import CodeChunker, FunctionChunker
from tellback.memory.chunking.markdown import find_headings, heading_path
from tellback.memory.chunking.sentences import split_sentences
from tellback.memory.testing import ChunkerContract
from tellback.memory.testing.chunker_contract import uncovered

LOREM = "Lorem ipsum dolor sit amet, consectetur adipiscing elit. "


class TestMarkdownChunker(ChunkerContract):
    def make_chunker(self, size: int, overlap: int) -> Chunker:
        return MarkdownChunker(size, overlap=overlap)


class TestTextChunker(ChunkerContract):
    def make_chunker(self, size: int, overlap: int) -> Chunker:
        return TextChunker(size, overlap=overlap)


class TestCodeChunker(ChunkerContract):
    def make_chunker(self, size: int, overlap: int) -> Chunker:
        return CodeChunker(size, overlap=overlap)


class TestMarkdownChunkerInTokens(ChunkerContract):
    def make_chunker(self, size: int, overlap: int) -> Chunker:
        return MarkdownChunker(size, overlap=overlap, counter=EstimatingCounter())

    def length(self, text: str) -> int:
        return EstimatingCounter().count(text)


class TestTextChunkerInTokens(ChunkerContract):
    def make_chunker(self, size: int, overlap: int) -> Chunker:
        return TextChunker(size, overlap=overlap, counter=EstimatingCounter())

    def length(self, text: str) -> int:
        return EstimatingCounter().count(text)


class SubadditiveCounter:
    """Counts as tokenizers do: two texts joined may take fewer tokens than apart."""

    name = "toy"
    exact = True

    def count(self, text: str) -> int:
        return sum(len(word) // 4 + 1 for word in text.split())


STRUCTURE = [
    "# A\n",
    "## B\n\n",
    "### C ###\n",
    "Title\n===\n",
    "```\n",
    "~~~\n",
    "- x\n",
    "---\n",
    "> quote\n",
]
SPACE = ["\n\n", "\n", " ", "\t", "\r\n", "\u2028", "\x0b", "\x1c"]
WORDS = ["word ", "Ünï. ", "記憶。", "🇩🇪", "e\u0301", "x" * 30]
PIECES = st.sampled_from([*STRUCTURE, *SPACE, *WORDS])


@given(st.lists(PIECES, max_size=60).map("".join), st.integers(1, 80), st.integers(0, 40), st.booleans())
def test_any_text_is_chunked_completely_within_the_size_and_with_exact_offsets(
    text: str, size: int, overlap: int, markdown: bool
) -> None:
    kind = MarkdownChunker if markdown else TextChunker
    chunks = kind(size, overlap=min(overlap, size // 2)).chunk(text)
    assert uncovered(text, chunks) == ""
    reached = -1
    for chunk in chunks:
        assert text[chunk.start : chunk.end] == chunk.text
        assert chunk.text.strip()
        assert len(chunk.text) <= size
        assert text[max(reached, chunk.start) : chunk.end].strip()
        reached = chunk.end


@given(st.lists(PIECES, max_size=80).map("".join), st.integers(16, 60), st.integers(0, 8))
def test_chunks_of_any_text_stay_within_a_size_in_tokens(text: str, size: int, overlap: int) -> None:
    counter = SubadditiveCounter()
    chunks = MarkdownChunker(size, overlap=overlap, counter=counter).chunk(text)
    assert uncovered(text, chunks) == ""
    assert all(counter.count(chunk.text) <= size for chunk in chunks)


def titles(text: str) -> list[tuple[str, ...]]:
    return [heading.path for heading in find_headings(text)]


def test_headings_nest_by_level() -> None:
    text = "# A\n## B\n### C\n## D\n# E\n### F\n"
    assert titles(text) == [("A",), ("A", "B"), ("A", "B", "C"), ("A", "D"), ("E",), ("E", "F")]


def test_underlined_headings_are_headings() -> None:
    assert titles("Title\n=====\n\nintro\n\nPart\n---\n\ntext") == [("Title",), ("Title", "Part")]


@pytest.mark.parametrize(
    "text",
    [
        "```\n# no\n```\n",
        "~~~~\n# no\n~~~\n# no\n~~~~\n",
        "```\n# no, the fence is never closed\n",
        "#no space\n",
        "####### seven\n",
        "    # indented code\n",
        "text\n\n---\n\ntext",
        "- item\n---\n",
        "one\ntwo\n---\n",
        "---\ntitle: front matter\n---\nbody",
        "| a |\n---\n",
    ],
)
def test_lookalikes_of_headings_are_not_found_as_headings(text: str) -> None:
    assert titles(text) == []


def test_headings_after_code_and_front_matter_are_found() -> None:
    assert titles("---\nkey: value\n---\n# A\n```py\n# x\n```\n## B\n") == [("A",), ("A", "B")]


def test_heading_titles_are_shown_without_markup() -> None:
    text = "# The `run` **loop** of [Tellback](https://example.org) ##\n## #\n### C# #\n"
    assert titles(text) == [
        ("The run loop of Tellback",),
        ("The run loop of Tellback",),
        ("The run loop of Tellback", "C#"),
    ]


@pytest.mark.parametrize("prose", ["Nothing of this is about disks. " * 5, ""])
@pytest.mark.parametrize(
    ("lead", "follows"),
    [
        ("The array is made by:\n\n```\n", "".join(f"# step {number} of many\n" for number in range(20)) + "```\n"),
        ("The disks are:\n\n", "".join(f"- disk {number} of many, of one size\n" for number in range(20))),
    ],
)
def test_a_sentence_introducing_code_or_a_list_is_in_one_chunk_with_its_beginning(prose, lead, follows) -> None:
    chunks = MarkdownChunker(200).chunk(f"{prose}\n\n{lead}{follows}")
    assert any(lead + follows.split("\n")[0] in chunk.text for chunk in chunks)
    assert all(len(chunk.text) <= 200 for chunk in chunks)


def test_the_heading_path_of_a_chunk_is_that_of_its_first_words() -> None:
    text = "intro\n# A\n\n## B\nbody\n# C\nend"
    found = find_headings(text)
    assert heading_path(found, text, 0, len(text)) == ()
    assert heading_path(found, text, text.index("# A"), len(text)) == ("A", "B")
    assert heading_path(found, text, text.index("body"), len(text)) == ("A", "B")
    assert heading_path(found, text, text.index("end"), len(text)) == ("C",)


def test_a_chunk_never_runs_into_the_next_section() -> None:
    text = "# A\n\nShort.\n\n# B\n\nAlso short.\n"
    assert [(chunk.heading, chunk.text) for chunk in MarkdownChunker().chunk(text)] == [
        (("A",), "# A\n\nShort."),
        (("B",), "# B\n\nAlso short."),
    ]


def test_a_heading_is_in_one_chunk_with_the_text_below_it() -> None:
    text = "# Book\n\n## Part\n\n" + LOREM * 10
    first, *others = MarkdownChunker(200).chunk(text)
    assert first.text.startswith("# Book\n\n## Part\n\nLorem")
    assert others
    assert {chunk.heading for chunk in (first, *others)} == {("Book", "Part")}


def test_a_heading_is_no_chunk_of_its_own_above_paragraphs_of_nearly_chunk_size() -> None:
    paragraph = "word " * 38
    for chunk in MarkdownChunker(200).chunk(f"## Heading here\n\n{paragraph}\n\n{paragraph}\n"):
        assert chunk.text != "## Heading here"


def test_a_heading_at_the_end_of_a_text_joins_the_last_chunk() -> None:
    (chunk,) = MarkdownChunker().chunk("# A\n\ntext\n\n## Empty\n")
    assert chunk.text == "# A\n\ntext\n\n## Empty"
    assert chunk.heading == ("A",)


def test_a_text_of_headings_alone_is_chunked_completely() -> None:
    chunks = MarkdownChunker(40).chunk("".join(f"## Heading number {n}\n" for n in range(20)))
    assert uncovered("".join(f"## Heading number {n}\n" for n in range(20)), chunks) == ""


def test_a_heading_larger_than_a_chunk_is_cut() -> None:
    text = "# " + "long title " * 30 + "\n\nbody"
    chunks = MarkdownChunker(60).chunk(text)
    assert uncovered(text, chunks) == ""
    assert max(len(chunk.text) for chunk in chunks) <= 60


def test_no_chunk_is_a_horizontal_rule_alone() -> None:
    text = "\n\n---\n\n".join([LOREM * 3] * 6)
    for chunk in TextChunker(200).chunk(text):
        assert chunk.text.strip("- \n")


def test_the_last_chunk_is_not_a_small_remainder() -> None:
    text = LOREM * 18 + "The end."
    sizes = [len(chunk.text) for chunk in TextChunker(1000).chunk(text)]
    assert len(sizes) == 2
    assert min(sizes) > 125


def test_sentences_stay_whole_where_they_fit() -> None:
    for chunk in TextChunker(200).chunk(LOREM * 30):
        assert chunk.text.endswith("elit.")


def test_an_overlap_begins_at_a_sentence_where_one_fits() -> None:
    chunks = TextChunker(300, overlap=80).chunk(LOREM * 30)
    assert len(chunks) > 3
    for before, after in pairwise(chunks):
        assert after.start < before.end
        assert after.text.startswith("Lorem")


def test_a_very_long_line_is_chunked_completely() -> None:
    text = ("word " * 20 + "sentence end. ") * 5000
    chunks = TextChunker().chunk(text)
    assert uncovered(text, chunks) == ""


def test_a_large_paragraph_is_cut_at_sentences_throughout() -> None:
    text = LOREM * 4000
    assert all(chunk.text.endswith("elit.") for chunk in TextChunker().chunk(text))


@pytest.mark.parametrize("size", [0, -1, True, 1.5, "10"])
def test_an_unusable_chunk_size_raises(size: object) -> None:
    with pytest.raises(ArgumentError, match="size"):
        MarkdownChunker(size)  # type: ignore[arg-type]


@pytest.mark.parametrize("overlap", [-1, 51, True, None])
def test_an_unusable_chunk_overlap_raises(overlap: object) -> None:
    with pytest.raises(ArgumentError, match="overlap"):
        TextChunker(100, overlap=overlap)  # type: ignore[arg-type]


def test_a_chunk_size_in_tokens_has_a_minimum() -> None:
    with pytest.raises(ArgumentError, match="at least 16"):
        TextChunker(15, counter=EstimatingCounter())


def test_the_fingerprint_of_a_chunker_differs_by_unit_and_by_kind() -> None:
    assert TextChunker(100).fingerprint != TextChunker(100, counter=EstimatingCounter()).fingerprint
    assert TextChunker(100).fingerprint != MarkdownChunker(100).fingerprint


PROGRAM = '''\
import os

LIMIT = 10


@dataclass
class Store:
    """Keeps things."""

    def search(self, words):
        # the heart of it
        for word in words:
            yield self.index[word]

    def clear(self):
        self.index = {}


def main():
    Store().clear()
'''


def test_code_is_cut_at_definitions_with_their_decorators():
    chunks = CodeChunker(150).chunk(PROGRAM)
    assert [chunk.text.split("\n")[0] for chunk in chunks] == [
        "import os",
        "@dataclass",
        "    def search(self, words):",
        "    def clear(self):",
        "def main():",
    ]


def test_sentences_end_where_their_script_ends_them():
    text = "यह पहला है। यह दूसरा है। هل هذا سؤال؟ نعم هذا. 記憶は大切です。覚えています。"
    assert [text[start:end] for start, end in split_sentences(text)] == [
        "यह पहला है।",
        "यह दूसरा है।",
        "هل هذا سؤال؟",
        "نعم هذا.",
        "記憶は大切です。",
        "覚えています。",
    ]


def test_a_function_chunker_gives_the_pieces_of_its_function():
    by_line = FunctionChunker(str.splitlines, name="lines")
    assert [(chunk.text, chunk.start) for chunk in by_line.chunk("one\n\ntwo\none")] == [
        ("one", 0),
        ("two", 5),
        ("one", 9),
    ]
    with pytest.raises(ArgumentError, match="stand in the text"):
        FunctionChunker(lambda text: [text.upper()]).chunk("small")
