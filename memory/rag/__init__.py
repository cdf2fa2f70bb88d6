"""Documents: loading, taking in, finding again and citing them. ``KnowledgeBase`` is the way in."""
