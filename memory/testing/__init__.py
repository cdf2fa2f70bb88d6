"""Contract suites of the memory layer, for built-in and third-party implementations; they need pytest."""

from vectorstore import MissingExtra as _MissingExtra

try:
    import pytest  # noqa: F401
except ModuleNotFoundError as error:
    raise _MissingExtra(__name__, "dev") from error

from memory.testing.chunker_contract import ChunkerContract
from memory.testing.embedder_contract import EmbedderContract
from memory.testing.history_contract import HistoryStorageContract
from memory.testing.retention_contract import RetentionContract
from memory.testing.summary_contract import SummaryStorageContract
from memory.testing.window_contract import ConversationWindowPolicyContract, WindowPolicyContract
from memory.testing.wrapper_contract import WrappedMemoryContract

__all__ = [
    "ChunkerContract",
    "ConversationWindowPolicyContract",
    "EmbedderContract",
    "HistoryStorageContract",
    "RetentionContract",
    "SummaryStorageContract",
    "WindowPolicyContract",
    "WrappedMemoryContract",
]
