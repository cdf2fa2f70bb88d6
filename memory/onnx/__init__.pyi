"""The names of ``tellback.memory.onnx``; the package imports each when it is first used."""

from .embedder import OnnxEmbedder as OnnxEmbedder
from .reranker import OnnxReranker as OnnxReranker
