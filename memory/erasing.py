"""The part of long-term memory's face that removes for good."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from memory.records import Actor, Forgotten
from memory.write import forgetting
from memory.write.context import WriteContext


class Erasing:
    """What ``LongTermMemory`` takes off the disk."""

    _context: WriteContext

    async def forget(
        self, ids: Sequence[str], *, namespace: str = "", dry_run: bool = False, actor: Actor = "user"
    ) -> Forgotten:
        """Remove memories for good; return a receipt of ids and counts.

        With each go its versions, what was derived from it alone, the message it comes from, and every
        memory, passage and message that holds its words verbatim. *dry_run* lists all that and changes
        nothing. An unknown id raises ``NoSuchMemory``, one forgotten before is passed over.
        """
        return await asyncio.to_thread(forgetting.forget, self._context, ids, namespace, dry_run=dry_run, actor=actor)
