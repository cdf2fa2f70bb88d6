"""Adapters, one system a file; those of other projects import nothing of this one but the protocol."""
