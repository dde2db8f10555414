// The table of aten rows: how an operator of torch becomes ops of the IR. A row is found by
// "name.overload" first, then by "name". In-place and out= variants use the row of the functional
// operator. Operators without a row are decomposed by torch, or run through the generic `aten` op.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontends/torch/aten/call.hpp"

namespace poptorch::frontend {

// Emits the op's result(s), or none where the row does not cover the call: the generic op takes it.
// Results beyond those of the schema are an error of the row.
using Rule = std::function<std::vector<TensorValue>(Call&)>;

class Rules {
 public:
  void add(std::string name, Rule rule);  // InternalError for a duplicate
  const Rule* find(const std::string& name, const std::string& overload) const;
  std::vector<std::string> names() const;  // sorted

 private:
  std::unordered_map<std::string, Rule> rows_;
};

const Rules& all_rules();

// One IR op of the first operand, same dtype.
Rule direct(std::string op);
// The same with integers and bools taken to the default float type.
Rule direct_float(std::string op);
// One IR op of two operands promoted to their common type.
Rule direct_binary(std::string op);

// The common dtype of the operands of a product or convolution. Floats meet at the wider one;
// integers do not become floats by themselves: UserError, as in torch.
DType product_type(Call& call, const std::vector<size_t>& operands);

void add_elementwise_rules(Rules& rules);
void add_binary_rules(Rules& rules);
void add_activation_rules(Rules& rules);
void add_matmul_rules(Rules& rules);
void add_conv_rules(Rules& rules);
void add_norm_rules(Rules& rules);
void add_reduce_rules(Rules& rules);
void add_shape_rules(Rules& rules);
void add_creation_rules(Rules& rules);
void add_index_rules(Rules& rules);
void add_loss_rules(Rules& rules);
void add_attention_rules(Rules& rules);
void add_recurrent_rules(Rules& rules);
void add_random_rules(Rules& rules);

}  // namespace poptorch::frontend
