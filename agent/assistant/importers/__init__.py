"""Importers: conversations, notes and tables of other programs, recognised by their content."""
