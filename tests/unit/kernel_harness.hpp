// Binds one kernel and runs it: on a pool of any size, or task by task in a chosen order.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "emulator/host/pool.hpp"
#include "emulator/kernels/base/layouts.hpp"
#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/sets/kernel_set.hpp"
#include "ir/op_def.hpp"
#include "ops/all_ops.hpp"
#include "reference/reference.hpp"

namespace poptorch::emulator {

// A tensor of any dtype for tests, made from doubles.
struct TestTensor {
  ir::Type type;
  std::vector<std::byte> data;

  explicit TestTensor(ir::Type t) : type(std::move(t)), data(type.bytes() + 64) {}
  TestTensor(ir::DType dtype, ir::Shape shape, double low, double high, uint32_t seed)
      : TestTensor({dtype, std::move(shape)}) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> distribution(low, high);
    for (int64_t i = 0; i < type.elements(); ++i) {
      const double x = distribution(random);
      if (dtype == ir::DType::kF32) {
        f32()[i] = static_cast<float>(x);
        continue;
      }
      const ir::Literal one = ir::is_float(dtype)
                                  ? ir::Literal::scalar(dtype, x)
                                  : ir::Literal::scalar(dtype, static_cast<int64_t>(x));
      std::memcpy(data.data() + i * ir::size_of(dtype), one.data(), ir::size_of(dtype));
    }
  }
  float* f32() { return reinterpret_cast<float*>(data.data()); }
  const float* f32() const { return reinterpret_cast<const float*>(data.data()); }
  double at(int64_t i) const {
    if (type.dtype == ir::DType::kF32) return f32()[i];
    std::vector<std::byte> one(data.begin() + i * ir::size_of(type.dtype),
                               data.begin() + (i + 1) * ir::size_of(type.dtype));
    return ir::Literal({type.dtype, {}}, one).number_at(0);
  }
  bool operator==(const TestTensor& other) const {
    return type == other.type && std::memcmp(data.data(), other.data.data(), type.bytes()) == 0;
  }
};

// Returns random numbers in [-1, 1).
inline TestTensor random_f32(ir::Shape shape, uint32_t seed = 1) {
  return TestTensor(ir::DType::kF32, std::move(shape), -1, 1, seed);
}

// Returns random integers in [0, high).
inline TestTensor random_i32(ir::Shape shape, int64_t high, uint32_t seed = 9) {
  return TestTensor(ir::DType::kI32, std::move(shape), 0, static_cast<double>(high) - 1e-6, seed);
}

// Returns the tensor with its memory in channels-last order, or again in plain order.
inline TestTensor reordered(const TestTensor& x, bool to_channels_last) {
  TestTensor y(x.type);
  const ir::Shape plain = ir::row_major_strides(x.type.shape);
  const ir::Shape last = memory_strides(x.type.shape, Layout::Kind::kChannelsLast);
  const int64_t size = ir::size_of(x.type.dtype);
  for (int64_t i = 0; i < x.type.elements(); ++i) {
    int64_t other = 0;
    for (size_t d = 0; d < plain.size(); ++d) other += i / plain[d] % x.type.shape[d] * last[d];
    std::memcpy(y.data.data() + (to_channels_last ? other : i) * size,
                x.data.data() + (to_channels_last ? i : other) * size, size);
  }
  return y;
}

struct AlignedBytes {
  explicit AlignedBytes(int64_t bytes) : storage(bytes + 64) {}
  std::byte* data() {
    const auto at = reinterpret_cast<uintptr_t>(storage.data());
    return storage.data() + (64 - at % 64) % 64;
  }
  std::vector<std::byte> storage;
};

// A bound kernel with its operands. Absent operands are nullptr.
class KernelRun {
 public:
  KernelRun(const char* op, ir::Attrs attrs, std::vector<TestTensor*> inputs,
            const TileProgram* epilogue = nullptr, bool keep_output = true) {
    request.op = &ops::registry().get(op);
    request.attrs = std::move(attrs);
    request.op_id = 7;
    request.threads = 4;
    std::vector<const ir::Type*> types;
    for (TestTensor* input : inputs) {
      types.push_back(input ? &input->type : nullptr);
      request.inputs.push_back(input ? std::optional(input->type) : std::nullopt);
      buffers.push_back(input ? input->data.data() : nullptr);
    }
    request.outputs =
        request.op->infer(ir::InferContext(*request.op, types, request.attrs, nullptr));
    request.input_layouts.resize(inputs.size());
    request.output_layouts.resize(request.outputs.size());
    request.output_used.assign(request.outputs.size(), true);
    request.epilogue = epilogue;
    if (!keep_output) request.output_used[0] = false;
    for (const ir::Type& type : request.outputs) outputs.emplace_back(type);
    for (TestTensor& output : outputs) buffers.push_back(output.data.data());
    if (!keep_output) buffers[inputs.size()] = nullptr;
  }
  bool bind() {
    kernel = all_kernels().find(request.op->name)->bind(request);
    return kernel != nullptr;
  }
  // Runs on `threads` threads; 0: one task after the other, the last one first.
  void run(int threads, RandomKey random = {.op_id = 7}) { run(*kernel, threads, random); }
  // Does the same with a kernel that another run has bound.
  void run(const BoundKernel& bound, int threads, RandomKey random = {.op_id = 7}) {
    AlignedBytes workspace(bound.workspace_bytes());
    Pool pool(std::max(threads, 1));
    std::vector<AlignedBytes> scratch(pool.threads(), AlignedBytes(bound.scratch_bytes()));
    for (int phase = 0; phase < bound.phases(); ++phase) {
      const int tasks = bound.tasks(phase);
      auto task = [&](int i, int worker) {
        const KernelArgs args{buffers.data(), scratch[worker].data(), workspace.data(), random};
        bound.run(args, phase, threads == 0 ? tasks - 1 - i : i);
      };
      pool.run(tasks, task);
    }
  }

  KernelRequest request;
  std::vector<TestTensor> outputs;
  std::vector<std::byte*> buffers;
  std::unique_ptr<BoundKernel> kernel;
};

// Checks that the outputs are bit-identical on 1, 2 and 4 threads and in reverse order.
inline void expect_deterministic(KernelRun& run) {
  run.run(1);
  const std::vector<TestTensor> first = run.outputs;
  for (int threads : {0, 2, 4}) {
    for (TestTensor& output : run.outputs) {
      std::fill(output.data.begin(), output.data.end(), std::byte{0x7f});
    }
    run.run(threads);
    for (size_t i = 0; i < first.size(); ++i) {
      if (run.buffers[run.request.inputs.size() + i]) {
        EXPECT_TRUE(run.outputs[i] == first[i]) << "output " << i << ", threads " << threads;
      }
    }
  }
}

// Checks that the kernels of each instruction set that fuses products give the outputs of `run`.
inline void expect_same_bits_of_sets(KernelRun& run) {
  if (kernel_set().name == "SSE4") return;
  const std::vector<TestTensor> first = run.outputs;
  for (const KernelSet* set : host_kernel_sets()) {
    if (set->name == "SSE4") continue;
    KernelTable table;
    set->add_kernels(table);
    const KernelRow* row = table.find(run.request.op->name);
    if (!row) continue;
    const auto kernel = row->bind(run.request);
    ASSERT_TRUE(kernel) << set->name;
    run.run(*kernel, 1);
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_TRUE(run.outputs[i] == first[i]) << set->name << ", output " << i;
    }
  }
}

struct ReferenceCase {
  const char* op;
  ir::Attrs attrs;
  std::vector<std::optional<TestTensor>> inputs;  // plain
  double tolerance = 1e-5;
  bool channels_last = false;  // images are offered in that layout
};

// Checks that the kernel, in the layouts that it chooses, gives the reference kernel's results
// within the tolerance (relative beyond 1), and is bit-identical on any number of threads.
inline void expect_matches_reference(ReferenceCase c) {
  SCOPED_TRACE(c.op);
  std::vector<TestTensor*> inputs;
  for (auto& input : c.inputs) inputs.push_back(input ? &*input : nullptr);
  KernelRun oracle(c.op, c.attrs, inputs);
  reference::run_reference({.op = *oracle.request.op,
                            .attrs = c.attrs,
                            .inputs = oracle.request.inputs,
                            .outputs = oracle.request.outputs,
                            .buffers = oracle.buffers.data(),
                            .random = {0, oracle.request.op_id, 0, 0}});
  KernelRun run(c.op, c.attrs, inputs);
  using enum Layout::Kind;
  for (size_t i = 0; c.channels_last && i < inputs.size(); ++i) {
    if (inputs[i] && inputs[i]->type.rank() >= 3) run.request.input_layouts[i].kind = kChannelsLast;
  }
  const KernelRow* row = all_kernels().find(c.op);
  ASSERT_TRUE(row);
  if (row->choose_layouts) row->choose_layouts(run.request);
  std::vector<TestTensor> held;
  held.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i] || run.request.input_layouts[i].kind != kChannelsLast) continue;
    held.push_back(reordered(*inputs[i], true));
    run.buffers[i] = held.back().data.data();
  }
  ASSERT_TRUE(run.bind()) << "no fast kernel";
  expect_deterministic(run);
  expect_same_bits_of_sets(run);
  for (size_t o = 0; o < run.outputs.size(); ++o) {
    const bool last = run.request.output_layouts[o].kind == kChannelsLast;
    const TestTensor got = last ? reordered(run.outputs[o], false) : run.outputs[o];
    for (int64_t i = 0; i < got.type.elements(); ++i) {
      const double want = oracle.outputs[o].at(i), have = got.at(i);
      if (std::isnan(want) && std::isnan(have)) continue;
      if (want == have) continue;
      ASSERT_NEAR(have, want, c.tolerance * std::max(1.0, std::abs(want)))
          << "output " << o << " element " << i;
    }
  }
}

inline void run_reference(KernelRun& run, const ir::Attrs& attrs,
                          reference::RandomKey random = {}) {
  reference::run_reference({.op = *run.request.op,
                            .attrs = attrs,
                            .inputs = run.request.inputs,
                            .outputs = run.request.outputs,
                            .buffers = run.buffers.data(),
                            .random = random});
}

}  // namespace poptorch::emulator
