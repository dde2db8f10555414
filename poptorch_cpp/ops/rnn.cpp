// Recurrent layers: one layer, one direction, x [time, batch, in]. Gate orders are torch's.
#include <algorithm>

#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

using support::str;

struct Sizes {
  int64_t time, batch, hidden;
};

// Checks x, the states before `weights` and the weights behind them.
Sizes check(const InferContext& c, size_t weights, int64_t gates) {
  require_rank(c, 0, 3);
  const Shape &x = c.operand(0).shape, &h = c.operand(1).shape;
  const int64_t hidden = h.empty() ? 0 : h.back();
  const Shape expected[] = {
      {gates * hidden, x[2]}, {gates * hidden, hidden}, {gates * hidden}, {gates * hidden}};
  for (size_t i = 1; i < weights + 4; ++i) {
    if (!c.has(i)) continue;
    Shape shape = i < weights ? Shape{x[1], hidden} : expected[i - weights];
    if (c.operand(i).shape != shape) {
      c.fail(str("operand '", c.def().operand_defs[i].name, "' must be ", ir::shape_text(shape),
                 " but is ", c.operand(i), "."));
    }
  }
  return {x[0], x[1], hidden};
}

CostRule gates_cost(double products) {
  return [products](const Op& op) {
    const Shape& x = op.operand(0)->type().shape;
    double weights = 0;
    for (const Value* operand : op.operands()) {
      if (operand && operand->type().rank() == 2 && operand->type().shape[0] != x[1]) {
        weights += static_cast<double>(operand->type().elements());
      }
    }
    return Cost{2.0 * products * weights * static_cast<double>(x[0] * x[1]), bytes_of(op), true};
  };
}

// Gradients in the order of the forward op's operands; both biases have the same gradient.
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
         .inputs = {"x: float", "h0: float", "c0: float", "w_input: float", "w_hidden: float",
                    "bias_input: float?", "bias_hidden: float?"},
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
         .inputs = {"x: float", "h0: float", "c0: float", "w_input: float", "w_hidden: float",
                    "y: float", "reserve: float", "dy: float", "dh: float", "dc: float"},
         .outputs = {"dx", "dh0", "dc0", "dw_input", "dw_hidden", "dbias_input", "dbias_hidden"},
         .attrs = {kReverse},
         .infer =
             [](const InferContext& c) {
               Type bias{c.operand(3).dtype, {c.operand(3).shape[0]}};
               return std::vector{c.operand(0), c.operand(1), c.operand(2), c.operand(3),
                                  c.operand(4), bias,         bias};
             },
         .grad = NoGradient{"second derivatives of lstm are not supported"},
         .cost = gates_cost(2),
         .popart_type = "LSTMGrad"});
}

void add_gru(Registry& r) {
  r.add({.name = "gru",
         .doc = "Gates r z n; n = tanh(x·Wn + bn + r · (h·Un + cn)), h = (1 - z) · n + z · h. "
                "`reserve` keeps r, z, n and h·Un + cn of every step: [time, batch, 4 · hidden].",
         .inputs = {"x: float", "h0: float", "w_input: float", "w_hidden: float",
                    "bias_input: float?", "bias_hidden: float?"},
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
         .inputs = {"x: float", "h0: float", "w_input: float", "w_hidden: float", "y: float",
                    "reserve: float", "dy: float", "dh: float"},
         .outputs = {"dx", "dh0", "dw_input", "dw_hidden", "dbias_input", "dbias_hidden"},
         .attrs = {kReverse},
         .infer =
             [](const InferContext& c) {
               Type bias{c.operand(2).dtype, {c.operand(2).shape[0]}};
               return std::vector{c.operand(0), c.operand(1), c.operand(2),
                                  c.operand(3), bias,         bias};
             },
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
