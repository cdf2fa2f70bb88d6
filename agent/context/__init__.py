"""Context of a request: read from memory and history, selected within the token budget, and rendered."""
