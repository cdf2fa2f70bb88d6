"""The in-memory search engine that both stores share: matrix, columns, terms, selection. Pure: no I/O, no locks."""
