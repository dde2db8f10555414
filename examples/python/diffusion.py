"""Trains a small diffusion model on digits, and draws an image by removing noise step by step."""

import poptorch
import torch
from digits import DIGITS, load
from torch import nn

STEPS = 30
KEPT = torch.cumprod(1 - torch.linspace(1e-3, 0.25, STEPS), 0)  # share of the image at a step


class Denoiser(nn.Module):
    """Predicts the noise in 14 x 14 images at a step."""

    def __init__(self, width=32):
        super().__init__()
        self.time = nn.Embedding(STEPS, width)
        self.enter = nn.Conv2d(1, width, 3, padding=1)
        self.down = nn.Conv2d(width, width, 4, stride=2, padding=1)
        self.middle = nn.Conv2d(width, width, 3, padding=1)
        self.up = nn.ConvTranspose2d(width, width, 4, stride=2, padding=1)
        self.leave = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, noisy, step, noise=None):
        x = nn.functional.silu(self.enter(noisy) + self.time(step)[:, :, None, None])
        y = nn.functional.silu(self.middle(nn.functional.silu(self.down(x))))
        found = self.leave(nn.functional.silu(self.up(y) + x))
        return found if noise is None else (found, nn.functional.mse_loss(found, noise))


def main():
    torch.manual_seed(0)
    images = nn.functional.avg_pool2d(load(DIGITS, "train")[0], 2) * 2 - 1
    model = Denoiser()
    options = poptorch.Options().showCompilationProgressBar(False)
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=2e-3)
    training = poptorch.trainingModel(model, options, optimizer)
    for _ in range(300):
        clean, step = images[torch.randint(len(images), (32,))], torch.randint(STEPS, (32,))
        kept, noise = KEPT[step].view(-1, 1, 1, 1), torch.randn_like(clean)
        _, loss = training(kept.sqrt() * clean + (1 - kept).sqrt() * noise, step, noise)

    drawing = poptorch.inferenceModel(model, options)
    x = torch.randn(1, 1, 14, 14)
    for step in reversed(range(STEPS)):
        kept, before = KEPT[step], KEPT[step - 1] if step else torch.tensor(1.0)
        noise = drawing(x, torch.tensor([step]))
        image = ((x - (1 - kept).sqrt() * noise) / kept.sqrt()).clamp(-1, 1)
        x = before.sqrt() * image + (1 - before).sqrt() * noise
    ink = (x > 0).float().mean()
    print(f"last loss {loss.item():.3f}, a drawn image has {ink:.0%} of its pixels in ink")


if __name__ == "__main__":
    main()
