// Composes LSTM and GRU cells without writes in place. Torch's composition writes each gate into
// its part of the product, which takes two ops and a copy of the product for every gate. Declared
// in handled.hpp.
#include <ATen/ops/linear.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>

#include "frontends/torch/tracer/dispatch/handled.hpp"

namespace poptorch::frontend {
namespace {

struct Cell {
  at::Tensor input, hidden, weight_ih, weight_hh, bias_ih, bias_hh;

  explicit Cell(const Handled& h, at::Tensor state)
      : input(h.arguments[0].toTensor()),
        hidden(std::move(state)),
        weight_ih(h.arguments[2].toTensor()),
        weight_hh(h.arguments[3].toTensor()) {
    if (h.call.given(4)) bias_ih = h.arguments[4].toTensor();
    if (h.call.given(5)) bias_hh = h.arguments[5].toTensor();
  }

  at::Tensor of_input() const { return at::linear(input, weight_ih, bias_ih); }
  at::Tensor of_hidden() const { return at::linear(hidden, weight_hh, bias_hh); }

  // Returns whether the shapes fit; torch reports those that do not.
  bool fits(int64_t gates) const {
    if (input.dim() != 2 || weight_ih.dim() != 2 || weight_hh.dim() != 2) return false;
    const int64_t size = weight_hh.size(1);
    return input.size(1) == weight_ih.size(1) && weight_ih.size(0) == gates * size &&
           weight_hh.size(0) == gates * size && holds_state(hidden);
  }
  bool holds_state(const at::Tensor& state) const {
    return state.dim() == 2 && state.size(0) == input.size(0) && state.size(1) == weight_hh.size(1);
  }
};

std::optional<Results> lstm_cell(const Handled& h) {
  const auto states = h.arguments[1].toTensorVector();
  if (states.size() != 2) return std::nullopt;
  const Cell cell(h, states[0]);
  if (!cell.fits(4) || !cell.holds_state(states[1])) return std::nullopt;
  const auto gates = cell.of_hidden().add(cell.of_input()).unsafe_chunk(4, 1);
  const at::Tensor in = at::sigmoid(gates[0]), forget = at::sigmoid(gates[1]);
  const at::Tensor next = at::tanh(gates[2]), out = at::sigmoid(gates[3]);
  const at::Tensor kept = forget.mul(states[1]).add(in.mul(next));
  return Results{out.mul(at::tanh(kept)), kept};
}

std::optional<Results> gru_cell(const Handled& h) {
  const Cell cell(h, h.arguments[1].toTensor());
  if (!cell.fits(3)) return std::nullopt;
  const auto in = cell.of_input().unsafe_chunk(3, 1);
  const auto before = cell.of_hidden().unsafe_chunk(3, 1);
  const at::Tensor reset = at::sigmoid(before[0].add(in[0]));
  const at::Tensor keep = at::sigmoid(before[1].add(in[1]));
  const at::Tensor next = at::tanh(in[2].add(before[2].mul(reset)));
  return Results{cell.hidden.sub(next).mul(keep).add(next)};
}

}  // namespace

const CellComposer* recurrent_cell(const OpInfo& info) {
  static const CellComposer lstm = lstm_cell, gru = gru_cell;
  if (info.name == "aten::lstm_cell") return &lstm;
  return info.name == "aten::gru_cell" ? &gru : nullptr;
}

}  // namespace poptorch::frontend
