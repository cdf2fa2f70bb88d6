"""Hooks of coding agents: memories are added to a prompt, and the conversation is kept."""
