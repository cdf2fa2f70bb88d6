"""The database on a PostgreSQL server with pgvector (extra ``postgres``)."""

from tellback.vectorstore.postgres.database import PostgresDatabase

__all__ = ["PostgresDatabase"]
