"""Transformers of today: rotary embeddings, grouped keys, long sequences, experts, decoding."""

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.models import TransformerLayer


class RmsNorm(nn.Module):
    """Divides by the root of the mean square, as users write it out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class VisionTransformer(nn.Module):
    """DeiT-Tiny: 12 layers of width 192 on the patches of 224 x 224 images."""

    def __init__(self, width: int = 192, heads: int = 3, layers: int = 12, classes: int = 1000):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, 197, width) * 0.02)
        self.layers = nn.ModuleList(
            TransformerLayer(width, heads, pre_norm=True, causal=False) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


def rotate(x, cosine, sine):
    """Returns x, [batch, heads, length, width], with rotary position embeddings."""
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat([-second, first], -1) * sine


class GroupedAttention(nn.Module):
    """Causal attention with rotary embeddings, several queries for one key."""

    def __init__(self, width: int, heads: int, key_heads: int) -> None:
        super().__init__()
        self.heads, self.key_heads, self.head_width = heads, key_heads, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, key_heads * self.head_width, bias=False)
        self.v = nn.Linear(width, key_heads * self.head_width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, cosine, sine):
        def heads(t, count):
            return t.view(*x.shape[:2], count, self.head_width).transpose(1, 2)

        q = rotate(heads(self.q(x), self.heads), cosine, sine)
        k = rotate(heads(self.k(x), self.key_heads), cosine, sine)
        v = heads(self.v(x), self.key_heads)
        group = self.heads // self.key_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Llama(nn.Module):
    """Four layers with SmolLM-135M's shapes and a smaller vocabulary."""

    VOCABULARY = 8192

    def __init__(self, layers: int = 4, length: int = 256) -> None:
        super().__init__()
        width, hidden, heads = 576, 1536, 9
        self.tokens = nn.Embedding(self.VOCABULARY, width)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm1": RmsNorm(width),
                    "attention": GroupedAttention(width, heads, 3),
                    "norm2": RmsNorm(width),
                    "gate": nn.Linear(width, hidden, bias=False),
                    "up": nn.Linear(width, hidden, bias=False),
                    "down": nn.Linear(hidden, width, bias=False),
                }
            )
            for _ in range(layers)
        )
        self.norm = RmsNorm(width)
        nn.init.normal_(self.tokens.weight, std=0.02)
        half = width // heads // 2
        angles = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("cosine", angles.cos().repeat(1, 2))
        self.register_buffer("sine", angles.sin().repeat(1, 2))

    def forward(self, ids):
        x = self.tokens(ids)
        for layer in self.layers:
            x = x + layer["attention"](layer["norm1"](x), self.cosine, self.sine)
            y = layer["norm2"](x)
            x = x + layer["down"](F.silu(layer["gate"](y)) * layer["up"](y))
        return F.linear(self.norm(x), self.tokens.weight).flatten(0, 1)


class LongDecoder(nn.Module):
    """One layer of GPT-2's shapes on 2,048 tokens."""

    def __init__(self, width: int = 768, heads: int = 12, classes: int = 64) -> None:
        super().__init__()
        self.layer = TransformerLayer(width, heads, pre_norm=True, causal=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.layer(x)).flatten(0, 1)


class Experts(nn.Module):
    """One layer of Switch-Base-8's experts; every token visits all, weighted by its two best."""

    def __init__(self, width: int = 768, hidden: int = 2048, experts: int = 8, classes: int = 64):
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.up = nn.Parameter(torch.randn(experts, width, hidden) * width**-0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) * hidden**-0.5)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        scores = torch.softmax(self.router(x), -1)
        best, where = scores.topk(2, -1)
        share = torch.zeros_like(scores).scatter(-1, where, best / best.sum(-1, keepdim=True))
        hidden = F.relu(torch.einsum("td,edh->eth", x, self.up))
        y = torch.einsum("eth,ehd->etd", hidden, self.down)
        return self.head(x + (y * share.t().unsqueeze(-1)).sum(0))


class TokenByToken(nn.Module):
    """Two layers of GPT-2's shapes that add one token to a cache of 1,024 in each call."""

    def __init__(self, width: int = 768, heads: int = 12, layers: int = 2, length: int = 1024):
        super().__init__()
        self.heads, self.length = heads, length
        self.tokens = nn.Embedding(4096, width)
        for i in range(layers):
            for name in ("keys", "values"):
                self.register_buffer(f"{name}{i}", torch.zeros(1, heads, length, width // heads))
        self.layers = nn.ModuleList(
            TransformerLayer(width, heads, pre_norm=True, causal=False) for _ in range(layers)
        )

    def forward(self, ids, position):
        x = self.tokens(ids)
        visible = (torch.arange(self.length) <= position).view(1, 1, 1, -1)
        for i, layer in enumerate(self.layers):
            q, k, v = layer.attention.qkv(layer.norm1(x)).chunk(3, -1)
            q, k, v = (t.view(1, 1, self.heads, -1).transpose(1, 2) for t in (q, k, v))
            keys, values = getattr(self, f"keys{i}"), getattr(self, f"values{i}")
            keys.copy_(keys.index_copy(2, position, k))
            values.copy_(values.index_copy(2, position, v))
            y = F.scaled_dot_product_attention(q, keys, values, attn_mask=visible)
            x = x + layer.attention.out(y.transpose(1, 2).reshape(x.shape))
            x = x + layer.feed_forward(layer.norm2(x))
        return F.linear(x, self.tokens.weight).flatten(0, 1)
