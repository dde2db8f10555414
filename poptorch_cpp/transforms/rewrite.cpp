// Parses patterns into small trees, and applies rows with a worklist of ops.
#include "transforms/rewrite.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ir/effects.hpp"
#include "ir/memory_writes.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "ops/all_ops.hpp"
#include "support/error.hpp"
#include "support/flat_map.hpp"
#include "support/strings.hpp"
#include "support/watch.hpp"
#include "transforms/passes.hpp"

namespace poptorch::transforms {

using ir::Op;
using ir::Value;
using support::InternalError;
using support::str;

struct Pattern {
  char name = 0;                   // of a leaf
  const ir::OpDef* def = nullptr;  // of an op
  bool any_operands = false;       // no brackets
  bool more_operands = false;      // "..."
  std::vector<Pattern> operands;
};

namespace {

class PatternParser {
 public:
  PatternParser(std::string_view text, const ir::Registry& registry)
      : text_(text), registry_(registry) {}

  Pattern run() {
    Pattern pattern = node();
    if (at_ != text_.size() || !pattern.def) refuse();
    return pattern;
  }

 private:
  Pattern node() {
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(text_[at_]) || text_[at_] == '_')) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    Pattern pattern;
    if (word.size() == 1) {
      pattern.name = word[0];
      return pattern;
    }
    pattern.def = &registry_.get(word);
    pattern.any_operands = !accept("(");
    while (!pattern.any_operands && !accept(")")) {
      if (accept("...")) {
        pattern.more_operands = true;
      } else {
        pattern.operands.push_back(node());
      }
      accept(", ");
      if (at_ >= text_.size()) refuse();
    }
    return pattern;
  }

  bool accept(std::string_view token) {
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  [[noreturn]] void refuse() const {
    throw InternalError(str("[rewrite] malformed pattern '", text_, "' at ", at_));
  }

  std::string_view text_;
  const ir::Registry& registry_;
  size_t at_ = 0;
};

}  // namespace

// Finds a way to match a pattern for which `accept` returns true.
class Matcher {
 public:
  explicit Matcher(Match& match) : match_(match) {}

  // Returns whether an op and those that it reads are of the pattern's kinds. Most are not, and
  // then no Match is made.
  static bool may_match(const Pattern& pattern, const Op& op) {
    if (!has_count_of(pattern, op)) return false;
    return operands_may_match(pattern, op, false) ||
           (is_swappable(pattern, op) && operands_may_match(pattern, op, true));
  }

  template <typename Accept>
  bool root(const Pattern& pattern, Op& op, const Accept& accept) {
    match_.bindings_.clear();
    match_.ops_.clear();
    return node(pattern, op, Then(accept));
  }

  bool reads_written(const ir::MemoryWrites& writes, bool looks_through) const {
    for (const auto& binding : match_.bindings_) {
      if (writes.is_written(binding.value)) return true;
    }
    // Checks the results of inner ops, which a write would have changed, and their operands without
    // a name. The root's operands are read at the same place as before.
    for (size_t i = 1; i < match_.ops_.size(); ++i) {
      if (writes.is_written(match_.ops_[i]->result())) return true;
      if (reads_any(*match_.ops_[i], writes)) return true;
    }
    return looks_through && reads_any_through(*match_.ops_[0], writes);
  }

 private:
  static bool reads_any(const Op& op, const ir::MemoryWrites& writes) {
    return std::any_of(op.operands().begin(), op.operands().end(),
                       [&](const Value* operand) { return operand && writes.is_written(operand); });
  }
  // Also checks the operands of the operands: a pattern without operands has a guard that may read
  // them.
  static bool reads_any_through(const Op& op, const ir::MemoryWrites& writes) {
    if (reads_any(op, writes)) return true;
    return std::any_of(op.operands().begin(), op.operands().end(), [&](const Value* operand) {
      return operand && operand->producer() && reads_any(*operand->producer(), writes);
    });
  }

  // Refers to a function of a caller, which outlives it.
  class Then {
   public:
    template <typename Function>
    explicit Then(const Function& function)
        : function_(&function),
          call_([](const void* held) { return static_cast<const Function*>(held)->operator()(); }) {
    }
    bool operator()() const { return call_(function_); }

   private:
    const void* function_;
    bool (*call_)(const void*);
  };

  static bool has_count_of(const Pattern& pattern, const Op& op) {
    const size_t count = pattern.operands.size();
    return pattern.any_operands || op.operand_count() == count ||
           (pattern.more_operands && op.operand_count() > count);
  }

  static bool is_swappable(const Pattern& pattern, const Op& op) {
    return pattern.operands.size() == 2 && op.def().commutative;
  }

  static bool is_of(const Pattern& pattern, const Op* op) {
    return op && &op->def() == pattern.def && op->result_count() == 1;
  }

  static bool operands_may_match(const Pattern& pattern, const Op& op, bool swapped) {
    for (size_t i = 0; i < pattern.operands.size(); ++i) {
      const Value* operand = op.operand(swapped ? 1 - i : i);
      const Pattern& expected = pattern.operands[i];
      if (!operand) return false;
      if (!expected.def) continue;
      if (!is_of(expected, operand->producer())) return false;
      if (!may_match(expected, *operand->producer())) return false;
    }
    return true;
  }

  bool value(const Pattern& pattern, Value* value, const Then& then) {
    if (!value) return false;
    if (!pattern.def) return bind(pattern.name, value, then);
    Op* op = value->producer();
    return is_of(pattern, op) && node(pattern, *op, then);
  }

  bool bind(char name, Value* value, const Then& then) {
    for (const auto& known : match_.bindings_) {
      if (known.name == name) return known.value == value && then();
    }
    match_.bindings_.push_back({name, value});
    if (then()) return true;
    match_.bindings_.pop_back();
    return false;
  }

  bool node(const Pattern& pattern, Op& op, const Then& then) {
    match_.ops_.push_back(&op);
    if (has_count_of(pattern, op)) {
      if (operands(pattern, op, 0, false, then)) return true;
      if (is_swappable(pattern, op) && operands(pattern, op, 0, true, then)) return true;
    }
    match_.ops_.pop_back();
    return false;
  }

  bool operands(const Pattern& pattern, Op& op, size_t i, bool swapped, const Then& then) {
    if (i == pattern.operands.size()) return then();
    Value* operand = op.operand(swapped ? 1 - i : i);
    const auto others = [&] { return operands(pattern, op, i + 1, swapped, then); };
    return value(pattern.operands[i], operand, Then(others));
  }

  Match& match_;
};

namespace {

// The parsed patterns of a table's rows.
struct Patterns {
  Patterns(const std::vector<Rewrite>& rows, const ir::Registry& registry) {
    for (const Rewrite& row : rows) {
      texts.emplace_back(row.pattern);
      by_row.push_back(PatternParser(row.pattern, registry).run());
      by_root[by_row.back().def].push_back(by_row.size() - 1);
    }
  }

  bool are_of(const std::vector<Rewrite>& rows) const {
    return std::ranges::equal(texts, rows, {}, {}, &Rewrite::pattern);
  }

  std::vector<std::string> texts;
  std::vector<Pattern> by_row;
  support::FlatMap<const ir::OpDef*, std::vector<size_t>> by_root;
};

// Every compilation applies the same few tables, so their patterns for the ops of this library are
// parsed once.
std::shared_ptr<const Patterns> patterns_of(const std::vector<Rewrite>& rows,
                                            const ir::Registry& registry) {
  if (&registry != &ops::registry()) return std::make_shared<const Patterns>(rows, registry);
  constexpr size_t kMost = 8;
  static std::mutex mutex;
  static auto& known = *new std::vector<std::shared_ptr<const Patterns>>;
  const std::lock_guard lock(mutex);
  const auto found =
      std::ranges::find_if(known, [&](const auto& one) { return one->are_of(rows); });
  if (found != known.end()) return *found;
  auto made = std::make_shared<const Patterns>(rows, registry);
  if (known.size() < kMost) known.push_back(made);
  return made;
}

class Driver {
 public:
  Driver(ir::Graph& graph, const std::vector<Rewrite>& rows, const Patterns& patterns)
      : graph_(graph), rows_(rows), patterns_(patterns), writes_(graph) {}

  void run() {
    for (Op* op : graph_.ops()) push(op);
    // Rows shrink or order the graph, so only rows that undo each other can exceed this budget.
    size_t budget = 100 * (graph_.op_count() + 100);
    while (!queue_.empty()) {
      support::check_interrupt();
      auto it = pending_.find(queue_.front());
      queue_.pop_front();
      if (it == pending_.end()) continue;
      Op* op = it->second;
      pending_.erase(op->id());
      visit(*op);
      if (--budget == 0) throw InternalError("[rewrite] the rows do not terminate");
    }
  }

 private:
  // Queues the op by id, because an op's address may be reused once it is erased.
  void push(Op* op) {
    if (op && patterns_.by_root.contains(&op->def()) && pending_.try_emplace(op->id(), op).second) {
      queue_.push_back(op->id());
    }
  }

  void visit(Op& op) {
    // An op whose result is written must keep its own memory.
    for (size_t i = 0; i < op.result_count(); ++i) {
      if (writes_.is_written(op.result(i))) return;
    }
    for (size_t row : patterns_.by_root.at(&op.def())) {
      if (!op.after().empty() || op.unused()) return;
      if (!Matcher::may_match(patterns_.by_row[row], op)) continue;
      ir::Builder builder(graph_, &op);
      builder.copy_context(op);
      builder.forward_id = op.forward_id;
      Match match(builder, graph_.module().execution());
      Matcher matcher(match);
      const bool found = matcher.root(patterns_.by_row[row], op, [&] {
        return !matcher.reads_written(writes_, patterns_.by_row[row].any_operands) &&
               (!rows_[row].guard || rows_[row].guard(match));
      });
      if (found) return replace(op, rows_[row], match);
    }
  }

  void replace(Op& root, const Rewrite& row, const Match& match) {
    Op* before = root.previous();
    Value* result = row.replacement(match);
    if (result->type() != root.result()->type()) {
      throw InternalError(str("[rewrite] '", row.pattern, "' gives ", result->type(), " for ",
                              root.result()->type()));
    }
    // A run's outputs are read when it ends, and the slot may have been written by then.
    if (is_output(*root.result()) && ir::is_state(ir::memory_root(result))) return;
    for (Op* op = before ? before->next() : graph_.first(); op != &root; op = op->next()) push(op);
    if (result->name().empty()) result->set_name(root.result()->name());
    root.result()->replace_all_uses_with(result);
    for (const ir::Use& use : result->uses()) push(use.op);
    erase_unused(root);
  }

  static bool is_output(const Value& value) {
    return std::any_of(value.uses().begin(), value.uses().end(),
                       [](const ir::Use& use) { return use.op == nullptr; });
  }

  // Deletes ops that only the replaced op used, so that later guards count only live uses.
  void erase_unused(Op& root) {
    std::vector<Op*> unused{&root};
    while (!unused.empty()) {
      Op* op = unused.back();
      unused.pop_back();
      const std::vector<Value*> operands = op->operands();
      pending_.erase(op->id());
      graph_.erase(op);
      for (Value* operand : operands) {
        Op* producer = operand ? operand->producer() : nullptr;
        if (!producer) continue;
        if (producer->unused() && ir::is_removable(*producer) &&
            std::find(unused.begin(), unused.end(), producer) == unused.end()) {
          unused.push_back(producer);
        } else if (operand->uses().size() == 1) {
          push(operand->uses()[0].op);
        }
      }
    }
  }

  ir::Graph& graph_;
  const std::vector<Rewrite>& rows_;
  const Patterns& patterns_;
  ir::MemoryWrites writes_;
  support::FlatMap<uint64_t, Op*> pending_;
  std::deque<uint64_t> queue_;
};

}  // namespace

Value* Match::value(char name) const {
  for (const auto& binding : bindings_) {
    if (binding.name == name) return binding.value;
  }
  throw InternalError(str("[rewrite] the pattern has no value '", name, "'"));
}

void apply_rewrites(ir::Module& module, const std::vector<Rewrite>& rows) {
  const auto patterns = patterns_of(rows, module.registry());
  for (const auto& graph : module.graphs()) Driver(*graph, rows, *patterns).run();
}

std::optional<double> splat_of(const Value* value) {
  const Op* op = value->producer();
  while (op && (op->role() == ir::Role::kBroadcast || op->role() == ir::Role::kView)) {
    value = op->operand(0);
    op = value->producer();
  }
  const ir::Literal* constant = ir::literal_of(value);
  if (!constant) return std::nullopt;
  const ir::Literal& literal = *constant;
  const auto size = static_cast<size_t>(ir::size_of(literal.type().dtype));
  const auto bytes = static_cast<size_t>(literal.type().bytes());
  if (bytes == 0 || !literal.has_numbers()) return std::nullopt;
  // If the data equals itself shifted by one element, all elements are equal.
  if (std::memcmp(literal.data(), literal.data() + size, bytes - size) != 0) return std::nullopt;
  return literal.number_at(0);
}

}  // namespace poptorch::transforms
