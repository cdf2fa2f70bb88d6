"""Sentences of a text, and those among them that state something: no headings, code or directives. Rules."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tellback.memory.chunking.sentences import TextSpan, line_spans, split_sentences, strip_span
from tellback.memory.documents.table_rows import assignments, record_fields, table_rows

QUOTE_LIMIT = 400
"""Characters that a quote may have."""
_FENCE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_FENCE_LINE = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*$", re.MULTILINE)
_UNDERLINED = re.compile(r"^[^\n]+\n(?:([=\-^\"'*#+])\1{2,}|([~`])\2{3,})[ \t]*$", re.MULTILINE)
"""A line with a rule below it; three backticks are a fence."""
_LITERAL_BLOCK = re.compile(r"::[ \t]*\n[ \t]*\n((?:[ \t]+[^\n]*(?:\n|\Z)|[ \t]*\n)+)")
"""Lines that are indented after a double colon: literal text of reStructuredText."""
_CODE_DIRECTIVE = re.compile(
    r"^([ \t]*)\.\. (?:code|code-block|sourcecode|highlight|parsed-literal|csv-table|list-table|math|toctree)::[^\n]*\n"
    r"(?:\1[ \t]+[^\n]*(?:\n|\Z)|[ \t]*\n)*",
    re.MULTILINE,
)
_NOT_PROSE = (_UNDERLINED, _LITERAL_BLOCK, _CODE_DIRECTIVE)
_MARKUP_LINE = re.compile(
    r"""[ \t]*(?:
        \#{1,6}(?:\s|$)             # heading
      | \||[+][-=+]{3}              # row or rule of a table
      | ([=\-~^"'`*_#+])\1{2,}\s*$  # rule, underline
      | \.\.(?:\s|$)|:[\w-]+:\s*$|:[\w-]+(?:\s[^:\n]*)?:\s  # directive, field
      | >>>|\.\.\.\s|\$\s           # dialogue with an interpreter or a shell
      | <!--|\[[^\]]+\]:\s          # comment, target of a link
      | !\[[^\]]*\]\([^)]*\)\s*$    # picture
    )""",
    re.VERBOSE,
)
_CROSS_REFERENCE = re.compile(
    r"\((?:see|cf\.?|siehe|vgl\.?|voir|véase)\s[^()]*\)"
    r"|\b(?:Section|Chapter|Appendix|Table|Figure|Abschnitt|Kapitel|Sección|Chapitre)\s[\dA-Z][\d.]*"
    r"(?:,?\s[\"\u201c][^\"\u201d]*[\"\u201d])?"
)
_INLINE_ROLE = re.compile(r"[ \t]*:[\w-]+:`")
_QUESTION_END = re.compile("[?\uff1f\u061f][\"'\u201d\u2019)\\]*_]*\\Z")
_RECORDS = re.compile(r"(?P<name>[^:;\n]{1,80}): [^\n]*\n(?P=name): ")
"""Lines that begin with the same field: rows of a table, each a record of its own."""
_RECORD = re.compile(r"(?:[^\s:;.]+\.)+[^\s:;.]+: |[^:;\n]{1,80}: [^;\n]*; (?:[^\s:;.]+\.)+[^\s:;.]+: ")
"""A line whose first or second field is named by a path: an object of JSON."""
_ONLY_CODE = re.compile(r"(?:`[^`\n]+`[\s,;]*)+\Z")
_MIN_WORDS = 2
_WORD = re.compile(r"\w+")


def stating_sentences(text: str) -> list[TextSpan]:
    """Return the sentences of *text* that may answer a question, in order; none where it has no prose.

    The rows of a table and the fields of a record are such sentences, and so are lines of code that give a name a plain
    value. Left out are headings, other code and dialogues with a program, directives and fields of reStructuredText,
    questions, lines that only lead to a list or block ("as follows:"), signatures, and single words.
    """
    fences = _fences(text)
    blocks = sorted([*fences, *(match.span() for pattern in _NOT_PROSE for match in pattern.finditer(text))])
    spans = [*table_rows(text), *(line for fence in fences for line in assignments(text, *fence))]
    for start, end in _split_records(text):
        inner = start
        for block_start, block_end in blocks:
            if block_start <= inner < block_end:
                inner = min(block_end, end)
        outer = next((begin for begin, _ in blocks if inner < begin < end), end)
        inner, outer = strip_span(text, *_without_markup_lines(text, inner, outer))
        if inner < outer and _states(text[inner:outer]):
            spans.append((inner, outer))
    return sorted(spans)


def quotable_spans(text: str, limit: int) -> list[TextSpan]:
    """Return the sentences of *text* that state something, else all, cut into pieces of at most *limit* characters."""
    return stating_spans(text, limit) or [
        piece for span in split_sentences(text) for piece in _split_span(text, span, limit)
    ]


def stating_spans(text: str, limit: int) -> list[TextSpan]:
    """Return the sentences of *text* that state something, cut into pieces of at most *limit* characters."""
    return [piece for span in stating_sentences(text) for piece in _split_span(text, span, limit)]


def _split_records(text: str) -> Iterator[TextSpan]:
    """Yield the sentences of *text*; of records each line, or the fields that stand for themselves."""
    for start, end in split_sentences(text):
        several = _RECORDS.match(text, start, end)
        for line in [strip_span(text, *line) for line in line_spans(text, start, end)] if several else [(start, end)]:
            yield from record_fields(text, *line) if _RECORD.match(text, *line) else [line]


def without_cross_references(text: str) -> str:
    """Return *text* without what only names another place: "(see Chapter 15, Building a Package)"."""
    return _CROSS_REFERENCE.sub(" ", text)


def code_steps(text: str, limit: int) -> list[TextSpan]:
    """Return the blocks of code of *text* with the sentence that leads to each, in order: steps of an instruction.

    A longer one than *limit* characters ends after its last line that fits; a block right below a heading has none.
    """
    steps = []
    for begin, stop in sorted([*_fences(text), *(match.span() for match in _LITERAL_BLOCK.finditer(text))]):
        before = text[:begin].rstrip()
        lead = before[before.rfind("\n\n") + 1 :]
        offset = len(before) - len(lead)
        sentences = [span for span in split_sentences(lead) if not _is_markup(lead[span[0] : span[1]])]
        if not sentences:
            continue
        start, end = offset + sentences[-1][0], stop
        if end - start > limit:
            end = text.rfind("\n", begin, start + limit)
        if end > begin + len(text[begin:stop].split("\n")[0]):
            steps.append((start, strip_span(text, start, end)[1]))
    return steps


def _fences(text: str) -> list[TextSpan]:
    """Return the fenced blocks of *text*, also the rest of one that was cut before it began.

    Of an odd number of fences, the first closes a block if there is code right above it.
    """
    lines = list(_FENCE_LINE.finditer(text))
    cut = len(lines) % 2 == 1 and text[: lines[0].start()].rstrip(" \t").rpartition("\n")[0].rpartition("\n")[2].strip()
    reached = lines[0].end() if cut else 0
    return [(0, reached)] * bool(cut) + [match.span() for match in _FENCE.finditer(text, reached)]


def _without_markup_lines(text: str, start: int, end: int) -> TextSpan:
    """Return the span from its first line that is no markup up to the next one that is."""
    lines = list(line_spans(text, start, end))
    prose = [not _is_markup(text[begin:stop]) for begin, stop in lines]
    if True not in prose:
        return end, end
    first = prose.index(True)
    last = prose.index(False, first) if False in prose[first:] else len(prose)
    return lines[first][0], lines[last - 1][1]


def _is_markup(line: str) -> bool:
    return _MARKUP_LINE.match(line) is not None and not _INLINE_ROLE.match(line)


def _states(sentence: str) -> bool:
    return (
        not sentence.endswith((":", "\uff1a"))
        and not _QUESTION_END.search(sentence)
        and not _ONLY_CODE.match(sentence)
        and (len(_WORD.findall(sentence)) >= _MIN_WORDS or not sentence.isascii())
    )


def _split_span(text: str, span: TextSpan, limit: int) -> list[TextSpan]:
    """Return *span* cut at blanks into pieces of at most *limit* characters."""
    start, end = span
    pieces = []
    while end - start > limit:
        cut = max(text.rfind(" ", start + 1, start + limit + 1), text.rfind("\n", start + 1, start + limit + 1))
        stop = cut if cut > start else start + limit
        pieces.append((start, strip_span(text, start, stop)[1]))
        start = strip_span(text, stop, end)[0]
    if end > start:
        pieces.append((start, end))
    return pieces
