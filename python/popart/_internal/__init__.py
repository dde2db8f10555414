"""What PopXL programs see of PopART's inside."""
