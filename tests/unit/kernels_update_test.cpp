// Optimiser updates: the fast kernels against the reference ones.
#include "kernel_harness.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;

struct UpdateCase {
  const char* op;
  ir::Attrs attrs;
  std::string operands;  // "f": a tensor, "p": a tensor above zero, "-": absent, else a number
  std::vector<double> numbers;
};

std::vector<std::optional<TestTensor>> operands_of(const UpdateCase& c, int64_t n,
                                                   DType dtype = DType::kF32) {
  std::vector<std::optional<TestTensor>> made;
  size_t number = 0;
  for (char kind : c.operands) {
    const auto seed = static_cast<uint32_t>(made.size() + 1);
    if (kind == '-') {
      made.emplace_back();
    } else if (kind == 'n') {
      const double value = c.numbers.at(number++);
      made.emplace_back(TestTensor(DType::kF64, {}, value, value, seed));
    } else {
      made.emplace_back(TestTensor(dtype, {n}, kind == 'p' ? 1 : -1, 2, seed));
    }
  }
  return made;
}

std::vector<TestTensor*> pointers(std::vector<std::optional<TestTensor>>& operands) {
  std::vector<TestTensor*> made;
  for (auto& operand : operands) made.push_back(operand ? &*operand : nullptr);
  return made;
}

void expect_same_update(const UpdateCase& c) {
  SCOPED_TRACE(std::string(c.op) + " " + c.operands);
  auto expected = operands_of(c, 5003), first = expected;
  KernelRun oracle(c.op, c.attrs, pointers(expected));
  run_reference(oracle, c.attrs);
  for (int threads : {1, 3}) {
    auto given = operands_of(c, 5003);
    KernelRun run(c.op, c.attrs, pointers(given));
    ASSERT_TRUE(run.bind());
    run.run(threads);
    for (size_t i = 0; i < given.size(); ++i) {
      if (!given[i]) continue;
      EXPECT_TRUE(threads == 1 || *given[i] == *first[i]) << "operand " << i;
      for (int64_t e = 0; e < given[i]->type.elements(); ++e) {
        ASSERT_NEAR(given[i]->at(e), expected[i]->at(e), 2e-6) << "operand " << i;
      }
    }
    for (size_t i = 0; i < run.outputs.size(); ++i) {
      for (int64_t e = 0; e < run.outputs[i].type.elements(); ++e) {
        ASSERT_NEAR(run.outputs[i].at(e), oracle.outputs[i].at(e), 1e-5) << "output " << i;
      }
    }
    first = given;
  }
}

TEST(Updates, OfRmspropMatchTheReference) {
  for (const char* state : {"--", "f-"}) {
    for (bool tf : {false, true}) {
      for (bool maximize : {false, true}) {
        expect_same_update({"rmsprop_update",
                            {{"tf_variant", tf}, {"maximize", maximize}},
                            std::string("fpfnnnnn") + state,
                            {0.1, 0.9, 1e-3, 0.01, 0.5}});
      }
    }
  }
}

TEST(Updates, OfCenteredRmspropMatchTheReference) {
  for (const char* state : {"-f", "ff"}) {
    for (bool tf : {false, true}) {
      const UpdateCase c{"rmsprop_update",
                         {{"tf_variant", tf}},
                         std::string("fpfnnnnn") + state,
                         {0.1, 0.5, 5.0, 0.0, 0.5}};
      auto expected = operands_of(c, 999), given = expected;
      for (auto* operands : {&expected, &given}) {
        for (int64_t i = 0; i < 999; ++i) (*operands)[1]->f32()[i] += 20;  // the square average
      }
      KernelRun oracle(c.op, c.attrs, pointers(expected)), run(c.op, c.attrs, pointers(given));
      run_reference(oracle, c.attrs);
      ASSERT_TRUE(run.bind());
      run.run(2);
      for (size_t i : {0, 1, 8, 9}) {
        for (int64_t e = 0; given[i] && e < 999; ++e) {
          ASSERT_NEAR(given[i]->at(e), expected[i]->at(e), 4e-6) << "operand " << i;
        }
      }
    }
  }
}

// Halves are widened, and results are rounded once, as in the reference.
TEST(Updates, OfHalvesMatchTheReference) {
  const std::pair<UpdateCase, const char*> cases[] = {
      {{"sgd_update", {{"maximize", true}}, "ffnn", {0.1, 0.01}}, "w"},
      {{"sgd_momentum_update", {{"nesterov", true}}, "fffnnnnn", {2, 0.1, 0.01, 0.9, 0.1}}, "wb"},
      {{"adam_update", {}, "ffpfnnnnnn", {3, 0.1, 0.9, 0.99, 1e-3, 0.01}}, "wmv"},
      {{"adam_update", {{"decoupled", true}}, "ffpfnnnnnn", {1, 0.1, 0.9, 0.99, 1e-3, 0.01}},
       "wmv"},
      {{"rmsprop_update", {}, "fpfnnnnnf-", {0.1, 0.9, 1e-3, 0.01, 0.5}}, "ws"}};
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    const double ulp = dtype == DType::kF16 ? 1.0 / 1024 : 1.0 / 128;
    for (const auto& [c, written] : cases) {
      SCOPED_TRACE(c.op);
      auto expected = operands_of(c, 5003, dtype), given = expected;
      KernelRun oracle(c.op, c.attrs, pointers(expected)), run(c.op, c.attrs, pointers(given));
      run_reference(oracle, c.attrs);
      ASSERT_TRUE(run.bind());
      run.run(3);
      int64_t apart = 0;
      for (size_t i = 0; i < std::strlen(written); ++i) {
        for (int64_t e = 0; e < 5003; ++e) {
          const double want = expected[i]->at(e), have = given[i]->at(e);
          ASSERT_NEAR(have, want, ulp * std::max(std::abs(want), 1e-3)) << "operand " << i;
          apart += have != want;
        }
      }
      EXPECT_LE(apart, 15) << "ties aside, the numbers are the same";
    }
  }
}

// The random numbers are equal, so the halves equal the reference's except where float and double
// differ.
TEST(Updates, RoundAtRandomWithTheNumbersOfTheReference) {
  const UpdateCase cases[] = {
      {"sgd_update", {}, "ffnn", {0.1, 0.01}},
      {"adam_update", {{"decoupled", true}}, "ffpfnnnnnn", {1, 0.1, 0.9, 0.99, 1e-3, 0.01}},
      {"lamb_direction", {}, "fpffnnnnn", {2, 0.9, 0.99, 1e-3, 0.01}},
      {"accumulate", {{"scale", 0.3}}, "ff", {}}};
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    for (UpdateCase c : cases) {
      SCOPED_TRACE(c.op);
      c.attrs.set("stochastic_rounding", true);
      auto expected = operands_of(c, 5003, dtype), given = expected;
      KernelRun oracle(c.op, c.attrs, pointers(expected)), run(c.op, c.attrs, pointers(given));
      const size_t kept = run.outputs.size() > 1 ? 2 : 0;  // results that are operands' memory
      for (size_t i = 0; i < kept; ++i) {
        oracle.buffers[expected.size() + i] = oracle.buffers[i];
        run.buffers[given.size() + i] = run.buffers[i];
      }
      run_reference(oracle, c.attrs, {.seed = 3, .op_id = 7, .micro_batch = 2});
      ASSERT_TRUE(run.bind());
      run.run(3, {.seed = 3, .op_id = 7, .replica = 5, .micro_batch = 2});
      int64_t apart = 0;
      for (int64_t e = 0; e < 5003; ++e) apart += given[0]->at(e) != expected[0]->at(e);
      EXPECT_LE(apart, 25);
      for (size_t o = kept; o < run.outputs.size(); ++o) {
        for (int64_t e = 0; e < 5003; ++e) {
          ASSERT_NEAR(run.outputs[o].at(e), oracle.outputs[o].at(e), 0.02) << "output " << o;
        }
      }
    }
  }
}

// Denormal moments are treated as zero, unless eps makes them visible.
TEST(Updates, OfAdamFlushDenormalMoments) {
  for (double eps : {1e-8, 0.0}) {
    const UpdateCase c{
        "adam_update", {{"decoupled", true}}, "ffpfnnnnnn", {3, 0.1, 0.9, 0.999, eps, 0.01}};
    auto expected = operands_of(c, 999);
    for (int64_t i = 0; i < 999; ++i) {
      expected[1]->f32()[i] = expected[2]->f32()[i] = 1e-40f;
      expected[3]->f32()[i] = i % 2 ? 0 : 1e-25f;
    }
    auto given = expected;
    KernelRun oracle(c.op, c.attrs, pointers(expected)), run(c.op, c.attrs, pointers(given));
    run_reference(oracle, c.attrs);
    ASSERT_TRUE(run.bind());
    run.run(2);
    for (int64_t i = 0; i < 999; ++i) {
      ASSERT_NEAR(given[0]->at(i), expected[0]->at(i), 1e-6);
      ASSERT_GT(expected[2]->at(i), 0);
      ASSERT_EQ(given[2]->at(i), eps > 0 ? 0 : expected[2]->at(i)) << i;
    }
  }
}

TEST(Updates, OfLambMatchTheReference) {
  for (double step : {1.0, 7.0}) {
    for (bool corrected : {false, true}) {
      for (bool maximize : {false, true}) {
        const UpdateCase c{"lamb_direction",
                           {{"bias_correction", corrected}, {"maximize", maximize}},
                           "fpffnnnnn",
                           {step, 0.9, 0.99, 1e-2, 0.1}};
        auto expected = operands_of(c, 999), given = expected;
        KernelRun oracle(c.op, c.attrs, pointers(expected)), run(c.op, c.attrs, pointers(given));
        for (KernelRun* one : {&oracle, &run}) {  // m and v are written where they are
          one->buffers[9] = one->buffers[0];
          one->buffers[10] = one->buffers[1];
        }
        run_reference(oracle, c.attrs);
        ASSERT_TRUE(run.bind());
        run.run(2);
        for (int64_t e = 0; e < 999; ++e) {
          ASSERT_NEAR(given[0]->at(e), expected[0]->at(e), 2e-6);
          ASSERT_NEAR(given[1]->at(e), expected[1]->at(e), 2e-6);
          const double want = oracle.outputs[2].at(e);
          ASSERT_NEAR(run.outputs[2].at(e), want, 1e-5 * std::max(1.0, std::abs(want)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
