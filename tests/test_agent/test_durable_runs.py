"""Durable runs: a run whose worker is killed goes on in another one, and tools are told what may have been done."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tellback.agent import Agent, ToolPolicy, tool
from tellback.agent.durable import AGENT_RUN, DurableRun, run_handler
from tellback.agent.testing import Reply, ScriptedProvider
from tellback.memory import HashingEmbedder, LongTermMemory, open_memory, run_sync
from tellback.memory.jobs import Jobs, JobWorker
from tests.support.homes import SERVER_HOME
from tests.support.postgres import PostgresServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

KILLED = """
    import os, sys
    from tellback.agent import Agent, ToolPolicy, tool
    from tellback.agent.durable import AGENT_RUN, run_handler
    from tellback.agent.testing import Reply, ScriptedProvider, call
    from tellback.memory import HashingEmbedder, open_memory, run_sync
    from tellback.memory.jobs import Jobs, JobWorker
    address, log, moment = sys.argv[1:]

    @tool
    def order(item: str) -> str:
        "Order an item."
        with open(log, "a") as file:
            file.write(f"{item}\\n")
        if moment == item:
            os._exit(9)
        return f"{item} is ordered"

    memory = open_memory(address, embedder=HashingEmbedder())
    async def die():
        os._exit(9)

    calls = [Reply(calls=(call("order", item=item),)) for item in ("tea", "bread")] + [Reply("lost", before=die)]

    def make_agent(run):
        provider = ScriptedProvider(*calls)
        policy = ToolPolicy(middleware=[run.tool])
        return Agent(provider, tools=[order], memory=memory, policy=policy, model_middleware=[run.model])

    run_sync(JobWorker(Jobs(memory.database, lease=2.0), {AGENT_RUN: run_handler(memory, make_agent)}).run_one())
    os._exit(9)
"""


@pytest.fixture(params=["file", SERVER_HOME])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return str(tmp_path / "m.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.address(tmp_path)


@pytest.fixture
def memory(address: str) -> Iterator[LongTermMemory]:
    opened = open_memory(address, embedder=HashingEmbedder())
    yield opened
    run_sync(opened.close())


def go_on(memory: LongTermMemory, provider: ScriptedProvider, log: Path, *, idempotent: bool) -> None:
    """Have another worker end the one job."""

    @tool(idempotent=idempotent)
    def order(item: str) -> str:
        "Order an item."
        with log.open("a") as file:
            file.write(f"{item}\n")
        return f"{item} is ordered"

    def make_agent(run: DurableRun) -> Agent:
        policy = ToolPolicy(middleware=[run.tool])
        return Agent(provider, tools=[order], memory=memory, policy=policy, model_middleware=[run.model])

    worker = JobWorker(Jobs(memory.database), {AGENT_RUN: run_handler(memory, make_agent)})
    assert wait_until(lambda: run_sync(worker.run_one())), "the lease of the one that was killed has passed by then"


@pytest.mark.parametrize(
    ("moment", "idempotent", "orders", "told"),
    [
        ("never", False, ["tea", "bread"], "bread is ordered"),
        ("bread", False, ["tea", "bread"], "it may have been done"),
        ("bread", True, ["tea", "bread", "bread"], "bread is ordered"),
    ],
)
def test_a_run_that_is_killed_between_two_calls_goes_on_in_another_worker(
    memory: LongTermMemory, address: str, tmp_path: Path, moment: str, idempotent: bool, orders: list[str], told: str
) -> None:
    jobs, log = Jobs(memory.database), tmp_path / "orders"
    job = jobs.submit(AGENT_RUN, {"prompt": "Order tea and bread.", "session": "s"})
    command = [sys.executable, "-c", textwrap.dedent(KILLED), address, str(log), moment]
    assert subprocess.run(command, cwd=Path.cwd(), check=False).returncode == 9
    with ScriptedProvider(Reply("Both are ordered.", mentions=(told,))) as provider:
        go_on(memory, provider, log, idempotent=idempotent)
    assert log.read_text().split() == orders
    assert [found.state for found in jobs.list() if found.id == job.id] == ["done"]
    kept = [stored.message for stored in run_sync(memory.conversations.load("s"))]
    assert [message.text for message in kept if message.text] == ["Order tea and bread.", "Both are ordered."]


def test_a_turn_that_was_kept_before_the_job_ended_is_kept_once(memory: LongTermMemory, tmp_path: Path) -> None:
    jobs = Jobs(memory.database)
    jobs.submit(AGENT_RUN, {"prompt": "Hello.", "session": "s"})
    claimed = jobs.claim([AGENT_RUN], "killed")
    assert claimed is not None

    def make_agent(run: DurableRun) -> Agent:
        return Agent(ScriptedProvider(Reply("Hi.")), memory=memory, model_middleware=[run.model])

    run_sync(run_handler(memory, make_agent)(claimed))  # and is killed before the job is ended
    claimed.release()
    with ScriptedProvider() as provider:
        go_on(memory, provider, tmp_path / "orders", idempotent=False)
    assert [stored.message.text for stored in run_sync(memory.conversations.load("s"))] == ["Hello.", "Hi."]


def test_a_job_without_a_prompt_fails(memory: LongTermMemory) -> None:
    jobs = Jobs(memory.database)
    jobs.submit(AGENT_RUN, {"session": "s"})
    handler = run_handler(memory, lambda run: Agent(ScriptedProvider(), memory=memory))
    run_sync(JobWorker(jobs, {AGENT_RUN: handler}).run_one())
    assert [(job.state, "prompt" in job.error) for job in jobs.list()] == [("failed", True)]
