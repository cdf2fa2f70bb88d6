"""Models as readers and judges: every call is recorded, can be replayed without a key, and is bounded by a budget."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

from tellback.agent import AgentError, ModelSettings, Provider, Request
from tellback.agent.providers.accumulator import collect_response
from tellback.memory import Message, TiktokenCounter, run_sync

MOST_OUTPUT = 200
"""Tokens that one answer may have."""
_PER = 1_000_000


class CallFailed(ValueError):
    """The model did not answer; the message says why."""


class BudgetExceeded(ValueError):
    """What is left to ask would cost more than the budget allows; nothing more was asked."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One *prompt* at temperature 0; *repeat* tells the repeats of one prompt apart."""

    prompt: str
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The *text*, and the tokens that were counted."""

    text: str
    input: int
    output: int


@dataclass(slots=True)
class Purse:
    """Money per million tokens of *input* and *output*, the *budget* of all models of a run, and what is *spent*."""

    input: float = 0.0
    output: float = 0.0
    budget: float = float("inf")
    spent: float = 0.0

    def of(self, input: int, output: int) -> float:
        """Return what so many tokens cost."""
        return (input * self.input + output * self.output) / _PER


@dataclass
class RecordedModel:
    """A model with the record of its calls in *path*. Without a *provider* the record is replayed, and nothing else."""

    name: str
    path: Path
    provider: Provider | None = None
    purse: Purse = field(default_factory=Purse)

    def __post_init__(self) -> None:
        self._counter = TiktokenCounter()
        self._record: dict[str, ModelReply] = {}
        if self.path.exists():
            whole, _, cut = self.path.read_text("utf-8").rpartition("\n")
            if cut and self.provider is not None:  # a kill cut the last line off
                self.path.write_text(f"{whole}\n" if whole else "", "utf-8")
            for row in map(json.loads, whole.splitlines()):
                self._record[row["key"]] = ModelReply(**row["reply"])

    def ask(self, call: ModelCall) -> ModelReply:
        """Return the recorded reply, else the model's, which is recorded at once."""
        key = self._key(call)
        if key in self._record:
            return self._record[key]
        if self.provider is None:
            raise CallFailed(f"no recorded answer of {self.name} in {self.path.name}, and replay calls no model")
        self.check_budget([call])
        settings = ModelSettings(temperature=0.0, max_tokens=MOST_OUTPUT)
        request = Request((Message.user(call.prompt),), settings=settings)
        try:
            response = run_sync(collect_response(self.provider, request))
        except AgentError as error:
            raise CallFailed(f"{type(error).__name__}: {error}") from error
        reply = ModelReply(response.text.strip(), response.usage.input, response.usage.output)
        self.purse.spent += self.purse.of(reply.input, reply.output)
        self._record[key] = reply
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(
                json.dumps({"key": key, "model": self.name, **asdict(call), "reply": asdict(reply)}, ensure_ascii=False)
                + "\n"
            )
        return reply

    def check_budget(self, calls: Iterable[ModelCall]) -> None:
        """Raise ``BudgetExceeded`` where *calls* may cost more than is left."""
        cost, left = self.estimate(calls), self.purse.budget - self.purse.spent
        if cost > left:
            raise BudgetExceeded(f"{self.name} costs at most {cost:.4f} more, and {left:.4f} are left")

    def estimate(self, calls: Iterable[ModelCall]) -> float:
        """Return what *calls* that are not recorded would cost at most."""
        new = [call for call in calls if self._key(call) not in self._record]
        return sum(self.purse.of(self._counter.count(call.prompt), MOST_OUTPUT) for call in new)

    def _key(self, call: ModelCall) -> str:
        asked: Mapping[str, object] = {"model": self.name, "most": MOST_OUTPUT, **asdict(call)}
        return sha256(json.dumps(asked, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
