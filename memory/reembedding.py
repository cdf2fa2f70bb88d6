"""The part of long-term memory's face that is about vectors: what waits for one, and embedding everything anew."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from memory.embedders.protocol import Embedder
from memory.errors import ArgumentError, translating
from memory.storage.serialise import check_namespace
from memory.write import closing, pending, reembedding
from memory.write.context import WriteContext
from memory.write.pending import Flushed
from memory.write.reembedding import Reembedded, ReembeddingProgress


@translating
class Reembedding:
    """What ``LongTermMemory`` does about vectors."""

    _context: WriteContext

    @property
    def embedder(self) -> Embedder | None:
        """What embeds texts and questions; another one after ``reembed``."""
        return self._context.embedding.embedder

    async def pending(self, *, namespace: str | None = None) -> int:
        """Return how many entries wait for their vector, documents included (None: of all namespaces)."""
        chosen = None if namespace is None else check_namespace(namespace)
        return await asyncio.to_thread(pending.count, self._context, chosen)

    async def flush(self, *, namespace: str | None = None) -> Flushed:
        """Embed what is pending; say how many got their vector, and of which it holds only the beginning.

        It stops when the embedder fails (``embedding.problem`` says why); a text that it refuses, or always fails at,
        is passed over and stays pending, and has a line that says why.
        """
        return await pending.flush(self._context, None if namespace is None else check_namespace(namespace))

    async def reembed(
        self,
        embedder: Embedder | None = None,
        *,
        switch: bool = True,
        again: bool = False,
        on_progress: Callable[[ReembeddingProgress], None] | None = None,
    ) -> Reembedded:
        """Give everything, in every namespace, a vector of *embedder* (None: the memory's own), and go on with it.

        The vectors in use serve until all are made; then it is switched in one step, and ``embedder`` is the new one.
        Stopped at any moment, by an error, a kill or a cancellation, the same call goes on where it was. With *switch*
        off it fills and leaves the switch to a later call. A memory that has the vectors of this very model already
        is left as it is, and only what is pending embedded; *again* makes them anew all the same.

        An embedder that fails raises what it raised, one that answers nonsense ``EmbedderError``; while another
        embedder's vectors are being filled in, ``SpaceNotReady`` (``abandon_reembedding`` ends that); a store with data
        alone, ``UnsupportedError``.
        """
        return await reembedding.reembed(self._context, embedder, switch=switch, again=again, on_progress=on_progress)

    async def abandon_reembedding(self) -> bool:
        """Drop what was filled in and stay with the vectors in use; return whether anything was begun."""
        return await asyncio.to_thread(reembedding.abandon, self._context)

    async def reembedding(self) -> ReembeddingProgress | None:
        """Return how far an embedding anew is that was begun and not ended, here or elsewhere; None without one."""
        return await asyncio.to_thread(reembedding.state, self._context)

    async def close(self, *, wait: float = 0.0) -> None:
        """Release the store, when what is being written is stored.

        Embedders are waited for *wait* seconds at the most, for what is pending too; what has no vector then stays
        pending, and is embedded when the memory is open again. Writing after this raises ``StoreClosed``.
        """
        usable = not isinstance(wait, bool) and isinstance(wait, (int, float)) and math.isfinite(wait) and wait >= 0
        if not usable:
            raise ArgumentError("wait", wait, "a number of seconds, at least 0, is needed")
        await closing.finish(self._context, float(wait))
        await asyncio.to_thread(self._context.embedding.close)
        await asyncio.to_thread(self._context.store.close)
