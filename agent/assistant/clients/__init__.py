"""Clients that a memory is connected to: their hooks, transcripts and configuration files, one module a client."""
