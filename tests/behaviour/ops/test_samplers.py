"""Random numbers of torch's distributions follow the distribution and can be reproduced."""

import poptorch
import pytest
import torch
from scipy import stats
from torch import distributions as D, nn

N = 4000


def draw(function, *inputs, seed=11, **settings):
    options = poptorch.Options()
    options.randomSeed(seed)
    for name, value in settings.items():
        getattr(options, name)(value)
    model = poptorch.inferenceModel(lambda *tensors: function(*tensors), options)
    drawn = model(*inputs)
    model.destroy()
    return drawn


def full(value):
    return torch.full((N,), float(value))


CONTINUOUS = {
    "cauchy_": (lambda x: torch.empty_like(x).cauchy_(1, 2), stats.cauchy(1, 2)),
    "log_normal_": (
        lambda x: torch.empty_like(x).log_normal_(1, 0.5),
        stats.lognorm(0.5, 0, 2.71828),
    ),
    "trunc_normal_": (
        lambda x: nn.init.trunc_normal_(torch.empty_like(x), 1, 2, -1, 2),
        stats.truncnorm(-1, 0.5, 1, 2),
    ),
    "exponential_": (lambda x: torch.empty_like(x).exponential_(2), stats.expon(0, 0.5)),
    "Gamma": (lambda x: D.Gamma(x * 2.5, x * 2).sample(), stats.gamma(2.5, 0, 0.5)),
    "Gamma of a small shape": (lambda x: D.Gamma(x * 0.3, x).rsample(), stats.gamma(0.3)),
    "Gamma of a large shape": (lambda x: torch._standard_gamma(x * 500), stats.gamma(500)),
    "Beta": (lambda x: D.Beta(x * 2, x * 0.7).sample(), stats.beta(2, 0.7)),
    "Dirichlet": (
        lambda x: D.Dirichlet(torch.stack([x, x * 2, x * 3], 1)).sample()[:, 1],
        stats.beta(2, 4),
    ),
    "Chi2": (lambda x: D.Chi2(x * 3).sample(), stats.chi2(3)),
    "StudentT": (lambda x: D.StudentT(x * 4).rsample(), stats.t(4)),
    "FisherSnedecor": (lambda x: D.FisherSnedecor(x * 4, x * 6).sample(), stats.f(4, 6)),
    "Cauchy": (lambda x: D.Cauchy(x, x * 2).rsample(), stats.cauchy(1, 2)),
    "HalfCauchy": (lambda x: D.HalfCauchy(x).sample(), stats.halfcauchy()),
    "Exponential": (lambda x: D.Exponential(x * 2).rsample(), stats.expon(0, 0.5)),
    "Laplace": (lambda x: D.Laplace(x, x * 2).rsample(), stats.laplace(1, 2)),
    "LogNormal": (lambda x: D.LogNormal(x, x * 0.5).sample(), stats.lognorm(0.5, 0, 2.71828)),
    "Pareto": (lambda x: D.Pareto(x * 2, x * 3).sample(), stats.pareto(3, 0, 2)),
    "Weibull": (lambda x: D.Weibull(x * 2, x * 1.5).sample(), stats.weibull_min(1.5, 0, 2)),
    "InverseGamma": (lambda x: D.InverseGamma(x * 3, x * 2).sample(), stats.invgamma(3, 0, 2)),
}
WHOLE = {
    "geometric_": (lambda x: torch.empty_like(x).geometric_(0.3), stats.geom(0.3)),
    "Geometric": (lambda x: D.Geometric(x * 0.3).sample() + 1, stats.geom(0.3)),
    "randint": (lambda x: torch.randint(3, 9, (N,), device=x.device), stats.randint(3, 9)),
    "random_": (lambda x: torch.empty_like(x).random_(3, 9), stats.randint(3, 9)),
    "poisson": (lambda x: torch.poisson(x * 3), stats.poisson(3)),
    "Poisson of a large rate": (lambda x: D.Poisson(x * 40).sample(), stats.poisson(40)),
    "binomial": (lambda x: torch.binomial(x * 12, x * 0.3), stats.binom(12, 0.3)),
    "Binomial of many": (lambda x: D.Binomial(300, x * 0.8).sample(), stats.binom(300, 0.8)),
    "NegativeBinomial": (
        lambda x: D.NegativeBinomial(x * 4, x * 0.4).sample(),
        stats.nbinom(4, 0.6),
    ),
    "Multinomial": (
        lambda x: D.Multinomial(9, torch.stack([x, x * 2], 1)).sample()[:, 0],
        stats.binom(9, 1 / 3),
    ),
    "multinomial": (
        lambda x: torch.multinomial(torch.stack([x[0] * 0, x[0], x[0] * 3]), N, replacement=True),
        stats.rv_discrete(values=([1, 2], [0.25, 0.75])),
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_numbers_follow_their_distribution(name):
    function, expected = CONTINUOUS[name]
    drawn = draw(function, full(1)).double().numpy()
    assert drawn.shape == (N,)
    assert stats.kstest(drawn, expected.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_follow_their_distribution(name):
    function, expected = WHOLE[name]
    drawn = draw(function, full(1)).double().numpy()
    assert drawn.shape == (N,) and (drawn == drawn.round()).all()
    edges = [expected.ppf(q) for q in (0.1, 0.3, 0.5, 0.7, 0.9)]
    edges = sorted({*edges})
    bounds = [-1e9, *edges, 1e9]
    pairs = list(zip(bounds, bounds[1:], strict=False))
    found = [((drawn > low) & (drawn <= high)).sum() for low, high in pairs]
    wanted = [N * (expected.cdf(high) - expected.cdf(low)) for low, high in pairs]
    kept = [i for i, w in enumerate(wanted) if w > 1e-6]
    assert sum(found[i] for i in kept) == N
    if len(kept) > 1:
        result = stats.chisquare([found[i] for i in kept], [wanted[i] for i in kept])
        assert result.pvalue > 1e-3


DRAWS = {
    "gamma": lambda x: torch._standard_gamma(x),
    "poisson": lambda x: torch.poisson(x),
    "binomial": lambda x: torch.binomial(x * 20, x / 4),
    "cauchy": lambda x: torch.empty_like(x).cauchy_(),
    "multinomial": lambda x: torch.multinomial(x, 50, replacement=True),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_seed_and_the_micro_batch_tell_the_numbers(name):
    function = DRAWS[name]
    x = torch.full((64,), 2.0)
    first = draw(function, x)
    torch.testing.assert_close(draw(function, x), first, rtol=0, atol=0)
    assert not torch.equal(draw(function, x, seed=12), first)
    two = draw(lambda x: function(x.reshape(-1)), x.repeat(2), deviceIterations=2)
    half = two.reshape(2, -1)
    torch.testing.assert_close(half[0], first, rtol=0, atol=0)
    assert not torch.equal(half[0], half[1])


def test_replicas_draw_numbers_of_their_own():
    x = torch.full((128,), 2.0)
    drawn = draw(torch._standard_gamma, x, replicationFactor=2).reshape(2, 64)
    assert not torch.equal(drawn[0], drawn[1])


class Drawn(nn.Module):
    """Returns the sum of samples of a gamma distribution with trained shapes, and the samples."""

    def __init__(self, kind):
        super().__init__()
        self.alpha = nn.Parameter(torch.linspace(0.3, 6, 12).reshape(3, 4))
        self.kind = kind

    def forward(self, weights):
        y = self.kind(self.alpha).rsample()
        return y, poptorch.identity_loss((y * weights).sum(), "none")


def gamma_slopes(alpha, y, weights):
    return weights * torch._standard_gamma_grad(alpha, y)


def dirichlet_slopes(alpha, y, weights):
    total = alpha.sum(-1, True).expand_as(alpha)
    slopes = torch._dirichlet_grad(y, alpha, total)
    return slopes * (weights - (y * weights).sum(-1, True))


@pytest.mark.parametrize(
    ("kind", "slopes"),
    [(lambda a: D.Gamma(a, torch.ones_like(a)), gamma_slopes), (D.Dirichlet, dirichlet_slopes)],
    ids=["gamma", "dirichlet"],
)
def test_reparametrised_gradients_are_torchs_for_the_same_numbers(kind, slopes):
    model = Drawn(kind)
    before = model.alpha.detach().clone()
    weights = torch.linspace(-1, 2, 12).reshape(3, 4)
    ours = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0))
    y, _ = ours(weights)
    ours.copyWeightsToHost()
    expected = slopes(before, y, weights)
    torch.testing.assert_close(before - model.alpha.detach(), expected, rtol=1e-4, atol=1e-5)
    ours.destroy()


def test_a_draw_whose_trials_are_not_known_is_refused():
    with pytest.raises(poptorch.Error, match="needed on the host"):
        draw(lambda x: D.VonMises(x, x).sample(), full(1))
