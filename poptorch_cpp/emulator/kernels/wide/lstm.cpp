// One LSTM layer in one direction. The input product of all steps is made first, straight into the
// reserve; then groups of batch rows go through time on their own, with packed recurrent weights.
#include "emulator/kernels/families.hpp"
#include "emulator/kernels/gemm.hpp"
#include "emulator/kernels/simd.hpp"
#include "emulator/kernels/support.hpp"
#include "emulator/kernels/vector_math.hpp"

namespace poptorch::emulator {
namespace {

// Batch rows that one task takes through time: a thread alone takes all that it can, for every
// group reads the recurrent weights again. Rows are independent, so the bits are the same.
constexpr int64_t kRowGroup = 8, kAloneRowGroup = 18;

struct Sizes {
  int64_t time, batch, in, hidden, row_group;
  bool reverse;
  explicit Sizes(const KernelRequest& request)
      : time(request.inputs[0]->shape[0]),
        batch(request.inputs[0]->shape[1]),
        in(request.inputs[0]->shape[2]),
        hidden(request.inputs[1]->shape[1]),
        row_group(request.threads == 1 ? kAloneRowGroup : kRowGroup),
        reverse(request.attr<bool>("reverse")) {}
  int64_t rows() const { return time * batch; }
  int64_t gates() const { return 4 * hidden; }
  int64_t groups() const { return divide_up(batch, row_group); }
  // The time of step s in the order of computation.
  int64_t at(int64_t s) const { return reverse ? time - 1 - s : s; }
  Range group(int64_t task) const {
    return {task * row_group, std::min(batch, (task + 1) * row_group)};
  }
};

// z: activated in place to i f g o; c and h of the step.
void cell_forward(float* z, const float* c_before, float* c, float* h, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const float in = vec::sigmoid(z[i]), forget = vec::sigmoid(z[n + i]);
    const float fresh = vec::tanh(z[2 * n + i]), out = vec::sigmoid(z[3 * n + i]);
    const float cell = forget * c_before[i] + in * fresh;
    z[i] = in, z[n + i] = forget, z[2 * n + i] = fresh, z[3 * n + i] = out;
    c[i] = cell;
    h[i] = out * vec::tanh(cell);
  }
}

// dz from the activated gates; dc becomes the gradient of the cell before.
void cell_backward(const float* gates, const float* c_before, const float* dh, float* dc, float* dz,
                   int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const float in = gates[i], forget = gates[n + i], fresh = gates[2 * n + i],
                out = gates[3 * n + i], bent = vec::tanh(gates[4 * n + i]);
    const float d = dh[i] * out * (1.0f - bent * bent) + dc[i];
    dz[i] = d * fresh * in * (1.0f - in);
    dz[n + i] = d * c_before[i] * forget * (1.0f - forget);
    dz[2 * n + i] = d * in * (1.0f - fresh * fresh);
    dz[3 * n + i] = dh[i] * bent * out * (1.0f - out);
    dc[i] = d * forget;
  }
}

int64_t panels(int64_t n) { return divide_up(n, kPanel); }

// Inputs x, h0, c0, w_input, w_hidden, bias_input, bias_hidden; outputs y, h, c, reserve.
class Forward final : public BoundKernel {
 public:
  explicit Forward(const KernelRequest& request)
      : s_(request),
        out_(static_cast<int>(request.inputs.size())),
        row_parts_(parts_for(s_.rows() * s_.gates() * s_.in / 40, divide_up(s_.rows(), 48))) {
    input_floats_ = packed_floats(s_.in, s_.gates());
    hidden_floats_ = packed_floats(s_.hidden, s_.gates());
  }
  int phases() const override { return 3; }  // pack, inputs of all steps, time
  int tasks(int phase) const override {
    return static_cast<int>(phase == 0 ? 2 * kPackParts : phase == 1 ? row_parts_ : s_.groups());
  }
  int64_t workspace_bytes() const override {
    return 4 * (input_floats_ + hidden_floats_ + s_.gates() + 5 * s_.hidden * s_.rows());
  }
  std::vector<int> prepared_operands() const override { return {3, 4, 5, 6}; }
  int64_t estimated_ns() const override {
    return s_.rows() * s_.gates() * (s_.in + s_.hidden) / 40;
  }
  void run(const KernelArgs& args, int phase, int task) const override {
    if (phase == 0) return pack(args, task);
    phase == 1 ? inputs(args, task) : steps(args, task);
  }

 private:
  static constexpr int64_t kPackParts = 4;
  float* packed_input(const KernelArgs& args) const {
    return reinterpret_cast<float*>(args.workspace);
  }
  float* bias(const KernelArgs& args) const {
    return packed_input(args) + input_floats_ + hidden_floats_;
  }
  float* reserve(const KernelArgs& args) const {
    float* given = buffer_of<float>(args, out_ + 3);
    return given ? given : bias(args) + s_.gates();
  }
  void pack(const KernelArgs& args, int64_t task) const {
    const bool hidden = task % 2 != 0;
    const int64_t k = hidden ? s_.hidden : s_.in;
    const MatrixView w{input_of<float>(args, hidden ? 4 : 3), 1, k};
    const Range range = part_of(panels(s_.gates()), kPackParts, task / 2);
    pack_panels(w, k, s_.gates(), range.begin, range.end,
                packed_input(args) + (hidden ? input_floats_ : 0), k);
    if (task != 0) return;
    const float *a = out_ > 5 ? input_of<float>(args, 5) : nullptr,
                *b = out_ > 6 ? input_of<float>(args, 6) : nullptr;
    for (int64_t i = 0; i < s_.gates(); ++i) bias(args)[i] = (a ? a[i] : 0) + (b ? b[i] : 0);
  }
  void inputs(const KernelArgs& args, int64_t task) const {
    const Range rows = part_of(s_.rows(), row_parts_, task);
    gemm_packed(rows.size(), s_.gates(), s_.in,
                {input_of<float>(args, 0) + rows.begin * s_.in, s_.in, 1}, packed_input(args),
                s_.in, bias(args), reserve(args) + rows.begin * 5 * s_.hidden, 5 * s_.hidden, false,
                nullptr);
  }
  void steps(const KernelArgs& args, int64_t task) const {
    const Range rows = s_.group(task);
    const int64_t n = s_.hidden, wide = 5 * n;
    const float *h0 = input_of<float>(args, 1), *c0 = input_of<float>(args, 2);
    float* y = buffer_of<float>(args, out_);
    for (int64_t s = 0; s < s_.time; ++s) {
      const int64_t now = s_.at(s) * s_.batch;
      const int64_t before = s == 0 ? 0 : s_.at(s - 1) * s_.batch;
      float* z = reserve(args) + now * wide;
      const float* h = s == 0 ? h0 : y + before * n;
      gemm_packed(rows.size(), s_.gates(), n, {h + rows.begin * n, n, 1},
                  packed_input(args) + input_floats_, n, nullptr, z + rows.begin * wide, wide, true,
                  nullptr);
      for (int64_t b = rows.begin; b < rows.end; ++b) {
        const float* c = s == 0 ? c0 + b * n : reserve(args) + (before + b) * wide + 4 * n;
        float* row = z + b * wide;
        cell_forward(row, c, row + 4 * n, y + (now + b) * n, n);
      }
    }
    const int64_t last = s_.at(s_.time - 1) * s_.batch;
    for (int64_t b = rows.begin; b < rows.end; ++b) {
      float *h = buffer_of<float>(args, out_ + 1), *c = buffer_of<float>(args, out_ + 2);
      if (h) std::copy_n(y + (last + b) * n, n, h + b * n);
      if (c) std::copy_n(reserve(args) + (last + b) * wide + 4 * n, n, c + b * n);
    }
  }

  Sizes s_;
  int out_;
  int64_t row_parts_, input_floats_ = 0, hidden_floats_ = 0;
};

// Inputs x, h0, c0, w_input, w_hidden, y, reserve, dy, dh, dc; outputs dx, dh0, dc0, dw_input,
// dw_hidden, dbias_input, dbias_hidden.
class Backward final : public BoundKernel {
 public:
  explicit Backward(const KernelRequest& request) : s_(request), used_(request.output_used) {
    input_floats_ = packed_floats(s_.gates(), s_.in);
    hidden_floats_ = packed_floats(s_.gates(), s_.hidden);
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
    weight_gradients(args, part_of(s_.gates(), gate_parts_, task));
  }

 private:
  // Output i, counted behind the inputs; nullptr when nobody reads it.
  float* wanted(const KernelArgs& args, size_t i) const {
    return used_.empty() || used_[i] ? buffer_of<float>(args, 10 + static_cast<int>(i)) : nullptr;
  }
  float* packed(const KernelArgs& args) const { return reinterpret_cast<float*>(args.workspace); }
  // What the weights are multiplied by: panels of x, then those of the state before each step.
  float* rows(const KernelArgs& args) const {
    return packed(args) + input_floats_ + hidden_floats_;
  }
  float* dz(const KernelArgs& args) const { return rows(args) + s_.rows() * columns(); }
  int64_t hidden_column() const { return panels(s_.in) * kPanel; }
  int64_t columns() const { return hidden_column() + panels(s_.hidden) * kPanel; }

  void pack_weights(const KernelArgs& args, bool hidden) const {
    if (!hidden && !wanted(args, 0)) return;
    const int64_t n = hidden ? s_.hidden : s_.in;
    const MatrixView w{input_of<float>(args, hidden ? 4 : 3), n, 1};
    pack_panels(w, s_.gates(), n, 0, panels(n), packed(args) + (hidden ? input_floats_ : 0),
                s_.gates());
  }
  void pack_rows(const KernelArgs& args, bool hidden) const {
    const int64_t all = s_.rows(), batch = s_.batch, n = s_.hidden;
    auto pack = [&](const float* from, int64_t width, int64_t count, int64_t column, int64_t row) {
      pack_panels({from, width, 1}, count, width, 0, panels(width),
                  rows(args) + column * all + row * kPanel, all);
    };
    if (!hidden) return pack(input_of<float>(args, 0), s_.in, all, 0, 0);
    pack(input_of<float>(args, 1), n, batch, hidden_column(), s_.at(0) * batch);
    const float* y = input_of<float>(args, 5) + (s_.reverse ? batch * n : 0);
    pack(y, n, all - batch, hidden_column(), s_.reverse ? 0 : batch);
  }
  void steps(const KernelArgs& args, int64_t task) const {
    const Range rows = s_.group(task);
    const int64_t n = s_.hidden;
    float *dh = reinterpret_cast<float*>(args.scratch), *dc = dh + s_.row_group * n;
    auto begin = [&](int input, float* to) {
      const float* from = input_of<float>(args, input);
      from ? (void)std::copy_n(from + rows.begin * n, rows.size() * n, to)
           : (void)std::fill_n(to, rows.size() * n, 0.0f);
    };
    begin(8, dh);
    begin(9, dc);
    const float *c0 = input_of<float>(args, 2), *reserve = input_of<float>(args, 6),
                *dy = input_of<float>(args, 7);
    for (int64_t s = s_.time; s-- > 0;) {
      const int64_t now = s_.at(s) * s_.batch, before = s == 0 ? 0 : s_.at(s - 1) * s_.batch;
      for (int64_t b = rows.begin; b < rows.end; ++b) {
        float* row = dh + (b - rows.begin) * n;
        for (int64_t i = 0; dy && i < n; ++i) row[i] += dy[(now + b) * n + i];
        const float* c = s == 0 ? c0 + b * n : reserve + (before + b) * 5 * n + 4 * n;
        cell_backward(reserve + (now + b) * 5 * n, c, row, dc + (b - rows.begin) * n,
                      dz(args) + (now + b) * s_.gates(), n);
      }
      gemm_packed(rows.size(), n, s_.gates(),
                  {dz(args) + (now + rows.begin) * s_.gates(), s_.gates(), 1},
                  packed(args) + input_floats_, s_.gates(), nullptr, dh, n, false, nullptr);
    }
    float *dh0 = wanted(args, 1), *dc0 = wanted(args, 2);
    if (dh0) std::copy_n(dh, rows.size() * n, dh0 + rows.begin * n);
    if (dc0) std::copy_n(dc, rows.size() * n, dc0 + rows.begin * n);
  }
  void input_gradient(const KernelArgs& args, Range rows) const {
    float* dx = wanted(args, 0);
    if (!dx) return;
    gemm_packed(rows.size(), s_.in, s_.gates(), {dz(args) + rows.begin * s_.gates(), s_.gates(), 1},
                packed(args), s_.gates(), nullptr, dx + rows.begin * s_.in, s_.in, false, nullptr);
  }
  // dzᵀ · [x, h before] for some gates.
  void weight_gradients(const KernelArgs& args, Range gates) const {
    float *input = wanted(args, 3), *hidden = wanted(args, 4);
    const int64_t first = input ? 0 : hidden_column();
    const int64_t end = hidden ? columns() : hidden_column(), width = end - first;
    if (width <= 0) return;
    float* dw = reinterpret_cast<float*>(args.scratch);
    gemm_packed(gates.size(), width, s_.rows(), {dz(args) + gates.begin, 1, s_.gates()},
                rows(args) + first * s_.rows(), s_.rows(), nullptr, dw, width, false,
                dw + gates.size() * width);
    for (int64_t g = 0; g < gates.size(); ++g) {
      const float *row = dw + g * width, *of_hidden = row + hidden_column() - first;
      if (input) std::copy_n(row, s_.in, input + (gates.begin + g) * s_.in);
      if (hidden) std::copy_n(of_hidden, s_.hidden, hidden + (gates.begin + g) * s_.hidden);
    }
  }
  void bias_gradient(const KernelArgs& args) const {
    constexpr int64_t kBlock = 64;
    float *a = wanted(args, 5), *b = wanted(args, 6);
    for (int64_t g = 0; (a || b) && g < s_.gates(); g += kBlock) {
      const int64_t n = std::min(kBlock, s_.gates() - g);
      double total[kBlock] = {};
      for (int64_t r = 0; r < s_.rows(); r += kBlock) {
        float some[kBlock] = {};
        for (int64_t k = r; k < std::min(r + kBlock, s_.rows()); ++k) {
          const float* row = dz(args) + k * s_.gates() + g;
          for (int64_t i = 0; i < n; ++i) some[i] += row[i];
        }
        for (int64_t i = 0; i < n; ++i) total[i] += some[i];
      }
      for (int64_t i = 0; i < n; ++i) {
        if (a) a[g + i] = static_cast<float>(total[i]);
        if (b) b[g + i] = static_cast<float>(total[i]);
      }
    }
  }

  Sizes s_;
  std::vector<bool> used_;
  int64_t input_floats_ = 0, hidden_floats_ = 0, gate_parts_ = 1, row_parts_ = 1;
};

template <typename Kernel>
std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
  if (request.inputs[0]->elements() == 0) return nullptr;
  return std::make_unique<Kernel>(request);
}

}  // namespace

template <Isa isa>
void add_lstm_kernels(KernelTable& table) {
  table.add({.op = "lstm",
             .choose_layouts = nullptr,
             .bind = bind_floats<bind<Forward>>,
             .takes_epilogue = false,
             .in_place_input = {}});
  table.add({.op = "lstm_grad",
             .choose_layouts = nullptr,
             .bind = bind_floats<bind<Backward>>,
             .takes_epilogue = false,
             .in_place_input = {}});
}

template void add_lstm_kernels<kIsa>(KernelTable&);

}  // namespace poptorch::emulator
