"""poprun: a table defines the options, and one supervisor runs the instances."""
