"""The names of ``memory.onnx`` for type checkers; __init__.py imports each when it is first used."""

from memory.onnx.embedder import OnnxEmbedder as OnnxEmbedder
from memory.onnx.reranker import OnnxReranker as OnnxReranker
