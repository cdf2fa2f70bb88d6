"""The retrieval index: derived data of one store namespace in compact arrays, its cache and its synchronization."""
