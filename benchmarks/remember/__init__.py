"""Speed of remembering, beside others that keep the same turns with the same vectors."""
