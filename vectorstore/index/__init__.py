"""The in-memory search engine of both stores: vectors, columns, terms, top-k. Pure: no I/O, no locks."""
