"""Conversation with the assistant, for every door: what a line asks for, the events of a turn, what it kept, facts."""
