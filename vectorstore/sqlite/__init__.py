"""One SQLite file for everything that Mneme keeps: opening, transactions, components, backup, repair."""

from vectorstore.sqlite.component import Component, Migration
from vectorstore.sqlite.database import Database
from vectorstore.sqlite.files import placed_whole
from vectorstore.sqlite.migrations import MigrationCopy
from vectorstore.sqlite.salvage import readable_rows, salvage

__all__ = ["Component", "Database", "Migration", "MigrationCopy", "placed_whole", "readable_rows", "salvage"]
