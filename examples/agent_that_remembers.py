"""An agent that remembers, without a model: statements are kept, questions are answered by quotes with their sources.

python examples/agent_that_remembers.py [memory.db]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tellback.agent import Agent, QuotingProvider
from tellback.memory import open_memory


async def main(path: Path) -> None:
    async with open_memory(path) as memory, Agent(QuotingProvider(), memory=memory) as agent:
        for statement in ("The spare key lies under the blue pot.", "Ana's train arrives at 14:20."):
            print((await agent.run(statement, session="morning")).text)

        # Another session, later: nothing of the first is in its window, all of it can be recalled.
        result = await agent.run("Where is the spare key?", session="evening")
        print(result.text)
        for citation in result.citations:
            print(f"  [{citation.number}] said by {citation.speaker}, memory {citation.id[:4]}…")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder, "memory.db")))
