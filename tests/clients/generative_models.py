"""Generative models: each gives (its output, its loss) for a batch."""

import math

import poptorch
import torch
from torch import distributions, nn
from torch.nn import functional as F


def with_loss(result, loss):
    return result, poptorch.identity_loss(loss, reduction="none")


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(12, 8), nn.Linear(4, 12)

    def forward(self, x, noise):
        mean, log_deviation = self.encoder(x).chunk(2, 1)
        deviation = log_deviation.exp()
        of_x = distributions.Normal(mean, deviation)
        prior = distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
        y = self.decoder(mean + deviation * noise)
        likely = distributions.Normal(y, 1.0).log_prob(x).sum(1)
        return with_loss(y, (distributions.kl_divergence(of_x, prior).sum(1) - likely).mean())


class VQVAE(nn.Module):
    """The code between encoder and decoder is the nearest row of a book; gradients bypass that
    choice."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(12, 4), nn.Linear(4, 12)
        self.book = nn.Embedding(8, 4)

    def forward(self, x):
        z = self.encoder(x)
        distance = (z[:, None] - self.book.weight).square().sum(2)
        nearest = self.book(distance.argmin(1))
        y = self.decoder(z + (nearest - z).detach())
        of_book, of_code = F.mse_loss(nearest, z.detach()), F.mse_loss(z, nearest.detach())
        return with_loss(y, F.mse_loss(y, x) + of_book + 0.25 * of_code)


class Flow(nn.Module):
    """Has invertible layers; returns the log of the density."""

    def __init__(self):
        super().__init__()
        layers = (nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 6)) for _ in range(4))
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        log_volume = x.new_zeros(len(x))
        for layer in self.layers:
            a, b = x.chunk(2, 1)
            shift, scale = layer(a).chunk(2, 1)
            scale = torch.tanh(scale)
            x = torch.cat([b * scale.exp() + shift, a], 1)
            log_volume = log_volume + scale.sum(1)
        return with_loss(x, (0.5 * x.square().sum(1) - log_volume).mean())


def wave_code(times, width):
    rates = torch.exp(-math.log(10000) * torch.arange(width // 2) / (width // 2))
    angles = times[:, None].float() * rates
    return torch.cat([angles.sin(), angles.cos()], 1)


class Diffusion(nn.Module):
    """Predicts the noise in images from the images and the step of the noise."""

    def __init__(self, width=16):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(8, width), nn.SiLU())
        self.first, self.norm = nn.Conv2d(3, width, 3, padding=1), nn.GroupNorm(4, width)
        self.down = nn.Conv2d(width, width, 3, 2, 1)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.last = nn.Conv2d(2 * width, 3, 3, padding=1)
        self.register_buffer("kept", torch.linspace(0.99, 0.1, 10))

    def forward(self, x, time, noise):
        kept = self.kept[time].view(-1, 1, 1, 1)
        noisy = kept.sqrt() * x + (1 - kept).sqrt() * noise
        high = F.silu(self.norm(self.first(noisy))) + self.time(wave_code(time, 8))[..., None, None]
        low = self.down(high)
        places = low.flatten(2).mT
        places = places + self.attention(places, places, places, need_weights=False)[0]
        low = F.interpolate(places.mT.reshape(low.shape), scale_factor=2, mode="bilinear")
        y = self.last(torch.cat([high, low], 1))
        return with_loss(y, F.mse_loss(y, noise))


class Radiance(nn.Module):
    """Returns the colours of rays through a field of densities, as NeRF does."""

    def __init__(self, samples=6):
        super().__init__()
        self.samples = samples
        self.field = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, origins, ways, colours):
        depths = torch.linspace(0.5, 2, self.samples)[:, None]
        points = origins[:, None] + ways[:, None] * depths
        waves = (points[..., None] * 2.0 ** torch.arange(4)).flatten(2)
        seen = self.field(torch.cat([waves.sin(), waves.cos()], -1))
        stopped = 1 - torch.exp(-0.3 * F.softplus(seen[..., 3]))
        left = torch.cat([torch.ones_like(stopped[:, :1]), 1 - stopped[:, :-1]], 1).cumprod(1)
        y = ((stopped * left)[..., None] * seen[..., :3].sigmoid()).sum(1)
        return with_loss(y, F.mse_loss(y, colours))


MODELS = {
    "VAE": lambda: (VAE(), (torch.randn(4, 12), torch.randn(4, 4))),
    "VQ-VAE": lambda: (VQVAE(), (torch.randn(4, 12),)),
    "normalising flow": lambda: (Flow(), (torch.randn(5, 6),)),
    "diffusion": lambda: (
        Diffusion(),
        (torch.randn(2, 3, 8, 8), torch.randint(10, (2,)), torch.randn(2, 3, 8, 8)),
    ),
    "NeRF": lambda: (Radiance(), (torch.randn(4, 3), torch.randn(4, 3), torch.rand(4, 3))),
}
