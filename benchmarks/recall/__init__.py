"""Recall measured: tasks, the systems that are given them, results, figures, tables and pictures."""
