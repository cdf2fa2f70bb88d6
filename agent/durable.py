"""Runs of an agent as jobs, which go on where a killed worker was."""

from tellback.agent.durable_run import AGENT_RUN, DurableRun, run_handler

__all__ = ["AGENT_RUN", "DurableRun", "run_handler"]
