"""Middleware around each call of a tool or of a model."""
