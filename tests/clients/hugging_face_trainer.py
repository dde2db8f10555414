"""A trainer of Hugging Face models in the style of optimum, with pipelined layers and resumable
checkpoints.

A configuration describes the machine and the blocks over the model's layers. A checkpoint has
everything that a run needs to continue.
"""

from dataclasses import dataclass
from pathlib import Path

import poptorch
import torch


@dataclass
class IPUConfig:
    """layers_per_ipu: the number of the model's layers on each IPU. Embeddings are on the first
    IPU, the head is on the last."""

    layers_per_ipu: tuple = (1, 1)
    device_iterations: int = 1
    gradient_accumulation_steps: int = 4
    replication_factor: int = 1
    inference_device_iterations: int = 4
    recompute_checkpoint_every_layer: bool = True
    seed: int = 42

    def to_options(self, for_inference=False):
        options = poptorch.Options()
        options.autoRoundNumIPUs(True)
        options.randomSeed(self.seed)
        options.broadcastBuffers(False)
        options.replicationFactor(1 if for_inference else self.replication_factor)
        if for_inference:
            options.deviceIterations(self.inference_device_iterations)
        else:
            options.deviceIterations(self.device_iterations)
            options.Training.gradientAccumulation(self.gradient_accumulation_steps)
            options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Mean)
        options.outputMode(poptorch.OutputMode.All if for_inference else poptorch.OutputMode.Sum)
        options.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.AutoStage.SameAsIpu))
        options.setAvailableMemoryProportion(
            {f"IPU{i}": 0.4 for i in range(len(self.layers_per_ipu))}
        )
        options._Popart.set("disableGradAccumulationTensorStreams", True)
        options._Popart.setPatterns({"TiedGather": True, "UpdateInplacePrioritiesForIpu": True})
        return options


def keep_outputs(module, inputs, outputs):
    """Keeps a layer's result for the backward pass; the rest of the layer is recomputed."""
    if isinstance(outputs, torch.Tensor):
        return poptorch.recomputationCheckpoint(outputs)
    return (poptorch.recomputationCheckpoint(outputs[0]), *outputs[1:])


def parallelize(model, layers, head, config):
    """Begins a block at each IPU's first layer and at the head; deparallelize() undoes this."""
    hooks = []
    ends = torch.tensor(config.layers_per_ipu).cumsum(0).tolist()
    for index, layer in enumerate(layers):
        ipu = next(i for i, end in enumerate(ends) if index < end)
        if config.recompute_checkpoint_every_layer and index != len(layers) - 1:
            hooks.append(layer.register_forward_hook(keep_outputs))
        layers[index] = poptorch.BeginBlock(layer, f"Layer{index}", ipu_id=ipu)
    poptorch.BeginBlock(head, "Head", ipu_id=len(ends) - 1)
    return hooks


def deparallelize(model, hooks=()):
    for hook in hooks:
        hook.remove()
    poptorch.removeBlocks(model)


class Trainer:
    """Trains `model`, a PreTrainedModel that computes its loss, on a data set of dicts."""

    def __init__(self, model, data, collate, config, *, parts, learning_rate, warmup, batch_size):
        self.model, self.data, self.collate, self.config = model, data, collate, config
        self.batch_size = batch_size
        self.hooks = parallelize(model, *parts, config)
        self.optimizer = poptorch.optim.AdamW(
            self.groups(0.01), lr=learning_rate, betas=(0.9, 0.999), eps=1e-6, loss_scaling=8.0
        )
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min(1.0, (step + 1) / warmup)
        )
        self.options = config.to_options()
        self.training_model = None
        self.global_step = 0
        self.losses = []

    def groups(self, weight_decay):
        """Separates biases and norms, which do not decay."""
        decays = {n for n, p in self.model.named_parameters() if p.ndim > 1}
        named = list(self.model.named_parameters())
        return [
            {"params": [p for n, p in named if n in decays], "weight_decay": weight_decay},
            {"params": [p for n, p in named if n not in decays], "weight_decay": 0.0},
        ]

    def loader(self, epoch):
        order = torch.Generator().manual_seed(self.config.seed + epoch)
        return poptorch.DataLoader(
            self.options,
            self.data,
            batch_size=self.batch_size,
            sampler=torch.utils.data.RandomSampler(self.data, generator=order),
            collate_fn=self.collate,
            drop_last=True,
        )

    def compile(self, sample):
        if self.training_model is not None:
            return
        self.training_model = poptorch.trainingModel(
            self.model.train(), options=self.options, optimizer=self.optimizer
        )
        self.training_model.compile(**sample)

    def train(self, max_steps, resume_from=None):
        if resume_from is not None:
            self.load_weights(resume_from)
        self.compile(next(iter(self.loader(0))))
        if resume_from is not None:
            self.load_state(resume_from)
        steps_per_epoch = len(self.loader(0))
        while self.global_step < max_steps:
            epoch, done = divmod(self.global_step, steps_per_epoch)
            for step, batch in enumerate(self.loader(epoch)):
                if step < done:
                    continue
                self.training_step(batch)
                if self.global_step == max_steps:
                    break
        return self.losses

    def training_step(self, batch):
        loss = self.training_model(**batch).loss
        self.losses.append(
            loss.mean() / self.config.gradient_accumulation_steps
        )  # mean: of replicas
        self.scheduler.step()
        self.training_model.setOptimizer(self.optimizer)
        self.global_step += 1

    def save(self, folder):
        self.training_model.copyWeightsToHost()
        if self.training_model.isAttachedToDevice():
            self.training_model.detachFromDevice()
        self.model.save_pretrained(folder)
        state = {
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "global_step": self.global_step,
            "rng_state": self.training_model.rng_state,
        }
        torch.save(state, Path(folder) / "trainer.pt")
        self.training_model.attachToDevice()

    def load_weights(self, folder):
        loaded = type(self.model).from_pretrained(folder)
        self.model.load_state_dict(loaded.state_dict())

    def load_state(self, folder):
        state = torch.load(Path(folder) / "trainer.pt", weights_only=False)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.global_step = state["global_step"]
        self.training_model.setOptimizer(self.optimizer)
        self.training_model.rng_state = state["rng_state"]

    def predict(self, data):
        """Returns the logits for all of `data`."""
        self.training_model.detachFromDevice()
        options = self.config.to_options(for_inference=True)
        inference_model = poptorch.inferenceModel(self.model.eval(), options=options)
        loader = poptorch.DataLoader(
            options, data, batch_size=self.batch_size, collate_fn=self.collate, drop_last=True
        )
        logits = [inference_model(**batch).logits for batch in loader]
        inference_model.destroy()
        self.training_model.attachToDevice()
        self.model.train()
        return torch.cat(logits)
