"""Speed of one recall, weight of its index, and time of a command in a new process."""
