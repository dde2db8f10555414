"""Listing 4.7: annotating existing layers. The weights are random, so nothing is downloaded."""

import poptorch
import torch
import transformers

# The configuration of a small BERT with few words.
config = transformers.BertConfig(
    vocab_size=1000,
    hidden_size=64,
    num_hidden_layers=8,
    num_attention_heads=8,
    intermediate_size=256,
)


# For later versions of transformers, we need to wrap the model and set
# return_dict to False
class WrappedModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wrapped = transformers.BertForQuestionAnswering(config)

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.wrapped.forward(input_ids, attention_mask, token_type_ids, return_dict=False)

    def __getattr__(self, attr):
        try:
            return torch.nn.Module.__getattr__(self, attr)
        except AttributeError:
            return getattr(self.wrapped, attr)


model = WrappedModel()
model.eval()

# A handy way of seeing the names of all the layers in the network.
print(model)

# All layers before "model.bert.encoder.layer[0]" will be on IPU 0 and all layers from
# "model.bert.encoder.layer[0]" onwards (inclusive) will be on IPU 1.
model.bert.encoder.layer[0] = poptorch.BeginBlock(model.bert.encoder.layer[0], ipu_id=1)

# Now all layers before layer are on IPU 1 and this layer onward is on IPU 2
model.bert.encoder.layer[2] = poptorch.BeginBlock(model.bert.encoder.layer[2], ipu_id=2)

# Finally all layers from this layer till the end of the network are on IPU 3.
model.bert.encoder.layer[4] = poptorch.BeginBlock(model.bert.encoder.layer[4], ipu_id=3)

# We must batch the data by at least the number of IPUs. Each IPU will still execute
# whatever the model batch size is.
data_batch_size = 4

# Create a poptorch.Options instance to override default options
opts = poptorch.Options()
opts.deviceIterations(data_batch_size)

inputs = (
    torch.randint(0, 1000, (data_batch_size, 32)),
    torch.ones(data_batch_size, 32, dtype=torch.int64),
    torch.zeros(data_batch_size, 32, dtype=torch.int64),
)
poptorch_model = poptorch.inferenceModel(model, opts)
start, end = poptorch_model(*inputs)
expected = model(*inputs)
print("largest difference:", float((start - expected[0]).detach().abs().max()))
assert torch.allclose(start, expected[0], atol=1e-4)
assert torch.allclose(end, expected[1], atol=1e-4)
