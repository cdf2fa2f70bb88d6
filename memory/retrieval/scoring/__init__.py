"""Scoring of candidates: features of conversation turns and of document chunks, fusion, confidence and abstention."""
