"""Where a model runs: blocks, execution strategies, the placement policy and the planner."""
