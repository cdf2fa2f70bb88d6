"""One adapter a file: how each store is filled, asked and closed, with the settings that its own manual advises."""
