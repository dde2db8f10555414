"""The workloads, and the harness that compares PopTorch with its peers."""
