"""One SQLite file for everything that Tellback keeps: opening, transactions, components, backup, repair."""

from vectorstore.sqlite.component import Component, Migration
from vectorstore.sqlite.database import SqliteDatabase
from vectorstore.sqlite.files import atomic_write
from vectorstore.sqlite.migrations import MigrationCopy
from vectorstore.sqlite.salvage import readable_rows, salvage_database

__all__ = [
    "Component",
    "Migration",
    "MigrationCopy",
    "SqliteDatabase",
    "atomic_write",
    "readable_rows",
    "salvage_database",
]
