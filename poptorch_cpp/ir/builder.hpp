// Builder adds checked ops to a graph: it fills in nothing, verifies operands against the row and
// infers result types. Val is a Value with operators, for gradient rules and lowerings.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "ir/module.hpp"
#include "support/error.hpp"

namespace poptorch::ir {

class Builder {
 public:
  explicit Builder(Graph& graph, Op* before = nullptr) : graph_(&graph), before_(before) {}

  Graph& graph() const { return *graph_; }
  Op* insertion_point() const { return before_; }
  void set_insertion_point(Op* before) { before_ = before; }

  // Every new op receives these.
  Placement placement;
  Location location;
  Symbol scope;
  Symbol labels;
  uint64_t forward_id = 0;
  void copy_context(const Op& op);  // placement and origin of `op`

  // Adds op `name`. UserError in the user's terms if operands or attributes do not fit the row.
  // `stated` are the result types of ops whose row cannot know them.
  Op* emit(std::string_view name, std::vector<Value*> operands, Attrs attrs = {},
           std::vector<Type> stated = {});
  // Returns the only result of emit(...).
  Value* value(std::string_view name, std::vector<Value*> operands, Attrs attrs = {},
               std::vector<Type> stated = {});

  Value* constant(Literal literal);
  Value* scalar(DType dtype, double value);  // a 0-d constant
  // Adds a variable op for slot `slot`, and declares the slot if necessary.
  Value* variable(StateSlot slot);

 private:
  Graph* graph_;
  Op* before_;
};

// Checks operands and attributes against the row and returns the inferred result types.
std::vector<Type> infer_types(const OpDef& def, const std::vector<Value*>& operands,
                              const Attrs& attrs, const Module* module,
                              std::vector<Type> stated = {});
std::vector<Type> infer_types(const OpDef& def, std::vector<const Type*> operands,
                              const Attrs& attrs, const Module* module,
                              std::vector<Type> stated = {});

struct Val {
  Value* value = nullptr;
  Builder* builder = nullptr;
  operator Value*() const { return value; }  // NOLINT: implicit by design
  const Type& type() const { return value->type(); }
};

Val operator+(Val a, Val b);
Val operator-(Val a, Val b);
Val operator*(Val a, Val b);
Val operator/(Val a, Val b);
Val operator-(Val a);
// A number takes the dtype of the other operand.
Val operator+(Val a, double b);
Val operator-(Val a, double b);
Val operator-(double a, Val b);
Val operator*(Val a, double b);
Val operator*(double a, Val b);
Val operator/(Val a, double b);
Val operator/(double a, Val b);

// The view that a gradient rule has of the op it differentiates.
class GradBuilder {
 public:
  GradBuilder(Builder& builder, Op& op, std::vector<Value*> output_grads)
      : builder_(builder), op_(op), output_grads_(std::move(output_grads)) {}

  Op& op() const { return op_; }
  Builder& builder() const { return builder_; }
  Val x(size_t i) const { return seen({op_.operand(i), &builder_}); }
  bool has(size_t i) const { return op_.operand(i) != nullptr; }
  Val y(size_t i) const { return seen({op_.result(i), &builder_}); }
  // Returns the gradient of result i; a zero tensor if nothing depends on the result.
  Val dy(size_t i) const;
  // Makes x, y and dy return halves as f32 from now on.
  void widen_halves() { widens_ = true; }
  bool has_dy(size_t i) const { return output_grads_[i] != nullptr; }
  // False if the gradient of operand i is not needed: the rule may return nullptr for it.
  bool needs(size_t i) const { return i < needed.size() ? needed[i] : true; }
  std::vector<bool> needed;
  template <typename T>
  const T& attr(Symbol name) const {
    return op_.attr<T>(name);
  }
  Val emit(std::string_view name, std::vector<Value*> operands, Attrs attrs = {},
           std::vector<Type> stated = {}) const {
    return {builder_.value(name, std::move(operands), std::move(attrs), std::move(stated)),
            &builder_};
  }
  // Sums `grad` over the axes along which `to` was broadcast, so that it has the shape of `to`.
  Val unbroadcast(Val grad, const Type& to) const;

 private:
  Val seen(Val value) const;

  Builder& builder_;
  Op& op_;
  std::vector<Value*> output_grads_;
  bool widens_ = false;
};

}  // namespace poptorch::ir
