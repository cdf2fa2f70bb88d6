"""An answer that fits a pydantic model: asked for by the provider's schema mode, a tool or in words, and repaired.

The scripted model first answers in prose; it gets the error and repairs its answer. The failed attempt is not kept.

    python examples/agent_typed_answer.py
"""

from __future__ import annotations

from datetime import date

from pydantic import BaseModel, Field

from tellback.agent import Agent
from tellback.agent.testing import Reply, ScriptedProvider


class Trip(BaseModel):
    """A journey."""

    destination: str
    leaves: date
    days: int = Field(ge=1)


SCRIPT = (
    Reply("We go to Lisbon on the third of May, for a week!"),
    Reply('{"destination": "Lisbon", "leaves": "2026-05-03", "days": 7}'),
)


def main() -> None:
    agent = Agent(ScriptedProvider(*SCRIPT))
    result = agent.run_sync("Where do we go?", result_type=Trip)
    trip = result.output
    assert trip is not None
    print(f"{trip.destination}, {trip.days} days from {trip.leaves:%d %B %Y}")
    print(f"{result.calls} calls of the model, {len(result.messages)} messages kept")


if __name__ == "__main__":
    main()
