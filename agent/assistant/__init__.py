"""The persistent assistant: configuration, wiring, and the command line."""
