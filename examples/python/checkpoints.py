"""A trainer in the style of Hugging Face: arguments, warm-up schedule, logs, checkpoints, resume.

`main` trains a tiny language model twice: once without interruption, and once stopped half-way and
resumed from its checkpoint. Both runs end with bit-identical weights.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import poptorch
import torch
from torch import nn


@dataclass
class Arguments:
    """The settings of a training run."""

    output_folder: Path
    steps: int = 60
    batch_size: int = 8
    learning_rate: float = 1e-2
    warmup_steps: int = 10
    weight_decay: float = 0.01
    logging_steps: int = 20
    save_steps: int = 30
    seed: int = 42


class LanguageModel(nn.Module):
    """Predicts the next token. Takes keyword arguments and returns a dict, as transformers do."""

    def __init__(self, tokens=16, width=32):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(width, tokens)

    def forward(self, input_ids, labels=None):
        hidden, _ = self.encoder(self.embedding(input_ids))
        logits = self.head(self.dropout(hidden))
        if labels is None:
            return {"logits": logits}
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return {"loss": loss, "logits": logits}


def sentences(count, length=12, tokens=16):
    """Returns arithmetic progressions modulo the number of tokens."""
    start, step = torch.randint(tokens, (count, 1)), torch.randint(1, 4, (count, 1))
    return [{"ids": row} for row in (start + step * torch.arange(length + 1)) % tokens]


class Trainer:
    """Trains a model with warm-up and linear decay, from the start or from a checkpoint."""

    def __init__(self, model, arguments, data):
        self.arguments = arguments
        self.data = data
        self.model = model
        self.optimizer = poptorch.optim.AdamW(
            model.parameters(), lr=arguments.learning_rate, weight_decay=arguments.weight_decay
        )
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self._factor)
        options = poptorch.Options().randomSeed(arguments.seed)
        options.Training.gradientAccumulation(2)
        self.options = options
        self.wrapped = poptorch.trainingModel(model, options, self.optimizer)
        self.step = 0

    def _factor(self, step):
        arguments = self.arguments
        if step < arguments.warmup_steps:
            return (step + 1) / arguments.warmup_steps
        return max(0.0, (arguments.steps - step) / (arguments.steps - arguments.warmup_steps))

    def _batches(self):
        """Yields batches from `self.step` on. Each epoch has a different order."""
        rows = self.arguments.batch_size * self.options.Training.gradient_accumulation
        per_epoch = len(self.data) // rows
        while True:
            epoch, first = divmod(self.step, per_epoch)
            order = torch.randperm(
                len(self.data), generator=torch.Generator().manual_seed(epoch)
            ).tolist()
            for i in range(first, per_epoch):
                ids = torch.stack([self.data[j]["ids"] for j in order[i * rows : (i + 1) * rows]])
                yield {"input_ids": ids[:, :-1], "labels": ids[:, 1:]}

    def train(self, until=None, resume_from=None):
        """Trains up to step `until` (default: all steps), and returns the last loss."""
        if resume_from is not None:
            self._load(resume_from)
        loss = None
        for batch in self._batches():
            if self.step == (until or self.arguments.steps):
                return loss
            if resume_from is not None and not self.wrapped.isCompiled():
                self.wrapped.compile(**batch)
                self.wrapped.rng_state = self._random_state
            loss = self.wrapped(**batch)["loss"].item()
            self.step += 1
            self.scheduler.step()
            self.wrapped.setOptimizer(self.optimizer)
            if self.step % self.arguments.logging_steps == 0:
                rate = self.scheduler.get_last_lr()[0]
                print(f"step {self.step}: loss {loss:.4f}, learning rate {rate:.2e}")
            if self.step % self.arguments.save_steps == 0:
                self._save()

    def _save(self):
        self.arguments.output_folder.mkdir(parents=True, exist_ok=True)
        torch.save(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scheduler": self.scheduler.state_dict(),
                "random": self.wrapped.rng_state,
                "step": self.step,
            },
            self.arguments.output_folder / f"checkpoint-{self.step}.pt",
        )

    def _load(self, file):
        saved = torch.load(file)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.scheduler.load_state_dict(saved["scheduler"])
        self._random_state = saved["random"]
        self.step = saved["step"]


def main():
    torch.manual_seed(0)
    data = sentences(256)
    start = LanguageModel().state_dict()
    with tempfile.TemporaryDirectory() as folder:
        arguments = Arguments(Path(folder))
        in_one_go, in_two, resumed = LanguageModel(), LanguageModel(), LanguageModel()
        in_one_go.load_state_dict(start)
        in_two.load_state_dict(start)
        loss = Trainer(in_one_go, arguments, data).train()
        Trainer(in_two, arguments, data).train(until=30)
        checkpoint = arguments.output_folder / "checkpoint-30.pt"
        Trainer(resumed, arguments, data).train(resume_from=checkpoint)
    weights = zip(in_one_go.state_dict().values(), resumed.state_dict().values(), strict=True)
    same = all(torch.equal(a, b) for a, b in weights)
    print(f"last loss: {loss:.4f}; resumed training is bit-identical: {same}")


if __name__ == "__main__":
    main()
