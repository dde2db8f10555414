"""The backend "poptorch" of torch.compile: graphs of torch run on the device."""
