"""Models with loops, memories, points and boxes: each gives (scores, loss) for a batch."""

import torch
from generative_models import with_loss
from torch import nn
from torch.nn import functional as F


class PointNet(nn.Module):
    """Classifies clouds of points, after a learnt rotation."""

    def __init__(self):
        super().__init__()
        self.turn = nn.Linear(3, 9)
        self.points = nn.Sequential(
            nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 24, 1)
        )
        self.head = nn.Linear(24, 4)

    def forward(self, x, labels):
        turn = self.turn(x.mean(1)).view(-1, 3, 3) + torch.eye(3)
        scores = self.head(self.points((x @ turn).mT).amax(2))
        skew = (torch.eye(3) - turn @ turn.mT).norm(dim=(1, 2)).mean()
        return with_loss(scores, F.cross_entropy(scores, labels) + 1e-3 * skew)


class Seq2Seq(nn.Module):
    """Generates words by a recurrent cell with attention to the input."""

    def __init__(self, words=20, width=8):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.reader = nn.GRU(width, width, batch_first=True)
        self.writer = nn.GRUCell(2 * width, width)
        self.head = nn.Linear(2 * width, words)

    def forward(self, read, written):
        memory, state = self.reader(self.words(read))
        state, scores = state[0], []
        for word in written[:, :-1].unbind(1):
            looks = (memory @ state[:, :, None]).squeeze(2).softmax(1)
            seen = (looks[:, None] @ memory).squeeze(1)
            state = self.writer(torch.cat([self.words(word), seen], 1), state)
            scores.append(self.head(torch.cat([state, seen], 1)))
        scores = torch.stack(scores, 2)
        return with_loss(scores, F.cross_entropy(scores, written[:, 1:], label_smoothing=0.1))


class Tagger(nn.Module):
    """A conditional random field on a recurrent layer: the likelihood of a sequence of tags."""

    def __init__(self, words=20, tags=4):
        super().__init__()
        self.words = nn.Embedding(words, 8)
        self.lstm = nn.LSTM(8, 4, bidirectional=True, batch_first=True)
        self.head = nn.Linear(8, tags)
        self.steps = nn.Parameter(torch.randn(tags, tags))

    def forward(self, words, tags):
        scores = self.head(self.lstm(self.words(words))[0])
        total = scores[:, 0]
        for score in scores[:, 1:].unbind(1):
            total = torch.logsumexp(total[:, :, None] + self.steps, 1) + score
        path = scores.gather(2, tags[..., None]).sum((1, 2))
        path = path + self.steps[tags[:, :-1], tags[:, 1:]].sum(1)
        return with_loss(scores, (total.logsumexp(1) - path).mean())


class TuringMachine(nn.Module):
    """A cell with a memory, addressed by content and by shifts."""

    def __init__(self, slots=6, width=4):
        super().__init__()
        self.slots, self.width = slots, width
        self.cell = nn.LSTMCell(3 + width, 8)
        self.acts = nn.Linear(8, width + 1 + 3 + width + width)
        self.head = nn.Linear(8 + width, 3)

    def forward(self, x, wanted):
        batch = x.shape[0]
        memory = torch.full((batch, self.slots, self.width), 0.1)
        place = F.one_hot(torch.zeros(batch, dtype=torch.long), self.slots).float()
        state = torch.zeros(batch, 8), torch.zeros(batch, 8)
        seen, scores = torch.zeros(batch, self.width), []
        for now in x.unbind(1):
            state = self.cell(torch.cat([now, seen], 1), state)
            sizes = [self.width, 1, 3, self.width, self.width]
            key, force, step, erased, added = self.acts(state[0]).split(sizes, 1)
            alike = F.cosine_similarity(memory, key[:, None], dim=2)
            place = 0.5 * place + 0.5 * (F.softplus(force) * alike).softmax(1)
            moves = step.softmax(1).unbind(1)
            place = sum(m[:, None] * place.roll(i - 1, 1) for i, m in enumerate(moves))
            memory = memory * (1 - place[..., None] * erased.sigmoid()[:, None])
            memory = memory + place[..., None] * added.tanh()[:, None]
            seen = (place[:, None] @ memory).squeeze(1)
            scores.append(self.head(torch.cat([state[0], seen], 1)))
        scores = torch.stack(scores, 1)
        return with_loss(scores, F.binary_cross_entropy_with_logits(scores, wanted))


class Capsules(nn.Module):
    """Routing by agreement: three rounds of weights that follow the agreement of capsules."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(1, 5, 3, padding=1)
        self.votes = nn.Parameter(0.1 * torch.randn(6, 3, 4, 5))

    def squash(self, x):
        size = x.square().sum(-1, keepdim=True)
        return size / (1 + size) * x / (size.sqrt() + 1e-8)

    def forward(self, x, labels):
        low = self.squash(self.first(x[:, None]).mT)
        votes = torch.einsum("bik,ijlk->bijl", low, self.votes)
        weights = torch.zeros(votes.shape[:3])
        for _ in range(3):
            high = self.squash((weights.softmax(2)[..., None] * votes).sum(1))
            weights = weights + (votes * high[:, None]).sum(-1)
        scores, wanted = high.norm(dim=-1), F.one_hot(labels, 3)
        there, absent = F.relu(0.9 - scores).square(), F.relu(scores - 0.1).square()
        return with_loss(scores, (wanted * there + 0.5 * (1 - wanted) * absent).sum(1).mean())


class NeuralODE(nn.Module):
    """Moves points in a learnt field, by Runge-Kutta steps."""

    def __init__(self):
        super().__init__()
        self.field = nn.Sequential(nn.Linear(5, 12), nn.Softplus(), nn.Linear(12, 4))

    def slope(self, time, x):
        return self.field(torch.cat([x, torch.full_like(x[:, :1], time)], 1))

    def forward(self, x, wanted, step=0.25):
        for number in range(4):
            time = number * step
            first = self.slope(time, x)
            second = self.slope(time + step / 2, x + step / 2 * first)
            third = self.slope(time + step / 2, x + step / 2 * second)
            fourth = self.slope(time + step, x + step * third)
            x = x + step / 6 * (first + 2 * second + 2 * third + fourth)
        return with_loss(x, F.smooth_l1_loss(x, wanted))


class Boxes(nn.Module):
    """Predicts boxes and classes at each cell of a grid, for two box shapes, as YOLO does."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.SiLU()
        )
        self.head = nn.Conv2d(16, 2 * 8, 1)
        self.register_buffer("shapes", torch.tensor([[1.0, 2.0], [2.0, 1.0]]))

    def overlap(self, a, b):
        low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
        both = (high - low).clamp(min=0).prod(-1)
        areas = [(box[..., 2:] - box[..., :2]).prod(-1) for box in (a, b)]
        return both / (areas[0] + areas[1] - both + 1e-7)

    def forward(self, x, boxes, there, classes):
        found = self.head(self.body(x)).unflatten(1, (2, 8)).permute(0, 1, 3, 4, 2)
        rows, columns = (torch.arange(size) for size in found.shape[2:4])
        y, x = torch.meshgrid(rows, columns, indexing="ij")
        centre = found[..., :2].sigmoid() * 2 - 0.5 + torch.stack([x, y], -1)
        size = (found[..., 2:4].sigmoid() * 2).square() * self.shapes[:, None, None]
        overlap = self.overlap(torch.cat([centre - size / 2, centre + size / 2], -1), boxes)
        of_boxes = ((1 - overlap) * there).sum() / there.sum()
        sure = F.binary_cross_entropy_with_logits(found[..., 4], overlap.detach() * there)
        scores = found[..., 5:].movedim(-1, 1)
        of_classes = (F.cross_entropy(scores, classes, reduction="none") * there).mean()
        return with_loss(found, of_boxes + sure + of_classes)


def boxes():
    low = 3 * torch.rand(2, 2, 4, 4, 2)
    there = (torch.rand(2, 2, 4, 4) > 0.5).float()
    classes = torch.randint(3, (2, 2, 4, 4))
    return Boxes(), (torch.randn(2, 3, 16, 16), torch.cat([low, low + 1], -1), there, classes)


MODELS = {
    "PointNet": lambda: (PointNet(), (torch.randn(3, 20, 3), torch.randint(4, (3,)))),
    "sequence to sequence": lambda: (
        Seq2Seq(),
        (torch.randint(20, (2, 6)), torch.randint(20, (2, 5))),
    ),
    "conditional random field": lambda: (
        Tagger(),
        (torch.randint(20, (2, 6)), torch.randint(4, (2, 6))),
    ),
    "neural Turing machine": lambda: (
        TuringMachine(),
        (torch.randn(2, 4, 3), torch.rand(2, 4, 3).round()),
    ),
    "capsules": lambda: (Capsules(), (torch.randn(4, 6), torch.randint(3, (4,)))),
    "neural ODE": lambda: (NeuralODE(), (torch.randn(3, 4), torch.randn(3, 4))),
    "YOLO": boxes,
}
