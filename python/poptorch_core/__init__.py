"""Native core, without torch: the libraries, headers and the module _core, and the module _torch."""
