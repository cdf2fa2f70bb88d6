"""Chunkers: how a document is cut into the pieces that are found.

``KnowledgeBase(memory, chunker=…)`` takes any of them, or a function that returns the pieces of a text. The contract is
``Chunker``; ``memory.testing.ChunkerContract`` tests one.
"""

from memory.chunking.code import CodeChunker
from memory.chunking.markdown import MarkdownChunker
from memory.chunking.pieces import FixedChunker, FunctionChunker, SentenceChunker, WholeChunker
from memory.chunking.protocol import Chunk, Chunker
from memory.chunking.text import TextChunker

__all__ = [
    "Chunk",
    "Chunker",
    "CodeChunker",
    "FixedChunker",
    "FunctionChunker",
    "MarkdownChunker",
    "SentenceChunker",
    "TextChunker",
    "WholeChunker",
]
