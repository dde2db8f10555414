"""An accelerator and a strategy for PyTorch Lightning: Trainer(accelerator="ipu", devices=2).

Steps of the LightningModule are compiled, gradients are accumulated on the device, and loaders
become poptorch.DataLoader. The rules are those of Lightning's former IPU plugin.
"""

import functools
import importlib.util
import sys
from typing import Any

import poptorch
import torch
from poptorch._impl.lightning_step import Step, log_values
from poptorch_core import Error, optional_packages

# The package that the program uses: both have the same classes twice.
ROOT = next(
    (name for name in ("lightning.pytorch", "pytorch_lightning") if name in sys.modules),
    "lightning.pytorch" if importlib.util.find_spec("lightning") else "pytorch_lightning",
)


def _module(name: str) -> Any:
    return optional_packages.load(f"{ROOT}.{name}", "poptorch.integrations.lightning")


_Accelerator: Any = _module("accelerators").Accelerator
_Precision: Any = _module("plugins.precision").Precision
_SingleDeviceStrategy: Any = _module("strategies").SingleDeviceStrategy
_Stage = _module("trainer.states").RunningStage
_CONNECTOR, _CHOICE = "_AcceleratorConnector", "_choose_strategy"

_STEPS = {
    _Stage.TRAINING: "training_step",
    _Stage.SANITY_CHECKING: "validation_step",
    _Stage.VALIDATING: "validation_step",
    _Stage.TESTING: "test_step",
    _Stage.PREDICTING: "predict_step",
}


class IPUAccelerator(_Accelerator):
    """Runs on `devices` IPUs: as many replicas of a model without annotations."""

    def setup_device(self, device: torch.device) -> None:
        """Checks the device of the host.

        Args:
            device: The device that Lightning calls the root device.

        Raises:
            poptorch.Error: The device is not a CPU, or the trainer has another strategy.
        """
        if not isinstance(device, torch.device):  # other strategies take those of the accelerator
            raise Error(
                "[lightning] accelerator='ipu' has its own strategy. Leave the trainer's strategy "
                "out, or pass a poptorch.integrations.lightning.IPUStrategy."
            )
        if device.type != "cpu":
            raise Error(f"[lightning] the host of an IPU is a CPU, not {device}.")

    def teardown(self) -> None:
        """Does nothing: the strategy frees the devices."""

    @staticmethod
    def parse_devices(devices: Any) -> Any:
        """Returns the number of replicas.

        Args:
            devices: The trainer's `devices`.

        Raises:
            poptorch.Error: It is not a number.
        """
        if devices == "auto":
            return devices
        try:
            return int(devices)
        except (TypeError, ValueError):
            raise Error(
                f"[lightning] devices={devices!r} is not a number of IPUs. Pass a number; "
                "options.useIpuId() of an IPUStrategy selects IPUs."
            ) from None

    @staticmethod
    def get_parallel_devices(devices: int) -> list[int]:
        """Returns the numbers of the replicas.

        Args:
            devices: The number of replicas.
        """
        return list(range(devices))

    @staticmethod
    def auto_device_count() -> int:
        """Returns the number of replicas for devices="auto"."""
        return 1

    @staticmethod
    def is_available() -> bool:
        """Returns whether the pool has an IPU."""
        return poptorch.ipuHardwareIsAvailable()

    @staticmethod
    def name() -> str:
        """Returns the name for Trainer(accelerator=...)."""
        return "ipu"


class IPUPrecision(_Precision):
    """Does nothing for backward and update, which the device's program contains."""

    def backward(self, tensor, model, optimizer, *args, **kwargs) -> None:
        """Does nothing: the device's program has the backward pass.

        Args:
            tensor: The loss.
            model: The LightningModule.
            optimizer: The optimiser.
            args: Ignored.
            kwargs: Ignored.
        """

    def optimizer_step(self, optimizer, model, closure, **kwargs) -> Any:
        """Runs the step, which contains the update.

        Args:
            optimizer: The optimiser.
            model: The LightningModule.
            closure: Runs the training step.
            kwargs: Ignored.
        """
        return closure()


class IPUStrategy(_SingleDeviceStrategy):
    """Compiles the steps of a LightningModule for IPUs.

    A step takes `(batch, batch_idx)`, where the number is always 0. A step without these names, or
    others for an index as its second, gets the parts of a batch. It has no values while it is
    compiled. What it logs is logged after the run, for all its micro-batches.

    Args:
        device_iterations: Micro-batches of a step for each replica.
        replicas: The number of replicas.
        training_opts: Options for training, for what has no argument. They also have to state the
            accumulation of gradients.
        inference_opts: Options for validation, test and prediction.
    """

    strategy_name = "ipu_strategy"

    def __init__(
        self,
        device_iterations: int = 1,
        replicas: int = 1,
        training_opts: poptorch.Options | None = None,
        inference_opts: poptorch.Options | None = None,
    ) -> None:
        self._precision = IPUPrecision()
        super().__init__("cpu", accelerator=IPUAccelerator(), precision_plugin=self._precision)
        self.device_iterations, self.replicas = device_iterations, replicas
        self._training_opts, self._inference_opts = training_opts, inference_opts
        self.poptorch_models: dict[Any, poptorch.PoplarExecutor] = {}

    def setup(self, trainer) -> None:
        """Prepares a run.

        Args:
            trainer: Lightning's trainer.

        Raises:
            poptorch.Error: The trainer clips gradients.
        """
        if trainer.gradient_clip_val:
            raise Error(
                "[lightning] gradient_clip_val is not supported. IPUs clip gradients by an "
                "optimizer's `max_grad_norm`: use one of poptorch.optim."
            )
        super().setup(trainer)

    @property
    def precision_plugin(self) -> Any:
        """The plugin that leaves backward and update to the device."""
        return self._precision

    @precision_plugin.setter
    def precision_plugin(self, plugin: Any) -> None:
        if plugin is not None and type(plugin) not in (_Precision, IPUPrecision):
            raise Error(
                f"[lightning] precision={plugin.precision!r} is not supported on IPUs. Convert the "
                "model and the data, for example with model.half()."
            )

    @property
    def handles_gradient_accumulation(self) -> bool:
        """True: the device accumulates gradients."""
        return True

    @property
    def training_opts(self) -> poptorch.Options:
        """The options of training."""
        if self._training_opts is None:
            accumulated = self.lightning_module.trainer.accumulate_grad_batches
            self._training_opts = self._options().outputMode(poptorch.OutputMode.All)
            self._training_opts.Training.gradientAccumulation(accumulated)
        return self._training_opts

    @property
    def inference_opts(self) -> poptorch.Options:
        """The options of validation, test and prediction."""
        if self._inference_opts is None:
            self._inference_opts = self._options()
        return self._inference_opts

    def _options(self) -> poptorch.Options:
        options = poptorch.Options().deviceIterations(self.device_iterations)
        return options.replicationFactor(self.replicas).broadcastBuffers(False)

    def _options_of(self, stage) -> poptorch.Options:
        return self.training_opts if stage is _Stage.TRAINING else self.inference_opts

    @property
    def _stage(self):
        return self.lightning_module.trainer.state.stage

    def process_dataloader(self, dataloader):
        """Returns a poptorch.DataLoader with the data, sampler and collation of a loader.

        Args:
            dataloader: A torch.utils.data.DataLoader, or a poptorch.DataLoader, which stays.
        """
        if isinstance(dataloader, poptorch.DataLoader):
            return dataloader
        return poptorch.DataLoader(
            self._options_of(self._stage),
            dataset=dataloader.dataset,
            batch_size=dataloader.batch_sampler.batch_size,
            sampler=dataloader.sampler,
            num_workers=dataloader.num_workers,
            collate_fn=dataloader.collate_fn,
            drop_last=dataloader.drop_last,
        )

    def _model_of(self, stage) -> poptorch.PoplarExecutor:
        stage = _Stage.VALIDATING if stage is _Stage.SANITY_CHECKING else stage
        if stage not in self.poptorch_models:
            step, options = Step(self.lightning_module, _STEPS[stage]), self._options_of(stage)
            if stage is _Stage.TRAINING:
                if len(self.optimizers) != 1:
                    raise Error(
                        f"[lightning] IPUs train with one optimizer, not {len(self.optimizers)}. "
                        "Return one from configure_optimizers."
                    )
                optimizer = self.optimizers[0]
                made = poptorch.trainingModel(step.train(), options, optimizer=optimizer)
            else:
                made = poptorch.inferenceModel(step.eval(), options)
            self.poptorch_models[stage] = made
        return self.poptorch_models[stage]

    def _step(self, batch) -> Any:
        stage = self._stage
        model: Any = self._model_of(stage)
        for other in self.poptorch_models.values():
            if other is not model and other.isAttachedToDevice():
                other.detachFromDevice()
        if model.isCompiled() and not model.isAttachedToDevice():
            model.attachToDevice()
        is_divided = isinstance(batch, (list, tuple)) and not model.takes_batch
        if stage is _Stage.TRAINING:
            model.setOptimizer(self.optimizers[0])
        result, values = model(*batch) if is_divided else model(batch)
        log_values(self.lightning_module, model.logged, values)
        return result

    def training_step(self, batch, *others) -> Any:
        """Runs a step and its update.

        Args:
            batch: A combined batch of the loader.
            others: The batch's number and further ones. They are ignored: the step gets 0.
        """
        outputs = self._step(batch)
        if isinstance(outputs, dict):
            return outputs | {"loss": outputs["loss"].mean()}
        return outputs.mean()

    def validation_step(self, batch, *others) -> Any:
        """Runs a step without an update.

        Args:
            batch: A combined batch of the loader.
            others: The batch's number and further ones. They are ignored: the step gets 0.
        """
        return self._step(batch)

    test_step = predict_step = validation_step

    def teardown(self) -> None:
        """Copies the weights to the host and frees the devices."""
        for model in self.poptorch_models.values():
            model.destroy()
        self.poptorch_models.clear()
        super().teardown()


def register() -> None:
    """Makes accelerator="ipu" and strategy="ipu_strategy" known to Lightning's Trainer."""
    accelerators = _module("accelerators").AcceleratorRegistry
    if "ipu" in accelerators:
        return
    accelerators.register("ipu", IPUAccelerator, description="emulated IPUs")
    _module("strategies").StrategyRegistry.register(
        IPUStrategy.strategy_name, IPUStrategy, description="steps compiled for emulated IPUs"
    )
    # Private names: no registry has the default strategy of an accelerator.
    connector = getattr(_module("trainer.connectors.accelerator_connector"), _CONNECTOR)
    setattr(connector, _CHOICE, _with_ipus(getattr(connector, _CHOICE)))


def _with_ipus(choose):
    """Wraps Lightning's choice of a strategy for an accelerator."""

    @functools.wraps(choose)
    def chosen(self):
        if self._accelerator_flag == "ipu" or isinstance(self._accelerator_flag, IPUAccelerator):
            return IPUStrategy(replicas=len(self._parallel_devices))
        return choose(self)

    return chosen


register()
