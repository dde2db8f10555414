"""Graph modules of torch.fx run on the device: folded, changed, copied, pickled and trained."""

import copy
import io

import folded_cnn
import poptorch
import pytest
import torch
from torch import fx, nn


@pytest.fixture
def network():
    torch.manual_seed(0)
    model = folded_cnn.Network()
    for _ in range(3):  # running statistics
        model(torch.randn(8, 3, 12, 12) * 2 + 1)
    return model.eval()


def images(count):
    return torch.randint(256, (count, 3, 12, 12), dtype=torch.uint8)


@pytest.mark.shared
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float16, 2e-2)])
def test_a_folded_pipelined_network_is_the_networks_function(network, dtype, tolerance):
    batch = images(16)
    with torch.no_grad():
        expected = folded_cnn.Normalised(copy.deepcopy(network), torch.float32)(batch)
    traced = folded_cnn.replace_relu(folded_cnn.fold_batch_norms(network))
    assert not any(isinstance(m, nn.BatchNorm2d) for m in traced.modules())
    model = folded_cnn.Normalised(folded_cnn.on_two_ipus(traced), dtype)
    device = poptorch.inferenceModel(model, folded_cnn.inference_options(4))
    torch.testing.assert_close(device(batch).float(), expected, rtol=tolerance, atol=tolerance)
    report = device.report()
    assert len(report["ipus"]) == 2 and report["generic_ops"] == []
    assert "batch_norm" not in device.graph("normal")


class WithLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, labels):
        return nn.functional.cross_entropy(self.model(x), labels)


def test_a_traced_model_trains_and_is_copied_while_it_is_wrapped(network):
    traced = fx.symbolic_trace(WithLoss(network)).train()
    eager = copy.deepcopy(traced)
    batch = torch.randn(4, 3, 12, 12), torch.tensor([0, 1, 2, 3])
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1)
    expected = eager(*batch)
    expected.backward()
    optimizer.step()
    device = poptorch.trainingModel(traced, optimizer=torch.optim.SGD(traced.parameters(), lr=0.1))
    torch.testing.assert_close(device(*batch), expected.detach(), rtol=1e-5, atol=1e-6)
    pickled = io.BytesIO()
    torch.save(traced, pickled)
    pickled.seek(0)
    loaded = torch.load(pickled, weights_only=False)
    eager.eval()
    traced.eval()
    expected = eager(*batch)
    for found in (traced, copy.deepcopy(traced), copy.copy(traced), loaded.eval()):
        torch.testing.assert_close(found(*batch), expected, rtol=1e-4, atol=1e-4)
        assert found is traced or not hasattr(found, "copyWeightsToHostIfNeeded")
    assert traced.code == eager.code


def test_a_graph_that_changes_while_it_is_wrapped_is_the_hosts(network):
    """The device runs the program of the call; the host runs the code of the graph."""
    traced = fx.symbolic_trace(WithLoss(network)).train()
    batch = torch.randn(4, 3, 12, 12), torch.tensor([0, 1, 2, 3])
    device = poptorch.trainingModel(traced)
    device(*batch)
    traced.eval()
    before = traced(*batch)
    (output,) = (node for node in traced.graph.nodes if node.op == "output")
    with traced.graph.inserting_before(output):
        doubled = traced.graph.call_function(torch.mul, (output.args[0], 2))
    output.args = (doubled,)
    traced.recompile()
    torch.testing.assert_close(traced(*batch), 2 * before)
    device.destroy()
    torch.testing.assert_close(traced(*batch), 2 * before)


class CopiesItself(nn.Linear):
    """A model whose class defines how it is copied."""

    def __deepcopy__(self, memo):
        made = type(self)(2, 1)
        made.load_state_dict(self.state_dict())
        memo["copied"] = type(self).__name__
        return made

    def forward(self, x):
        return poptorch.identity_loss(super().forward(x), reduction="sum")


def test_a_models_own_way_to_copy_itself_makes_its_own_class():
    model = CopiesItself(2, 1)
    device = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5))
    device(torch.ones(1, 2))
    memo = {}
    made = copy.deepcopy(model, memo)
    assert type(made) is CopiesItself and memo["copied"] == "CopiesItself"
    assert torch.equal(made.weight, model.weight)
