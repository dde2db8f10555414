"""Placement of models on IPUs: blocks, execution strategies, the placement policy, the planner."""
