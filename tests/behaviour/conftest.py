"""The tests below see the programs and models of this folder, which several features share."""
