"""The HTTP client of embedders and model providers: JSON and event streams, limits, retries, one error tree."""

from memory.http.client import HttpClient, ServerEvent, Timeouts

__all__ = ["HttpClient", "ServerEvent", "Timeouts"]
