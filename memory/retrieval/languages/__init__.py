"""Language rules of retrieval: a lexicon per language, read when a memory in it is opened, and dates in texts."""
