"""What stays of what was forgotten: tombstones, what is held for a time of grace; and who must let go of things."""
