"""Models of real size, with the shapes of published ones: BERT-base, GPT-2, ResNet-50, ViT-B and
TinyLlama. They are measured by name; `kinds` leaves them out, because each takes gigabytes."""

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.kinds.transformers import RmsNorm, VisionTransformer, rotate
from benchmarks.models import BertSmall, Gpt2Mini
from benchmarks.workload import Workload, images, tokens

ADAM = ("AdamW", {"lr": 1e-4})
GPT2_VOCABULARY, LLAMA_VOCABULARY = 50257, 32000


class Gpt2(Gpt2Mini):
    """GPT-2 124M on 512 tokens."""

    VOCABULARY = GPT2_VOCABULARY

    def __init__(self) -> None:
        super().__init__(width=768, heads=12, layers=12, length=512)


class Bottleneck(nn.Module):
    """ResNet's block of three convolutions, with the stride in the second."""

    def __init__(self, narrow: int, middle: int, stride: int) -> None:
        super().__init__()
        wide = 4 * middle
        self.conv1 = nn.Conv2d(narrow, middle, 1, bias=False)
        self.conv2 = nn.Conv2d(middle, middle, 3, stride, 1, bias=False)
        self.conv3 = nn.Conv2d(middle, wide, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in (middle, middle, wide))
        self.shortcut = nn.Identity()
        if narrow != wide:
            self.shortcut = nn.Sequential(
                nn.Conv2d(narrow, wide, 1, stride, bias=False), nn.BatchNorm2d(wide)
            )

    def forward(self, x):
        y = F.relu(self.norms[0](self.conv1(x)))
        y = F.relu(self.norms[1](self.conv2(y)))
        return F.relu(self.norms[2](self.conv3(y)) + self.shortcut(x))


class ResNet50(nn.Module):
    """ResNet-50 v1.5 for images of 224 x 224."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn = nn.BatchNorm2d(64)
        blocks, narrow = [], 64
        for middle, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(count):
                blocks.append(Bottleneck(narrow, middle, stride if i == 0 else 1))
                narrow = 4 * middle
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(narrow, 1000)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn(self.stem(x))), 3, 2, 1)
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(self.blocks(x), 1), 1))


class LlamaToken(nn.Module):
    """TinyLlama-1.1B, which adds one token to a cache of 256 in each call."""

    WIDTH, HIDDEN, HEADS, KEY_HEADS, LAYERS, LENGTH = 2048, 5632, 32, 4, 22, 256

    def __init__(self) -> None:
        super().__init__()
        width, hidden, each = self.WIDTH, self.HIDDEN, self.WIDTH // self.HEADS
        grouped = self.KEY_HEADS * each
        self.tokens = nn.Embedding(LLAMA_VOCABULARY, width)
        self.head = nn.Linear(width, LLAMA_VOCABULARY, bias=False)
        self.norm = RmsNorm(width)
        shapes = {
            "q": (width, width),
            "k": (width, grouped),
            "v": (width, grouped),
            "out": (width, width),
            "gate": (width, hidden),
            "up": (width, hidden),
            "down": (hidden, width),
        }
        self.layers = nn.ModuleList()
        for i in range(self.LAYERS):
            layer = nn.ModuleDict({n: nn.Linear(*s, bias=False) for n, s in shapes.items()})
            layer["norm1"], layer["norm2"] = RmsNorm(width), RmsNorm(width)
            self.layers.append(layer)
            for name in ("keys", "values"):
                cache = torch.zeros(1, self.KEY_HEADS, self.LENGTH, each)
                self.register_buffer(f"{name}{i}", cache)
        half = each // 2
        angles = torch.outer(torch.arange(self.LENGTH), 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("cosine", angles.cos().repeat(1, 2))
        self.register_buffer("sine", angles.sin().repeat(1, 2))

    def attend(self, layer, i, x, position):
        def heads(t):
            return t.view(1, 1, -1, self.WIDTH // self.HEADS).transpose(1, 2)

        cosine = self.cosine.index_select(0, position)
        sine = self.sine.index_select(0, position)
        q = rotate(heads(layer["q"](x)), cosine, sine)
        k, v = rotate(heads(layer["k"](x)), cosine, sine), heads(layer["v"](x))
        keys, values = getattr(self, f"keys{i}"), getattr(self, f"values{i}")
        keys.copy_(keys.index_copy(2, position, k))
        values.copy_(values.index_copy(2, position, v))
        visible = (torch.arange(self.LENGTH) <= position).view(1, 1, 1, -1)
        group = self.HEADS // self.KEY_HEADS
        keys, values = (t.repeat_interleave(group, 1) for t in (keys, values))
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=visible)
        return layer["out"](y.transpose(1, 2).reshape(x.shape))

    def forward(self, ids, position):
        x = self.tokens(ids)
        for i, layer in enumerate(self.layers):
            x = x + self.attend(layer, i, layer["norm1"](x), position)
            y = layer["norm2"](x)
            x = x + layer["down"](F.silu(layer["gate"](y)) * layer["up"](y))
        return self.head(self.norm(x)).flatten(0, 1)


def next_token(batch: int) -> tuple:
    """Draws one token, and its position in the cache."""
    return torch.randint(LLAMA_VOCABULARY, (batch, 1)), torch.tensor([200]), torch.zeros(batch)


LARGE = {
    "bert-base": Workload(
        "BERT-base, 128 tokens",
        lambda: BertSmall(width=768, heads=12, layers=12, length=128),
        tokens(128, BertSmall.VOCABULARY, classes=2),
        4,
        ADAM,
    ),
    "gpt2": Workload("GPT-2 124M, 512 tokens", Gpt2, tokens(512, GPT2_VOCABULARY), 1, ADAM),
    "resnet50": Workload(
        "ResNet-50",
        ResNet50,
        images(3, 224, 224, classes=1000),
        8,
        ("SGD", {"lr": 0.01, "momentum": 0.9}),
    ),
    "vit-b": Workload(
        "ViT-B inference",
        lambda: VisionTransformer(width=768, heads=12),
        images(3, 224, 224, classes=1000),
        1,
        None,
    ),
    "llama-1b": Workload("a token of TinyLlama-1.1B", LlamaToken, next_token, 1, None),
}
