"""Tests torch's operators that take functions, and parts that torch.compile made."""

import poptorch
import pytest
import torch
from torch import nn
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention import flex_attention as flex


def run(model, *inputs):
    return poptorch.inferenceModel(model)(*inputs)


def choose(x, rest):
    def more(parts):
        return {"sum": parts[0] + parts[1], "parts": (parts[0],)}

    def less(parts):
        return {"sum": parts[0] - parts[1], "parts": (parts[1],)}

    return torch.cond(x.sum() > 0, more, less, ([x, rest],))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_branch_runs_on_the_device(sign):
    x, rest = sign * torch.rand(4, 6), torch.randn(4, 6)
    found = run(choose, x, rest)
    torch.testing.assert_close(found["sum"], x + sign * rest)
    torch.testing.assert_close(found["parts"][0], x if sign > 0 else rest)


def test_a_known_condition_chooses_while_the_model_is_traced():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(6, 6)

        def forward(self, x):
            y = torch.cond(torch.arange(4).sum() > 5, torch.sin, torch.cos, (self.fc(x),))
            return poptorch.identity_loss(y, reduction="sum")

    model, x = Model(), torch.randn(4, 6)
    expected = model.fc(x).sin().sum().detach()
    torch.testing.assert_close(poptorch.trainingModel(model)(x), expected)


def test_a_branch_in_training_is_refused():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(6, 6)

        def forward(self, x):
            y = torch.cond(x.sum() > 0, torch.sin, torch.cos, (self.fc(x),))
            return poptorch.identity_loss(y, reduction="sum")

    with pytest.raises(poptorch.Error, match=r"\[torch.cond\] .*Use torch.where \(\S+\.py:\d+\)"):
        poptorch.trainingModel(Model())(torch.randn(4, 6))


def test_loops_that_count():
    x = torch.randn(4, 6)
    found = run(
        lambda x: while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x)),
        x,
    )
    assert found[0] == 3
    torch.testing.assert_close(found[1], x * 8)


def test_loops_of_structures():
    def doubled(x):
        def step(i, parts):
            return i + 1, {"x": parts["x"] * 2}

        return while_loop(lambda i, _: i < 3, step, (torch.tensor(0), {"x": x}))[1]["x"]

    torch.testing.assert_close(run(doubled, torch.ones(2, 3)), torch.full((2, 3), 8.0))


@pytest.mark.parametrize("rounds", [0, 1])
def test_what_a_loop_gives_has_the_structure_it_began_with(rounds):
    def model(x):
        def step(i, parts):
            return i + 1, {"x": parts["x"] * 2, "rest": (parts["rest"][0] + 1,)}

        start = (torch.tensor(0), {"x": x, "rest": (x + 1,)})
        i, parts = while_loop(lambda i, _: i < rounds, step, start)
        parts["x"].add_(1)  # no memory of x
        return i, parts["x"], parts["rest"][0], x

    x = torch.randn(2, 3)
    found = run(model, x)
    expected = (torch.tensor(rounds), x * 2**rounds + 1, x + 1 + rounds, x)
    torch.testing.assert_close(found, expected, check_dtype=False)


def test_loops_until_something_are_refused():
    with pytest.raises(poptorch.Error, match=r"\[while_loop\] how often the body runs depends on"):
        run(lambda x: while_loop(lambda y: y.sum() < 9, lambda y: (y + 1,), (x,))[0], torch.ones(3))


@pytest.mark.shared
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
def test_scans(reverse, dim):
    def sums(x):
        return scan(
            lambda carried, row: (carried + row, carried * row),
            torch.zeros(4),
            x,
            dim=dim,
            reverse=reverse,
        )

    x = torch.randn(4, 4)
    torch.testing.assert_close(run(sums, x), sums(x))


@pytest.mark.shared
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_of_structures(reverse):
    def sums(x, y):
        def step(carried, row):
            total = carried["total"] + row["x"]
            return {"total": total}, {"parts": [total * row["y"], row["x"] * 2]}

        rows = {"x": x, "y": y}
        return scan(step, {"total": torch.zeros(6)}, rows, reverse=reverse)

    x, y = torch.randn(2, 4, 6)
    found, expected = run(sums, x, y), sums(x, y)
    torch.testing.assert_close(found[0]["total"], expected[0]["total"])
    torch.testing.assert_close(found[1]["parts"], expected[1]["parts"])


def test_maps():
    def rows(x, y):
        return map_rows(lambda row, other: {"sum": row["x"] + other}, {"x": x}, y)["sum"]

    x, y = torch.randn(4, 6), torch.randn(6)
    torch.testing.assert_close(run(rows, x, y), x + y)


def causal(batch, head, query, key):
    return query >= key


def slanted(score, batch, head, query, key):
    return score + (query - key) * torch.exp2(-head.float())


@pytest.mark.shared
@pytest.mark.parametrize("case", ["plain", "causal", "slanted", "grouped", "trained"])
def test_flexible_attention_is_that_of_eager_torch(case):
    q, k, v = torch.randn(3, 2, 4, 8, 4)
    options = {}
    if case == "causal":
        options["block_mask"] = flex.create_block_mask(causal, 2, 4, 8, 8, device="cpu")
    if case == "slanted":
        options["score_mod"] = slanted
    if case == "grouped":
        k, v, options["enable_gqa"] = k[:, :2].contiguous(), v[:, :2].contiguous(), True
    expected = flex.flex_attention(q, k, v, **options)
    if case != "trained":
        mask = options.pop("block_mask", None)

        def attend(q, k, v):
            on_device = mask and mask.to(q.device)
            return flex.flex_attention(q, k, v, block_mask=on_device, **options)

        found = run(attend, q, k, v)
        torch.testing.assert_close(found, expected)
        return

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.q = nn.Parameter(q.clone())

        def forward(self, k, v):
            y = flex.flex_attention(self.q, k, v)
            return poptorch.identity_loss(y.square(), reduction="sum")

    model = Model()
    weight = q.clone().requires_grad_()
    nn.functional.scaled_dot_product_attention(weight, k, v).square().sum().backward()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    poptorch.trainingModel(model, optimizer=optimiser)(k, v)
    torch.testing.assert_close(model.q.detach(), q - 0.1 * weight.grad)


KEPT = flex.create_block_mask(causal, 3, 1, 8, 8, device="cpu")


class Masked(nn.Module):
    """Attention by a mask that it holds or computes."""

    def __init__(self, keeps):
        super().__init__()
        self.mask = flex.create_block_mask(causal, 3, 1, 8, 8, device="cpu") if keeps else None

    def forward(self, q, k, v):
        return flex.flex_attention(q, k, v, block_mask=self.mask or KEPT)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("keeps", [True, False])
def test_masks_of_blocks_that_are_kept(keeps, batch):
    q, (k, v) = torch.randn(3, 2, 8, 4), torch.randn(2, batch, 2, 8, 4)
    expected = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(run(Masked(keeps), q, k, v), expected)
    torch.testing.assert_close(
        run(lambda *x: flex.flex_attention(*x, block_mask=KEPT), q, k, v), expected
    )


@pytest.mark.filterwarnings("ignore:return_lse is deprecated")
def test_flexible_attention_tells_sums_and_maxima():
    def attend(q, k, v):
        wanted = flex.AuxRequest(lse=True, max_scores=True)
        _, found = flex.flex_attention(q, k, v, return_aux=wanted)
        return found.lse, found.max_scores, flex.flex_attention(q, k, v, return_lse=True)[1]

    q, k, v = torch.randn(3, 2, 4, 8, 4)
    scores = q @ k.mT / 2
    sums = scores.logsumexp(-1)
    torch.testing.assert_close(run(attend, q, k, v), (sums, scores.amax(-1), sums))


def test_compiled_parts_run_as_they_were():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.compile(nn.Linear(6, 3), backend="eager")

        def forward(self, x):
            return torch.compile(torch.sin, backend="eager")(self.fc(x))

    model, x = Model(), torch.randn(4, 6)
    torch.testing.assert_close(run(model, x), model.fc(x).sin().detach())
