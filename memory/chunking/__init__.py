"""Chunkers: texts into pieces that are found and quoted, with exact offsets and the headings above them."""
