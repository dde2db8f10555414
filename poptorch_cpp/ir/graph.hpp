// Values, ops and graphs: an SSA graph whose op list is also the order of effects.
//
// Invariants: an op's operands are results of earlier ops of the same graph or inputs of the graph;
// a value's uses mirror exactly the operands and graph outputs that name it; op ids are unique in a
// module and never change.
//
// Reading a state value (`variable`, by-reference input) returns the value of the last write before
// the reader, in list order. Passes that reorder or merge ask ir/effects.hpp.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ir/attr.hpp"
#include "ir/limits.hpp"
#include "ir/role.hpp"
#include "ir/source_location.hpp"
#include "ir/type.hpp"

namespace poptorch::ir {

class Graph;
class Module;
class Op;
struct OpDef;

struct Use {
  Op* op;  // nullptr: an output of the graph
  uint32_t index;
  bool operator==(const Use&) const = default;
};

class Value {
 public:
  const Type& type() const { return type_; }
  void set_type(Type type);
  const std::string& name() const { return name_; }  // a hint: not unique, may be empty
  void set_name(std::string name) { name_ = std::move(name); }
  Op* producer() const { return producer_; }  // nullptr for a graph input
  uint32_t index() const { return index_; }   // among the producer's results or the inputs
  Graph& graph() const { return *graph_; }
  bool by_reference() const { return by_reference_; }  // graph input that callees may write
  const std::vector<Use>& uses() const { return uses_; }
  void replace_all_uses_with(Value* other);

 private:
  friend class Graph;
  friend class Op;
  Value(Graph* graph, Op* producer, uint32_t index, Type type)
      : graph_(graph), producer_(producer), index_(index), type_(std::move(type)) {}
  void remove_use(Use use);

  Graph* graph_;
  Op* producer_;
  uint32_t index_;
  bool by_reference_ = false;
  Type type_;
  std::string name_;
  std::vector<Use> uses_;
};

// When an op runs: once a micro-batch, or, if gradients are accumulated, once a weight update.
enum class ExecutionContext : uint8_t { kNormal, kAccumulateOuter };

constexpr uint64_t kNoForwardOp = UINT64_MAX;  // of a backward op whose forward op was deleted

// Where and when an op runs; -1 is "not decided". Printed as
// `@[ipu=0 stage=1 phase=2 block="encoder" io_tiles]`.
struct Placement {
  int ipu = -1;
  int stage = -1;
  int phase = -1;
  Symbol block = {};  // the user's name of the block that places it
  bool io_tiles = false;
  ExecutionContext context = ExecutionContext::kNormal;
  bool operator==(const Placement&) const = default;
};

class Op {
 public:
  const OpDef& def() const { return *def_; }
  // True once operands, attributes and results were found to fit the row, until one changes.
  bool is_checked() const { return checked_; }
  void mark_checked() const { checked_ = true; }
  Role role() const { return role_; }
  // For rewrites of one specific op; code that treats several ops alike asks their rows.
  bool is(std::string_view name) const { return *name_ == name; }
  const std::string& name() const { return *name_; }
  uint64_t id() const { return id_; }
  Graph& graph() const { return *graph_; }

  size_t operand_count() const { return operands_.size(); }
  Value* operand(size_t i) const { return i < operands_.size() ? operands_[i] : nullptr; }
  const std::vector<Value*>& operands() const { return operands_; }  // nullptr: absent
  void set_operand(size_t i, Value* value);
  size_t result_count() const { return results_.size(); }
  Value* result(size_t i = 0) const { return results_[i].get(); }
  bool unused() const;  // no result has a use

  const Attrs& attrs() const { return attrs_; }  // as given: defaults are not filled in
  void set_attr(Symbol name, Attr value);        // a value equal to the default is dropped
  const Attr& attr_value(Symbol name) const;     // given or default; InternalError if neither
  template <typename T>
  const T& attr(Symbol name) const {
    return std::get<T>(attr_value(name));
  }

  // Ops that must run before this one beyond data dependencies.
  const std::vector<Op*>& after() const { return after_; }
  void add_after(Op* op);

  Placement placement;
  Location location;
  Symbol scope;   // module path, e.g. "encoder.layer.0.attention"
  Symbol labels;  // the program's annotations, a JSON object of strings; they have no effect
  // For a backward op, the id of the forward op it differentiates, or kNoForwardOp; else 0.
  uint64_t forward_id = 0;

  void take_origin(const Op& op);    // location, scope and labels of `op`
  void take_unsaid(const Op& call);  // fills in unset placement and origin

  Op* next() const { return next_; }
  Op* previous() const { return previous_; }
  // Returns whether this op precedes `other` in the same graph's list. Amortised O(1).
  bool is_before(const Op* other) const;

 private:
  friend class Graph;
  friend class Value;
  explicit Op(const OpDef& def);
  void note_change();

  const OpDef* def_;
  const std::string* name_;  // the row's, like role_: stored here because it is read often
  Role role_;
  uint64_t id_ = 0;
  Graph* graph_ = nullptr;
  std::vector<Value*> operands_;
  std::vector<std::unique_ptr<Value>> results_;
  Attrs attrs_;
  std::vector<Op*> after_, awaited_by_;  // the two ends of the same edges
  Op* next_ = nullptr;
  Op* previous_ = nullptr;
  mutable uint64_t order_ = 0;
  mutable bool checked_ = false;
};

class Graph {
 public:
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Symbol name() const { return name_; }
  Module& module() const { return *module_; }

  Value* add_input(Type type, std::string name = {}, bool by_reference = false);
  void erase_input(size_t index);  // must be unused
  const std::vector<std::unique_ptr<Value>>& inputs() const { return inputs_; }
  const std::vector<Value*>& outputs() const { return outputs_; }
  void set_outputs(std::vector<Value*> outputs);
  void set_output(size_t index, Value* value);
  void add_output(Value* value);

  // Adds an op before `before` (nullptr: at the end) without checks or inference: use Builder.
  Op* insert(const OpDef& def, std::vector<Value*> operands, Attrs attrs,
             std::vector<Type> result_types, Op* before = nullptr);
  // Erases an op whose results are unused. Ops that ran after it then run after its predecessors.
  void erase(Op* op);
  void move_before(Op* op, Op* before);  // nullptr: to the end

  Op* first() const { return first_; }
  Op* last() const { return last_; }
  size_t op_count() const { return op_count_; }

  // Supports for (Op* op : graph.ops()). The next op is read before the body runs, so that the body
  // may erase the current one.
  class Iterator {
   public:
    explicit Iterator(Op* op) : op_(op), next_(op ? op->next() : nullptr) {}
    Op* operator*() const { return op_; }
    Iterator& operator++() {
      op_ = next_;
      next_ = op_ ? op_->next() : nullptr;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return op_ != other.op_; }

   private:
    Op* op_;
    Op* next_;
  };
  struct Range {
    Op* first;
    Iterator begin() const { return Iterator(first); }
    Iterator end() const { return Iterator(nullptr); }
  };
  Range ops() const { return {first_}; }
  std::vector<Op*> op_list() const;  // a snapshot, for reversed walks

 private:
  friend class Module;
  friend class Op;
  friend class Value;
  Graph(Module* module, Symbol name) : module_(module), name_(name) {}
  void link(Op* op, Op* before);
  void unlink(Op* op);
  void renumber() const;

  Module* module_;
  Symbol name_;
  std::vector<std::unique_ptr<Value>> inputs_;
  std::vector<Value*> outputs_;
  Op* first_ = nullptr;
  Op* last_ = nullptr;
  size_t op_count_ = 0;
  mutable bool order_valid_ = false;
};

}  // namespace poptorch::ir
