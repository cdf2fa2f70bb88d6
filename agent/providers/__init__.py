"""Providers: models behind an endpoint (OpenAI-compatible, Anthropic, Ollama), and answers without a model."""
