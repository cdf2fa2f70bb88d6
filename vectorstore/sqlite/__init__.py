"""One SQLite file for everything that Mneme keeps: opening, transactions, components, backup, repair."""

from vectorstore.sqlite.component import Component, Migration
from vectorstore.sqlite.copying import salvage
from vectorstore.sqlite.database import Database
from vectorstore.sqlite.migration_copies import MigrationCopy
from vectorstore.sqlite.placing import placed_whole
from vectorstore.sqlite.readable import readable_rows

__all__ = ["Component", "Database", "Migration", "MigrationCopy", "placed_whole", "readable_rows", "salvage"]
