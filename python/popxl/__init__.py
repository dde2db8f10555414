"""Programs for IPUs, written op by op."""
