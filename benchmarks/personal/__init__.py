"""Recall as a person feels it: their notes, their stories of what changed, their chat."""
