"""Documents measured: questions over technical documentation, how fast files are read, and how well."""
