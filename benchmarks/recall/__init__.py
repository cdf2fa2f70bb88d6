"""What is found again, measured: tasks, the systems that are given them, results, figures, tables and pictures."""
