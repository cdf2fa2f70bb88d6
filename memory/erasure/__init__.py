"""Erasure: which memories are meant, what goes with them, that it goes for good, and the proof of it."""
