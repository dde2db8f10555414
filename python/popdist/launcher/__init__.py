"""poprun: options are a table, instances run under one supervisor."""
