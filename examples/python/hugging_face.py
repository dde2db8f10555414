"""Fine-tunes a Hugging Face model on two IPUs, and then completes sequences with it."""

import poptorch
import torch
import transformers
from poptorch.integrations.transformers import IPUConfig, IPUTrainer, deparallelize

WORDS, LENGTH = 32, 12


def rows(count):
    """Returns sequences that count upwards in steps of one to three."""
    first, step = torch.randint(WORDS, (count, 1)), torch.randint(1, 4, (count, 1))
    return [
        {"input_ids": row, "labels": row} for row in (first + step * torch.arange(LENGTH)) % WORDS
    ]


def collate(batch):
    return {name: torch.stack([row[name] for row in batch]) for name in batch[0]}


def complete(model, start):
    """Appends the likeliest words until the length is reached."""
    options = poptorch.Options().showCompilationProgressBar(False)
    inference = poptorch.inferenceModel(model.eval(), options)
    words = torch.zeros(1, LENGTH, dtype=torch.long)
    words[0, : len(start)] = torch.tensor(start)
    for place in range(len(start), LENGTH):
        words[0, place] = inference(input_ids=words).logits[0, place - 1].argmax()
    return words[0].tolist()


def main():
    torch.manual_seed(0)
    configuration = transformers.GPT2Config(
        vocab_size=WORDS, n_positions=LENGTH, n_embd=32, n_layer=2, n_head=2, use_cache=False,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
        tie_word_embeddings=False,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(configuration)
    trainer = IPUTrainer(
        model, rows(960), collate, IPUConfig(layers_per_ipu=(1, 1)),
        layers=model.transformer.h, head=model.lm_head, learning_rate=5e-3, warmup=10, batch_size=8,
    )  # fmt: skip
    losses = trainer.train(max_steps=180)
    print(f"loss {losses[0].item():.2f} -> {losses[-1].item():.2f}")
    trainer.training_model.destroy()
    deparallelize(model, trainer.hooks)
    print("completed:", *complete(model, [3, 5, 7, 9]))


if __name__ == "__main__":
    main()
