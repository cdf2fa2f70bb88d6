"""What every embedder does with its input: checks it before anything is sent, and cuts it into batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memory.errors import ArgumentError


def check_input(texts: Sequence[str], kind: str) -> None:
    """Raise ``ArgumentError`` unless *texts* are whole texts and *kind* is one of the two."""
    if kind not in ("document", "query"):
        raise ArgumentError("kind", kind, "'document' or 'query' is needed")
    if isinstance(texts, str):
        raise ArgumentError("texts", texts, "a list of texts is needed, not one text")
    check_texts(texts)


def check_texts(texts: Sequence[object], argument: str = "texts") -> None:
    """Raise ``ArgumentError`` naming the first of *texts* that no tokenizer and no server could take."""
    for position, text in enumerate(texts):
        whole = isinstance(text, str) and _is_whole(text)
        if not whole:
            raise ArgumentError(f"{argument}[{position}]", text, "a text without lone surrogates is needed")


def is_blank(text: str) -> bool:
    """Whether *text* has nothing to embed."""
    return not text or text.isspace()


def batches(texts: Sequence[str], count: int, characters: int) -> Iterator[Sequence[str]]:
    """Cut *texts* into runs of bounded count and size; a text above the bound is a run of its own."""
    start = size = 0
    for position, text in enumerate(texts):
        full = position - start >= count or size + len(text) > characters
        if full and position > start:
            yield texts[start:position]
            start, size = position, 0
        size += len(text)
    if start < len(texts):
        yield texts[start:]


def _is_whole(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
