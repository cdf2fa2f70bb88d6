"""Documents: loading, taking in, finding again and citing them. ``KnowledgeBase`` is the way in."""

from memory.rag.cite import Citation, cite
from memory.rag.documents import Document
from memory.rag.knowledge_base import DocumentInfo, KnowledgeBase
from memory.rag.loaders.protocol import Loaded, Loader
from memory.rag.passages import Passage, Passages, passages_of
from memory.rag.report import IngestAction, IngestLine, IngestProgress, IngestReport

__all__ = [
    "Citation",
    "Document",
    "DocumentInfo",
    "IngestAction",
    "IngestLine",
    "IngestProgress",
    "IngestReport",
    "KnowledgeBase",
    "Loaded",
    "Loader",
    "Passage",
    "Passages",
    "cite",
    "passages_of",
]
