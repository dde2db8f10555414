"""Provides an accelerator, a strategy and a precision for PyTorch Lightning on IPUs.

The names, arguments and rules are those of Lightning's IPU plugin. Steps of the LightningModule are
compiled, gradients are accumulated on the device, and loaders become poptorch.DataLoader.
"""

import poptorch
from pytorch_lightning.accelerators import Accelerator
from pytorch_lightning.plugins.precision import Precision
from pytorch_lightning.strategies import SingleDeviceStrategy
from pytorch_lightning.trainer.states import RunningStage
from torch import nn

STEPS = {
    RunningStage.TRAINING: "training_step",
    RunningStage.SANITY_CHECKING: "validation_step",
    RunningStage.VALIDATING: "validation_step",
    RunningStage.TESTING: "test_step",
    RunningStage.PREDICTING: "predict_step",
}


class IPUAccelerator(Accelerator):
    """`devices` IPUs: as many replicas of a model without annotations."""

    def setup_device(self, device):
        if device.type != "cpu":
            raise ValueError(f"The host of an IPU is a CPU, not {device}.")

    def teardown(self):
        pass

    @staticmethod
    def parse_devices(devices):
        return devices if devices == "auto" else int(devices)

    @staticmethod
    def get_parallel_devices(devices):
        return list(range(devices))

    @staticmethod
    def auto_device_count():
        return 4

    @staticmethod
    def is_available():
        return poptorch.ipuHardwareIsAvailable()

    @staticmethod
    def name():
        return "ipu"


class IPUPrecision(Precision):
    """Does nothing for backward and update, which the device's program contains."""

    def backward(self, tensor, model, optimizer, *args, **kwargs):
        pass

    def optimizer_step(self, optimizer, model, closure, **kwargs):
        return closure()


class Step(nn.Module):
    """Wraps a step of the LightningModule as a forward pass."""

    def __init__(self, module, name):
        super().__init__()
        self.module = module
        self.name = name

    def forward(self, *batch):
        return getattr(self.module, self.name)(*batch)


class IPUStrategy(SingleDeviceStrategy):
    """training_opts, inference_opts: poptorch.Options, for settings that have no argument."""

    strategy_name = "ipu_strategy"

    def __init__(self, device_iterations=1, replicas=1, training_opts=None, inference_opts=None):
        super().__init__("cpu", accelerator=IPUAccelerator(), precision_plugin=IPUPrecision())
        self.device_iterations, self.replicas = device_iterations, replicas
        self._training_opts, self._inference_opts = training_opts, inference_opts
        self.poptorch_models = {}

    def setup(self, trainer):
        if trainer.gradient_clip_val:
            raise ValueError("IPUs clip gradients by an optimizer's `max_grad_norm`.")
        super().setup(trainer)

    @property
    def handles_gradient_accumulation(self):
        return True

    @property
    def training_opts(self):
        if self._training_opts is None:
            accumulated = self.lightning_module.trainer.accumulate_grad_batches
            self._training_opts = self._options()
            self._training_opts.Training.gradientAccumulation(accumulated)
            self._training_opts.outputMode(poptorch.OutputMode.All)
        return self._training_opts

    @property
    def inference_opts(self):
        if self._inference_opts is None:
            self._inference_opts = self._options()
        return self._inference_opts

    def _options(self):
        options = poptorch.Options()
        options.deviceIterations(self.device_iterations)
        options.replicationFactor(self.replicas)
        options.broadcastBuffers(False)
        return options

    def _options_of(self, stage):
        return self.training_opts if stage is RunningStage.TRAINING else self.inference_opts

    @property
    def _stage(self):
        return self.lightning_module.trainer.state.stage

    def process_dataloader(self, dataloader):
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

    def _model_of(self, stage):
        stage = RunningStage.VALIDATING if stage is RunningStage.SANITY_CHECKING else stage
        if stage not in self.poptorch_models:
            step, options = Step(self.lightning_module, STEPS[stage]), self._options_of(stage)
            if stage is RunningStage.TRAINING:
                if len(self.optimizers) != 1:
                    raise ValueError("IPUs train with one optimizer.")
                optimizer = self.optimizers[0]
                made = poptorch.trainingModel(step.train(), options, optimizer=optimizer)
            else:
                made = poptorch.inferenceModel(step.eval(), options)
            self.poptorch_models[stage] = made
        return self.poptorch_models[stage]

    def _step(self, batch):
        stage, model = self._stage, self._model_of(self._stage)
        for other in self.poptorch_models.values():
            if other is not model and other.isCompiled() and other.isAttachedToDevice():
                other.detachFromDevice()
        if model.isCompiled() and not model.isAttachedToDevice():
            model.attachToDevice()
        batch = batch if isinstance(batch, (list, tuple)) else (batch,)
        if stage is RunningStage.TRAINING:
            model.setOptimizer(self.optimizers[0])
        return model(*batch)

    def training_step(self, batch, batch_idx, *others):
        outputs = self._step(batch)
        if isinstance(outputs, dict):
            return outputs | {"loss": outputs["loss"].mean()}
        return outputs.mean()

    def validation_step(self, batch, batch_idx, *others):
        return self._step(batch)

    test_step = predict_step = validation_step

    def teardown(self):
        for model in self.poptorch_models.values():
            model.destroy()
        self.poptorch_models.clear()
        super().teardown()
