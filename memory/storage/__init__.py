"""Conversation history: everything that was said, kept as it was given; in memory or in the memory's file."""
