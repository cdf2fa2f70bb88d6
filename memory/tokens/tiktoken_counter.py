"""Exact token counts by tiktoken, from tables that are on this machine; nothing is ever downloaded."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tellback.memory.errors import ArgumentError, TokenizerUnavailable
from tellback.memory.tokens.token_tables import CACHE_VARIABLES, folder_with_table, table_of

ENCODING = "o200k_base"

_environment_lock = threading.Lock()


class TiktokenCounter:
    """Exact counts of OpenAI's tokenizers; an estimate for other models.

    The first count loads the table, which takes half a second: from *cache* (None: TIKTOKEN_CACHE_DIR where it is set,
    else the user's cache folder), else from the library of semantic-text-splitter, which brings the same bytes. Without
    one, or for an encoding that tiktoken would have to download, ``TokenizerUnavailable`` is raised, each time.
    """

    exact = True

    def __init__(self, encoding: str = ENCODING, *, cache: Path | None = None) -> None:
        if not isinstance(encoding, str) or not encoding:
            raise ArgumentError("encoding", encoding, 'the name of an encoding is needed, such as "o200k_base"')
        self._encoding = encoding
        self._cache = cache
        self._lock = threading.Lock()
        self._outcome: Callable[[str], int] | TokenizerUnavailable | None = None
        """The function that counts, or the reason why there is none; None before the first count."""

    @property
    def name(self) -> str:
        """The encoding."""
        return self._encoding

    def load(self) -> Callable[[str], int]:
        """Return the function that counts; raise ``TokenizerUnavailable`` without a table."""
        with self._lock:
            if self._outcome is None:
                try:
                    self._outcome = _load_encoding(self._encoding, self._cache)
                except TokenizerUnavailable as error:
                    self._outcome = error
            if isinstance(self._outcome, TokenizerUnavailable):
                raise TokenizerUnavailable(str(self._outcome))
            return self._outcome

    def count(self, text: str) -> int:
        """As the protocol says."""
        if not isinstance(text, str):
            raise ArgumentError("text", text, "a text is needed")
        return self.load()(text)


def _load_encoding(encoding: str, cache: Path | None) -> Callable[[str], int]:
    import tiktoken

    loaded = tiktoken.registry.ENCODINGS.get(encoding)  # this process may have it from elsewhere
    if loaded is None:
        table = table_of(encoding)
        if table is None:
            raise TokenizerUnavailable(
                f"no token table of {encoding!r} is known here, and none is downloaded: "
                f"tiktoken.get_encoding({encoding!r}), called before, does that"
            )
        try:
            with folder_with_table(table, cache) as folder, _cache_folder(folder):
                loaded = tiktoken.get_encoding(encoding)
        except (OSError, ValueError) as error:  # a full disk, a version of tiktoken without this encoding
            raise TokenizerUnavailable(f"no token counts of {encoding}: {error}") from error
    encode = loaded.encode_ordinary
    return lambda text: len(encode(text))


@contextmanager
def _cache_folder(folder: Path) -> Iterator[None]:
    """Tell tiktoken, which listens to the environment only, where its cache is."""
    with _environment_lock:
        former = {name: os.environ.pop(name) for name in CACHE_VARIABLES if name in os.environ}
        os.environ[CACHE_VARIABLES[0]] = str(folder)
        try:
            yield
        finally:
            del os.environ[CACHE_VARIABLES[0]]
            os.environ.update(former)
