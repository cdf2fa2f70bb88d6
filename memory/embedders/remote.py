"""Whether what is given to an embedder or another endpoint leaves this machine, as far as it says."""

from __future__ import annotations


def is_remote(endpoint: object) -> bool:
    """Whether what is given to *endpoint* (an embedder, a provider, None) leaves this machine.

    It says so by an attribute ``remote``; one that says nothing is taken to be remote.
    """
    return endpoint is not None and bool(getattr(endpoint, "remote", True))
