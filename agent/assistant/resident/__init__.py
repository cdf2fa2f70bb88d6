"""The resident process: one that stays between commands, so that a hook need not load what answers it."""
