"""A pipelined trainer of Hugging Face models gives plain torch's losses and weights, and resumes
bit-identically.
"""

import copy

import poptorch
import pytest
import torch
import transformers
from poptorch.integrations.transformers import IPUConfig, IPUTrainer, deparallelize

VOCABULARY, LENGTH = 99, 12


def bert(dropout):
    configuration = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=16,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        num_labels=3,
    )
    model = transformers.BertForSequenceClassification(configuration)
    return model, (model.bert.encoder.layer, model.classifier)


def gpt2(dropout):
    configuration = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=16,
        n_embd=32,
        n_layer=2,
        n_head=4,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        use_cache=False,
        bos_token_id=1,
        eos_token_id=1,
        num_labels=3,
        pad_token_id=0,
    )
    model = transformers.GPT2ForSequenceClassification(configuration)
    return model, (model.transformer.h, model.score)


def roberta(dropout):
    configuration = transformers.RobertaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=16,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        num_labels=3,
    )
    model = transformers.RobertaForSequenceClassification(configuration)
    return model, (model.roberta.encoder.layer, model.classifier)


MODELS = {"bert": bert, "gpt2": gpt2, "roberta": roberta}


def sentences(count):
    """Returns rows padded to one length, labelled by the first word."""
    generator = torch.Generator().manual_seed(1)
    made = []
    for _ in range(count):
        length = int(torch.randint(4, LENGTH + 1, (), generator=generator))
        ids = torch.randint(2, VOCABULARY, (LENGTH,), generator=generator)
        mask = (torch.arange(LENGTH) < length).long()
        made.append({"input_ids": ids * mask, "attention_mask": mask, "labels": ids[0] % 3})
    return made


def collate(rows):
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def trainer_of(name, dropout=0.0, config=None):
    torch.manual_seed(0)
    model, parts = MODELS[name](dropout)
    return IPUTrainer(
        model,
        sentences(60),
        collate,
        config or IPUConfig(),
        layers=parts[0],
        head=parts[1],
        learning_rate=1e-3,
        warmup=4,
        batch_size=3,
    )


def eager_losses(model, trainer, steps):
    """Trains with torch on the same data, with one optimiser step for our micro-batches."""
    groups = trainer.optimizer.param_groups
    named = dict(model.named_parameters())
    decaying = [p for p in named.values() if p.ndim > 1]
    optimizer = torch.optim.AdamW(
        [
            {"params": decaying, "weight_decay": groups[0]["weight_decay"]},
            {"params": [p for p in named.values() if p.ndim <= 1], "weight_decay": 0.0},
        ],
        lr=1e-3,
        eps=1e-6,
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4))
    losses = []
    for batch in trainer.loader(0):
        parts = zip(*(value.split(trainer.batch_size) for value in batch.values()), strict=True)
        parts = [model(**dict(zip(batch, part, strict=True))).loss for part in parts]
        loss = sum(parts) / len(parts)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.detach())
        if len(losses) == steps:
            break
    return losses


@pytest.mark.shared
@pytest.mark.parametrize("name", MODELS)
def test_losses_weights_and_predictions_are_torchs(name):
    trainer = trainer_of(name)
    eager = copy.deepcopy(trainer.model)
    deparallelize(eager)
    trainer.train(2)
    data = sentences(24)
    trainer.predict(data)  # between two steps, on the training model's device
    losses = trainer.train(3)
    expected = eager_losses(eager, trainer, 3)
    torch.testing.assert_close(torch.stack(losses), torch.stack(expected), rtol=1e-5, atol=1e-6)
    for key, value in eager.state_dict().items():
        torch.testing.assert_close(trainer.model.state_dict()[key], value, rtol=1e-3, atol=2e-5)
    with torch.no_grad():
        logits = eager.eval()(**collate(data)).logits
    torch.testing.assert_close(trainer.predict(data), logits, rtol=1e-3, atol=1e-4)


@pytest.mark.shared
def test_a_head_that_shares_the_weight_of_the_embeddings_is_on_their_ipu():
    torch.manual_seed(0)
    configuration = transformers.GPT2Config(
        **{"vocab_size": VOCABULARY, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 4},
        **{"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "use_cache": False},
        **{"bos_token_id": 1, "eos_token_id": 1},
    )
    model = transformers.GPT2LMHeadModel(configuration)
    rows = [{"input_ids": row["input_ids"], "labels": row["input_ids"]} for row in sentences(60)]
    eager = copy.deepcopy(model)
    config = IPUConfig(gradient_accumulation_steps=5)
    parts = {"layers": model.transformer.h, "head": model.lm_head, "learning_rate": 1e-3}
    trainer = IPUTrainer(model, rows, collate, config, **parts, warmup=4, batch_size=3)
    losses = trainer.train(2)
    stages = trainer.training_model.report()["stages"]
    assert [stage["ipu"] for stage in stages] == [0, 1, 0, 1, 0]
    expected = eager_losses(eager, trainer, 2)
    torch.testing.assert_close(torch.stack(losses), torch.stack(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.shared
def test_a_resumed_run_has_the_bits_of_the_whole_one(tmp_path):
    """Resumes with dropout, on two replicas, from a checkpoint in the middle of an epoch."""
    config = IPUConfig(replication_factor=2, gradient_accumulation_steps=3)
    whole = trainer_of("bert", 0.1, config)
    whole.train(3)
    whole.save(tmp_path)
    expected = whole.train(6)
    resumed = trainer_of("bert", 0.1, config)
    for parameter in resumed.model.parameters():
        torch.nn.init.zeros_(parameter)
    found = resumed.train(6, resume_from=tmp_path)
    assert torch.equal(torch.stack(found), torch.stack(expected[3:]))
    for key, value in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[key], value), key


@pytest.mark.shared
def test_a_trainer_that_returns_to_an_earlier_step_takes_its_weights(tmp_path):
    trainer = trainer_of("bert", 0.1)
    trainer.train(2)
    trainer.save(tmp_path)
    whole = trainer.train(4)[:]
    again = trainer.train(4, resume_from=tmp_path)[4:]
    assert torch.equal(torch.stack(again), torch.stack(whole[2:]))


def test_numbers_of_layers_must_fit():
    with pytest.raises(poptorch.Error, match="are 3 layers, but the model has 2"):
        trainer_of("bert", config=IPUConfig(layers_per_ipu=(1, 2)))


def test_a_configuration_survives_a_round_trip():
    config = IPUConfig(layers_per_ipu=(2, 1), seed=7)
    assert IPUConfig.from_dict(config.to_dict()).to_dict() == config.to_dict()
    with pytest.raises(poptorch.Error, match="IPUConfig has no layers"):
        IPUConfig.from_dict({"layers": 3})
