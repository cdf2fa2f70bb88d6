"""Importers: conversations, notes and tables of other programs, read one by one and told by their content."""
