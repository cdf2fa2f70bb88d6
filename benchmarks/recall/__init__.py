"""Recall measured: tasks, systems, results, figures, tables and pictures."""
