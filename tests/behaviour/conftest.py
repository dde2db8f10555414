"""Makes the programs and models of this folder importable by the tests below it."""
