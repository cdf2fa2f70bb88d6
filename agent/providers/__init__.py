"""Providers: what answers. With a model behind any OpenAI-compatible endpoint, or without one by quoting."""
