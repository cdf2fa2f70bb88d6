"""The write path: what becomes a memory, in which form, and how it is corrected, ended, undone and completed."""
