"""Evaluation of embedders and settings on a user's own memory, by questions made from it."""
