"""BERT for pre-training and question answering, placed as published."""

import poptorch
import torch
from torch import nn
from torch.nn import functional


class SelfAttention(nn.Module):
    """Multi-head attention with dropout of the probabilities."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        batch, length, width = x.shape

        def split(y):
            return y.view(batch, length, self.heads, -1).transpose(1, 2)

        query, key, value = split(self.query(x)), split(self.key(x)), split(self.value(x))
        scores = query @ key.transpose(-1, -2) * (width // self.heads) ** -0.5 + mask
        context = self.dropout(scores.softmax(-1)) @ value
        return self.output(context.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    """A transformer layer with normalisation after each half."""

    def __init__(self, width, heads, dropout=0.1, attention_dropout=0.1):
        super().__init__()
        self.attention = SelfAttention(width, heads, attention_dropout)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        hidden = self.outer(functional.gelu(self.inner(x)))
        return self.norm2(x + self.dropout(hidden))


class PreNormLayer(Layer):
    """A transformer layer with normalisation before each half."""

    def forward(self, x, mask):
        x = x + self.dropout(self.attention(self.norm1(x), mask))
        hidden = self.dropout(functional.gelu(self.inner(self.norm2(x))))
        return x + self.dropout(self.outer(hidden))


class Embedding(nn.Module):
    """Words, positions and segments, normalised."""

    def __init__(self, width, vocabulary, length):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.positions, self.segments = nn.Embedding(length, width), nn.Embedding(2, width)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)

    def forward(self, tokens, segments):
        places = torch.arange(tokens.shape[1])
        x = self.words(tokens) + self.positions(places) + self.segments(segments)
        return self.dropout(self.norm(x))


class Bert(nn.Module):
    """The encoder with a masked-language loss over `masks` tokens, or with span prediction."""

    def __init__(self, width, layers, length, masks=0, vocabulary=30400, head_alone=True):
        super().__init__()
        self.masks, self.vocabulary, self.head_alone = masks, vocabulary, head_alone
        self.embedding = Embedding(width, vocabulary, length)
        self.layers = nn.ModuleList(Layer(width, width // 64) for _ in range(layers))
        if masks:
            self.transform, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
            self.pooler, self.next_sentence = nn.Linear(width, width), nn.Linear(width, 2)
        else:
            self.spans = nn.Linear(width, 2)

    def forward(self, tokens, segments, mask, places, labels, sentence):
        x = self.embedding(tokens, segments)
        penalty = ((1.0 - mask.to(x.dtype)) * -10000.0)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, penalty)
        if self.masks and self.head_alone:
            poptorch.Block.start("head", ipu_id=0)  # beside the tied embedding
        if not self.masks:
            return self.answer(x, places)
        return self.pretraining(x, places, labels, sentence)

    def pretraining(self, x, places, labels, sentence):
        width = x.shape[-1]
        picked = x.gather(1, places[:, :, None].expand(-1, -1, width))
        picked = self.norm(functional.gelu(self.transform(picked)))
        scores = picked.reshape(-1, width) @ self.embedding.words.weight.t()
        loss = functional.cross_entropy(scores.float(), labels.reshape(-1))
        pooled = torch.tanh(self.pooler(x[:, 0]))
        loss = loss + functional.cross_entropy(self.next_sentence(pooled).float(), sentence)
        return poptorch.identity_loss(loss, reduction="none")

    def answer(self, x, places):
        scores = self.spans(x)
        loss = functional.cross_entropy(scores[..., 0].float(), places[:, 0])
        loss = loss + functional.cross_entropy(scores[..., 1].float(), places[:, 1])
        return poptorch.identity_loss(loss, reduction="none")


def place(model, counts):
    """Puts the embedding on IPU 0, and `counts[i]` layers on IPU i."""
    poptorch.BeginBlock(model.embedding, "embedding", ipu_id=0)
    layers = iter(model.layers)
    for ipu, count in enumerate(counts):
        for index in range(count):
            layer = next(layers)
            if index == 0 and ipu > 0:
                poptorch.BeginBlock(layer, f"layers of IPU {ipu}", ipu_id=ipu)


def place_halves(model, counts):
    """Puts the embedding on IPU 0, and half layers on the others; the last ones are on IPU 0.

    Args:
        model: A model whose head is with its last layers.
        counts: For IPU 1 and so on, the numbers of attention halves and of feed-forward halves.
    """
    poptorch.BeginBlock(model.embedding, "embedding", ipu_id=0)
    halves = [half for layer in model.layers for half in (layer, layer.inner)]
    first = 0
    for ipu, count in enumerate(counts, 1):
        poptorch.BeginBlock(halves[first], f"layers of IPU {ipu}", ipu_id=ipu)
        first += sum(count)
    poptorch.BeginBlock(halves[first], "last layers", ipu_id=0)


def bert_in_halves(length, masks, counts):
    """Returns a function that builds BERT-large as Graphcore placed it for MLPerf."""

    def build():
        model = Bert(1024, 24, length, masks, head_alone=False)
        place_halves(model, counts)
        return model

    return build


def bert(width, layers, length, masks, counts):
    """Returns a function that builds the model with its placement."""

    def build():
        model = Bert(width, layers, length, masks)
        place(model, counts)
        return model

    return build


def bert_inputs(length, masks):
    """Returns a function of the batch that makes inputs which take no memory."""

    def inputs(batch):
        def zeros(*shape):
            return torch.zeros(1, *shape[1:], dtype=torch.int32).expand(*shape)

        places = zeros(batch, max(masks, 2)).long()
        return (
            zeros(batch, length), zeros(batch, length), zeros(batch, length),
            places, places, zeros(batch).long(),
        )  # fmt: skip

    return inputs
