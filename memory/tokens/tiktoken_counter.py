"""Exact token counts by tiktoken; its tables are fetched in a thread, within a few seconds, into a lasting cache.

By itself, tiktoken waits for the network without limit while holding a lock of its own, and keeps its tables in a
temporary folder.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from memory.errors import ArgumentError, TokenizerUnavailable

ENCODING = "o200k_base"
LOAD_LIMIT = 4.0
"""Seconds that the tables may take to arrive."""

_CACHE_VARIABLES = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")
_TABLES_URL = "https://openaipublic.blob.core.windows.net/encodings/"
# What tiktoken expects the tables of an encoding to hash to. Known here so that, offline, a damaged file is
# found before tiktoken sees it: it would fetch another.
_TABLE_HASHES = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
_environment_lock = threading.Lock()


class TiktokenCounter:
    """Exact counts of OpenAI's tokenizers; an estimate for other models.

    The first count loads the tables, for at most *limit* seconds; a failure is remembered, so that nobody
    waits twice, and raises ``TokenizerUnavailable``. *offline* uses what the cache has, never the network.
    The cache is TIKTOKEN_CACHE_DIR where the user set it, else *cache*, else the user's cache folder.
    """

    exact = True

    def __init__(
        self,
        encoding: str = ENCODING,
        *,
        offline: bool = False,
        limit: float = LOAD_LIMIT,
        cache: Path | None = None,
    ) -> None:
        if not isinstance(encoding, str) or not encoding:
            raise ArgumentError("encoding", encoding, 'the name of an encoding is needed, such as "o200k_base"')
        if type(limit) not in (int, float) or not limit > 0:
            raise ArgumentError("limit", limit, "a number of seconds above 0 is needed")
        self._encoding = encoding
        self._offline = offline
        self._limit = limit
        self._cache = cache
        self._lock = threading.Lock()
        self._outcome: Callable[[str], int] | str | None = None
        """The function that counts, or the reason why there is none; None before the first count."""

    @property
    def name(self) -> str:
        """The encoding."""
        return self._encoding

    def load(self) -> Callable[[str], int]:
        """Return the function that counts; raise ``TokenizerUnavailable`` without tables. Blocks up to the limit."""
        with self._lock:
            if self._outcome is None:
                self._outcome = self._load()
            if isinstance(self._outcome, str):
                raise TokenizerUnavailable(f"no token counts of {self._encoding}: {self._outcome}")
            return self._outcome

    def count(self, text: str) -> int:
        """As the protocol says; the first call may take as long as the limit."""
        if not isinstance(text, str):
            raise ArgumentError("text", text, "a text is needed")
        return self.load()(text)

    def _load(self) -> Callable[[str], int] | str:
        cache = self._cache if self._cache is not None else platformdirs.user_cache_path("tellback") / "tiktoken"
        if self._offline and not _is_cached(self._encoding, cache):
            return "its tables are not in the cache, and offline they are not fetched"
        outcome: list[Callable[[str], int] | str] = []
        with _cache_folder(cache):
            # a daemon: a fetch that never ends must not keep the process from ending
            thread = threading.Thread(
                target=_load_encoding, args=(self._encoding, outcome), daemon=True, name="tellback-tiktoken"
            )
            thread.start()
            thread.join(self._limit)
        return outcome[0] if outcome else f"its tables did not arrive within {self._limit:g} s"


def _load_encoding(encoding: str, outcome: list[Callable[[str], int] | str]) -> None:
    try:
        import tiktoken

        loaded = tiktoken.get_encoding(encoding)
        outcome.append(lambda text: len(loaded.encode_ordinary(text)))
    except Exception as error:  # network, disk, hash, name: whatever it is, counts are estimated instead
        outcome.append(f"{type(error).__name__} while loading its tables")


@contextmanager
def _cache_folder(cache: Path) -> Iterator[None]:
    """Tell tiktoken, which listens to the environment only, where its cache is; the user's word stands."""
    with _environment_lock:
        if any(name in os.environ for name in _CACHE_VARIABLES):
            yield
            return
        os.environ[_CACHE_VARIABLES[0]] = str(cache)
        try:
            yield
        finally:
            os.environ.pop(_CACHE_VARIABLES[0], None)


def _is_cached(encoding: str, cache: Path) -> bool:
    expected = _TABLE_HASHES.get(encoding)
    folder = next((os.environ[name] for name in _CACHE_VARIABLES if name in os.environ), str(cache))
    if expected is None or not folder:
        return False
    name = hashlib.sha1(f"{_TABLES_URL}{encoding}.tiktoken".encode(), usedforsecurity=False).hexdigest()
    try:
        return hashlib.sha256((Path(folder) / name).read_bytes()).hexdigest() == expected
    except OSError:
        return False
