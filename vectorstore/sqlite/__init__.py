"""Databases in SQLite: one file for everything that Tellback keeps, or the memory of the process."""

from vectorstore.database import Component, Migration
from vectorstore.sqlite.database import SqliteDatabase
from vectorstore.sqlite.files import atomic_write
from vectorstore.sqlite.in_memory import InMemoryDatabase
from vectorstore.sqlite.salvage import readable_rows, salvage_database

__all__ = [
    "Component",
    "InMemoryDatabase",
    "Migration",
    "SqliteDatabase",
    "atomic_write",
    "readable_rows",
    "salvage_database",
]
