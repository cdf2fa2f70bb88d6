"""Files of an ONNX model: of a folder, or of a model that fastembed knows by name and has fetched before.

A folder has the layout of a model hub: the model (``model.onnx``, or the like in ``onnx/``), ``tokenizer.json`` and
``tokenizer_config.json``. What sentence-transformers writes beside them is heeded: the pooling in
``1_Pooling/config.json``, the prefixes in ``config_sentence_transformers.json``.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

from tellback.memory.embedders.array_files import user_cache
from tellback.memory.errors import ArgumentError, EmbedderError
from tellback.vectorstore import MissingExtra

EXTRA: Final = "encoder"
Task = Literal["embedding", "reranking"]
_MODEL_NAMES = tuple(
    f"{folder}{name}.onnx"
    for name in ("model", "model_optimized", "model_quantized", "model_int8", "model_qint8")
    for folder in ("", "onnx/")
)
"""Files that are taken for the model, in this order; another one is given as *file*."""
_NEEDED = ("tokenizer.json", "tokenizer_config.json")
_PROMPTS = "config_sentence_transformers.json"
_POOLING = "1_Pooling/config.json"
_BLOCK = 1 << 16
_BLOCKS = 128
"""A larger file is marked by so many blocks, spread evenly, and its size: other weights differ in all of them, and a
file of gigabytes need not be read in each process."""


@dataclass(frozen=True)
class ModelFiles:
    """The files of one model: its *folder*, the *file* in it, and the *name* by which fastembed knows it ("" if none).

    *token_limit*: tokens of a text that the model reads.
    """

    folder: Path
    file: str
    name: str
    token_limit: int

    @cached_property
    def mark(self) -> str:
        """Hash of the weights, the tokenizer and their settings, 16 hexadecimal digits."""
        digest = hashlib.sha256()
        weights = sorted((self.folder / self.file).parent.glob(f"{Path(self.file).name}[._]data*"))
        for path in (self.folder / self.file, *weights, *(self.folder / name for name in (*_NEEDED, _POOLING))):
            if path.is_file():
                _hash_file(path, digest)
        return digest.hexdigest()[:16]

    def load(self, model_class: Any, threads: int | None, variant: str = "", **description: Any) -> Any:
        """Return fastembed's model of these files; those of a folder are registered under a name that is theirs.

        *variant* is what distinguishes one *description* of them from another.
        """
        from fastembed.common.model_description import ModelSource

        name = self.name or f"tellback/{self.mark}/{self.file}/{variant}"
        if not self.name:
            with suppress(ValueError):  # registered before in this process; any other fault is raised below
                source = ModelSource(hf=name)  # of which nothing is ever fetched
                model_class.add_custom_model(name, sources=source, model_file=self.file, **description)
        return model_class(name, threads=threads, specific_model_path=str(self.folder))

    def __str__(self) -> str:
        return self.name or str(self.folder)

    @property
    def prompts(self) -> Mapping[str, str]:
        """Prefixes that sentence-transformers puts before texts, by its name for them (query, document, passage)."""
        prompts = _read_json(self.folder / _PROMPTS).get("prompts") or {}
        return {name: text for name, text in prompts.items() if isinstance(text, str)}

    @property
    def pooling(self) -> str | None:
        """Pooling that sentence-transformers recorded: "mean", "cls" or "last"; None where nothing is recorded."""
        modes = _read_json(self.folder / _POOLING)
        names = {
            "pooling_mode_mean_tokens": "mean",
            "pooling_mode_cls_token": "cls",
            "pooling_mode_lasttoken": "last",
        }
        return next((pooling for mode, pooling in names.items() if modes.get(mode) is True), None)


@dataclass(frozen=True)
class KnownModel:
    """Embedding model that fastembed knows by *name*: its size and licence, and whether it is on this machine."""

    name: str
    gigabytes: float
    licence: str
    is_here: bool

    @property
    def cost(self) -> str:
        """Size and licence as a person reads them."""
        return f"{self.gigabytes:g} GB, licence {self.licence}"


def known_models() -> list[KnownModel]:
    """Return the embedding models that fastembed knows; nothing is looked up in the network.

    ``MissingExtra`` without the extra.
    """
    if find_spec("fastembed") is None:
        raise MissingExtra("an ONNX model", EXTRA)
    _disable_telemetry()
    return [
        KnownModel(name, float(model["size_in_GB"]), str(model["license"]), _is_cached(model))
        for name, model in _descriptions("embedding").items()
    ]


def _is_cached(description: Mapping[str, Any]) -> bool:
    """Return whether the model file is in a folder of the cache that a hub's download has made."""
    source = str(description["sources"].get("hf") or "").replace("/", "--")
    return any(models_folder().glob(f"models--{source}/snapshots/*/{description['model_file']}"))


def find_model(model: str | os.PathLike[str], task: Task, *, file: str | None, download: bool) -> ModelFiles:
    """Return the files of *model*: a folder, or the name of a model that fastembed knows.

    A named model is taken from the cache alone, without a look at the network, unless *download* says to fetch what is
    missing. ``MissingExtra`` without the extra; ``ArgumentError`` where the folder is no model or the name is
    unknown; ``EmbedderError`` where it is not in the cache, or cannot be fetched.
    """
    if not isinstance(model, (str, os.PathLike)) or not str(model).strip():
        raise ArgumentError("model", model, "a folder with model.onnx, or the name of a model that fastembed knows")
    if find_spec("fastembed") is None:
        raise MissingExtra("an ONNX model", EXTRA)
    _disable_telemetry()
    folder = Path(model).expanduser()
    if folder.is_dir():
        return _files_in(folder, file)
    if file is not None:
        raise ArgumentError("file", file, f"it names a file of a folder, and {folder} is none")
    return _cached_files(str(model), task, download=download)


def _disable_telemetry() -> None:
    """Keep the ONNX runtime from reporting its use to its maker, which it does by default since 1.29.

    The variable counts when the runtime is imported; where that was done before, most of its events are stopped.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    runtime = sys.modules.get("onnxruntime")
    if runtime is not None:
        runtime.disable_telemetry_events()


def models_folder() -> Path:
    """Return the folder of fetched models: ``FASTEMBED_CACHE_PATH``, or one in the cache of this user."""
    named = os.environ.get("FASTEMBED_CACHE_PATH")
    return Path(named) if named else user_cache() / "models"


def _files_in(folder: Path, file: str | None) -> ModelFiles:
    model_file = file or next((name for name in _MODEL_NAMES if (folder / name).is_file()), None)
    if model_file is None or not (folder / model_file).is_file():
        raise ArgumentError("model", str(folder), f"a folder with {file or 'model.onnx'} is needed")
    for name in _NEEDED:
        if not (folder / name).is_file():
            raise ArgumentError("model", str(folder), f"its {name} is needed beside the model")
    return ModelFiles(folder.resolve(), model_file, "", _token_limit(folder))


def _cached_files(name: str, task: Task, *, download: bool) -> ModelFiles:
    from loguru import logger

    model_class, descriptions = _model_class(task), _descriptions(task)
    description = {known.lower(): description for known, description in descriptions.items()}.get(name.lower())
    if description is None:
        raise ArgumentError("model", name, f"no such folder, and fastembed knows no {task} model of that name")
    cache = models_folder()
    if not download:
        logger.disable("fastembed")  # it writes two lines to stderr about what the error below says
    try:
        model = model_class(name, cache_dir=str(cache), local_files_only=not download, lazy_load=True)
    except Exception as error:  # fastembed raises whatever its hubs do
        if not download:
            size = f"{description['size_in_GB']:g} GB, licence {description['license']}"
            raise EmbedderError(f"{name} is not in {cache}: fetch it ({size}) with download=True") from error
        raise EmbedderError(f"{name} could not be fetched: {error}") from error
    finally:
        logger.enable("fastembed")
    folder = Path(model.model._model_dir)
    return ModelFiles(folder, description["model_file"], description["model"], _token_limit(folder))


def _model_class(task: Task) -> Any:
    if task == "embedding":
        from fastembed import TextEmbedding

        return TextEmbedding
    from fastembed.rerank.cross_encoder import TextCrossEncoder

    return TextCrossEncoder


def _descriptions(task: Task) -> dict[str, Mapping[str, Any]]:
    """Return what fastembed says of each model for *task*, by name."""
    return {model["model"]: model for model in _model_class(task).list_supported_models()}


def _token_limit(folder: Path) -> int:
    """Return what fastembed cuts texts to."""
    settings = _read_json(folder / "tokenizer_config.json")
    limits = [settings.get(name) for name in ("model_max_length", "max_length")]
    usable = [limit for limit in limits if type(limit) is int and 0 < limit < 1 << 31]
    if not usable:
        path = folder / "tokenizer_config.json"
        raise ArgumentError("model", str(folder), f"model_max_length in {path.name} must say how much the model reads")
    return min(usable)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise EmbedderError(f"{path} cannot be read: {error}") from error
    return content if isinstance(content, dict) else {}


def _hash_file(path: Path, digest: Any) -> None:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        digest.update(f"{path.name}:{size}:".encode())
        count = min(_BLOCKS, -(-size // _BLOCK))
        for block in range(count):
            file.seek(block * max(size - _BLOCK, 0) // max(count - 1, 1) if size > _BLOCKS * _BLOCK else block * _BLOCK)
            digest.update(file.read(_BLOCK))
