// poptorch/distributed.hpp: between four replicas, and on the host.
#include <torch/nn.h>

#include <poptorch/poptorch.hpp>

#include "testing.hpp"

namespace {

namespace distributed = poptorch::distributed;
using distributed::ReplicaGroup;
using poptorch::CommGroupType;
using poptorch::Tensors;
using torch::Tensor;

constexpr int64_t kReplicas = 4, kRows = 4;

struct OfImpl : torch::nn::Module {
  explicit OfImpl(std::function<Tensors(const Tensor&)> made) : function(std::move(made)) {}
  Tensors forward(const Tensor& x) { return function(x); }
  std::function<Tensors(const Tensor&)> function;
};

poptorch::Options of_replicas() { return poptorch::Options().replicationFactor(kReplicas); }

// Returns the results, each with the replicas one after the other.
Tensors on_replicas(const std::function<Tensors(const Tensor&)>& function, const Tensor& x) {
  return poptorch::inferenceModel(std::make_shared<OfImpl>(function), of_replicas())(x);
}

TEST(CppDistributed, ExchangesBetweenReplicas) {
  const Tensor x = torch::randn({kReplicas, kRows, 3});
  const auto found = on_replicas(
      [](const Tensor& own) -> Tensors {
        const ReplicaGroup apart(CommGroupType::Orthogonal, 2);
        return {distributed::all_reduce(own),
                distributed::all_reduce(own, "max", apart),
                distributed::all_gather(own, -1),
                distributed::reduce_scatter(own, "mean"),
                distributed::all_to_all(own),
                distributed::group_rank(apart) + own.select(0, 0).select(0, 0) * 0};
      },
      x.flatten(0, 1));
  const auto all = [](const Tensor& each) {
    return each.expand({kReplicas, kRows, each.size(-1)}).flatten(0, 1);
  };
  EXPECT_TRUE(torch::allclose(found[0], all(x.sum(0)), 1e-5, 1e-6));
  const Tensor pairs = x.reshape({2, 2, kRows, 3}).amax(0, true).expand({2, 2, kRows, 3});
  EXPECT_TRUE(torch::equal(found[1], pairs.flatten(0, 2)));
  EXPECT_TRUE(torch::equal(found[2], all(x.transpose(0, 1).flatten(1))));
  EXPECT_TRUE(torch::allclose(found[3], x.mean(0), 1e-5, 1e-6));
  EXPECT_TRUE(torch::equal(found[4], x.transpose(0, 1).flatten(0, 1)));
  EXPECT_TRUE(torch::equal(found[5], torch::tensor({0.0f, 0.0f, 1.0f, 1.0f})));
}

struct SpreadImpl : torch::nn::Module {
  explicit SpreadImpl(const Tensor& values) { weight = register_parameter("weight", values); }
  std::tuple<Tensor, Tensor> forward(const Tensor& factor) {
    const Tensor whole = distributed::all_gather(weight);
    return {whole, poptorch::identity_loss((whole * factor).sum(), "none")};
  }
  Tensor weight;
};
TORCH_MODULE(Spread);

TEST(CppDistributed, GradientsAreThoseOfAllReplicasLosses) {
  const Tensor start = torch::randn({kReplicas, 2, 3}), factor = torch::randn({kReplicas, 8, 3});
  Spread spread(start.clone());
  torch::optim::SGD sgd(spread->parameters(), torch::optim::SGDOptions(1.0));
  auto options =
      of_replicas().accumulationAndReplicationReductionType(poptorch::ReductionType::Sum);
  auto model = poptorch::trainingModel(spread, options, sgd);
  model.replicaGrouping(spread->weight, CommGroupType::NoGrouping, 1,
                        poptorch::VariableRetrievalMode::OnePerGroup);
  model(factor.flatten(0, 1));
  model.copyWeightsToHost();
  const Tensor expected = factor.sum(0).reshape({kReplicas, 2, 3});
  EXPECT_TRUE(torch::allclose(start - spread->weight.detach(), expected, 1e-4, 1e-5));
}

TEST(CppDistributed, OneReplicaHasWhatItGives) {
  const Tensor x = torch::randn({3, 2}).requires_grad_();
  const ReplicaGroup pairs(2);
  for (const Tensor& y :
       {distributed::all_reduce(x, "prod", pairs), distributed::all_gather(x, 1, pairs),
        distributed::reduce_scatter(x, "sum", 0, pairs), distributed::all_to_all(x, 0, 1, pairs)}) {
    EXPECT_TRUE(torch::equal(y, x));
    x.mutable_grad() = Tensor();
    (y * x.detach()).sum().backward();
    EXPECT_TRUE(torch::equal(x.grad(), x));
  }
  EXPECT_EQ(distributed::group_size(pairs), 1);
  EXPECT_EQ(distributed::group_rank().item<int>(), 0);
}

TEST(CppDistributed, RefusesWithTheCure) {
  const Tensor x = torch::ones({6});
  expect_parts(error_of([&] { distributed::all_reduce(Tensor()); }), {"a tensor is needed"});
  expect_parts(error_of([&] { distributed::all_reduce(x, "xor"); }), {"'xor'", "mean, min, max"});
  expect_parts(error_of([&] { distributed::all_reduce(x > 0); }), {"dtype Bool", "Cast it"});
  expect_parts(error_of([&] { distributed::all_gather(x, 1); }), {"dim is 1"});
  expect_parts(error_of([&] { ReplicaGroup{CommGroupType::Consecutive}; }), {"groups of 0 repl"});
  const auto of = [&](int64_t size) {
    return error_of([&] {
      on_replicas(
          [&](const Tensor& own) -> Tensors {
            return {distributed::all_to_all(own, 0, 0, ReplicaGroup(size))};
          },
          torch::ones({24}));
    });
  };
  expect_parts(of(4), {"dimension 0 has 6 elements, which the 4 replicas of the group"});
  expect_parts(of(3), {"groups of 3 replicas, 1 apart, do not divide the 4 replicas"});
}

}  // namespace
