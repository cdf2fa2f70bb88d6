"""Read policies: what of a conversation a model sees. A policy filters and keeps nothing."""
