"""Generates text with an encoder and a decoder, whose cache of keys and values stays on the device.

It is one annotated model and two programs.
"""

import poptorch
import torch
import transformers
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def attend(self, x, key, value, mask):
        y = nn.functional.scaled_dot_product_attention(self.split(self.q(x)), key, value, mask)
        return self.out(y.transpose(1, 2).flatten(2))

    def forward(self, x, others, mask):
        return self.attend(x, self.split(self.k(others)), self.split(self.v(others)), mask)


class CachedAttention(Attention):
    """Attention of a token to those before it; keys, values: [batch, heads, length, size]."""

    def make_cache(self, batch, length):
        shape = batch, self.heads, length, self.q.out_features // self.heads
        self.register_buffer("key_cache", torch.zeros(shape), persistent=False)
        self.register_buffer("value_cache", torch.zeros(shape), persistent=False)

    def step(self, x, position):
        length = self.key_cache.shape[2]
        here = (torch.arange(length) == position).view(1, 1, -1, 1)
        self.key_cache.copy_(torch.where(here, self.split(self.k(x)), self.key_cache))
        self.value_cache.copy_(torch.where(here, self.split(self.v(x)), self.value_cache))
        return self.attend(x, self.key_cache, self.value_cache, torch.arange(length) <= position)


class DynamicCachedAttention(CachedAttention):
    """The same with an index that only the device knows, as one dynamic slice."""

    def step(self, x, position):
        for cache, new in ((self.key_cache, self.k(x)), (self.value_cache, self.v(x))):
            cache.index_copy_(2, position, self.split(new))
        length = self.key_cache.shape[2]
        return self.attend(x, self.key_cache, self.value_cache, torch.arange(length) <= position)


class EncoderLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.dense = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x, mask):
        x = self.norms[0](x + self.attention(x, x, mask))
        return self.norms[1](x + self.dense(x))


class DecoderLayer(nn.Module):
    def __init__(self, width, heads, attention):
        super().__init__()
        self.attention, self.cross = attention(width, heads), Attention(width, heads)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.dense = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x, encoded, mask, position=None):
        if position is None:
            causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
            attended = self.attention(x, x, causal)
        else:
            attended = self.attention.step(x, position)
        x = self.norms[0](x + attended)
        x = self.norms[1](x + self.cross(x, encoded, mask))
        return self.norms[2](x + self.dense(x))


class Translator(nn.Module):
    """Takes ids and mask [batch, tokens]; returns logits [batch, target tokens, vocabulary]."""

    def __init__(self, vocabulary, width=16, heads=2, layers=2, attention=CachedAttention):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(32, width)
        self.encoder = nn.ModuleList(EncoderLayer(width, heads) for _ in range(layers))
        self.decoder = nn.ModuleList(DecoderLayer(width, heads, attention) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def encode(self, ids, mask):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.encoder:
            x = layer(x, mask[:, None, None].bool())
        return x

    def decode(self, ids, encoded, mask, position=None):
        places = torch.arange(ids.shape[1]) if position is None else position
        x = self.words(ids) + self.places(places)
        for layer in self.decoder:
            x = layer(x, encoded, mask[:, None, None].bool(), position)
        return self.head(x)

    def forward(self, ids, mask, target):
        return self.decode(target, self.encode(ids, mask), mask)

    def parallelize(self):
        """Places one layer per IPU, in the encoder's and in the decoder's program."""
        for ipu, (encoder, decoder) in enumerate(zip(self.encoder, self.decoder, strict=True)):
            poptorch.BeginBlock(encoder, f"Encoder{ipu}", ipu_id=ipu)
            poptorch.BeginBlock(decoder, f"Decoder{ipu}", ipu_id=ipu)
        return self


class Encoder(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, mask):
        return self.model.encode(ids, mask)


class DecoderStep(Encoder):
    """Returns the next token of each row, after `word` [batch, 1] at `position` [1]."""

    def forward(self, word, position, encoded, mask):
        return self.model.decode(word, encoded, mask, position).argmax(-1).int()


class DecoderLoop(Encoder):
    """Returns all tokens [batch, length] that follow `word`; the loop runs on the device, on one
    IPU."""

    def __init__(self, model, length):
        super().__init__(model)
        self.length = length

    def forward(self, word, encoded, mask):
        places = torch.arange(self.length)

        def step(position, word, words):
            word = self.model.decode(word, encoded, mask, position).argmax(-1).int()
            return position + 1, word, torch.where(places == position, word, words)

        words = torch.zeros(word.shape[0], self.length, dtype=torch.int32)
        start = torch.zeros(1, dtype=torch.int32)
        return poptorch.for_loop(self.length, step, [start, word, words])[2]


class Generator:
    """Generates greedily; `on_device` says where the loop over the tokens runs.

    The decoder's layers are on several IPUs only if the loop is on the host: the body of a loop is
    in one block.
    """

    def __init__(self, model, batch, length, on_device=False):
        self.length, self.on_device = length, on_device
        for layer in model.decoder:
            layer.attention.make_cache(batch, length)
        options = poptorch.Options()
        options.setExecutionStrategy(poptorch.ShardedExecution())
        self.encoder = poptorch.inferenceModel(Encoder(model), options.clone())
        decoder = DecoderLoop(model, length) if on_device else DecoderStep(model)
        self.decoder = poptorch.inferenceModel(decoder, options.clone())

    def __call__(self, ids, mask, start):
        encoded, word = self.encoder(ids, mask), start
        if self.on_device:
            return self.decoder(word, encoded, mask)
        words = []
        for position in range(self.length):
            word = self.decoder(word, torch.tensor([position], dtype=torch.int32), encoded, mask)
            words.append(word)
        return torch.cat(words, 1)


def generate_eagerly(model, ids, mask, start, length):
    """Returns the same tokens computed by torch, which reads all tokens before each."""
    words = start
    with torch.no_grad():
        for _ in range(length):
            words = torch.cat([words, model(ids, mask, words)[:, -1:].argmax(-1).int()], 1)
    return words[:, 1:]


class CachedStep(nn.Module):
    """A step of a Hugging Face model; buffers of this module are the tensors of its StaticCache."""

    def __init__(self, model, cache):
        super().__init__()
        self.model, self.cache = model, cache
        for number, layer in enumerate(cache.layers):
            for name in ("keys", "values", "cumulative_length"):
                self.register_buffer(f"{name}_{number}", getattr(layer, name), persistent=False)

    def filled(self):
        """Returns a cache with the buffers of this module."""
        for number, layer in enumerate(self.cache.layers):
            for name in ("keys", "values", "cumulative_length"):
                setattr(layer, name, getattr(self, f"{name}_{number}"))
        return self.cache

    def forward(self, word, position):
        outputs = self.model(
            input_ids=word, position_ids=position, past_key_values=self.filled(), use_cache=True
        )
        return outputs.logits[:, -1].argmax(-1, keepdim=True).int()


class CachedDecoderStep(CachedStep):
    """A step of a decoder with cross-attention; the keys of the encoder's output are made at each
    step."""

    def forward(self, word, encoded):
        cache = transformers.EncoderDecoderCache(self.filled(), transformers.DynamicCache())
        outputs = self.model(
            encoder_outputs=(encoded,),
            decoder_input_ids=word,
            past_key_values=cache,
            use_cache=True,
        )
        return outputs.logits[:, -1].argmax(-1, keepdim=True).int()
