"""Write policies: what may become a memory, and in which form; each decision says why."""
