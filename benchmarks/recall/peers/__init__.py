"""Other memories, each in an environment of its own, made by pip on request."""
