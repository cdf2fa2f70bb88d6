"""Server of a memory (extra `web`): the HTTP API over its desk, and MCP, in one process."""
