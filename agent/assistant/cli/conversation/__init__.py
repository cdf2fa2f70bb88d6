"""Conversation in the terminal: reading what is typed, answering it, slash commands, and the line a turn ends with."""
