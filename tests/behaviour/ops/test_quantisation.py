"""Tests quantisation-aware training: simulated integers, observers as state, and refusals."""

import poptorch
import pytest
import torch
import torch.ao.quantization as Q
from torch import nn
from torch.ao.quantization._learnable_fake_quantize import _LearnableFakeQuantize
from tracer_case import compare_inference, compare_training, seeded

X = seeded(lambda: torch.randn(3, 4))
IMAGE = seeded(lambda: torch.randn(2, 3, 6, 6))

pytestmark = pytest.mark.filterwarnings("ignore")


class Behind(nn.Module):
    """A linear layer, then the tested function."""

    def __init__(self, made):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.made = made

    def forward(self, x):
        return self.made(self.linear(x))


def seen_once(model, x):
    """Observers per channel get the sizes of their statistics from a batch on the host."""
    with torch.no_grad():
        model(x)
    return model


FUNCTIONS = {
    "tensor": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7),
    "channel": lambda x: torch.fake_quantize_per_channel_affine(
        x,
        torch.tensor([0.1, 0.2, 0.05, 0.02], device=x.device),
        torch.tensor([3, 0, 1, 2], dtype=torch.int32, device=x.device),
        1,
        -8,
        7,
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_simulated_integers(name):
    compare_training(seeded(lambda: Behind(FUNCTIONS[name])), X)
    compare_inference(FUNCTIONS[name], X * 5)


MODULES = {
    "default": Q.default_fake_quant,
    "plain": Q.FakeQuantize,
    "least and most": lambda: Q.FakeQuantize(Q.MinMaxObserver, 0, 127),
    "symmetric weight": Q.default_weight_fake_quant,
    "by channel": Q.default_per_channel_weight_fake_quant,
    "least and most by channel": lambda: Q.FakeQuantize(
        Q.PerChannelMinMaxObserver, -128, 127, dtype=torch.qint8, ch_axis=1
    ),
    "fused": Q.default_fused_act_fake_quant,
    "fused weight": Q.default_fused_wt_fake_quant,
    "fused by channel": Q.default_fused_per_channel_wt_fake_quant,
}


@pytest.mark.parametrize("name", MODULES)
def test_statistics_of_observers_are_state(name):
    model = seeded(lambda: seen_once(Behind(MODULES[name]()), X))
    compare_training(model, X * 1.5, steps=3)


@pytest.mark.parametrize("name", ["default", "fused", "symmetric weight"])
def test_the_first_batch_begins_the_statistics(name):
    compare_training(seeded(lambda: Behind(MODULES[name]())), X, steps=2)


def test_flags_are_those_of_the_time_of_compilation():
    model = seeded(lambda: seen_once(Behind(Q.default_fake_quant()), X))
    model.apply(Q.disable_observer)
    compare_training(model, X * 3, steps=2)
    model.apply(Q.disable_fake_quant)
    compare_inference(model, X * 3)


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("symmetric", [True, False])
def test_learnt_scales(learns, symmetric):
    scheme = torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine

    def make():
        made = _LearnableFakeQuantize(
            Q.MovingAverageMinMaxObserver,
            0,
            255,
            scale=0.1,
            zero_point=10.0,
            qscheme=scheme,
            use_grad_scaling=True,
        )
        made.enable_param_learning() if learns else made.enable_static_estimate()
        return Behind(made)

    compare_training(seeded(make), X, steps=3)


def prepared(model, backend):
    model.train()
    model.qconfig = Q.get_default_qat_qconfig(backend)
    return Q.prepare_qat(model)


def linear_model(backend):
    layers = [Q.QuantStub(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2), Q.DeQuantStub()]
    return seen_once(prepared(nn.Sequential(*layers), backend), X)


def image_model(backend):
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()]
    model = nn.Sequential(Q.QuantStub(), *layers, Q.DeQuantStub()).train()
    model = Q.fuse_modules_qat(model, [["1", "2", "3"]])
    return seen_once(prepared(model, backend), IMAGE)


@pytest.mark.parametrize("backend", ["fbgemm", "qnnpack"])
def test_prepared_models_train(backend):
    compare_training(seeded(lambda: linear_model(backend)), X, steps=3)


@pytest.mark.parametrize("backend", ["fbgemm", "qnnpack"])
def test_prepared_images_train(backend):
    compare_training(seeded(lambda: image_model(backend)), IMAGE, steps=2, tolerance=1e-4)


def test_prepared_models_infer():
    model = seeded(lambda: linear_model("fbgemm")).eval()
    model.apply(Q.disable_observer)
    compare_inference(model, X)


def test_refused_with_the_simulated_form_as_cure():
    converted = Q.convert(seeded(lambda: linear_model("fbgemm")).eval())
    with pytest.raises(poptorch.Error, match=r"8 bits.*before convert\(\)"):
        poptorch.inferenceModel(converted)(X)
    with pytest.raises(poptorch.Error, match="Call the model once on the host"):
        poptorch.inferenceModel(Behind(Q.default_per_channel_weight_fake_quant()))(X)
    with pytest.raises(poptorch.Error, match="HistogramObserver is not supported"):
        poptorch.inferenceModel(Behind(Q.FakeQuantize(Q.HistogramObserver)))(X)
    with pytest.raises(poptorch.Error, match="fake_quantize_per_tensor_affine"):
        poptorch.inferenceModel(lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.quint8))(X)
