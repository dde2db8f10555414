// Defines local rewrites as rows of {pattern, guard, replacement}, and the driver that applies a
// table of them to a fixed point.
//
// A pattern is an expression of ops and names: `neg(neg(x))`. A name binds a value; a repeated name
// matches only the same value. `...` at the end allows further operands; an op without brackets may
// have any operands. Operands of commutative ops match in either order. Inner ops have one result.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ir/builder.hpp"

namespace poptorch::transforms {

// The values and ops that a pattern matched.
class Match {
 public:
  Match(ir::Builder& builder, const ir::Execution& execution)
      : builder(builder), execution(execution) {}

  ir::Builder& builder;  // inserts before the root, with the root's placement, scope and location
  const ir::Execution& execution;

  ir::Value* value(char name) const;
  ir::Val operator[](char name) const { return {value(name), &builder}; }
  const ir::Type& type(char name) const { return value(name)->type(); }
  // Returns a matched op; ops are numbered in the order in which the pattern names them, from the
  // root, 0.
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
  ir::Value* (*replacement)(const Match&);  // of the root's first result, with the same type
};

// Applies `rows` to every graph until none matches. A row never moves a read of memory that is
// written: such matches are skipped.
void apply_rewrites(ir::Module& module, const std::vector<Rewrite>& rows);

// Returns the number to which all elements of a constant (or its broadcast or reshape) are
// bit-identical.
std::optional<double> splat_of(const ir::Value* value);

}  // namespace poptorch::transforms
