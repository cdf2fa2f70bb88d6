"""Contract suites of the memory layer, for built-in and third-party implementations; they need pytest."""

from tellback.vectorstore import MissingExtra as _MissingExtra

try:
    import pytest  # noqa: F401
except ModuleNotFoundError as error:
    raise _MissingExtra(__name__, "dev") from error

from tellback.memory.testing.chunker_contract import ChunkerContract
from tellback.memory.testing.embedder_contract import EmbedderContract
from tellback.memory.testing.history_contract import HistoryStorageContract
from tellback.memory.testing.wrapper_contract import WrappedMemoryContract

__all__ = [
    "ChunkerContract",
    "EmbedderContract",
    "HistoryStorageContract",
    "WrappedMemoryContract",
]
