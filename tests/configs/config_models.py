"""Models for tests/configs: a row has a function that makes the model, a micro-batch and their
number.
"""

import torch
from torch import nn
from torch.nn import functional as F


class WithLoss(nn.Module):
    """Returns (output, loss) of a model and a criterion."""

    def __init__(self, model, criterion):
        super().__init__()
        self.model, self.criterion = model, criterion

    def forward(self, *inputs):
        *given, target = inputs
        y = self.model(*given)
        return y, self.criterion(y, target)


class LastStep(nn.Module):
    """A recurrent layer, and a classifier of its last step."""

    def __init__(self, layer):
        super().__init__()
        self.first, self.layer, self.head = nn.Linear(5, 6), layer, nn.Linear(8, 3)
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        return self.head(self.norm(self.layer(self.first(x))[0][:, -1]))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm1, self.norm2 = nn.BatchNorm2d(4), nn.BatchNorm2d(4)

    def forward(self, x):
        return F.relu(x + self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))


def mlp():
    layers = []
    for _ in range(5):
        layers += [nn.Linear(6, 6), nn.GELU(), nn.Dropout(0.2)]
    return nn.Sequential(*layers, nn.Linear(6, 3))


def convnet():
    head = [nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3)]
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.MaxPool2d(2), Residual(), Residual(), *head)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True) for _ in range(3)
        )
        self.head = nn.Linear(8, 3)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


class HalfEncoder(nn.Module):
    """float16 inside, float32 outside."""

    def __init__(self):
        super().__init__()
        self.inner = Encoder().half()

    def forward(self, ids):
        return self.inner(ids).float()


def bert():
    import transformers

    configuration = transformers.BertConfig(
        vocab_size=11,
        hidden_size=8,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        num_labels=3,
    )

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = transformers.BertForSequenceClassification(configuration)

        def forward(self, ids):
            mask = (ids != 0).long()
            return self.bert(input_ids=ids, attention_mask=mask, return_dict=False)[0]

    return Classifier()


def floats(*shape):
    return lambda batch: torch.randn(batch, *shape)


def words(batch):
    return torch.randint(11, (batch, 5))


MODELS = {
    "mlp": (mlp, floats(6)),
    "convnet": (convnet, floats(2, 10, 10)),
    "lstm": (lambda: LastStep(nn.LSTM(6, 8, batch_first=True)), floats(4, 5)),
    "gru": (lambda: LastStep(nn.GRU(6, 8, batch_first=True)), floats(4, 5)),
    "encoder": (Encoder, words),
    "half": (HalfEncoder, words),
    "bert": (bert, words),
}


def make(name):
    """Returns a model with its loss, and a function that makes a batch for it."""
    torch.manual_seed(0)
    maker, inputs = MODELS[name]
    model = WithLoss(maker(), nn.CrossEntropyLoss())
    return model, lambda batch: (inputs(batch), torch.randint(3, (batch,)))
