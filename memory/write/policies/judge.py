"""The policy that asks a function of the caller's: a rule, or a model that judges what is worth keeping.

>>> Judge(lambda memory: "lunch" not in memory.text, reason="small talk")
Judge(small talk)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from memory.errors import ArgumentError
from memory.records import Memory
from memory.write.policies.calling import PATIENCE, called, checked_function, checked_patience
from memory.write.policies.protocol import Action, Decision, OnFailure, Turn, TurnDecision, accepted

Verdict: TypeAlias = bool | str | Memory | Decision | None
"""Keep it (True), do not (False, None), keep these words or this memory instead, or a decision of its own."""
TurnVerdict: TypeAlias = bool | str | Sequence[bool] | TurnDecision | None
"""Keep all or nothing, keep one text instead of all, keep those that are True, or a decision of its own."""
_DISTILLED = "distilled"


class Judge:
    """Asks *function* what becomes of each memory, or (*of* "turn") of prompt and answer together.

    *function* may be a coroutine; a plain one runs in a thread. *reason* is what the report of a rejected one says.
    When it fails, or has not answered after *patience* seconds, *on_failure* decides: "store" keeps the memory as it
    was, "reject" does not; None leaves it to the memory's own setting. Either way the report says so, and history keeps
    what was said.
    """

    def __init__(
        self,
        function: Callable[[Memory], Verdict | Awaitable[Verdict]]
        | Callable[[Turn], TurnVerdict | Awaitable[TurnVerdict]],
        *,
        of: Literal["item", "turn"] = "item",
        reason: str = "judged not worth keeping",
        on_failure: OnFailure | None = None,
        patience: float | None = PATIENCE,
    ) -> None:
        checked_function(function, "a memory")
        if of not in ("item", "turn"):
            raise ArgumentError("of", of, 'one of "item", "turn" is needed')
        self._function = function
        self._of = of
        self._reason = reason
        self.on_failure = on_failure
        self._patience = checked_patience(patience)

    def __repr__(self) -> str:
        return f"Judge({self._reason})"

    async def decide(self, memory: Memory) -> Decision:
        """Ask about one memory; of a judge of turns, as a turn of one."""
        if self._of == "turn":
            return (await self.decide_turn(Turn((memory,)))).decisions[0]
        return self._read(memory, await called(self._function, memory, self._patience))

    async def decide_turn(self, turn: Turn) -> TurnDecision:
        """Ask about prompt and answer together, or about each."""
        if self._of == "item":
            return TurnDecision(tuple([await self.decide(memory) for memory in turn.memories]))
        verdict = await called(self._function, turn, self._patience)
        if isinstance(verdict, TurnDecision):
            return verdict
        if isinstance(verdict, str):
            return self._instead(turn, verdict)
        if verdict is None or isinstance(verdict, bool):
            return TurnDecision(accepted(turn) if verdict else (self._no(),) * len(turn.memories))
        return TurnDecision(tuple(self._read(one, said) for one, said in zip(turn.memories, verdict, strict=True)))

    def _read(self, memory: Memory, verdict: object) -> Decision:
        if isinstance(verdict, Decision):
            return verdict
        if isinstance(verdict, Memory):
            return Decision(Action.TRANSFORM, _DISTILLED, verdict)
        if isinstance(verdict, str):
            return Decision(Action.TRANSFORM, _DISTILLED, replace(memory, text=verdict))
        if verdict is None or isinstance(verdict, bool):
            return Decision(Action.ACCEPT) if verdict else self._no()
        raise ArgumentError("verdict", verdict, "True, False, a text, a Memory or a Decision is needed from a judge")

    def _instead(self, turn: Turn, text: str) -> TurnDecision:
        if len(turn.memories) == 1:
            return TurnDecision((Decision(Action.TRANSFORM, _DISTILLED, replace(turn.memories[0], text=text)),))
        every = tuple(range(len(turn.memories)))
        made = Memory(text=text, kind="summary")
        return TurnDecision((Decision(Action.REJECT, _DISTILLED),) * len(every), ((made, every),))

    def _no(self) -> Decision:
        return Decision(Action.REJECT, self._reason)
