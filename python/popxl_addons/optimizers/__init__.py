"""Steps of optimisers as modules."""

from popxl_addons.optimizers.adam import AdamOptimizerStep as AdamOptimizerStep
