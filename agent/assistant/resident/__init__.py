"""The resident process: it stays between commands, so that a hook need not load the library and the memory."""
