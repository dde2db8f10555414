"""poptorch.dynamic_slice and dynamic_update compute the same on the device and on the host."""

import poptorch
import pytest
import torch

X = torch.arange(24.0).reshape(3, 8)


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


@pytest.mark.parametrize(("dim", "size"), [(0, 1), (0, 2), (0, 3), (1, 3), (1, 7), (-1, 5)])
@pytest.mark.parametrize("start", [0, 2])
def test_update_of_any_size(dim, size, start):
    source = -torch.ones_like(X).narrow(dim, 0, size)
    start = torch.tensor([start], dtype=torch.int32)

    def update(x, source, start):
        return poptorch.dynamic_update(x, source, dim, start, size)

    expected = X.clone()
    for i in range(size):
        expected.select(dim, (start.item() + i) % X.shape[dim]).fill_(-1)
    torch.testing.assert_close(update(X, source, start), expected)
    ours = poptorch.inferenceModel(Model(update))(X, source, start)
    torch.testing.assert_close(ours, expected)


def test_gradients_of_an_update():
    class Trained(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.base = torch.nn.Parameter(torch.ones(3, 8))
            self.part = torch.nn.Parameter(torch.ones(3, 3))
            self.register_buffer("slope", X)

        def forward(self, start):
            y = poptorch.dynamic_update(self.base, self.part, 1, start, 3)
            return poptorch.identity_loss((y * self.slope).sum(), "none")

    model, start = Trained(), torch.tensor([6], dtype=torch.int32)
    model(start).backward()
    expected = [p.detach() - 0.1 * p.grad for p in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trained = poptorch.trainingModel(model, optimizer=optimizer)
    trained(start)
    trained.copyWeightsToHost()
    torch.testing.assert_close([p.detach() for p in model.parameters()], expected)
