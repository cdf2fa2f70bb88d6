"""The bench of memory systems: anything that takes items and answers questions with them is measured alike."""
