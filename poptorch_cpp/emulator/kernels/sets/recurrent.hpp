// The parts of a recurrent layer in one direction: a cell (LSTM or GRU), and the positions of its
// gates. Weights have a block of `hidden` rows for each gate. The gates of a step and sample are a
// row of such blocks; in the forward direction they come first in the row that the op keeps.
#pragma once

#include "emulator/kernels/base/gemm.hpp"
#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/simd/simd.hpp"
#include "emulator/kernels/simd/vector_math.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Blocks of gates that share one product: `count` from block `column` of the row on. They use the
// input's weights from block `input` on, and the hidden state's from `hidden` on; -1: none.
struct GateSpan {
  int64_t column, count, input, hidden;
};
constexpr int64_t kGates = 4;  // of either cell's row: GRU keeps the two sides of its third apart

struct Lstm {
  static constexpr GateSpan kSpans[] = {{0, 4, 0, 0}};
  static constexpr int64_t kInputGates = 4, kHiddenGates = 4, kKept = 5;
  static constexpr int kStates = 2;  // h, c
  static constexpr bool kKeepsState =
      true;  // the state that a step starts from: c, its fifth block
  static constexpr bool kPassesHidden = false;  // h reaches the next one through products alone

  // Activates `row` in place to i f g o, then the new cell; writes h of the step.
  static void forward(float* row, const float* c_before, float* h, int64_t n) {
    float* c = row + 4 * n;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const float in = vec::sigmoid(row[i]), forget = vec::sigmoid(row[n + i]);
      const float fresh = vec::tanh(row[2 * n + i]), out = vec::sigmoid(row[3 * n + i]);
      const float cell = forget * c_before[i] + in * fresh;
      row[i] = in, row[n + i] = forget, row[2 * n + i] = fresh, row[3 * n + i] = out;
      c[i] = cell;
      h[i] = out * vec::tanh(cell);
    }
  }
  // Computes dz from the activated gates; dc becomes the gradient of the previous cell.
  static void backward(const float* row, const float* c_before, float* dh, float* dc, float* dz,
                       int64_t n) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const float in = row[i], forget = row[n + i], fresh = row[2 * n + i], out = row[3 * n + i],
                  bent = vec::tanh(row[4 * n + i]);
      const float d = dh[i] * out * (1.0f - bent * bent) + dc[i];
      dz[i] = d * fresh * in * (1.0f - in);
      dz[n + i] = d * c_before[i] * forget * (1.0f - forget);
      dz[2 * n + i] = d * in * (1.0f - fresh * fresh);
      dz[3 * n + i] = dh[i] * bent * out * (1.0f - out);
      dc[i] = d * forget;
    }
  }
};

struct Gru {
  static constexpr GateSpan kSpans[] = {{0, 2, 0, 0}, {2, 1, 2, -1}, {3, 1, -1, 2}};
  static constexpr int64_t kInputGates = 3, kHiddenGates = 3, kKept = 4;
  static constexpr int kStates = 1;  // h
  static constexpr bool kKeepsState = false;
  static constexpr bool kPassesHidden = true;

  // Activates `row` in place to r z n; the fourth block stays the hidden side of n.
  static void forward(float* row, const float* h_before, float* h, int64_t n) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const float reset = vec::sigmoid(row[i]), keep = vec::sigmoid(row[n + i]);
      const float fresh = vec::tanh(row[2 * n + i] + reset * row[3 * n + i]);
      row[i] = reset, row[n + i] = keep, row[2 * n + i] = fresh;
      h[i] = (1.0f - keep) * fresh + keep * h_before[i];
    }
  }
  // Computes dz of r, z, and the two sides of n. dh becomes the part that passes directly to the
  // previous state.
  static void backward(const float* row, const float* h_before, float* dh, float*, float* dz,
                       int64_t n) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const float reset = row[i], keep = row[n + i], fresh = row[2 * n + i];
      const float d = dh[i] * (1.0f - keep) * (1.0f - fresh * fresh);
      dz[i] = d * row[3 * n + i] * reset * (1.0f - reset);
      dz[n + i] = dh[i] * (h_before[i] - fresh) * keep * (1.0f - keep);
      dz[2 * n + i] = d;
      dz[3 * n + i] = d * reset;
      dh[i] *= keep;
    }
  }
};

// Batch rows that one task takes through time. A lone thread takes more rows, because every group
// reads the recurrent weights again. Rows are independent, so results are bit-identical.
constexpr int64_t kRowGroup = 8, kAloneRowGroup = 18;

struct RecurrentSizes {
  int64_t time, batch, in, hidden, row_group;
  bool reverse;
  explicit RecurrentSizes(const KernelRequest& request)
      : time(request.inputs[0]->shape[0]),
        batch(request.inputs[0]->shape[1]),
        in(request.inputs[0]->shape[2]),
        hidden(request.inputs[1]->shape[1]),
        row_group(request.threads == 1 ? kAloneRowGroup : kRowGroup),
        reverse(request.attr<bool>("reverse")) {}
  int64_t rows() const { return time * batch; }
  int64_t gates() const { return kGates * hidden; }
  int64_t groups() const { return divide_up(batch, row_group); }
  // Returns the time of step s in the order of computation.
  int64_t at(int64_t s) const { return reverse ? time - 1 - s : s; }
  Range group(int64_t task) const {
    return {task * row_group, std::min(batch, (task + 1) * row_group)};
  }
};

inline int64_t panels_of(int64_t n) { return divide_up(n, kPanel); }

template <typename Kernel>
std::unique_ptr<BoundKernel> bind_recurrent(const KernelRequest& request) {
  if (request.inputs[0]->elements() == 0) return nullptr;
  return std::make_unique<Kernel>(request);
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
