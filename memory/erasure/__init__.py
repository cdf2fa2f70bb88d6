"""Erasure: selection, cascade plan, forgetting for good or with a time of grace, and its verification."""
