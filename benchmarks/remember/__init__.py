"""How fast remembering is, beside others that keep the same turns with the same vectors."""
