"""Documents of a knowledge base: ingest of files, retrieval of passages, citations. Entry point: ``knowledge_base``."""
