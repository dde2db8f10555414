"""Connects poptorch to other libraries, which are imported only by the module that needs them."""
