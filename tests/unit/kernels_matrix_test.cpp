// Bit-identical results with threads and replicas: kernels are made on one thread and run on
// others, by several replicas at once that share them, on pools of 1, 2 and 4 threads.
#include <thread>

#include "kernel_harness.hpp"

namespace poptorch::emulator {
namespace {

using ir::Ints;

struct Scenario {
  const char* op;
  ir::Attrs attrs;
  std::vector<TestTensor> inputs;
};

std::vector<Scenario> scenarios() {
  const ir::Attrs geometry = {{"strides", Ints{1, 1}},
                              {"padding", Ints{1, 1}},
                              {"dilation", Ints{1, 1}},
                              {"groups", int64_t{1}}};
  ir::Attrs grad_input = geometry, grad_weight = geometry;
  grad_input.set("input_shape", Ints{8, 32, 12, 12});
  grad_weight.set("weight_shape", Ints{48, 32, 3, 3});
  const ir::Shape x = {8, 32, 12, 12}, w = {48, 32, 3, 3}, y = {8, 48, 12, 12};
  return {
      {"linear", {}, {random_f32({200, 300}, 1), random_f32({260, 300}, 2), random_f32({260}, 3)}},
      {"matmul", {{"transpose_a", true}}, {random_f32({300, 200}, 1), random_f32({300, 130}, 2)}},
      {"conv", geometry, {random_f32(x, 1), random_f32(w, 2)}},
      {"conv_grad_input", grad_input, {random_f32(y, 1), random_f32(w, 2)}},
      {"conv_grad_weight", grad_weight, {random_f32(x, 1), random_f32(y, 2)}},
      {"lstm",
       {},
       {random_f32({6, 20, 40}, 1), random_f32({20, 48}, 2), random_f32({20, 48}, 3),
        random_f32({192, 40}, 4), random_f32({192, 48}, 5), random_f32({192}, 6),
        random_f32({192}, 7)}},
      {"gru",
       {},
       {random_f32({6, 20, 40}, 1), random_f32({20, 48}, 2), random_f32({144, 40}, 3),
        random_f32({144, 48}, 4), random_f32({144}, 5), random_f32({144}, 6)}},
      {"index_add",
       {{"axis", int64_t{0}}},
       {random_f32({300, 40}, 1), TestTensor(ir::DType::kI32, {5000}, 0, 299, 2),
        random_f32({5000, 40}, 3)}}};
}

TEST(Matrix, KernelsGiveTheSameBitsOnAnyThreadAndReplica) {
  for (Scenario& s : scenarios()) {
    SCOPED_TRACE(s.op);
    std::vector<TestTensor*> inputs;
    for (TestTensor& input : s.inputs) inputs.push_back(&input);
    auto made = std::make_unique<KernelRun>(s.op, s.attrs, inputs);
    bool bound = false;
    std::thread([&] {
      if (auto choose = all_kernels().find(s.op)->choose_layouts) choose(made->request);
      bound = made->bind();
    }).join();
    ASSERT_TRUE(bound);
    made->run(1);
    std::vector<std::unique_ptr<KernelRun>> replicas;
    std::vector<std::thread> threads;
    for (int pool : {1, 2, 4, 2}) {
      replicas.push_back(std::make_unique<KernelRun>(s.op, s.attrs, inputs));
      threads.emplace_back([&made, &mine = *replicas.back(), pool] {
        for (int round = 0; round < 3; ++round) mine.run(*made->kernel, pool);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& replica : replicas) {
      for (size_t o = 0; o < made->outputs.size(); ++o) {
        EXPECT_TRUE(replica->outputs[o] == made->outputs[o]) << "output " << o;
      }
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
