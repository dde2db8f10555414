"""Trains Hugging Face models on IPUs: pipelined layers, accumulation, resumable checkpoints.

It does not import transformers: any model fits that returns an object with `loss` and `logits`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import poptorch
import torch
from poptorch._impl.options.parsing import meant_by
from poptorch_core import Error
from torch import nn

_STATE = "trainer.pt"


@dataclass
class IPUConfig:
    """Describes the machine and the division of a model.

    Attributes:
        layers_per_ipu: The number of layers on each IPU. Embeddings are on the first IPU, the head
            is on the last.
        device_iterations: Weight updates of a call.
        gradient_accumulation_steps: Micro-batches of a weight update.
        replication_factor: Data-parallel replicas.
        inference_device_iterations: Micro-batches of a call in inference.
        recompute_checkpoint_every_layer: Keep only the layers' results for the backward pass.
        seed: The seed of the device's random numbers and of the order of the data.
    """

    layers_per_ipu: Sequence[int] = (1, 1)
    device_iterations: int = 1
    gradient_accumulation_steps: int = 4
    replication_factor: int = 1
    inference_device_iterations: int = 4
    recompute_checkpoint_every_layer: bool = True
    seed: int = 42

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "IPUConfig":
        """Returns the configuration that to_dict() has described.

        Args:
            values: Values by the names of attributes.

        Raises:
            poptorch.Error: A name is unknown.
        """
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                raise Error(f"[transformers] IPUConfig has no {name}{meant_by(name, known)}.")
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Returns the configuration as plain values."""
        return {**asdict(self), "layers_per_ipu": list(self.layers_per_ipu)}

    def to_options(self, for_inference: bool = False) -> poptorch.Options:
        """Returns the options of a wrapper.

        Args:
            for_inference: Whether they are for inference, which has one replica.
        """
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
        options.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement))
        return options


def parallelize(
    layers: nn.ModuleList, head: nn.Module, config: IPUConfig, model: nn.Module | None = None
) -> list[torch.utils.hooks.RemovableHandle]:
    """Begins a block at each layer and at the head.

    Args:
        layers: The model's layers, `model.bert.encoder.layer`.
        head: The module after the layers, `model.classifier`.
        config: The numbers of layers.
        model: The whole model. If its head shares a weight with the embeddings, the head is on the
            first IPU, as they are. None: the head is on the last IPU.

    Returns:
        The hooks that mark results to keep, for deparallelize().

    Raises:
        poptorch.Error: The numbers of layers do not add up to the model's.
    """
    if sum(config.layers_per_ipu) != len(layers):
        raise Error(
            f"[transformers] layers_per_ipu={list(config.layers_per_ipu)} are "
            f"{sum(config.layers_per_ipu)} layers, but the model has {len(layers)}."
        )
    ipus = [ipu for ipu, count in enumerate(config.layers_per_ipu) for _ in range(count)]
    hooks = []
    for index, (layer, ipu) in enumerate(zip(layers, ipus, strict=True)):
        if config.recompute_checkpoint_every_layer and index != len(layers) - 1:
            hooks.append(layer.register_forward_hook(_keep_outputs))
        layers[index] = poptorch.BeginBlock(layer, f"Layer{index}", ipu_id=ipu)
    is_tied = model is not None and _shares_weights(model, layers, head)
    poptorch.BeginBlock(head, "Head", ipu_id=0 if is_tied else len(config.layers_per_ipu) - 1)
    return hooks


def _shares_weights(model: nn.Module, layers: nn.Module, head: nn.Module) -> bool:
    """Returns whether the head has a parameter of a module that is not one of the layers."""
    inside = {id(module) for part in (layers, head) for module in part.modules()}
    outside = [module for module in model.modules() if id(module) not in inside]
    shared = {id(p) for module in outside for p in module.parameters(recurse=False)}
    return any(id(parameter) in shared for parameter in head.parameters())


def deparallelize(
    model: nn.Module, hooks: Sequence[torch.utils.hooks.RemovableHandle] = ()
) -> None:
    """Undoes parallelize().

    Args:
        model: The model whose layers have blocks.
        hooks: What parallelize() returned.
    """
    for hook in hooks:
        hook.remove()
    poptorch.removeBlocks(model)


def _keep_outputs(_module, _inputs, outputs):
    """Keeps a layer's result for the backward pass; the rest of the layer is recomputed."""
    if isinstance(outputs, torch.Tensor):
        return poptorch.recomputationCheckpoint(outputs)
    return (poptorch.recomputationCheckpoint(outputs[0]), *outputs[1:])


class IPUTrainer:
    """Trains a model that computes its loss, on a data set of dicts.

    Args:
        model: The model, for example a PreTrainedModel.
        data: The data set, with a length.
        collate: The function that makes a batch, a dict of tensors, of rows of the data set.
        config: The machine and the division of the model.
        layers: The model's layers, to divide over the IPUs.
        head: The module after the layers.
        learning_rate: The learning rate after the warm-up.
        warmup: The steps in which the rate rises.
        batch_size: The size of a micro-batch.
        weight_decay: The decay of weights that are matrices.

    Example:
        >>> trainer = IPUTrainer(model, data, collate, IPUConfig(layers_per_ipu=(6, 6)),
        ...                      layers=model.bert.encoder.layer, head=model.classifier)
        >>> losses = trainer.train(max_steps=100)
    """

    def __init__(
        self,
        model: nn.Module,
        data: Any,
        collate: Callable[[list], dict[str, torch.Tensor]],
        config: IPUConfig,
        *,
        layers: nn.ModuleList,
        head: nn.Module,
        learning_rate: float = 1e-4,
        warmup: int = 1,
        batch_size: int = 1,
        weight_decay: float = 0.01,
    ) -> None:
        self.model, self.data, self.collate, self.config = model, data, collate, config
        self.batch_size = batch_size
        self.hooks = parallelize(layers, head, config, model)
        self.optimizer = poptorch.optim.AdamW(
            self._groups(weight_decay), lr=learning_rate, betas=(0.9, 0.999), eps=1e-6,
            loss_scaling=8.0,
        )  # fmt: skip
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min(1.0, (step + 1) / warmup)
        )
        self.options = config.to_options()
        self.training_model: poptorch.PoplarExecutor | None = None
        self.global_step = 0
        self.losses: list[torch.Tensor] = []

    def _groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Separates biases and norms, which do not decay."""
        parameters = list(self.model.parameters())
        return [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
        ]

    def loader(self, epoch: int) -> poptorch.DataLoader:
        """Returns the data of an epoch, in an order that the seed and the epoch determine."""
        order = torch.Generator().manual_seed(self.config.seed + epoch)
        return poptorch.DataLoader(
            self.options,
            self.data,
            batch_size=self.batch_size,
            sampler=torch.utils.data.RandomSampler(self.data, generator=order),
            collate_fn=self.collate,
            drop_last=True,
        )

    def compile(self) -> poptorch.PoplarExecutor:
        """Compiles the training step, once; returns its wrapper."""
        if self.training_model is None:
            self.training_model = poptorch.trainingModel(
                self.model.train(), options=self.options, optimizer=self.optimizer
            )
            self.training_model.compile(**next(iter(self.loader(0))))
        return self.training_model

    def train(self, max_steps: int, resume_from: str | Path | None = None) -> list[torch.Tensor]:
        """Trains up to a number of steps, counted from the first.

        Args:
            max_steps: The number of steps in total.
            resume_from: A folder that save() has written, to continue from.

        Returns:
            The losses of all steps of this trainer.
        """
        if resume_from is not None:
            self._load_weights(Path(resume_from))
        self.compile()
        if resume_from is not None:
            self._load_state(Path(resume_from))
        steps_per_epoch = len(self.loader(0))
        while self.global_step < max_steps:
            epoch, done = divmod(self.global_step, steps_per_epoch)
            for step, batch in enumerate(self.loader(epoch)):
                if step >= done:
                    self._training_step(batch)
                if self.global_step == max_steps:
                    break
        return self.losses

    def _training_step(self, batch: dict[str, torch.Tensor]) -> None:
        training_model = self.compile()
        outputs: Any = training_model(**batch)
        loss = outputs.loss
        # The sum of the micro-batches; mean() is that of replicas.
        self.losses.append(loss.mean() / self.config.gradient_accumulation_steps)
        self.scheduler.step()
        training_model.setOptimizer(self.optimizer)
        self.global_step += 1

    def save(self, folder: str | Path) -> None:
        """Writes the model, with save_pretrained(), and all that train() needs to continue.

        Args:
            folder: The folder to write to; it is made if necessary.
        """
        training_model = self.compile()
        training_model.copyWeightsToHost()
        saved: Any = self.model
        if training_model.isAttachedToDevice():
            training_model.detachFromDevice()
        saved.save_pretrained(folder)
        state = {
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "global_step": self.global_step,
            "rng_state": training_model.rng_state,
        }
        torch.save(state, Path(folder) / _STATE)
        training_model.attachToDevice()

    def _load_weights(self, folder: Path) -> None:
        kind: Any = type(self.model)
        self.model.load_state_dict(kind.from_pretrained(folder).state_dict())
        if self.training_model is not None:
            self.training_model.copyWeightsToDevice()

    def _load_state(self, folder: Path) -> None:
        training_model = self.compile()
        state = torch.load(folder / _STATE, weights_only=True)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.global_step = state["global_step"]
        training_model.setOptimizer(self.optimizer)
        training_model.rng_state = state["rng_state"]

    def predict(self, data: Any) -> torch.Tensor:
        """Returns the logits of a data set, without the rows of an incomplete last batch."""
        training_model = self.training_model
        if training_model is not None and training_model.isAttachedToDevice():
            training_model.detachFromDevice()
        options = self.config.to_options(for_inference=True)
        inference_model: Any = poptorch.inferenceModel(self.model.eval(), options=options)
        loader = poptorch.DataLoader(
            options, data, batch_size=self.batch_size, collate_fn=self.collate, drop_last=True
        )
        logits = [inference_model(**batch).logits for batch in loader]
        inference_model.destroy()
        if training_model is not None:
            training_model.attachToDevice()
        self.model.train()
        return torch.cat(logits)
