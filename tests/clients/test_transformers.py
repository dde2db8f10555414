"""Whole models of the transformers library train as in eager torch, op for op in the program."""

import copy

import poptorch
import pytest
import torch

transformers_models = pytest.importorskip("transformers_models")


class Training(torch.nn.Module):
    """(scores, loss) of a model; where it has no loss of its own, the mean square of its scores."""

    def __init__(self, model, constants):
        super().__init__()
        self.model, self.constants = model, constants

    def forward(self, **batch):
        given = self.model(**batch, **self.constants)
        scores = given.logits if "logits" in given else given.logits_per_image
        loss = scores.square().mean() if given.loss is None else given.loss
        return scores, poptorch.identity_loss(loss, reduction="none")


@pytest.mark.parametrize("name", transformers_models.MODELS)
def test_ten_steps_are_those_of_eager_torch(name):
    model, batch = transformers_models.MODELS[name]()
    constants = {key: value for key, value in batch.items() if not torch.is_tensor(value)}
    batch = {key: value for key, value in batch.items() if torch.is_tensor(value)}
    model = Training(model.train(), constants)
    eager = copy.deepcopy(model)
    optimiser = torch.optim.SGD(eager.parameters(), lr=0.01)
    wrapped = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.01))
    for _ in range(10):
        optimiser.zero_grad()
        scores, loss = eager(**batch)
        loss.backward()
        optimiser.step()
        found = wrapped(**batch)
        torch.testing.assert_close(found[0], scores.detach(), rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(found[1].reshape(()), loss.detach(), rtol=1e-4, atol=1e-5)
    for (path, found), expected in zip(model.named_parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(
            found.detach(),
            expected.detach(),
            rtol=1e-3,
            atol=1e-4,
            msg=lambda text, p=path: p + text,
        )
