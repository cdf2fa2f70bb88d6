"""Token counts: the estimate, tiktoken without downloads, and what a message takes.

Inner parts, on no face: ``tellback.memory.tokens``, ``tellback.memory.tokens.counter``.
"""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
import zlib
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from tellback.memory import (
    DocumentBlock,
    EstimatingCounter,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    TiktokenCounter,
    TokenCounter,
    TokenizerUnavailable,
    TokenWindow,
    ToolCallBlock,
    ToolResultBlock,
    default_counter,
    message_tokens,
)
from tellback.memory.internals import counter_for_model
from tellback.memory.tokens import token_tables
from tellback.memory.tokens.counter import (
    MESSAGE_OVERHEAD,
    UNREADABLE_IMAGE_TOKENS,
    FallbackCounter,
    checked_counter,
    image_size,
    image_tokens,
)
from tests.support.slow import first_fast

SMALL = "r50k_base"
"""An encoding with a table that loads in a tenth of a second."""


class Words:
    """Counts words, so that a test can count along."""

    name = "words"
    exact = True

    def count(self, text: str) -> int:
        return len(text.split())


def toy_encoding() -> tiktoken.Encoding:
    """Return an encoding with a token for each byte and none for longer pieces."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    return tiktoken.Encoding("toy", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens={"<|end|>": 256})


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A process that has not loaded r50k_base, on a machine without caches; returns the cache folder of the user."""
    monkeypatch.delitem(tiktoken.registry.ENCODINGS, SMALL, raising=False)
    for name in token_tables.CACHE_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / "caches" / "tellback" / "tiktoken"


@pytest.fixture
def no_compiled_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_tables, "_LIBRARY", "a_library_that_is_not_there")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("abc", 1),
        ("abcd", 2),
        ("two words", 3),
        ("10:30", 5),
        ("(?!)", 4),
        ("a = b[0] ;", 7),
        ("HTTP", 4),
        ("記憶", 4),
        ("é", 2),
        ("🙂", 4),
        ("\n\n    x", 4),
        ("\ud800", 2),
        ("a" * 60, 20),
        ("A" * 60, 48),
        ("!" * 60, 60),
        ("7" * 60, 60),
        (" " * 60, 15),
        ("\n" * 60, 60),
        ("é" * 60, 120),
        ("д" * 60, 40),
        ("ع" * 60, 75),
        ("क" * 60, 100),
        ("語" * 60, 120),
        ("🙂" * 60, 240),
    ],
)
def test_the_estimate_adds_up_words_signs_digits_and_other_letters(text: str, tokens: int) -> None:
    assert EstimatingCounter().count(text) == tokens


@given(st.text(), st.text())
def test_the_estimate_of_two_texts_joined_is_at_most_their_sum(one: str, other: str) -> None:
    counter = EstimatingCounter()
    assert counter.count(one) <= counter.count(one + other) <= counter.count(one) + counter.count(other)


def test_the_estimating_counter_names_itself_an_estimate_and_not_exact() -> None:
    counter = EstimatingCounter()
    assert isinstance(counter, TokenCounter)
    assert not counter.exact
    assert "estimate" in counter.name


def test_the_tiktoken_counter_counts_exactly_with_an_available_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, "toy", toy_encoding())
    counter = TiktokenCounter("toy")
    assert (counter.count("héllo wörld"), counter.exact, counter.name) == (13, True, "toy")


def test_words_that_look_like_control_tokens_are_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, "toy", toy_encoding())
    assert TiktokenCounter("toy").count("<|end|>") == 7


@pytest.mark.parametrize("encoding", first_fast(["r50k_base", "p50k_edit", "cl100k_base", "o200k_harmony"]))
def test_tokens_are_counted_exactly_without_network_and_caches(
    encoding: str, unloaded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(tiktoken.registry.ENCODINGS, encoding, raising=False)
    environment = dict(os.environ)
    assert TiktokenCounter(encoding).count("hello world, hello again") == 5
    assert dict(os.environ) == environment
    assert len(list(unloaded.iterdir())) == 1


def test_a_table_is_read_from_the_cache_where_it_was_kept(
    unloaded: Path, no_compiled_tables: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(token_tables, "_LIBRARY", "semantic_text_splitter")
        TiktokenCounter(SMALL, cache=unloaded).load()
    del tiktoken.registry.ENCODINGS[SMALL]
    assert TiktokenCounter(SMALL).count("hello world") == 2
    del tiktoken.registry.ENCODINGS[SMALL]
    unloaded.rename(unloaded.parents[2] / "data-gym-cache")  # that of other programs, in the temporary folder
    assert TiktokenCounter(SMALL).count("hello world") == 2


@pytest.mark.parametrize("name", first_fast(token_tables.CACHE_VARIABLES))
def test_a_table_is_kept_in_the_cache_that_the_user_set_for_tiktoken(
    name: str, unloaded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, str(tmp_path / "theirs"))
    assert TiktokenCounter(SMALL).count("hello world") == 2
    assert os.environ[name] == str(tmp_path / "theirs")
    assert len(list((tmp_path / "theirs").iterdir())) == 1
    assert not unloaded.exists()


def test_a_user_who_forbids_the_cache_gets_exact_counts_and_no_file(
    unloaded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert TiktokenCounter(SMALL).count("hello world") == 2
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_leaves_counts_exact(unloaded: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert TiktokenCounter(SMALL, cache=tmp_path / "file" / "below").count("hello world") == 2


def test_a_damaged_table_is_neither_used_nor_replaced_by_a_download(unloaded: Path, no_compiled_tables: None) -> None:
    damaged = cached_file(unloaded, b"not the table")
    counter = TiktokenCounter(SMALL)
    for _ in range(2):
        with pytest.raises(TokenizerUnavailable, match="no token table r50k_base on this machine"):
            counter.count("words")
    assert damaged.read_bytes() == b"not the table"


def test_a_damaged_table_is_replaced_by_the_compiled_one(unloaded: Path) -> None:
    damaged = cached_file(unloaded, b"not the table")
    assert TiktokenCounter(SMALL).count("hello world") == 2
    assert hashlib.sha256(damaged.read_bytes()).hexdigest() == token_tables.TABLE_HASHES[SMALL]


def test_bytes_of_another_hash_are_not_kept_as_a_table(tmp_path: Path) -> None:
    with pytest.raises(TokenizerUnavailable, match="another hash"):
        token_tables.keep_table(SMALL, b"IQ== 0\n", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_default_counter_estimates_where_there_is_no_table(unloaded: Path, no_compiled_tables: None) -> None:
    counter = default_counter(SMALL)
    assert (counter.count("twelve chars"), counter.exact) == (4, False)
    assert "estimate" in counter.name


def test_the_fallback_uses_the_exact_counter_where_it_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, "toy", toy_encoding())
    counter = FallbackCounter(TiktokenCounter("toy"), EstimatingCounter())
    assert (counter.name, counter.exact, counter.count("abcdef")) == ("toy", True, 6)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-4-turbo", "cl100k_base"),
        ("openai/gpt-4-turbo", "cl100k_base"),
        ("claude-sonnet-5-5", "estimate/pieces"),
        ("llama3.2:3b", "estimate/pieces"),
        (None, "estimate/pieces"),
    ],
)
def test_tokens_of_a_model_are_counted_by_its_own_tokenizer_or_estimated(model: str | None, name: str) -> None:
    assert counter_for_model(model).name == name


def test_the_known_table_hashes_and_urls_equal_those_of_tiktoken() -> None:
    import inspect

    import tiktoken_ext.openai_public

    source = inspect.getsource(tiktoken_ext.openai_public)
    for encoding, expected in token_tables.TABLE_HASHES.items():
        assert expected in source
        assert token_tables.table_url(encoding) in source


def test_an_unknown_encoding_is_unavailable_not_a_crash() -> None:
    with pytest.raises(TokenizerUnavailable, match="nonsense"):
        TiktokenCounter("nonsense").count("x")


def cached_file(folder: Path, content: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha1(token_tables.table_url(SMALL).encode()).hexdigest()
    path.write_bytes(content)
    return path


def test_an_empty_message_takes_the_overhead() -> None:
    assert message_tokens(Message.user(""), Words()) == MESSAGE_OVERHEAD


def test_message_tokens_count_text_and_name() -> None:
    assert message_tokens(Message.user("one two three", name="Ann Lee"), Words()) == MESSAGE_OVERHEAD + 5


def test_tool_calls_count_with_their_arguments() -> None:
    call = ToolCallBlock(id="1", name="look", arguments={"where": "in the old harbour"})
    assert message_tokens(Message.assistant([call]), Words()) == MESSAGE_OVERHEAD + 1 + 5
    broken = ToolCallBlock(id="1", name="look", invalid="{not json at all")
    assert message_tokens(Message.assistant([broken]), Words()) == MESSAGE_OVERHEAD + 1 + 4


def test_tool_results_count_with_their_images() -> None:
    result = ToolResultBlock(
        call_id="1", content=(TextBlock(text="two words"), ImageBlock(media_type="image/png", data=png(64, 65)))
    )
    assert message_tokens(Message.tool([result]), Words()) == MESSAGE_OVERHEAD + 2 + 340
    named = result.model_copy(update={"name": "look it up"})
    assert message_tokens(Message.tool([named]), Words()) == MESSAGE_OVERHEAD + 3 + 2 + 340


def test_message_tokens_count_thinking_blocks() -> None:
    blocks = [ThinkingBlock(text="let me see", signature="s"), ThinkingBlock(redacted="opaque")]
    assert message_tokens(Message.assistant(blocks), Words()) == MESSAGE_OVERHEAD + 4


def test_documents_count_by_bytes_and_plain_text_by_its_words() -> None:
    pdf = DocumentBlock(media_type="application/pdf", data=bytes(1501))
    plain = DocumentBlock(media_type="text/plain", data="drei grüne Wörter".encode())
    assert message_tokens(Message.user([pdf]), Words()) == MESSAGE_OVERHEAD + 2
    assert message_tokens(Message.user([plain]), Words()) == MESSAGE_OVERHEAD + 3
    other = DocumentBlock(media_type="text/plain", data="drei grüne Wörter".encode("latin-1"))
    assert message_tokens(Message.user([other]), Words()) == MESSAGE_OVERHEAD + 3


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [(1, 1, 170), (64, 64, 170), (65, 64, 340), (128, 128, 680), (1000, 1000, 43520)],
)
def test_an_image_takes_a_number_of_tokens_for_each_tile(width: int, height: int, tokens: int) -> None:
    assert image_tokens(png(width, height)) == tokens


@pytest.mark.parametrize("make", ["png", "gif", "jpeg", "webp_lossy", "webp_lossless", "webp_extended"])
@pytest.mark.parametrize("size", [(1, 1), (640, 480), (3, 4097)])
def test_image_size_is_read_from_each_image_format(make: str, size: tuple[int, int]) -> None:
    assert image_size(IMAGES[make](*size)) == size


@pytest.mark.parametrize("make", ["png", "gif", "jpeg", "webp_lossy", "webp_lossless", "webp_extended"])
def test_image_size_of_a_truncated_header_is_none_or_right(make: str) -> None:
    whole = IMAGES[make](640, 480)
    assert {image_size(whole[:length]) for length in range(len(whole) + 1)} == {None, (640, 480)}


@given(st.binary(max_size=80), st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8", b"RIFF0000WEBP"]))
def test_image_size_of_any_bytes_is_positive_or_none(data: bytes, start: bytes) -> None:
    size = image_size(start + data)
    assert size is None or min(size) > 0


def test_an_image_that_cannot_be_read_takes_a_fixed_number() -> None:
    assert image_tokens(b"not an image") == UNREADABLE_IMAGE_TOKENS
    assert image_tokens(png(0, 7)) == UNREADABLE_IMAGE_TOKENS


def png(width: int, height: int) -> bytes:
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def jpeg(width: int, height: int) -> bytes:
    app = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + bytes(9)
    tables = b"\xff\xc4" + struct.pack(">H", 8) + b"\xff\xc0\x01\x02\x03\x04"
    frame = b"\xff\xff\xc2" + struct.pack(">HBHHB", 17, 8, height, width, 3)
    return b"\xff\xd8" + app + tables + frame + bytes(9)


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", len(body) + 12) + b"WEBP" + kind + struct.pack("<I", len(body)) + body


IMAGES = {
    "png": png,
    "gif": gif,
    "jpeg": jpeg,
    "webp_lossy": lambda w, h: webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", w, h)),
    "webp_lossless": lambda w, h: webp(b"VP8L", b"\x2f" + struct.pack("<I", (w - 1) | (h - 1) << 14 | 1 << 28)),
    "webp_extended": lambda w, h: webp(
        b"VP8X", bytes(4) + (w - 1).to_bytes(3, "little") + (h - 1).to_bytes(3, "little")
    ),
}


class Broken:
    """A program's own counter that fails at texts with an x."""

    name, exact = "broken", True

    def count(self, text: str) -> int:
        if "x" in text:
            raise RuntimeError("no table")
        return len(text)


def test_a_counter_that_fails_is_replaced_by_the_estimate_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    counter = checked_counter(Broken())
    assert (counter.count("four"), counter.exact, counter.name) == (4, True, "broken")
    estimate = EstimatingCounter()
    assert [counter.count(text) for text in ("six", "x" * 40)] == [estimate.count("six"), estimate.count("x" * 40)]
    assert not counter.exact
    assert [record.message for record in caplog.records] == [
        "the token counter Broken failed (RuntimeError: no table); tokens are estimated"
    ]
    window = TokenWindow(10, Broken()).apply([Message.user("x" * 400), Message.user("x")])
    assert [message.text for message in window.messages] == ["x"]
