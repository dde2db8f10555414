// Binds one kernel and runs it: on a pool of any size, or task by task in an order of choice.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "emulator/kernels/support.hpp"
#include "emulator/pool.hpp"
#include "ops/all_ops.hpp"

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
      const ir::Literal one = ir::is_float(dtype)
                                  ? ir::Literal::scalar(dtype, x)
                                  : ir::Literal::scalar(dtype, static_cast<int64_t>(x));
      std::memcpy(data.data() + i * ir::size_of(dtype), one.data(), ir::size_of(dtype));
    }
  }
  float* f32() { return reinterpret_cast<float*>(data.data()); }
  const float* f32() const { return reinterpret_cast<const float*>(data.data()); }
  double at(int64_t i) const {
    std::vector<std::byte> one(data.begin() + i * ir::size_of(type.dtype),
                               data.begin() + (i + 1) * ir::size_of(type.dtype));
    return ir::Literal({type.dtype, {}}, one).number_at(0);
  }
  bool operator==(const TestTensor& other) const {
    return type == other.type && std::memcmp(data.data(), other.data.data(), type.bytes()) == 0;
  }
};

inline TestTensor random_f32(ir::Shape shape, uint32_t seed) {
  return TestTensor(ir::DType::kF32, std::move(shape), -1, 1, seed);
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
    request.input_is_state.resize(inputs.size());
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
  // On `threads`; 0: task after task, the last one first.
  void run(int threads, RandomKey random = {}) {
    AlignedBytes workspace(kernel->workspace_bytes());
    Pool pool(std::max(threads, 1));
    std::vector<AlignedBytes> scratch(pool.threads(), AlignedBytes(kernel->scratch_bytes()));
    for (int phase = 0; phase < kernel->phases(); ++phase) {
      const int tasks = kernel->tasks(phase);
      auto task = [&](int i, int worker) {
        const KernelArgs args{buffers.data(), scratch[worker].data(), workspace.data(), random};
        kernel->run(args, phase, threads == 0 ? tasks - 1 - i : i);
      };
      pool.run(tasks, task);
    }
  }

  KernelRequest request;
  std::vector<TestTensor> outputs;
  std::vector<std::byte*> buffers;
  std::unique_ptr<BoundKernel> kernel;
};

// The outputs are the same bits on 1, 2 and 4 threads and in reverse order.
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

}  // namespace poptorch::emulator
