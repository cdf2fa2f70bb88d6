"""Token counts: the estimate, the guard around tiktoken, and what a message takes.

Inner parts, on no face: ``memory.tokens``, ``memory.tokens.counter``.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from memory import (
    ArgumentError,
    DocumentBlock,
    EstimatingCounter,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    TiktokenCounter,
    TokenCounter,
    TokenizerUnavailable,
    ToolCallBlock,
    ToolResultBlock,
    message_tokens,
)
from memory.internals import default_counter
from memory.tokens import tiktoken_counter
from memory.tokens.counter import MESSAGE_OVERHEAD, UNREADABLE_IMAGE_TOKENS, FallbackCounter, image_size, image_tokens


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


@contextmanager
def silent_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lead tiktoken's fetch to a server that accepts and never answers; hang up at the end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    held.append(listener.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        for name in ("HTTPS_PROXY", "https_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{listener.getsockname()[1]}")
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in held:
                connection.close()
            for waiting in threading.enumerate():
                if waiting.name == "tellback-tiktoken":
                    waiting.join()


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


def test_a_tokenizer_fetch_that_never_answers_times_out_and_is_not_retried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with silent_proxy(monkeypatch):
        before = dict(os.environ)
        counter = TiktokenCounter("r50k_base", limit=0.2, cache=tmp_path)
        with pytest.raises(TokenizerUnavailable, match="did not arrive within"):
            counter.count("some words")
        assert dict(os.environ) == before
        tried: list[str] = []
        monkeypatch.setattr(tiktoken_counter, "_load_encoding", lambda encoding, outcome: tried.append(encoding))
        with pytest.raises(TokenizerUnavailable, match="did not arrive within"):
            counter.count("some words")
        assert tried == []


def test_the_tiktoken_counter_waits_for_its_time_limit_and_not_for_the_fetch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    over = threading.Event()

    def fetch(encoding: str, outcome: list[object]) -> None:
        over.wait(600)
        outcome.append("it came after all")

    monkeypatch.setattr(tiktoken_counter, "_load_encoding", fetch)
    with pytest.raises(TokenizerUnavailable, match=r"did not arrive within 0\.05 s"):
        TiktokenCounter(limit=0.05, cache=tmp_path).load()
    over.set()


def test_the_fallback_counter_tries_the_first_counter_only_once() -> None:
    class Absent(TiktokenCounter):
        tries = 0

        def load(self) -> None:
            self.tries += 1
            raise TokenizerUnavailable("none here")

    absent = Absent()
    counter = FallbackCounter(absent, EstimatingCounter())
    assert [counter.count("a"), counter.count("b"), counter.exact] == [1, 1, False]
    assert absent.tries == 1


def test_the_default_counter_estimates_where_the_network_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    counter = default_counter()
    assert (counter.count("twelve chars"), counter.exact) == (4, False)
    assert "estimate" in counter.name


def test_the_fallback_uses_the_exact_counter_where_it_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, "toy", toy_encoding())
    counter = FallbackCounter(TiktokenCounter("toy"), EstimatingCounter())
    assert (counter.name, counter.exact, counter.count("abcdef")) == ("toy", True, 6)


def test_offline_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fetched: list[str] = []
    monkeypatch.setattr(tiktoken_counter, "_load_encoding", lambda encoding, outcome: fetched.append(encoding))
    with pytest.raises(TokenizerUnavailable, match="offline"):
        TiktokenCounter(offline=True, cache=tmp_path).count("words")
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path)
    assert not default_counter(offline=True).exact
    assert fetched == []


def test_offline_a_damaged_cache_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tiktoken_counter, "_load_encoding", None)
    damaged = cached_file(tmp_path, b"not the tables")
    with pytest.raises(TokenizerUnavailable, match="offline"):
        TiktokenCounter(offline=True, cache=tmp_path).load()
    assert damaged.read_bytes() == b"not the tables"


def test_offline_a_whole_cache_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cached_file(tmp_path, b"tables")
    monkeypatch.setitem(tiktoken_counter._TABLE_HASHES, "o200k_base", hashlib.sha256(b"tables").hexdigest())
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, "o200k_base", toy_encoding())
    assert TiktokenCounter(offline=True, cache=tmp_path).count("four") == 4


def test_the_tiktoken_counter_respects_a_tiktoken_cache_dir_of_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[str | None] = []
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "/chosen")
    monkeypatch.setattr(
        tiktoken_counter, "_load_encoding", lambda *_: seen.append(os.environ.get("TIKTOKEN_CACHE_DIR"))
    )
    with pytest.raises(TokenizerUnavailable):
        TiktokenCounter(cache=tmp_path).load()
    assert seen == ["/chosen"]


def test_the_tiktoken_counter_sets_its_own_cache_dir_only_while_loading(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[str | None] = []
    for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        tiktoken_counter, "_load_encoding", lambda *_: seen.append(os.environ.get("TIKTOKEN_CACHE_DIR"))
    )
    with pytest.raises(TokenizerUnavailable):
        TiktokenCounter(cache=tmp_path).load()
    assert seen == [str(tmp_path)]
    assert "TIKTOKEN_CACHE_DIR" not in os.environ


def test_the_known_table_hashes_and_urls_equal_those_of_tiktoken() -> None:
    import inspect

    import tiktoken_ext.openai_public

    source = inspect.getsource(tiktoken_ext.openai_public)
    for encoding, expected in tiktoken_counter._TABLE_HASHES.items():
        assert expected in source
        assert f"{tiktoken_counter._TABLES_URL}{encoding}.tiktoken" in source


def test_an_unknown_encoding_is_unavailable_not_a_crash() -> None:
    with pytest.raises(TokenizerUnavailable, match="nonsense"):
        TiktokenCounter("nonsense").count("x")


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_an_invalid_time_limit_of_the_tiktoken_counter_raises(limit: float) -> None:
    with pytest.raises(ArgumentError, match="limit"):
        TiktokenCounter(limit=limit)


def cached_file(folder: Path, content: bytes) -> Path:
    url = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
    path = folder / hashlib.sha1(url.encode()).hexdigest()
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
