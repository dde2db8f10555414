// aten rows of recurrent layers: one IR op per layer and direction.
#include "frontends/torch/aten/rules.hpp"

namespace poptorch::frontend {
namespace {

using Values = std::vector<TensorValue>;

// Holds the arguments of aten::lstm.input and aten::gru.input.
struct Stack {
  Val x;  // [time, batch, in]
  DType dtype;
  std::vector<TensorValue> states =
      {};  // h0, and c0 for an LSTM: [layers * directions, batch, hidden]
  std::vector<TensorValue> weights = {};
  bool biases = true, batch_first = false;
  int64_t layers = 1, directions = 1;
  double drop = 0;
};

Stack stack_of(Call& c) {
  const TensorValue input = c.tensor(0);
  Stack s{.x = c.val(input.value), .dtype = input.dtype};
  s.states = c.is_tensor(1) ? Values{c.tensor(1)} : c.tensors(1);
  s.weights = c.tensors(2);
  s.biases = c.flag("has_biases");
  s.batch_first = c.flag("batch_first");
  s.layers = c.integer("num_layers");
  s.directions = c.flag("bidirectional") ? 2 : 1;
  s.drop = c.flag("train") ? c.real("dropout", 0.0) : 0.0;
  if (s.batch_first) s.x = c.transpose(s.x, {1, 0, 2});
  return s;
}

// Returns whether there are weights of projections (proj_size) too; torch composes such layers.
bool has_projections(const Stack& s) {
  const size_t a_layer = s.biases ? 4 : 2;
  return s.weights.size() != a_layer * static_cast<size_t>(s.layers * s.directions);
}

Val state_row(Call& c, const TensorValue& states, int64_t row) {
  const Shape& shape = states.shape();
  return c.reshape(c.slice(states.value, 0, row, row + 1), {shape[1], shape[2]});
}

Val joined(Call& c, const std::vector<Value*>& parts, int64_t axis) {
  return parts.size() == 1 ? c.val(parts[0]) : c.emit("concat", parts, {{"axis", axis}});
}

// Emits every layer; `finals[k]` collects the last states of kind k.
Val run(Call& c, const char* op, Stack& s, std::vector<std::vector<Value*>>& finals) {
  size_t weight = 0;
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    std::vector<Value*> outputs;
    for (int64_t direction = 0; direction < s.directions; ++direction) {
      std::vector<Value*> operands{s.x};
      for (const auto& state : s.states) {
        operands.push_back(c.cast(state_row(c, state, layer * s.directions + direction), s.dtype));
      }
      for (int i = 0; i < (s.biases ? 4 : 2); ++i) {
        operands.push_back(c.cast(s.weights[weight++].value, s.dtype));
      }
      ir::Op* made = c.builder().emit(op, operands, {{"reverse", direction == 1}});
      outputs.push_back(made->result(0));
      for (size_t k = 0; k < s.states.size(); ++k) {
        const Shape& shape = made->result(1 + k)->type().shape;
        finals[k].push_back(c.reshape(made->result(1 + k), {1, shape[0], shape[1]}));
      }
    }
    s.x = joined(c, outputs, 2);
    if (s.drop > 0 && layer + 1 < s.layers) {
      s.x = c.val(c.builder().emit("dropout", {s.x}, {{"p", s.drop}})->result(0));
    }
  }
  return s.batch_first ? c.transpose(s.x, {1, 0, 2}) : s.x;
}

Rule recurrent(const char* op) {
  return [op](Call& c) -> Values {
    Stack s = stack_of(c);
    if (has_projections(s)) return {};
    std::vector<std::vector<Value*>> finals(s.states.size());
    const Val y = run(c, op, s, finals);
    Values results{{y, s.dtype}};
    for (const auto& rows : finals) results.push_back({joined(c, rows, 0), s.dtype});
    return results;
  };
}

}  // namespace

void add_recurrent_rules(Rules& r) {
  r.add("lstm.input", recurrent("lstm"));
  r.add("gru.input", recurrent("gru"));
}

}  // namespace poptorch::frontend
