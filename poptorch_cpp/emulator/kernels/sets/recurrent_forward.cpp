// One recurrent layer in one direction. The input product of all steps is computed first, straight
// into the reserve. Groups of batch rows then go through time independently, with packed recurrent
// weights.
#include "emulator/kernels/base/families.hpp"
#include "emulator/kernels/base/stored.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/sets/recurrent.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

// Inputs are x, the states, w_input, w_hidden, bias_input and bias_hidden; outputs are y, the
// states and reserve.
template <typename Cell>
class RecurrentForward final : public BoundKernel {
 public:
  explicit RecurrentForward(const KernelRequest& request)
      : s_(request),
        element_(element_of(request.inputs[0]->dtype)),
        row_parts_(parts_for(s_.rows() * s_.gates() * s_.in / 40, divide_up(s_.rows(), 48))) {
    // A matrix has twice as many rows as a panel, and reading bfloat16 takes half as long.
    if (element_ == Element::kBfloat) s_.row_group = 2 * kPanel;
    input_bytes_ = packed_bytes(s_.in, Cell::kInputGates * s_.hidden);
    for (const GateSpan& span : Cell::kSpans) {
      if (span.hidden >= 0) hidden_bytes_ += packed_bytes(s_.hidden, span.count * s_.hidden);
    }
  }
  // Binds a kernel for an input and weights of bfloat16, where multiplying them as such is faster.
  static std::unique_ptr<BoundKernel> bind_bfloats(const KernelRequest& request) {
    constexpr int64_t kLeastDepth = 32;  // of a matrix
    const int64_t in = request.inputs[0]->shape[2], hidden = request.inputs[1]->shape[1];
    if (!multiplies_matrices(Element::kBfloat, Element::kBfloat)) return nullptr;
    if (std::min(in, hidden) < kLeastDepth) return nullptr;
    return bind_recurrent<RecurrentForward>(request);
  }
  static constexpr StoredBuffers kStored = {1 | 3 << (1 + Cell::kStates), 0};
  int phases() const override { return 3; }  // pack, inputs of all steps, time
  int tasks(int phase) const override {
    return static_cast<int>(phase == 0 ? 2 * kPackParts : phase == 1 ? row_parts_ : s_.groups());
  }
  int64_t workspace_bytes() const override {
    return input_bytes_ + hidden_bytes_ + 4 * (s_.gates() + kWide * s_.hidden * s_.rows());
  }
  std::vector<int> prepared_operands() const override {
    return {kWeights, kWeights + 1, kWeights + 2, kWeights + 3};
  }
  int64_t estimated_ns() const override {
    return s_.rows() * s_.gates() * (s_.in + s_.hidden) / 40;
  }
  void run(const KernelArgs& args, int phase, int task) const override {
    if (phase == 0) return pack(args, task);
    phase == 1 ? inputs(args, task) : steps(args, task);
  }

 private:
  static constexpr int64_t kPackParts = 4, kWide = Cell::kKept;
  static constexpr int kWeights = 1 + Cell::kStates, kOut = kWeights + 4;

  int64_t packed_bytes(int64_t k, int64_t n) const {
    return round_up(packed_floats(k, n) * element_bytes(element_), 64);
  }
  std::byte* packed_hidden(const KernelArgs& args) const { return args.workspace + input_bytes_; }
  float* bias(const KernelArgs& args) const {
    return reinterpret_cast<float*>(packed_hidden(args) + hidden_bytes_);
  }
  float* reserve(const KernelArgs& args) const {
    float* given = buffer_of<float>(args, kOut + kWeights);
    return given ? given : bias(args) + s_.gates();
  }
  // Calls use(span, its packed weights) for the spans that use the hidden state.
  template <typename Use>
  void for_hidden(const KernelArgs& args, Use use) const {
    std::byte* packed = packed_hidden(args);
    for (const GateSpan& span : Cell::kSpans) {
      if (span.hidden < 0) continue;
      use(span, packed);
      packed += packed_bytes(s_.hidden, span.count * s_.hidden);
    }
  }

  void pack(const KernelArgs& args, int64_t task) const {
    const int64_t n = s_.hidden, part = task / 2;
    auto pack = [&](int input, int64_t from, int64_t k, int64_t columns, std::byte* packed) {
      const OperandView w(args.buffers[input], 1, k, element_);
      const Range range = part_of(panels_of(columns), kPackParts, part);
      pack_panels(w.at(from * n * k), k, columns, range.begin, range.end, packed, k);
    };
    if (task % 2 == 0) {
      pack(kWeights, 0, s_.in, Cell::kInputGates * n, args.workspace);
    } else {
      for_hidden(args, [&](const GateSpan& span, std::byte* packed) {
        pack(kWeights + 1, span.hidden, n, span.count * n, packed);
      });
    }
    if (task == 0) add_biases(args);
  }
  void add_biases(const KernelArgs& args) const {
    const float *a = input_of<float>(args, kWeights + 2), *b = input_of<float>(args, kWeights + 3);
    for (const GateSpan& span : Cell::kSpans) {
      const float* input = a && span.input >= 0 ? a + span.input * s_.hidden : nullptr;
      const float* hidden = b && span.hidden >= 0 ? b + span.hidden * s_.hidden : nullptr;
      float* to = bias(args) + span.column * s_.hidden;
      for (int64_t i = 0; i < span.count * s_.hidden; ++i) {
        to[i] = (input ? input[i] : 0) + (hidden ? hidden[i] : 0);
      }
    }
  }
  void inputs(const KernelArgs& args, int64_t task) const {
    const Range rows = part_of(s_.rows(), row_parts_, task);
    const int64_t wide = kWide * s_.hidden;
    const OperandView x(args.buffers[0], s_.in, 1, element_);
    gemm_packed(rows.size(), Cell::kInputGates * s_.hidden, s_.in, x.from(rows.begin, 0),
                args.workspace, s_.in, bias(args), reserve(args) + rows.begin * wide, wide, false,
                nullptr, element_);
  }
  void steps(const KernelArgs& args, int64_t task) const {
    const Range rows = s_.group(task);
    const int64_t n = s_.hidden, wide = kWide * n;
    const float *h0 = input_of<float>(args, 1), *state0 = input_of<float>(args, Cell::kStates);
    float *y = buffer_of<float>(args, kOut), *kept = reserve(args);
    for (int64_t s = 0; s < s_.time; ++s) {
      const int64_t now = s_.at(s) * s_.batch;
      const int64_t before = s == 0 ? 0 : s_.at(s - 1) * s_.batch;
      const float* h = s == 0 ? h0 : y + before * n;
      float* const z = kept + (now + rows.begin) * wide;
      for_hidden(args, [&](const GateSpan& span, const std::byte* packed) {
        const bool joins = span.input >= 0;
        gemm_packed(rows.size(), span.count * n, n, {h + rows.begin * n, n, 1}, packed, n,
                    joins ? nullptr : bias(args) + span.column * n, z + span.column * n, wide,
                    joins, nullptr, element_, nullptr, nullptr, true);
      });
      for (int64_t b = rows.begin; b < rows.end; ++b) {
        const float* state = s == 0              ? state0 + b * n
                             : Cell::kKeepsState ? kept + (before + b) * wide + kGates * n
                                                 : y + (before + b) * n;
        Cell::forward(kept + (now + b) * wide, state, y + (now + b) * n, n);
      }
    }
    const int64_t last = s_.at(s_.time - 1) * s_.batch;
    for (int64_t b = rows.begin; b < rows.end; ++b) {
      float* h = buffer_of<float>(args, kOut + 1);
      if (h) std::copy_n(y + (last + b) * n, n, h + b * n);
      if constexpr (Cell::kKeepsState) {
        float* c = buffer_of<float>(args, kOut + 2);
        if (c) std::copy_n(kept + (last + b) * wide + kGates * n, n, c + b * n);
      }
    }
  }

  RecurrentSizes s_;
  Element element_;  // of x and the weights
  int64_t row_parts_, input_bytes_ = 0, hidden_bytes_ = 0;
};

// Halves other than x and the weights become floats.
template <typename Cell>
std::unique_ptr<BoundKernel> bind_forward(const KernelRequest& request) {
  using Kernel = RecurrentForward<Cell>;
  return bind_stored_forms(request, Kernel::kStored,
                           {.floats = bind_recurrent<Kernel>,
                            .halves = nullptr,
                            .bfloats = Kernel::bind_bfloats,
                            .from_halves = nullptr,
                            .from_bfloats = nullptr});
}

}  // namespace

void add_recurrent_kernels(KernelTable& table) {
  table.add({.op = "lstm", .bind = bind_forward<Lstm>, .reads_halves = true});
  table.add({.op = "gru", .bind = bind_forward<Gru>, .reads_halves = true});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
