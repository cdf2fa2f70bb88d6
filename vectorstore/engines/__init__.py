"""The two embedded stores: in the process, and in a file. They do not know each other."""
