// Recurrent layers: one layer, one direction, x [time, batch, in]. Gate orders are torch's.
#include <algorithm>

#include "ops/all_ops.hpp"
#include "ops/rules.hpp"

namespace poptorch::ops {
namespace {

struct Sizes {
  int64_t time, batch, hidden;
};

// Checks x, the states before operand `weights`, the two weights and, if the op has them, the
// biases after them.
Sizes check(const InferContext& c, size_t weights, int64_t gates, bool biases = true) {
  require_rank(c, 0, 3, 3);
  require_rank(c, 1, 2, 2);
  const Shape& x = c.operand(0).shape;
  const int64_t hidden = c.operand(1).shape[1], rows = checked_size(c, Wide{gates} * hidden);
  for (size_t i = 1; i < weights; ++i) require_shape(c, i, {x[1], hidden});
  require_shape(c, weights, {rows, x[2]});
  require_shape(c, weights + 1, {rows, hidden});
  for (size_t i = 2; biases && i < 4; ++i) require_shape(c, weights + i, {rows});
  return {x[0], x[1], hidden};
}

// Returns the result types of a gradient op. Its operands after the weights are y, `kept` numbers a
// hidden unit that the forward op reserved, dy, and the gradients of the last states.
std::vector<Type> gradients(const InferContext& c, size_t weights, int64_t gates, int64_t kept) {
  const auto [time, batch, hidden] = check(c, weights, gates, false);
  const Shape y = {time, batch, hidden};
  require_shape(c, weights + 2, y);
  require_shape(c, weights + 3, {time, batch, kept * hidden});
  require_shape(c, weights + 4, y);
  for (size_t i = 1; i < weights; ++i) require_shape(c, weights + 4 + i, {batch, hidden});
  std::vector<Type> results;
  for (size_t i = 0; i < weights + 2; ++i) results.push_back(c.operand(i));
  const Type bias{c.operand(0).dtype, {gates * hidden}};
  results.insert(results.end(), {bias, bias});
  return results;
}

// Each moment takes a product and then the gates, after the state of the moment before.
CostRule gates_cost(double products) {
  return [products](const Op& op) {
    const Shape& x = op.operand(0)->type().shape;
    double weights = 0;
    for (const Value* operand : op.operands()) {
      if (operand && operand->type().rank() == 2 && operand->type().shape[0] != x[1]) {
        weights += static_cast<double>(operand->type().elements());
      }
    }
    return Cost{.flops = 2.0 * products * weights * static_cast<double>(x[0] * x[1]),
                .bytes = bytes_of(op),
                .matrix_unit = true,
                .steps = std::max(1.0, 2.0 * static_cast<double>(x[0]))};
  };
}

// Lists gradients in the order of the forward op's operands; both biases have the same gradient.
std::vector<Value*> spread(GradBuilder& g, Op* op, size_t states, size_t bias) {
  std::vector<Value*> out;
  for (size_t i = 0; i < states + 3; ++i) out.push_back(op->result(i));
  for (size_t i = 0; i < 2; ++i) {
    out.push_back(g.has(states + 3 + i) ? op->result(bias + i) : nullptr);
  }
  out.resize(std::max(out.size(), g.op().operand_count()));
  return out;
}

const ir::AttrDef kReverse{"reverse", AttrType::kBool, false};

void add_lstm(Registry& r) {
  r.add({.name = "lstm",
         .doc = "Gates i f g o; c = f · c + i · g, h = o · tanh(c). `reserve` keeps the activated "
                "gates and the cell of every step: [time, batch, 5 · hidden].",
         .inputs = {"x: float", "h0: x", "c0: x", "w_input: x", "w_hidden: x", "bias_input: x?",
                    "bias_hidden: x?"},
         .outputs = {"y", "h", "c", "reserve"},
         .attrs = {kReverse},
         .infer =
             [](const InferContext& c) {
               auto [time, batch, hidden] = check(c, 3, 4);
               DType dtype = c.operand(0).dtype;
               return std::vector{Type{dtype, {time, batch, hidden}}, Type{dtype, {batch, hidden}},
                                  Type{dtype, {batch, hidden}},
                                  Type{dtype, {time, batch, 5 * hidden}}};
             },
         .grad =
             [](GradBuilder& g) {
               Op* op = g.builder().emit("lstm_grad",
                                         {g.x(0), g.x(1), g.x(2), g.x(3), g.x(4), g.y(0), g.y(3),
                                          g.dy(0), g.dy(1), g.dy(2)},
                                         {{"reverse", g.attr<bool>("reverse")}});
               return spread(g, op, 2, 5);
             },
         .cost = gates_cost(1),
         .popart_type = "LSTM"});
  r.add({.name = "lstm_grad",
         .doc = "Gradients of lstm's operands.",
         .inputs = {"x: float", "h0: x", "c0: x", "w_input: x", "w_hidden: x", "y: x", "reserve: x",
                    "dy: x", "dh: x", "dc: x"},
         .outputs = {"dx", "dh0", "dc0", "dw_input", "dw_hidden", "dbias_input", "dbias_hidden"},
         .attrs = {kReverse},
         .infer = [](const InferContext& c) { return gradients(c, 3, 4, 5); },
         .grad = NoGradient{"second derivatives of lstm are not supported"},
         .cost = gates_cost(2),
         .popart_type = "LSTMGrad"});
}

void add_gru(Registry& r) {
  r.add({.name = "gru",
         .doc = "Gates r z n; n = tanh(x·Wn + bn + r · (h·Un + cn)), h = (1 - z) · n + z · h. "
                "`reserve` keeps r, z, n and h·Un + cn of every step: [time, batch, 4 · hidden].",
         .inputs = {"x: float", "h0: x", "w_input: x", "w_hidden: x", "bias_input: x?",
                    "bias_hidden: x?"},
         .outputs = {"y", "h", "reserve"},
         .attrs = {kReverse},
         .infer =
             [](const InferContext& c) {
               auto [time, batch, hidden] = check(c, 2, 3);
               DType dtype = c.operand(0).dtype;
               return std::vector{Type{dtype, {time, batch, hidden}}, Type{dtype, {batch, hidden}},
                                  Type{dtype, {time, batch, 4 * hidden}}};
             },
         .grad =
             [](GradBuilder& g) {
               Op* op = g.builder().emit(
                   "gru_grad", {g.x(0), g.x(1), g.x(2), g.x(3), g.y(0), g.y(2), g.dy(0), g.dy(1)},
                   {{"reverse", g.attr<bool>("reverse")}});
               return spread(g, op, 1, 4);
             },
         .cost = gates_cost(1),
         .popart_type = "GRU"});
  r.add({.name = "gru_grad",
         .doc = "Gradients of gru's operands.",
         .inputs = {"x: float", "h0: x", "w_input: x", "w_hidden: x", "y: x", "reserve: x", "dy: x",
                    "dh: x"},
         .outputs = {"dx", "dh0", "dw_input", "dw_hidden", "dbias_input", "dbias_hidden"},
         .attrs = {kReverse},
         .infer = [](const InferContext& c) { return gradients(c, 2, 3, 4); },
         .grad = NoGradient{"second derivatives of gru are not supported"},
         .cost = gates_cost(2),
         .popart_type = "GRUGrad"});
}

}  // namespace

void add_rnn_ops(Registry& r) {
  add_lstm(r);
  add_gru(r);
}

}  // namespace poptorch::ops
