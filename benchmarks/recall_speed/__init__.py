"""How fast one recall is, what its index weighs, and what a command in a new process takes."""
