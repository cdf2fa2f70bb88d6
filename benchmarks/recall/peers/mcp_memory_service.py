"""mcp-memory-service with its own storage and its own embedder, if both can be had without the network."""

from __future__ import annotations

from benchmarks.recall.peers.asking import Peer


class McpMemoryService(Peer):
    package = "mcp-memory-service==12.2.0"
    script = "run_mcp_memory_service.py"
