"""Lightning's Trainer on IPUs gives the weights and metrics of its CPU run, and resumes from
checkpoints.
"""

import poptorch
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

pl = pytest.importorskip("pytorch_lightning")
from poptorch.integrations.lightning import IPUAccelerator, IPUStrategy  # noqa: E402
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint  # noqa: E402


def blobs(count, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (count,), generator=generator)
    points = torch.randn(count, 4, generator=generator) + labels.unsqueeze(1)
    return TensorDataset(points, labels)


class Data(pl.LightningDataModule):
    def train_dataloader(self):
        data = blobs(96, 1)
        order = torch.Generator().manual_seed(self.trainer.current_epoch)
        return DataLoader(data, batch_size=4, sampler=RandomSampler(data, generator=order))

    def val_dataloader(self):
        return DataLoader(blobs(32, 2), batch_size=4)

    test_dataloader = predict_dataloader = val_dataloader


class Classifier(pl.LightningModule):
    """Logs in hooks that run on the host: a step has no values while it is compiled."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(
            nn.Linear(4, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, 3)
        )
        self.losses, self.accuracies = [], []

    def forward(self, points):
        return self.layers(points)

    def training_step(self, points, labels):
        return nn.functional.cross_entropy(self(points), labels)

    def validation_step(self, points, labels):
        return (self(points).argmax(1) == labels).float()

    test_step = validation_step

    def predict_step(self, points, labels):
        return self(points)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.losses.append(outputs["loss"].item())

    def on_validation_batch_end(self, outputs, batch, batch_idx, dataloader_idx=0):
        self.log("accuracy", outputs.mean(), batch_size=len(outputs))

    def on_test_batch_end(self, outputs, batch, batch_idx, dataloader_idx=0):
        self.log("test_accuracy", outputs.mean(), batch_size=len(outputs))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.8)]


class OfBatches(Classifier):
    """The same steps with the arguments of Lightning's own steps: (batch, batch_idx)."""

    def training_step(self, batch, batch_idx):
        return super().training_step(*batch)

    def validation_step(self, batch, batch_idx):
        return super().validation_step(*batch)

    def test_step(self, batch, batch_idx):
        return super().test_step(*batch)

    def predict_step(self, batch, batch_idx):
        return super().predict_step(*batch)


def trainer_of(folder, epochs=3, strategy=None, callbacks=(), **arguments):
    on_cpu = {"accelerator": "cpu", "devices": 1} if strategy is None else {"strategy": strategy}
    return pl.Trainer(
        **{**on_cpu, **arguments},
        max_epochs=epochs,
        default_root_dir=folder,
        logger=False,
        callbacks=list(callbacks),
        enable_checkpointing=any(isinstance(c, ModelCheckpoint) for c in callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
        reload_dataloaders_every_n_epochs=1,
    )


@pytest.mark.shared
def test_fit_validate_test_and_predict_are_those_of_the_cpu(tmp_path):
    torch.manual_seed(0)
    module = Classifier()
    peer = OfBatches()
    peer.load_state_dict(module.state_dict())
    cpu = trainer_of(tmp_path, accumulate_grad_batches=2)
    cpu.fit(peer, Data())
    trainer = trainer_of(tmp_path, strategy=IPUStrategy(), accumulate_grad_batches=2)
    trainer.fit(module, Data())
    assert len(module.losses) == 36 and len(peer.losses) == 72  # PopTorch logs one for each update
    expected = torch.tensor(peer.losses).reshape(-1, 2).mean(1)
    torch.testing.assert_close(torch.tensor(module.losses), expected, rtol=1e-4, atol=1e-5)
    for name, value in peer.state_dict().items():
        torch.testing.assert_close(module.state_dict()[name], value, rtol=1e-4, atol=1e-5)
    metric = trainer.callback_metrics["accuracy"]
    assert metric == cpu.callback_metrics["accuracy"] and metric > 0.6
    tested = trainer.test(module, Data(), verbose=False)
    assert tested == cpu.test(peer, Data(), verbose=False)
    predicted = torch.cat(trainer.predict(module, Data()))
    expected = torch.cat(cpu.predict(peer, Data()))
    torch.testing.assert_close(predicted, expected, rtol=1e-4, atol=1e-4)


class LogsInSteps(OfBatches):
    """The same steps, which log as on a CPU."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.log("loss", loss, on_step=False, on_epoch=True)
        self.log("worst", loss, on_step=False, on_epoch=True, reduce_fx="max")
        return {"loss": loss, "count": torch.ones(())}

    def validation_step(self, batch, batch_idx):
        right = super().validation_step(batch, batch_idx).mean()
        self.log_dict({"right": right, "wrong": 1 - right, "number": 3}, batch_size=4)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        pass

    def on_validation_batch_end(self, outputs, batch, batch_idx):
        assert outputs is None


@pytest.mark.shared
def test_values_that_steps_log_are_those_of_the_cpu(tmp_path):
    torch.manual_seed(0)
    module, peer = LogsInSteps(), LogsInSteps()
    peer.load_state_dict(module.state_dict())
    cpu = trainer_of(tmp_path, accumulate_grad_batches=2)
    cpu.fit(peer, Data())
    strategy = IPUStrategy(inference_opts=poptorch.Options().deviceIterations(2))
    trainer = trainer_of(tmp_path, strategy=strategy, accumulate_grad_batches=2)
    trainer.fit(module, Data())
    assert {"loss", "worst", "right", "wrong", "number"} == set(trainer.callback_metrics)
    for name, value in cpu.callback_metrics.items():
        torch.testing.assert_close(trainer.callback_metrics[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("logged", "message"),
    [("text", "got a str, but a step has no values"), (torch.ones(2), "a tensor of shape \\[2\\]")],
)
def test_what_a_step_cannot_log_is_refused(logged, message, tmp_path):
    class Logs(OfBatches):
        def training_step(self, batch, batch_idx):
            self.log("x", logged)
            return super().training_step(batch, batch_idx)

    with pytest.raises(poptorch.Error, match=message):
        trainer_of(tmp_path, 1, IPUStrategy(), num_sanity_val_steps=0).fit(Logs(), Data())


@pytest.mark.shared
def test_a_fit_goes_on_from_its_checkpoint_with_the_same_bits(tmp_path):
    def checkpoints(name):
        return ModelCheckpoint(tmp_path / name, filename="{epoch}", save_top_k=-1)

    torch.manual_seed(0)
    start = Classifier().state_dict()
    whole, first = Classifier(), Classifier()
    whole.load_state_dict(start)
    first.load_state_dict(start)
    strategy = IPUStrategy(device_iterations=2, replicas=2)
    trainer_of(tmp_path, 4, strategy).fit(whole, Data())
    strategy = IPUStrategy(device_iterations=2, replicas=2)
    trainer_of(tmp_path, 2, strategy, [checkpoints("first")]).fit(first, Data())
    strategy = IPUStrategy(device_iterations=2, replicas=2)
    resumed = Classifier()
    trainer = trainer_of(tmp_path, 4, strategy)
    trainer.fit(resumed, Data(), ckpt_path=tmp_path / "first/epoch=1.ckpt")
    assert trainer.global_step == 24
    assert first.losses + resumed.losses == whole.losses
    for name, value in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value), name
    loaded = Classifier.load_from_checkpoint(tmp_path / "first/epoch=1.ckpt")
    assert torch.equal(loaded.layers[0].weight, first.layers[0].weight)


def test_callbacks_stop_a_fit(tmp_path):
    torch.manual_seed(0)
    stopping = EarlyStopping("accuracy", mode="max", stopping_threshold=0.6)
    trainer = trainer_of(tmp_path, 30, IPUStrategy(), [stopping])
    trainer.fit(Classifier(), Data())
    assert trainer.current_epoch < 30


def test_gradients_cannot_be_clipped_on_the_host(tmp_path):
    trainer = trainer_of(tmp_path, 1, IPUStrategy(), gradient_clip_val=1.0)
    with pytest.raises(poptorch.Error, match="max_grad_norm"):
        trainer.fit(Classifier(), Data())


def test_the_accelerator_has_a_name(tmp_path):
    torch.manual_seed(0)
    module = OfBatches()  # whose steps take (batch, batch_idx)
    peer = OfBatches()
    peer.load_state_dict(module.state_dict())
    trainer = trainer_of(tmp_path, 1, accelerator="ipu", devices=2)
    assert isinstance(trainer.accelerator, IPUAccelerator)
    assert isinstance(trainer.strategy, IPUStrategy) and trainer.strategy.replicas == 2
    trainer.fit(module, Data())
    trainer_of(tmp_path, 1, accumulate_grad_batches=2).fit(peer, Data())  # both add two batches up
    for name, value in peer.state_dict().items():
        torch.testing.assert_close(module.state_dict()[name], value, rtol=1e-4, atol=1e-5)


def test_several_optimizers_are_refused(tmp_path):
    class Two(Classifier):
        def configure_optimizers(self):
            return [torch.optim.SGD([p], lr=0.1) for p in self.parameters()]

    module = Two()
    module.automatic_optimization = False
    with pytest.raises(poptorch.Error, match="one optimizer, not 4"):
        trainer_of(tmp_path, 1, IPUStrategy(), num_sanity_val_steps=0).fit(module, Data())


def test_mixed_precision_is_refused(tmp_path):
    with pytest.raises(poptorch.Error, match="precision='bf16-true' is not supported"):
        trainer_of(tmp_path, accelerator="ipu", devices=1, precision="bf16-true")


# The arguments of steps as people write them, and whether a step gets the batch.
SIGNATURES = {
    "batch, batch_idx": True,
    "batch, i": True,
    "batch": True,
    "batch, batch_idx, dataloader_idx=0": True,
    "sample, _": True,
    "data, idx": True,
    "b, i": True,
    "train_batch, _batch_number": True,
    "points, labels": False,
    "x, y": False,
    "*parts": False,
}


@pytest.mark.parametrize(("arguments", "is_batch"), SIGNATURES.items())
def test_a_step_gets_the_batch_or_its_parts(tmp_path, arguments, is_batch):
    """Lightning passes arguments by position."""
    found = {}
    exec(f"def training_step(self, {arguments}): return self.loss_of(locals())", found)

    class Module(Classifier):
        training_step = found["training_step"]

        def loss_of(self, given):
            values = [v for k, v in given.items() if k != "self"]
            parts = values[0] if is_batch or "*" in arguments else values
            assert len(parts) == 2 and all(v == 0 for v in values[1:] if is_batch)
            return super().training_step(*parts)

    module = Module()
    trainer_of(tmp_path, 1, IPUStrategy(), limit_train_batches=1, limit_val_batches=0).fit(
        module, Data()
    )
    assert len(module.losses) == 1


def test_another_strategy_and_a_list_of_devices_are_refused(tmp_path):
    with pytest.raises(poptorch.Error, match="Leave the trainer's strategy out"):
        IPUAccelerator().setup_device(IPUAccelerator.get_parallel_devices(2)[0])  # as DDP's does
    with pytest.raises(poptorch.Error, match=r"devices=\[0, 1\] is not a number of IPUs"):
        trainer_of(tmp_path, accelerator="ipu", devices=[0, 1], strategy="auto")
