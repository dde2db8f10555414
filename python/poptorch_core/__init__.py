"""Native core without torch: libraries, headers, the module _core; and the module _torch."""
