// Local rewrites as rows of {pattern, guard, replacement}, and the driver that applies a table of
// them to a fixed point.
//
// A pattern is an expression of ops and names: `neg(neg(x))`. A name binds a value, the same name
// twice the same value; `...` at the end lets further operands follow; an op without brackets has
// any operands. Operands of commutative ops match in either order. Inner ops have one result.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ir/builder.hpp"

namespace poptorch::transforms {

// What a pattern has matched.
class Match {
 public:
  Match(ir::Builder& builder, const ir::Execution& execution)
      : builder(builder), execution(execution) {}

  ir::Builder& builder;  // inserts before the root, with the root's placement, scope and location
  const ir::Execution& execution;

  ir::Value* value(char name) const;
  ir::Val operator[](char name) const { return {value(name), &builder}; }
  const ir::Type& type(char name) const { return value(name)->type(); }
  // Matched ops in the order in which the pattern names them; 0 is the root.
  ir::Op& op(size_t i = 0) const { return *ops_[i]; }
  const ir::Type& result_type() const { return op().result()->type(); }
  bool has_one_use(size_t i) const { return op(i).result()->uses().size() == 1; }

 private:
  friend class Matcher;
  struct Binding {
    char name;
    ir::Value* value;
  };
  std::vector<Binding> bindings_;
  std::vector<ir::Op*> ops_;
};

struct Rewrite {
  std::string_view pattern;
  bool (*guard)(const Match&);              // nullptr: always
  ir::Value* (*replacement)(const Match&);  // stands for the root's first result, of the same type
};

// Applies `rows` to every graph until none matches. A row never moves a read of memory that is
// written: such matches are passed over.
void apply_rewrites(ir::Module& module, const std::vector<Rewrite>& rows);

// The element that all elements of a constant (or of its broadcast or reshape) equal bit for bit.
std::optional<double> splat_of(const ir::Value* value);

}  // namespace poptorch::transforms
