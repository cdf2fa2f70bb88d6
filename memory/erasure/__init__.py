"""Erasure: selection, cascade plan, forgetting for good or softly with a grace period, and its verification."""
