"""Embedders: texts to vectors by the local table, a server or hashing; and vectors of single words."""
