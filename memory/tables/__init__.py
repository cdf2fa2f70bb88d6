"""Tables that a memory keeps beside its store and its history, in the same database and transactions.

Below the write path and erasure, which both use them: the operation log, idempotency keys, the embedder's probes,
tombstones and soft deletes, each with its protocol; and the protocols by which any part is erased and exported.
"""
