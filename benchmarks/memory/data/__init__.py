"""Runners of data sets: each reads the files that its user has, and downloads nothing."""
