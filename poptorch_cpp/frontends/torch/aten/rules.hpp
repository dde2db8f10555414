// The table of aten rows: how an operator of torch becomes ops of the IR. A row is found by
// "name.overload" first, then by "name". In-place variants use the row of the functional operator,
// and so do overloads that end in "_out". Operators without a row are decomposed by torch, or run
// through the generic `aten` op.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontends/torch/aten/call.hpp"

namespace poptorch::frontend {

// Emits the op's result(s), or none if the row does not cover the call, which then becomes the
// generic op. A row must not return more results than the schema has.
using Rule = std::function<std::vector<TensorValue>(Call&)>;

class Rules {
 public:
  void add(std::string name, Rule rule);  // InternalError for a duplicate
  // Adds a row of several IR ops: on halves it computes in f32 and rounds its results once, as
  // torch's kernels do.
  void compose(std::string name, Rule rule);
  const Rule* find(const std::string& name, const std::string& overload) const;
  std::vector<std::string> names() const;  // sorted

 private:
  std::unordered_map<std::string, Rule> rows_;
};

const Rules& all_rules();

// Returns the shape that operators along an axis use: a scalar counts as a vector of one element.
inline Shape at_least_a_vector(const Shape& shape) { return shape.empty() ? Shape{1} : shape; }

// Makes a row of one IR op of the first operand, with the same dtype.
Rule direct(std::string op);
// Makes the same row, but casts integers and bools to the default float type.
Rule direct_float(std::string op);
// Makes a row of one IR op of two operands promoted to their common type.
Rule direct_binary(std::string op);

// Returns the results of `rule`, which computes halves in f32 and rounds its results once.
std::vector<TensorValue> in_f32(Call& call, const Rule& rule);

// Emits x · log(y), which is 0 where x is 0, with torch's derivatives.
Val xlogy(Call& call, Val x, Val y);

// Returns the common dtype of the operands of a product or convolution: the wider float type.
// UserError for integers beside floats, as in torch.
DType product_type(Call& call, const std::vector<size_t>& operands);
// Returns product_type() of a layer: operand 0 is the activations, whose float type weights follow.
DType layer_type(Call& call, const std::vector<size_t>& operands);

void add_elementwise_rules(Rules& rules);
void add_binary_rules(Rules& rules);
void add_activation_rules(Rules& rules);
void add_matmul_rules(Rules& rules);
void add_conv_rules(Rules& rules);
void add_norm_rules(Rules& rules);
void add_reduce_rules(Rules& rules);
void add_shape_rules(Rules& rules);
void add_upsample_rules(Rules& rules);
void add_creation_rules(Rules& rules);
void add_index_rules(Rules& rules);
void add_embedding_bag_rules(Rules& rules);
void add_subscript_rules(Rules& rules);
void add_loss_rules(Rules& rules);
void add_attention_rules(Rules& rules);
void add_recurrent_rules(Rules& rules);
void add_random_rules(Rules& rules);
void add_custom_rules(Rules& rules);
void add_collective_rules(Rules& rules);
void add_own_rules(Rules& rules);
void add_graph_rules(Rules& rules);

}  // namespace poptorch::frontend
