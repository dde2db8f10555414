// The schema row of an op, and the registry of rows. The rows themselves are in ops/<family>.cpp.
//
// A row defines an op's computation and behaviour: operands, attributes, result types, gradient,
// cost and effects. It never mentions where the op runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "ir/attr.hpp"
#include "ir/role.hpp"
#include "ir/type.hpp"

namespace poptorch::ir {

class GradBuilder;
class Module;
class Op;
class Value;
struct OpDef;

// The input of a type function: the operand types (nullptr for an absent optional operand) and
// attributes with the row's defaults filled in. The op itself need not exist yet.
class InferContext {
 public:
  InferContext(const OpDef& def, std::vector<const Type*> operands, const Attrs& attrs,
               const Module* module)
      : def_(def), operands_(std::move(operands)), attrs_(attrs), module_(module) {}

  const OpDef& def() const { return def_; }
  size_t operand_count() const { return operands_.size(); }
  bool has(size_t i) const { return i < operands_.size() && operands_[i]; }
  const Type& operand(size_t i) const;
  const Module* module() const { return module_; }  // for called graphs; may be null
  template <typename T>
  const T& attr(Symbol name) const {
    return std::get<T>(attr_value(name));
  }
  const Attr& attr_value(Symbol name) const;
  // The result types that the op's text or the tracer states, for ops whose row cannot know them
  // (constant, variable, aten). Empty while they are unknown.
  std::vector<Type> stated;
  // Throws UserError `[op] text`.
  [[noreturn]] void fail(const std::string& text) const;

 private:
  const OpDef& def_;
  std::vector<const Type*> operands_;
  const Attrs& attrs_;
  const Module* module_;
};

struct OperandDef {
  std::string name;
  // One of "any", "float", "int", "bool", "number" (not bool), a dtype's name, an earlier operand's
  // name (its element type) or "=" and that name (its type).
  std::string constraint = "any";
  bool optional = false;
  bool variadic = false;  // last operand only; takes the rest

  // The parsed constraint.
  enum class Rule : uint8_t { kAny, kFloat, kInt, kBool, kNumber, kDType, kLike, kSame };
  Rule rule = Rule::kAny;
  DType dtype = DType::kF32;  // of kDType
  size_t other = 0;           // of kLike and kSame: the earlier operand
};

// The smallest and the largest allowed number.
struct Range {
  double least, most;
};

struct AttrDef {
  Symbol name;
  AttrType type = AttrType::kInt;
  std::optional<Attr> default_value = std::nullopt;  // none: required
  Strings allowed = {};                              // for strings; empty: any
  std::string doc = {};
  // Applies to a number and to each number of a list. Absent: floats are unlimited, integers are
  // within kMaxElements, so that sums of a few do not overflow.
  std::optional<Range> range = std::nullopt;
};

// The work of one execution. `target` converts it to cycles.
struct Cost {
  double flops = 0;
  double bytes = 0;          // operands and results, once each
  bool matrix_unit = false;  // runs on the multiply-accumulate units (matmul, convolution)
  // Steps one after the other, each of which needs what other tiles computed in the one before.
  double steps = 1;
  double row = 0;  // if not 0: a tile that has this many elements whole takes a single step
};

struct NoGradient {
  std::string reason;
  bool intended = false;  // a gradient ends here silently; else autodiff refuses to pass
};

// Returns the gradients of the operands, in order; nullptr for "none". Called only for ops on a
// differentiable path. The rule builds ops through the GradBuilder.
using GradRule = std::function<std::vector<Value*>(GradBuilder&)>;
using InferRule = std::function<std::vector<Type>(const InferContext&)>;
using CostRule = std::function<Cost(const Op&)>;

struct IndexOperand {
  size_t operand;
  int64_t places;
};

struct OpDef {
  std::string name;
  std::string doc;
  Role role = Role::kPlain;
  // Written as "x: float", "w: x", "bias: x?", "dy: =y", "rest: any*".
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;  // "y"; a single "ys*" means any number
  std::vector<AttrDef> attrs = {};
  InferRule infer;
  std::variant<std::monostate, GradRule, NoGradient> grad;
  CostRule cost;
  // The indices of operands whose memory the op changes in place. Such an operand is a state value
  // (`variable`, a by-reference graph input) or a value that nothing reads later in program order.
  // If the op has results, result i is the memory of operand writes[i] after the write.
  std::vector<int> writes = {};
  // True if each output element is computed from the elements at the same place of the broadcast
  // operands: the emulator may run it tile by tile in a fused chain.
  bool elementwise = false;
  // True if the operands' floating type, whichever it is, holds the results exactly: rounding to
  // it changes nothing.
  bool exact = false;
  // True if each result is an element of an operand, or a number of the attributes. Such numbers
  // are rounded to nearest, never at random.
  bool chooses = false;
  bool mark = false;         // annotates operand 0 for autodiff, which then drops the op
  bool passes = false;       // result 0 is operand 0, whatever else the op does
  bool commutative = false;  // operands 0 and 1 may be exchanged
  bool random = false;       // draws from Philox: never merged or folded
  // True if the op must run even if no result is used (besides its writes): host_store, print ...
  bool side_effect = false;
  std::string popart_type = {};  // "Add"; shown by print_schedule
  std::string provider = {};     // of kOpaque: the kernel's owner (emulator/providers/foreign.hpp)
  // Returns the operands that are indices, and how many places each chooses from. Empty: there are
  // none, or the kernel itself refuses those out of range.
  std::function<std::vector<IndexOperand>(const Op&)> indices = {};

  // Registering the row fills these in.
  std::vector<OperandDef> operand_defs = {};
  // The required attributes that name graphs: the op runs those graphs. An optional attribute, such
  // as a call's gradient, names a graph that the op does not run.
  std::vector<Symbol> bodies = {};
  bool runs_graphs() const { return !bodies.empty(); }
  const AttrDef* find_attr(Symbol attr) const;
  bool writes_operand(size_t i) const;
  bool is_leaf() const { return role == Role::kConstant || role == Role::kState; }
  // Costs nothing if the result is the operand's memory; both stay valid.
  bool is_view() const { return role == Role::kIdentity || role == Role::kView; }
  bool stops_gradient() const;  // on purpose
  bool variadic_outputs() const { return outputs.size() == 1 && outputs[0].back() == '*'; }
  bool has_effect() const { return side_effect || !writes.empty(); }
};

class Registry {
 public:
  // Checks the row and adds it; InternalError for a duplicate or an incomplete row.
  void add(OpDef def);
  const OpDef* find(std::string_view name) const;
  // Returns the row, or throws an InternalError that names the closest op.
  const OpDef& get(std::string_view name) const;
  std::vector<const OpDef*> all() const;  // sorted by name

 private:
  std::unordered_map<std::string, std::unique_ptr<OpDef>> rows_;
};

}  // namespace poptorch::ir
