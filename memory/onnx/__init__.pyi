"""The names of ``tellback.memory.onnx``; the package imports each when it is first used."""

from .embedder import OnnxEmbedder as OnnxEmbedder
from .model_files import known_models as known_models
from .reranker import OnnxReranker as OnnxReranker
