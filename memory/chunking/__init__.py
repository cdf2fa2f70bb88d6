"""Chunkers: texts cut into chunks for retrieval and citation, with exact offsets and their heading paths."""
