"""The wrapper: what poptorch.trainingModel and poptorch.inferenceModel are made of."""
