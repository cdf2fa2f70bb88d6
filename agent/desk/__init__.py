"""Desk of a memory, which all of its doors share: the agent's tools, MCP, the command line and HTTP."""
