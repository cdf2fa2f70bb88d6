"""Token counts: exact by tiktoken, or an estimate that does not undercount."""
