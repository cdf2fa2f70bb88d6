"""Loaders: bytes of one format in, text and pages out. They open no file and write nothing."""
