"""How memories are found again: candidates, signals, fusion, packing. ``recall`` is the door."""
