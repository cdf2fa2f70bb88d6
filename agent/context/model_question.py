"""Question to a model beside the answer of a run, such as for a summary; counted, limited and logged as any call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b

from tellback.agent.errors import AgentError
from tellback.agent.providers.accumulator import ResponseAccumulator, collect_response
from tellback.agent.providers.base import Provider, Request
from tellback.agent.providers.call_log import ModelCallLog
from tellback.agent.results import ErrorRecord
from tellback.agent.usage import UsageLedger

# Memory passes a policy nothing of the run that reads or stores; the run is known by the context of its task.
_LEDGER: ContextVar[UsageLedger | None] = ContextVar("agent_run_ledger", default=None)


@contextmanager
def counting(ledger: UsageLedger) -> Iterator[None]:
    """Count in *ledger* the model calls that memory makes inside the block."""
    token = _LEDGER.set(ledger)
    try:
        yield
    finally:
        _LEDGER.reset(token)


def run_ledger() -> UsageLedger:
    """Return the ledger of the run that is reading or storing, else a new one."""
    return _LEDGER.get() or UsageLedger()


def marked_text(parts: Mapping[str, str]) -> str:
    """Return *parts* as one text, each below a line with its name and a mark that no text in them can hold."""
    words = "\n".join(parts.values())
    mark = blake2b(words.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()  # no text holds its own hash
    shown = [text for name, part in parts.items() for text in (f"«{name} {mark}»", part)]
    return "\n".join([*shown, f"«end {mark}»"])


async def ask_model(
    provider: Provider, request: Request, ledger: UsageLedger, *, purpose: str, keeping: int = 1
) -> str:
    """Return the text of the model's reply; its usage is counted in *ledger* also where it fails.

    Raises ``AgentError`` where the limits of the run leave no call beside the *keeping* that are still to come.
    """
    if passed := ledger.passed(keeping=keeping):
        raise AgentError(passed)
    ledger.call()
    accumulator = ResponseAccumulator()
    error: ErrorRecord | None = None
    try:
        return (await collect_response(provider, request, accumulator)).text
    except BaseException as failure:
        error = ErrorRecord.of(failure)
        raise
    finally:
        response = accumulator.response()
        ledger.spend(response.usage)
        log = ModelCallLog(str(getattr(provider, "model", "") or ""), purpose=purpose)
        log.write(request, response, step=ledger.calls, error=error)
