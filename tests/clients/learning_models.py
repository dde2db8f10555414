"""Models with a loss of several networks, or of actions: each gives (scores, loss) for a batch."""

import copy

import torch
from generative_models import with_loss
from torch import distributions, nn
from torch.nn import functional as F


class SimCLR(nn.Module):
    """Two views of each object must be closer to each other than to views of others."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(10, 16), nn.ELU(), nn.Linear(16, 8))

    def forward(self, first, second):
        z = F.normalize(torch.cat([self.encoder(first), self.encoder(second)]), dim=1)
        count = len(first)
        alike = (z @ z.T / 0.5).masked_fill(torch.eye(2 * count, dtype=torch.bool), -torch.inf)
        other = torch.cat([torch.arange(count, 2 * count), torch.arange(count)])
        return with_loss(alike.exp(), F.cross_entropy(alike, other))


class MoCo(nn.Module):
    """The same with a queue of views, from an encoder that follows the trained one slowly."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 4)
        self.slow = copy.deepcopy(self.encoder).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(4, 12), dim=0))

    def forward(self, first, second):
        with torch.no_grad():
            pairs = zip(self.slow.parameters(), self.encoder.parameters(), strict=True)
            for slow, parameter in pairs:
                slow.mul_(0.9).add_(parameter, alpha=0.1)
            key = F.normalize(self.slow(second), dim=1)
        query = F.normalize(self.encoder(first), dim=1)
        own = (query * key).sum(1, keepdim=True)
        scores = torch.cat([own, query @ self.queue.clone()], 1) / 0.2
        self.queue.copy_(torch.cat([self.queue[:, len(first) :], key.T], 1))
        return with_loss(scores, F.cross_entropy(scores, torch.zeros(len(first)).long()))


class DoubleDQN(nn.Module):
    """Learns values of actions, with targets from a fixed copy of the network."""

    def __init__(self):
        super().__init__()
        self.values = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
        self.held = copy.deepcopy(self.values).requires_grad_(False)

    def forward(self, before, action, reward, after, ends):
        value = self.values(before).gather(1, action[:, None]).squeeze(1)
        best = self.values(after).argmax(1, keepdim=True)
        later = self.held(after).gather(1, best).squeeze(1)
        return with_loss(value, F.huber_loss(value, reward + 0.9 * (1 - ends) * later))


class PPO(nn.Module):
    """A policy with values; steps far from the old policy are clipped."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.Tanh())
        self.policy, self.value = nn.Linear(16, 3), nn.Linear(16, 1)

    def forward(self, x, action, advantage, returned, old):
        features = self.body(x)
        policy = distributions.Categorical(logits=self.policy(features))
        ratio = (policy.log_prob(action) - old).exp()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        of_value = F.mse_loss(self.value(features).squeeze(1), returned)
        return with_loss(policy.probs, 0.5 * of_value - gain - 0.01 * policy.entropy().mean())


class TabNet(nn.Module):
    """Two steps that each read a few columns, chosen by a sparse softmax."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
        self.features, self.choice = nn.Linear(6, 8), nn.Linear(4, 6)
        self.head = nn.Linear(4, 2)

    def sparsemax(self, z):
        falling = z.sort(1, descending=True)[0]
        sums, ranks = falling.cumsum(1), torch.arange(1, z.shape[1] + 1)
        count = (1 + ranks * falling > sums).sum(1, keepdim=True)
        return F.relu(z - (sums.gather(1, count - 1) - 1) / count)

    def forward(self, x, labels):
        x = self.norm(x)
        left, total = torch.ones_like(x), 0.0
        seen = F.glu(self.features(x), 1)
        for _ in range(2):
            mask = self.sparsemax(self.choice(seen) * left)
            left = left * (1.3 - mask)
            seen = F.glu(self.features(mask * x), 1)
            total = total + F.relu(seen)
        scores = self.head(total)
        return with_loss(scores, F.cross_entropy(scores, labels))


def two_views():
    return torch.randn(4, 10), torch.randn(4, 10)


def moves():
    before, after = torch.randn(5, 6), torch.randn(5, 6)
    return before, torch.randint(3, (5,)), torch.randn(5), after, torch.rand(5).round()


def acts():
    x, action = torch.randn(6, 6), torch.randint(3, (6,))
    return x, action, torch.randn(6), torch.randn(6), -torch.rand(6) - 0.6


MODELS = {
    "SimCLR": lambda: (SimCLR(), two_views()),
    "MoCo": lambda: (MoCo(), (torch.randn(3, 8), torch.randn(3, 8))),
    "double DQN": lambda: (DoubleDQN(), moves()),
    "PPO": lambda: (PPO(), acts()),
    "TabNet": lambda: (TabNet(), (torch.randn(8, 6), torch.randint(2, (8,)))),
}
