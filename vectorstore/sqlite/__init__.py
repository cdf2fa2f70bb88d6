"""Databases in SQLite: one file for everything that Tellback keeps, or the memory of the process."""

from vectorstore.database import Component, Migration, SalvageSource
from vectorstore.sqlite.backup import remove_abandoned_files
from vectorstore.sqlite.database import SqliteDatabase
from vectorstore.sqlite.files import atomic_write, unfinished_files
from vectorstore.sqlite.in_memory import InMemoryDatabase
from vectorstore.sqlite.salvage import salvage_database
from vectorstore.types import SalvagedTable, SalvageReport

__all__ = [
    "Component",
    "InMemoryDatabase",
    "Migration",
    "SalvageReport",
    "SalvageSource",
    "SalvagedTable",
    "SqliteDatabase",
    "atomic_write",
    "remove_abandoned_files",
    "salvage_database",
    "unfinished_files",
]
