// Gradients of a recurrent layer. Groups of batch rows go back through time and store the gradients
// of their gates; products over all steps follow.
#include "emulator/kernels/base/families.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/sets/recurrent.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

// Inputs are x, the states, w_input, w_hidden, y, reserve, dy and the states' gradients. Outputs
// are dx, the gradients of the first states, dw_input, dw_hidden, dbias_input and dbias_hidden.
template <typename Cell>
class RecurrentBackward final : public BoundKernel {
 public:
  explicit RecurrentBackward(const KernelRequest& request)
      : s_(request), used_(request.output_used) {
    input_floats_ = packed_floats(Cell::kInputGates * s_.hidden, s_.in);
    hidden_floats_ = packed_floats(Cell::kHiddenGates * s_.hidden, s_.hidden);
    gate_parts_ = divide_up(s_.gates(), 96);
    row_parts_ = std::clamp<int64_t>(s_.rows() / 96, 1, 8);
  }
  int phases() const override { return 3; }  // pack, time, products over all steps
  int tasks(int phase) const override {
    if (phase == 0) return 4;
    return static_cast<int>(phase == 1 ? s_.groups() : row_parts_ + gate_parts_ + 1);
  }
  int64_t workspace_bytes() const override {
    return 4 * (input_floats_ + hidden_floats_ + s_.rows() * (columns() + s_.gates()));
  }
  int64_t scratch_bytes() const override {
    const int64_t states = 2 * s_.row_group * s_.hidden;
    const int64_t gates = divide_up(s_.gates(), gate_parts_);
    return 4 * std::max(states, gates * columns() + gemm_scratch_floats(gates, s_.rows()));
  }
  int64_t estimated_ns() const override {
    return s_.rows() * s_.gates() * (s_.in + s_.hidden) / 20;
  }
  void run(const KernelArgs& args, int phase, int task) const override {
    if (phase == 0) return task < 2 ? pack_weights(args, task) : pack_rows(args, task - 2);
    if (phase == 1) return steps(args, task);
    if (task < row_parts_) return input_gradient(args, part_of(s_.rows(), row_parts_, task));
    task -= static_cast<int>(row_parts_);
    if (task == gate_parts_) return bias_gradient(args);
    const Range gates = part_of(s_.gates(), gate_parts_, task);
    for (const GateSpan& span : Cell::kSpans) weight_gradients(args, span, gates);
  }

 private:
  static constexpr int kStates = Cell::kStates, kWeights = 1 + kStates, kY = kWeights + 2;
  static constexpr int kStateGradients = kY + 3, kOut = kStateGradients + kStates;

  // Returns output i, numbered from 0 after the inputs; nullptr when it is unused.
  float* wanted(const KernelArgs& args, int i) const {
    return used_.empty() || used_[i] ? buffer_of<float>(args, kOut + i) : nullptr;
  }
  float* packed(const KernelArgs& args) const { return reinterpret_cast<float*>(args.workspace); }
  // Returns the matrix that the weights multiply: panels of x, then of the state before each step.
  float* rows(const KernelArgs& args) const {
    return packed(args) + input_floats_ + hidden_floats_;
  }
  float* dz(const KernelArgs& args) const { return rows(args) + s_.rows() * columns(); }
  int64_t hidden_column() const { return panels_of(s_.in) * kPanel; }
  int64_t columns() const { return hidden_column() + panels_of(s_.hidden) * kPanel; }

  void pack_weights(const KernelArgs& args, bool hidden) const {
    if (!hidden && !wanted(args, 0)) return;
    const int64_t n = hidden ? s_.hidden : s_.in;
    const int64_t gates = (hidden ? Cell::kHiddenGates : Cell::kInputGates) * s_.hidden;
    const MatrixView w{input_of<float>(args, hidden ? kWeights + 1 : kWeights), n, 1};
    pack_panels(w, gates, n, 0, panels_of(n), packed(args) + (hidden ? input_floats_ : 0), gates);
  }
  void pack_rows(const KernelArgs& args, bool hidden) const {
    const int64_t all = s_.rows(), batch = s_.batch, n = s_.hidden;
    auto pack = [&](const float* from, int64_t width, int64_t count, int64_t column, int64_t row) {
      pack_panels({from, width, 1}, count, width, 0, panels_of(width),
                  rows(args) + column * all + row * kPanel, all);
    };
    if (!hidden) return pack(input_of<float>(args, 0), s_.in, all, 0, 0);
    pack(input_of<float>(args, 1), n, batch, hidden_column(), s_.at(0) * batch);
    const float* y = input_of<float>(args, kY) + (s_.reverse ? batch * n : 0);
    pack(y, n, all - batch, hidden_column(), s_.reverse ? 0 : batch);
  }
  void steps(const KernelArgs& args, int64_t task) const {
    const Range rows = s_.group(task);
    const int64_t n = s_.hidden, wide = Cell::kKept * n;
    float *dh = reinterpret_cast<float*>(args.scratch), *dc = dh + s_.row_group * n;
    float* const ends[] = {dh, dc};
    for (int i = 0; i < kStates; ++i) {
      const float* from = input_of<float>(args, kStateGradients + i);
      from ? (void)std::copy_n(from + rows.begin * n, rows.size() * n, ends[i])
           : (void)std::fill_n(ends[i], rows.size() * n, 0.0f);
    }
    const float *state0 = input_of<float>(args, kStates), *y = input_of<float>(args, kY),
                *reserve = input_of<float>(args, kY + 1), *dy = input_of<float>(args, kY + 2);
    for (int64_t s = s_.time; s-- > 0;) {
      const int64_t now = s_.at(s) * s_.batch, before = s == 0 ? 0 : s_.at(s - 1) * s_.batch;
      for (int64_t b = rows.begin; b < rows.end; ++b) {
        float* row = dh + (b - rows.begin) * n;
        for (int64_t i = 0; dy && i < n; ++i) row[i] += dy[(now + b) * n + i];
        const float* state = s == 0              ? state0 + b * n
                             : Cell::kKeepsState ? reserve + (before + b) * wide + kGates * n
                                                 : y + (before + b) * n;
        Cell::backward(reserve + (now + b) * wide, state, row, dc + (b - rows.begin) * n,
                       dz(args) + (now + b) * s_.gates(), n);
      }
      bool joins = Cell::kPassesHidden;
      for (const GateSpan& span : Cell::kSpans) {
        if (span.hidden < 0) continue;
        gemm_packed(rows.size(), n, span.count * n,
                    {dz(args) + (now + rows.begin) * s_.gates() + span.column * n, s_.gates(), 1},
                    packed(args) + input_floats_ + span.hidden * n * kPanel, Cell::kHiddenGates * n,
                    nullptr, dh, n, joins, nullptr);
        joins = true;
      }
    }
    for (int i = 0; i < kStates; ++i) {
      float* to = wanted(args, 1 + i);
      if (to) std::copy_n(ends[i], rows.size() * n, to + rows.begin * n);
    }
  }
  void input_gradient(const KernelArgs& args, Range rows) const {
    float* dx = wanted(args, 0);
    if (!dx) return;
    const int64_t gates = Cell::kInputGates * s_.hidden;
    gemm_packed(rows.size(), s_.in, gates, {dz(args) + rows.begin * s_.gates(), s_.gates(), 1},
                packed(args), gates, nullptr, dx + rows.begin * s_.in, s_.in, false, nullptr);
  }
  // Computes dzᵀ · [x, h before] for the given gates that are in the span.
  void weight_gradients(const KernelArgs& args, const GateSpan& span, Range gates) const {
    const int64_t n = s_.hidden, start = span.column * n;
    gates = {std::max(gates.begin, start), std::min(gates.end, start + span.count * n)};
    float* input = span.input >= 0 ? wanted(args, 1 + kStates) : nullptr;
    float* hidden = span.hidden >= 0 ? wanted(args, 2 + kStates) : nullptr;
    const int64_t first = input ? 0 : hidden_column();
    const int64_t end = hidden ? columns() : hidden_column(), width = end - first;
    if (width <= 0 || gates.size() <= 0) return;
    float* dw = reinterpret_cast<float*>(args.scratch);
    gemm_packed(gates.size(), width, s_.rows(), {dz(args) + gates.begin, 1, s_.gates()},
                rows(args) + first * s_.rows(), s_.rows(), nullptr, dw, width, false,
                dw + gates.size() * width);
    for (int64_t g = 0; g < gates.size(); ++g) {
      const float *row = dw + g * width, *of_hidden = row + hidden_column() - first;
      const int64_t in_span = gates.begin + g - start;
      if (input) std::copy_n(row, s_.in, input + (span.input * n + in_span) * s_.in);
      if (hidden) std::copy_n(of_hidden, n, hidden + (span.hidden * n + in_span) * n);
    }
  }
  void bias_gradient(const KernelArgs& args) const {
    constexpr int64_t kBlock = 64;
    float *a = wanted(args, 3 + kStates), *b = wanted(args, 4 + kStates);
    for (const GateSpan& span : Cell::kSpans) {
      float* input = a && span.input >= 0 ? a + span.input * s_.hidden : nullptr;
      float* hidden = b && span.hidden >= 0 ? b + span.hidden * s_.hidden : nullptr;
      const int64_t count = span.count * s_.hidden;
      for (int64_t g = 0; (input || hidden) && g < count; g += kBlock) {
        const int64_t n = std::min(kBlock, count - g);
        double total[kBlock] = {};
        for (int64_t r = 0; r < s_.rows(); r += kBlock) {
          float some[kBlock] = {};
          for (int64_t k = r; k < std::min(r + kBlock, s_.rows()); ++k) {
            const float* row = dz(args) + k * s_.gates() + span.column * s_.hidden + g;
            for (int64_t i = 0; i < n; ++i) some[i] += row[i];
          }
          for (int64_t i = 0; i < n; ++i) total[i] += some[i];
        }
        for (int64_t i = 0; i < n; ++i) {
          if (input) input[g + i] = static_cast<float>(total[i]);
          if (hidden) hidden[g + i] = static_cast<float>(total[i]);
        }
      }
    }
  }

  RecurrentSizes s_;
  std::vector<bool> used_;
  int64_t input_floats_ = 0, hidden_floats_ = 0, gate_parts_ = 1, row_parts_ = 1;
};

}  // namespace

void add_recurrent_gradients(KernelTable& table) {
  table.add({.op = "lstm_grad", .bind = bind_floats<bind_recurrent<RecurrentBackward<Lstm>>>});
  table.add({.op = "gru_grad", .bind = bind_floats<bind_recurrent<RecurrentBackward<Gru>>>});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
