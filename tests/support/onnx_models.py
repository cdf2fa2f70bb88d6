"""Tiny ONNX models in folders as model hubs lay them out: an embedder of bytes and a cross-encoder of shared words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, checker, helper, numpy_helper, save
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WIDTH = 16
TOKEN_LIMIT = 128
PADDING, UNKNOWN = "[PAD]", "[UNK]"


def write_embedding_model(folder: Path, *, outputs: Sequence[str] = ("last_hidden_state",), seed: int = 7) -> Path:
    """Write a model whose tokens are bytes, each with a random vector; its *outputs* are tokens' or a sentence's."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({token: number for number, token in enumerate([PADDING, *alphabet])}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    table = np.random.default_rng(seed).normal(size=(1 + len(alphabet), WIDTH)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"]),
        helper.make_node("ReduceMax", ["last_hidden_state", "axis"], ["sentence_embedding"], keepdims=0),
    ]
    shapes = {"last_hidden_state": ["b", "t", WIDTH], "sentence_embedding": ["b", WIDTH]}
    _write(folder, tokenizer, nodes, {"table": table, "axis": np.array([1])}, {name: shapes[name] for name in outputs})
    return folder


def write_reranking_model(folder: Path, words: Sequence[str]) -> Path:
    """Write a cross-encoder whose score is how often the question's *words* are in the text."""
    vocabulary = {token: number for number, token in enumerate([PADDING, UNKNOWN, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A:0", pair="$A:0 $B:1")
    table = np.eye(len(vocabulary), dtype=np.float32)
    table[:2] = 0
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["tokens"]),
        helper.make_node("Cast", ["token_type_ids"], ["types"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["types", "last"], ["of_text"]),
        helper.make_node("Mul", ["tokens", "of_text"], ["text_tokens"]),
        helper.make_node("Sub", ["tokens", "text_tokens"], ["question_tokens"]),
        helper.make_node("ReduceSum", ["text_tokens", "axis"], ["text"], keepdims=0),
        helper.make_node("ReduceSum", ["question_tokens", "axis"], ["question"], keepdims=0),
        helper.make_node("Mul", ["text", "question"], ["shared"]),
        helper.make_node("ReduceSum", ["shared", "axis"], ["logits"], keepdims=1),
    ]
    values = {"table": table, "axis": np.array([1]), "last": np.array([2])}
    _write(folder, tokenizer, nodes, values, {"logits": ["b", 1]}, inputs=("input_ids", "token_type_ids"))
    return folder


def byte_vectors(folder: Path, text: str) -> NDArray[np.float32]:
    """Return the vectors of the tokens of *text* as the model of ``write_embedding_model`` has them."""
    import onnx

    model = onnx.load(folder / "model.onnx")
    table = next(numpy_helper.to_array(values) for values in model.graph.initializer if values.name == "table")
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids
    return np.asarray(table[ids], np.float32)


def _write(
    folder: Path,
    tokenizer: Tokenizer,
    nodes: Sequence[Any],
    values: dict[str, NDArray[Any]],
    outputs: dict[str, list[Any]],
    *,
    inputs: Sequence[str] = ("input_ids", "attention_mask"),
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.add_special_tokens([PADDING])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"model_max_length": TOKEN_LIMIT, "pad_token": PADDING}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "t"]) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    checker.check_model(model)
    save(model, folder / "model.onnx")
