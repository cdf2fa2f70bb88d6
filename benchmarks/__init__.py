"""Benchmarks of Tellback: run them with ``python -m benchmarks``. Not shipped in the wheel, and never a test of
speed."""
