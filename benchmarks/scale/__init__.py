"""Sizes beyond one machine's file: one large namespace, many tenants, writes; beside others on the same server."""
