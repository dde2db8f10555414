"""poptorch.Options: the table of options, the classes made from it, checks and parsing of text."""
