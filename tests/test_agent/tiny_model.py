"""A language model of half a megabyte with random weights, for trying a real server of models without a download.

    pip install gguf
    python tests/test_agent/tiny_model.py tiny.gguf
    llama-server -m tiny.gguf --port 8944 -c 8192 --jinja

It says nothing sensible; what is real is the server: tokens, streams, limits, both wire formats.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

WIDTH, LAYERS, HEADS, HIDDEN, CONTEXT = 64, 2, 4, 128, 8192
TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{% if tools %}tools: {{ tools | tojson }}\n{% endif %}assistant: "
)


def write(path: Path, *, seed: int = 7) -> None:
    """Write a Llama of two layers over single bytes, with weights drawn from *seed*, as a GGUF file."""
    from gguf import GGUFWriter, TokenType

    writer = GGUFWriter(str(path), "llama")
    writer.add_name("tiny-random")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581"]
    kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL, *[TokenType.BYTE] * 256, TokenType.NORMAL]
    letters = [chr(code) for code in range(33, 127)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens + letters)
    writer.add_token_scores([0.0] * len(tokens) + [-1.0] * len(letters))
    writer.add_token_types(kinds + [TokenType.NORMAL] * len(letters))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
    words = len(tokens) + len(letters)
    rng = np.random.default_rng(seed)

    def weights(name: str, *shape: int) -> None:
        writer.add_tensor(name, rng.normal(0, 0.1, shape).astype(np.float32))

    weights("token_embd.weight", words, WIDTH)
    likelihoods = rng.normal(0, 0.1, (words, WIDTH)).astype(np.float32)
    likelihoods[: len(tokens)] = 0  # of half characters: llama-server opens no Anthropic stream on one
    writer.add_tensor("output.weight", likelihoods)
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"{block}.{norm}.weight", np.ones(WIDTH, np.float32))
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weights(f"{block}.{part}.weight", WIDTH, WIDTH)
        weights(f"{block}.ffn_gate.weight", HIDDEN, WIDTH)
        weights(f"{block}.ffn_up.weight", HIDDEN, WIDTH)
        weights(f"{block}.ffn_down.weight", WIDTH, HIDDEN)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
