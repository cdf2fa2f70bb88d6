"""The systems of the race that run in this process, one a file."""
