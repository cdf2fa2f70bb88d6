"""Page of a memory: server-rendered views over its desk and its conversations, for people with a browser."""
