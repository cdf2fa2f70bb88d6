"""Hooks of coding agents: what is known is added to a prompt, and what was said is kept."""
