"""The local embedder: static token vectors without key, server or download (extra ``local``), for texts and for words.

>>> embedder = LocalEmbedder()
>>> run_sync(embedder.embed(["I moved to Lisbon."])).shape
(1, 256)

The table of token vectors and its tokenizer ship in the wordllama wheel; wordllama itself is not imported: that costs a
second, and its loader looks in the wrong folder and then asks the network. The weights are mapped, not read: one
question touches a few pages, and processes share them.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import struct
import threading
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.batching import check_embedder_input, check_texts, is_blank, split_batches
from tellback.memory.embedders.protocol import EmbeddingKind
from tellback.memory.errors import EmbedderError
from tellback.vectorstore import MissingExtra
from tellback.vectorstore.internals import sorted_distinct

if TYPE_CHECKING:
    from tokenizers import Tokenizer

EXTRA = "local"
_WEIGHTS_FILE = "weights/l2_supercat_256.safetensors"
_TOKENIZER_FILE = "tokenizers/l2_supercat_tokenizer_config.json"

BATCH_TEXTS = 2048
BATCH_CHARACTERS = 200_000
GATHER_TOKENS = 8192
"""Rows gathered at once: 8 MB of float32."""
WIDEN_AFTER = 100_000
"""Tokens after which the half-precision table is kept in float32 too: 33 MB for a much faster gather."""

_FEW_TEXTS = 64
"""Texts up to which one after the other is faster than a batch, for which the tokenizer wakes its threads."""
_GROUPED_TOKENS = 16
_SAMPLE_ROWS = 256
_DTYPES: dict[str, np.dtype[Any]] = {"F16": np.dtype("<f2"), "F32": np.dtype("<f4")}


def local_available() -> bool:
    """Return whether the extra ``local`` is installed; imports nothing of it."""
    return _wordllama_folder() is not None and find_spec("tokenizers") is not None


@functools.cache
def installed_table() -> TokenVectorTable:
    """Return the one table of this process; raise ``MissingExtra`` when it is not installed."""
    folder = _wordllama_folder()
    if folder is None or find_spec("tokenizers") is None:
        raise MissingExtra("the local embedder", EXTRA)
    return TokenVectorTable(folder / _WEIGHTS_FILE, folder / _TOKENIZER_FILE)


class TokenVectorTable:
    """Table with a vector for each token. Opening it reads little; the tokenizer is loaded at the first text."""

    def __init__(self, weights: Path, tokenizer: Path) -> None:
        self._tokenizer_path = tokenizer
        self._rows, mark = _map_tensor(weights)
        self.mark = hashlib.blake2b(mark + tokenizer.read_bytes(), digest_size=8).hexdigest()
        """Names the bytes of both files."""
        self._lock = threading.Lock()
        self._tokenizer: Tokenizer | None = None
        self._wide: NDArray[np.float32] | None = None
        self._gathered = 0

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return int(self._rows.shape[1])

    @property
    def ready(self) -> bool:
        """True if the tokenizer is loaded, so that a short text takes a few milliseconds at most."""
        return self._tokenizer is not None

    def means(self, texts: Sequence[str], *, often: bool = True) -> NDArray[np.float32]:
        """Return the mean token vector of each text, length 1; a blank text gets zeros.

        A text's vector depends on the text alone: not on the batch it comes in, nor on what came before. A call
        whose result is kept by its caller (*often* off) does not count towards widening the table.
        """
        sums = np.zeros((len(texts), self.dimension), np.float32)
        present = [position for position, text in enumerate(texts) if not is_blank(text)]
        token_ids = self._token_ids([texts[position] for position in present])
        of_length: dict[int, tuple[list[int], list[list[int]]]] = {}
        for position, ids in zip(present, token_ids, strict=True):
            if len(ids) <= _GROUPED_TOKENS:
                positions, group = of_length.setdefault(len(ids), ([], []))
                positions.append(position)
                group.append(ids)
                continue
            for begin in range(0, len(ids), GATHER_TOKENS):
                sums[position] += np.add.reduce(self._gather(ids[begin : begin + GATHER_TOKENS], often), axis=0)
        for length, (positions, group) in of_length.items():
            tokens = np.array(group)
            distinct = sorted_distinct(tokens.ravel())
            rows, places = self._gather(distinct, often), np.searchsorted(distinct, tokens)
            total = rows[places[:, 0]]
            for token in range(1, length):  # one after the other, so that a sum does not depend on the batch
                total += rows[places[:, token]]
            sums[positions] = total
        norms = np.sqrt(np.einsum("ij,ij->i", sums, sums, dtype=np.float64))[:, None]
        np.divide(sums, norms, out=sums, where=norms > 0, casting="unsafe")
        return sums

    def _token_ids(self, texts: Sequence[str]) -> Iterator[list[int]]:
        for batch in split_batches(texts, BATCH_TEXTS, BATCH_CHARACTERS):
            tokenizer = self._load_tokenizer()
            if len(batch) <= _FEW_TEXTS:
                yield from (tokenizer.encode(text, add_special_tokens=False).ids for text in batch)
                continue
            yield from (encoding.ids for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False))

    def _gather(self, ids: Sequence[int] | NDArray[np.int64], often: bool) -> NDArray[np.float32]:
        if self._wide is None and often:
            self._gathered += len(ids)
            if self._gathered > WIDEN_AFTER:
                self._wide = self._rows.astype(np.float32)
        if self._wide is not None:
            return self._wide[ids]
        return self._rows[ids].astype(np.float32)

    def _load_tokenizer(self) -> Tokenizer:
        with self._lock:
            if self._tokenizer is None:
                from tokenizers import Tokenizer

                tokenizer = Tokenizer.from_file(str(self._tokenizer_path))
                tokenizer.no_padding()
                tokenizer.no_truncation()
                if tokenizer.get_vocab_size() > len(self._rows):
                    raise EmbedderError("the local table has fewer rows than tokens; reinstall the extra 'local'")
                self._tokenizer = tokenizer
            return self._tokenizer


def _wordllama_folder() -> Path | None:
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    return folder if (folder / _WEIGHTS_FILE).is_file() and (folder / _TOKENIZER_FILE).is_file() else None


def _map_tensor(path: Path) -> tuple[NDArray[Any], bytes]:
    """Return the one tensor of a safetensors file, mapped, and what marks it: header, size, sample rows."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = file.read(min(length, 1 << 20))
        (about,) = [about for name, about in json.loads(header).items() if name != "__metadata__"]
        begin, dtype = 8 + length + about["data_offsets"][0], _DTYPES[about["dtype"]]
        rows = np.memmap(path, dtype, "r", offset=begin, shape=tuple(about["shape"])).view(np.ndarray)
        if rows.ndim != 2 or path.stat().st_size < begin + rows.nbytes:
            raise ValueError(f"shape {rows.shape}")
    except (AttributeError, KeyError, OSError, TypeError, ValueError, struct.error) as error:
        raise EmbedderError(f"{path}: not the table of vectors that was expected; reinstall it") from error
    samples = np.ascontiguousarray(rows[:: max(len(rows) // _SAMPLE_ROWS, 1)])
    return rows, header + str(path.stat().st_size).encode() + samples.tobytes()


class _LocalVectors:
    """Vectors of the table, by its means."""

    _unit: str

    def __init__(self, *, table: TokenVectorTable | None = None) -> None:
        self._table = table if table is not None else installed_table()

    @property
    def fingerprint(self) -> str:
        """Hash of the table and the name of the pooling."""
        return f"local/wordllama-{self._table.dimension}/{self._table.mark}/{self._unit}"

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return self._table.dimension

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.fingerprint!r})"


class LocalWordVectors(_LocalVectors):
    """Vector of a word: the mean of the token vectors of the word after a space, length 1.

    Raises ``MissingExtra`` when the extra ``local`` is not installed.
    """

    _unit = "word"

    def words(self, words: Sequence[str]) -> NDArray[np.float32]:
        """As the protocol says."""
        check_texts(words, "words")
        return self._table.means(["" if is_blank(word) else " " + word for word in words], often=False)


INLINE_CHARACTERS = 2000
"""Up to here a question is embedded where it stands: a hop to a thread would take longer."""


class LocalEmbedder(_LocalVectors):
    """Plain mean of the token vectors, length 1; a question and a document are embedded alike.

    Raises ``MissingExtra`` when the extra is not installed (``local_available`` tells beforehand).
    """

    remote = False
    names_weights = True
    _unit = "mean"

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> NDArray[np.float32]:
        """As the protocol says; long work goes to a thread."""
        check_embedder_input(texts, kind)
        if self._table.ready and sum(map(len, texts)) <= INLINE_CHARACTERS:
            return self._table.means(texts)
        return await asyncio.to_thread(self._table.means, texts)
