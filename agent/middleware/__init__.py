"""Middleware: what stands around each call of a tool and of a model, one behaviour a file."""
