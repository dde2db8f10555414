"""Tests sparse tensors that a model holds, in products with computed tensors; and least squares."""

import poptorch
import pytest
import torch
from torch import nn
from tracer_case import compare_inference, compare_training, seeded

X = seeded(lambda: torch.randn(12, 4))
DENSE = torch.zeros(9, 12)
DENSE[0, 3], DENSE[0, 11], DENSE[4, 3], DENSE[8, 0] = 2.0, -1.0, 0.5, 3.0
FULLER = seeded(lambda: torch.randn(9, 12).relu())

LAYOUTS = {
    "coo": lambda x: x.to_sparse(),
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
}
PRODUCTS = {
    "at": lambda a, x: a @ x,
    "sparse mm": torch.sparse.mm,
    "mm": torch.mm,
    "vector": lambda a, x: a @ x[:, 1],
    "addmm": lambda a, x: torch.addmm(x[:9], a, x, beta=0.5, alpha=2),
    "sparse addmm": lambda a, x: torch.sparse.addmm(x[:9], a, x, beta=0.5, alpha=2),
    "half of it": lambda a, x: (a * 0.5) @ x,
    "turned": lambda a, x: a.t() @ x[:9],
    "made dense": lambda a, x: a.to_dense().to(x.device) @ x,
}


class Product(nn.Module):
    """Multiplies by a matrix that is not state."""

    def __init__(self, matrix, function, held="attribute"):
        super().__init__()
        self.linear = seeded(lambda: nn.Linear(4, 4))
        self.function = function
        if held == "buffer":
            self.register_buffer("matrix", matrix, persistent=False)
        else:
            self.matrix = [matrix] if held == "list" else matrix

    def forward(self, x):
        matrix = self.matrix[0] if isinstance(self.matrix, list) else self.matrix
        return self.function(matrix, self.linear(x))


def train_step(model, x):
    """Returns the result, and the gradient of the weight by a step with learning rate 1."""

    class Trained(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            y = self.model(x)
            return y, poptorch.identity_loss((y * torch.ones_like(y).cumsum(0)).sum(), "none")

    before = model.linear.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    ours = poptorch.trainingModel(Trained(), optimizer=optimizer)
    y, _ = ours(x)
    ours.copyWeightsToHost()
    ours.destroy()
    return y, before - model.linear.weight.detach()


@pytest.mark.parametrize("held", ["attribute", "list", "buffer"])
@pytest.mark.parametrize("dense", [DENSE, FULLER], ids=["thin", "fuller"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_wherever_it_is_held(held, dense, layout):
    matrix = LAYOUTS[layout](dense)
    y, gradient = train_step(Product(matrix, PRODUCTS["at"], held), X)
    model = Product(dense, PRODUCTS["at"])
    expected = model(X)
    (expected * torch.ones_like(expected).cumsum(0)).sum().backward()
    torch.testing.assert_close(y, expected.detach(), rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(gradient, model.linear.weight.grad, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dense", [DENSE, FULLER], ids=["thin", "fuller"])
def test_products(name, dense):
    matrix, function = dense.to_sparse(), PRODUCTS[name]
    compare_inference(lambda x: function(matrix, x), X)
    torch.testing.assert_close(
        train_step(Product(matrix, function), X)[0],
        function(matrix, seeded(lambda: nn.Linear(4, 4))(X)).detach(),
        rtol=2e-5,
        atol=2e-5,
    )


def test_a_dense_one_from_the_left():
    matrix = DENSE.t().to_sparse()
    compare_inference(lambda x: x.t() @ matrix, X)
    compare_inference(lambda x: torch.mm(x.t(), matrix), X)


def _coo(device):
    places = torch.tensor([[0, 4, 4, 7], [1, 0, 2, 3]], device=device)
    return torch.sparse_coo_tensor(places, torch.tensor([2.0, 1.0, -1.0, 0.5]), (9, len(DENSE.T)))


MADE = {
    "coo": _coo,
    "twice in a place": lambda device: torch.sparse_coo_tensor(
        torch.tensor([[1, 1], [2, 2]]), torch.ones(2), (4, len(DENSE.T)), device=device
    ).coalesce(),
    "without a size": lambda _: torch.sparse_coo_tensor(
        torch.tensor([[0, 4], [1, len(DENSE.T) - 1]]), torch.tensor([2.0, 1.0])
    ),
    "csr": lambda device: torch.sparse_csr_tensor(
        torch.tensor([0, 1, 2, 2]),
        torch.tensor([1, 3]),
        torch.tensor([1.0, 2.0]),
        (3, len(DENSE.T)),
    ),
    "of a dense one": lambda device: torch.eye(len(DENSE.T), device=device).to_sparse(),
    "rows of a dense one": lambda device: torch.eye(len(DENSE.T)).tril().to_sparse_csr(),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("name", MADE)
def test_made_in_forward_of_what_is_known(name):
    x = torch.randn(len(DENSE.T), 4)
    compare_inference(lambda x: torch.sparse.mm(MADE[name](x.device), x), x)


@pytest.mark.parametrize("size", [(), ((2, 2),)])
def test_made_in_forward_of_what_is_not_known(size):
    def product(values, x):
        places = torch.tensor([[0, 1], [1, 0]])
        return torch.sparse_coo_tensor(places, values, *size) @ x

    with pytest.raises(poptorch.Error, match="its result is sparse, .* Keep it dense"):
        poptorch.inferenceModel(product)(torch.ones(2), torch.ones(2, 2))


def test_sparse_inputs_are_refused():
    with pytest.raises(poptorch.Error, match=r"sparse_coo.*to_dense"):
        poptorch.inferenceModel(lambda a, x: a @ x)(DENSE.to_sparse(), X)


TALL = seeded(lambda: torch.randn(2, 5, 3))
SIDES = seeded(lambda: torch.randn(2, 5, 2))
SYSTEMS = {
    "tall": (TALL, SIDES),
    "square": (TALL[:, :3], SIDES[:, :3]),
    "wide": (TALL.mT, SIDES[:, :3]),
    "one": (TALL[0], SIDES[0]),
}


class Solved(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, a, b):
        return torch.linalg.lstsq(a * self.weight, b + self.weight).solution


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_least_squares(name, driver):
    a, b = SYSTEMS[name]

    def solved(a, b):
        found = torch.linalg.lstsq(a, b, driver=driver)
        return found.solution, found.residuals, found.rank, found.singular_values

    compare_inference(solved, a, b, tolerance=1e-4)
    compare_training(Solved(), a, b, tolerance=1e-3)
