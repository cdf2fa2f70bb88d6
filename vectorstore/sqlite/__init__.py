"""Databases in SQLite: one file for everything that Tellback keeps, or the memory of the process."""

from tellback.vectorstore.database import Component, Migration, SalvageSource
from tellback.vectorstore.sqlite.backup import CopyProgress, backup_damage, remove_abandoned_files, restore_file
from tellback.vectorstore.sqlite.database import SqliteDatabase
from tellback.vectorstore.sqlite.files import atomic_write, unfinished_files
from tellback.vectorstore.sqlite.in_memory import InMemoryDatabase
from tellback.vectorstore.sqlite.salvage import salvage_database
from tellback.vectorstore.sqlite.secure_delete import wipe_file
from tellback.vectorstore.types import SalvagedTable, SalvageReport

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
