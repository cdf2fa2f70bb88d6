"""Export of a namespace to a file of lines, and import of such a file."""
