"""Mnemosyne, its base install: keyword and full text search, as its manual says it works without an embedder."""

from __future__ import annotations

from benchmarks.recall.peers.asking import Peer


class Mnemosyne(Peer):
    package = "mnemosyne-memory==3.15.1"
    script = "run_mnemosyne.py"
