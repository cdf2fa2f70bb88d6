"""Rights of the roles that work with a schema: no tables of their own making, and if wanted one tenant's rows alone.

The owner of the tables grants them, again after each upgrade. Row-level security compares each row with the setting
``tellback.tenant`` of the connection, which an address sets (``?tenant=NAME``); owners see every row.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from psycopg import Connection as PsycopgConnection
from psycopg import sql

TENANT: Final = "tellback.tenant"
_SHARED: Final = {
    **dict.fromkeys(("components", "file_facts", "store_facts", "memory_facts", "embedding_cache_facts"), "TRUE"),
    **dict.fromkeys(("embedder_probes", "embedder_profiles"), "TRUE"),
    "embedding_cache": "FALSE",
}
"""Tables with nothing of a tenant (versions, settings, what is known of embedders), and the condition of their rows.

The vectors in the cache are of anybody's texts, so that a tenant's connection has no cache.
"""
_MINE: Final = (
    "(coalesce({column} = current_setting('tellback.tenant', TRUE)"
    " OR starts_with({column}, current_setting('tellback.tenant_prefix', TRUE)), FALSE))"
)
_TABLES: Final = """
    SELECT c.relname, coalesce((
        SELECT jsonb_object_agg(a.attname, format_type(a.atttypid, NULL)) FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    ), '{}') FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = %s::regnamespace ORDER BY c.oid
"""
_REFERENCES: Final = {
    "history_messages": ("session", "history_sessions", "key"),
    "history_bounds": ("session", "history_sessions", "key"),
    "history_summaries": ("session", "history_sessions", "key"),
    "history_left": ("session", "history_sessions", "key"),
    "held_things": ("held", "held", "key"),
    "operation_changes": ("number", "operations", "number"),
}
"""Tables whose rows are of the tenant that the row has to which they refer."""
_NAMES: Final = {"namespaces": "name", "documents": "collection"}
"""Tables whose rows name a namespace in another column than ``namespace``."""


def tenant_settings(tenant: str) -> dict[str, str]:
    """Return the settings of a connection that is *tenant*'s: its name, and what the names of its parts begin with."""
    return {TENANT: tenant, "tellback.tenant_prefix": quote(tenant, safe="") + "/"}


def grant_rights(connection: PsycopgConnection, schema: str, role: str) -> None:
    """Let *role* read and write the rows of *schema*, and make nothing there."""
    names = {"schema": sql.Identifier(schema), "role": sql.Identifier(role)}
    for statement in (
        "GRANT USAGE ON SCHEMA {schema} TO {role}",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
    ):
        connection.execute(sql.SQL(statement).format(**names))


def separate_tenants(connection: PsycopgConnection, schema: str, role: str) -> list[str]:
    """Have *role* see and write the rows of its connection's tenant alone; return the tables that it may not use.

    What belongs to no tenant can be read by all. Tables that do not tell whose a row is are taken from *role*.
    """
    withheld = []
    for table, columns in connection.execute(_TABLES, (sql.Identifier(schema).as_string(connection),)).fetchall():
        names = {"table": sql.Identifier(schema, table), "role": sql.Identifier(role)}
        condition = _condition(schema, table, columns)
        if condition is None and table not in _SHARED:
            connection.execute(sql.SQL("REVOKE ALL ON {table} FROM {role}").format(**names))
            withheld.append(str(table))
            continue
        connection.execute(sql.SQL("ALTER TABLE {table} ENABLE ROW LEVEL SECURITY").format(**names))
        connection.execute(sql.SQL("DROP POLICY IF EXISTS tellback_tenant ON {table}").format(**names))
        policy = sql.SQL("CREATE POLICY tellback_tenant ON {table} TO PUBLIC USING (").format(**names)
        connection.execute(policy + (condition or sql.SQL(_SHARED[table])) + sql.SQL(")"))
    return withheld


def _condition(schema: str, table: str, columns: dict[str, str]) -> sql.Composable | None:
    """Return the condition that a row is the tenant's; None where no column tells."""
    if table in _REFERENCES:
        column, other, key = _REFERENCES[table]
        return _among(schema, table, column, other, key)
    column = _NAMES.get(table, "namespace")
    if columns.get(column) == "text":
        return sql.SQL(_MINE).format(column=sql.Identifier(column))
    if columns.get(column) == "bigint":
        return _among(schema, table, column, "namespaces", "key")
    return None


def _among(schema: str, table: str, column: str, other: str, key: str) -> sql.Composable:
    """Return the condition that a row refers to one of *other* that is the tenant's: its own policy tells."""
    return sql.SQL("EXISTS (SELECT 1 FROM {other} AS o WHERE o.{key} = {table}.{column})").format(
        other=sql.Identifier(schema, other),
        key=sql.Identifier(key),
        table=sql.Identifier(schema, table),
        column=sql.Identifier(column),
    )
