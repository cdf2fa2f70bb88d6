"""Recognition of secrets in texts: patterns, checks, and redaction."""
