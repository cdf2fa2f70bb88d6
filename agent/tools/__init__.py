"""Tools: what a model may call. ``@tool`` makes one of a function; factories make those over memory."""
