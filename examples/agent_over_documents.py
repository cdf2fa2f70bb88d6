"""Questions over a folder of documents, without a model: the sentence that answers, and the place where it stands."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from tellback.agent import Agent, QuotingProvider
from tellback.memory import KnowledgeBase, open_memory

GUIDE = """\
# Harbour

## Mooring

Boats moor at the north pier. A night costs 12 euros.

## Radio

Before you enter, call the office by the command:

```
radio --channel 9 "request entry"
```
"""


async def ask(folder: Path, database: Path) -> None:
    """Ingest *folder*, ask three questions, and print where the answers stand."""
    async with open_memory(database) as memory:
        await KnowledgeBase(memory).ingest(folder)
        agent = Agent(QuotingProvider(), memory=memory)
        for question in ("How much is a night?", "How do I call the office?", "Who painted the ceiling?"):
            result = await agent.run(question, store=False)
            print(f"{question}\n{result.text}")
            for citation in result.citations:
                print(f"[{citation.number}] {citation.where}")


if __name__ == "__main__":
    with TemporaryDirectory() as work:
        harbour = Path(work, "harbour")
        harbour.mkdir()
        (harbour / "guide.md").write_text(GUIDE)
        asyncio.run(ask(harbour, Path(work) / "memory.db"))
