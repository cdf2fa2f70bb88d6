"""Endpoints of models with a memory: requests go to the configured model as they came, with what is known."""
