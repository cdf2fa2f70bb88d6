"""Retrieval of memories: query analysis, candidates, scoring, dedup, token budget. Entry point: ``retriever``."""
