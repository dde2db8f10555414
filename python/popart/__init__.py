"""The few names of PopART that PopTorch programs use."""
