"""Chunkers: how a document is cut into the pieces that are found.

``KnowledgeBase(memory, chunker=…)`` takes any of them, or a function that returns the pieces of a text. The contract is
``Chunker``; ``tellback.memory.testing.ChunkerContract`` tests one.
"""

from tellback.memory.chunking.code import CodeChunker
from tellback.memory.chunking.function import FunctionChunker
from tellback.memory.chunking.markdown import MarkdownChunker
from tellback.memory.chunking.protocol import Chunk, Chunker
from tellback.memory.chunking.text import TextChunker

__all__ = [
    "Chunk",
    "Chunker",
    "CodeChunker",
    "FunctionChunker",
    "MarkdownChunker",
    "TextChunker",
]
