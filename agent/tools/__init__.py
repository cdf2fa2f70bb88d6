"""Tools that a model may call. ``@tool`` makes one from a function; factories make those over memory and files."""
