"""Databases in SQLite: one file for everything that Tellback keeps, or the memory of the process."""

from vectorstore.database import Component, Migration, SalvageSource
from vectorstore.sqlite.backup import CopyProgress, backup_damage, remove_abandoned_files, restore_file
from vectorstore.sqlite.database import SqliteDatabase
from vectorstore.sqlite.files import atomic_write, unfinished_files
from vectorstore.sqlite.in_memory import InMemoryDatabase
from vectorstore.sqlite.salvage import salvage_database
from vectorstore.sqlite.secure_delete import wipe_file
from vectorstore.types import SalvagedTable, SalvageReport

__all__ = [
    "Component",
    "CopyProgress",
    "InMemoryDatabase",
    "Migration",
    "SalvageReport",
    "SalvageSource",
    "SalvagedTable",
    "SqliteDatabase",
    "atomic_write",
    "backup_damage",
    "remove_abandoned_files",
    "restore_file",
    "salvage_database",
    "unfinished_files",
    "wipe_file",
]
