"""Conversation history: storage of every message as it was given, and the windows that choose what a model sees."""
