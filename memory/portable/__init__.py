"""A memory as a file of lines: written, checked, and taken in again. ``Moving`` is the way in."""
