"""Context of a request: what is read from memory and history, what fits the token budget, and how it is shown."""
