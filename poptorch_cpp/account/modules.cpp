#include "account/modules.hpp"

#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "account/memory.hpp"
#include "support/saturate.hpp"

namespace poptorch::account {
namespace {

using program::Instruction;
using program::Program;
using support::saturating_product;
using support::saturating_sum;

constexpr int64_t kNowhere = -2;  // of a module without anything on an IPU; -1 is several

struct Sum {
  int64_t parent = -1;
  int64_t parameter_bytes = 0, parameters = 0, activation_bytes = 0, cycles = 0, instructions = 0;
  int64_t ipu = kNowhere;
};

// The backward stages of a pipeline compute forward ops again. They come after the first stage that
// has any backward op.
int64_t last_forward_stage(const Instructions& instructions) {
  int64_t last = INT64_MAX;
  for (int64_t row = 0; row < instructions.table().rows(); ++row) {
    const Instruction& one = instructions.at(row);
    if (one.pass == program::Pass::kBackward && one.stage >= 0) {
      last = std::min<int64_t>(last, one.stage);
    }
  }
  return last;
}

class Modules {
 public:
  explicit Modules(const Program& program) : program_(program) { find(std::string_view()); }

  void add_states() {
    for (const program::State& state : program_.states) {
      if (state.slot.kind != "parameter") continue;
      const size_t module = find(module_of_state(state.slot));
      sums_[module].parameter_bytes += state.slot.type.bytes();
      sums_[module].parameters += state.slot.type.elements();
      if (state.ipu >= 0) note_ipu(sums_[module], state.ipu);
    }
  }

  void add_ops(const Instructions& instructions) {
    const Table& table = instructions.table();
    const auto &ipus = table.column("ipu"), &counts = table.column("count");
    const int64_t last_stage = last_forward_stage(instructions);
    for (int64_t row = 0; row < table.rows(); ++row) {
      const Instruction& one = instructions.at(row);
      if (one.kind != Instruction::Kind::kCompute) continue;
      const auto at = static_cast<size_t>(row);
      Sum& sum = sums_[find(one.scope)];
      sum.cycles = saturating_sum(sum.cycles, saturating_product(one.cycles, counts[at]));
      ++sum.instructions;
      note_ipu(sum, ipus[at]);
      if (one.pass == program::Pass::kForward && one.stage <= last_stage &&
          seen_.insert(one.op_id).second) {
        sum.activation_bytes += made_by(one);
      }
    }
  }

  void finish(Strings& strings, Table& table) {
    // Children come after their parents.
    for (size_t i = sums_.size(); i-- > 1;) add(sums_[sums_[i].parent], sums_[i]);
    for (size_t i = 0; i < sums_.size(); ++i) {
      const Sum& sum = sums_[i];
      table.add({strings(std::string_view(paths_[i])), sum.parent, sum.parameter_bytes,
                 sum.parameters, sum.activation_bytes, sum.cycles, sum.instructions,
                 std::max<int64_t>(sum.ipu, -1)});
    }
  }

 private:
  size_t find(support::Symbol path) {
    const auto [found, is_new] = by_symbol_.try_emplace(&path.text(), 0);
    if (is_new) found->second = find(std::string_view(path.text()));
    return found->second;
  }

  size_t find(std::string_view path) {
    const auto found = by_path_.find(std::string(path));
    if (found != by_path_.end()) return found->second;
    int64_t parent = -1;
    if (!path.empty()) {
      const size_t dot = path.rfind('.');
      parent = static_cast<int64_t>(
          find(dot == std::string_view::npos ? std::string_view() : path.substr(0, dot)));
    }
    sums_.push_back({.parent = parent});
    paths_.emplace_back(path);
    return by_path_[paths_.back()] = sums_.size() - 1;
  }

  static void note_ipu(Sum& sum, int64_t ipu) {
    if (sum.ipu == kNowhere) sum.ipu = ipu;
    if (ipu != kNowhere && sum.ipu != ipu) sum.ipu = -1;
  }

  static void add(Sum& to, const Sum& from) {
    to.parameter_bytes += from.parameter_bytes;
    to.parameters += from.parameters;
    to.activation_bytes += from.activation_bytes;
    to.cycles = saturating_sum(to.cycles, from.cycles);
    to.instructions += from.instructions;
    note_ipu(to, from.ipu);
  }

  // Counts the results that take new memory.
  int64_t made_by(const Instruction& one) const {
    int64_t bytes = 0;
    for (size_t i = 0; i < one.outputs.size(); ++i) {
      if (i < one.in_place.size() && one.in_place[i] >= 0) continue;
      bytes += program_.tensors[one.outputs[i]].type.bytes();
    }
    return bytes;
  }

  const Program& program_;
  std::vector<Sum> sums_;
  std::vector<std::string> paths_;
  std::unordered_map<std::string, size_t> by_path_;           // look-up only
  std::unordered_map<const std::string*, size_t> by_symbol_;  // look-up only, by interned text
  std::set<uint64_t> seen_;  // ramps of a pipeline repeat instructions
};

}  // namespace

void add_modules(const Program& program, const Instructions& instructions, Strings& strings,
                 Inspection& made) {
  Modules modules(program);
  modules.add_states();
  modules.add_ops(instructions);
  modules.finish(strings, made.modules);
}

void add_crossings(const Instructions& instructions, Inspection& made) {
  const Table& table = instructions.table();
  const auto column = [&](const char* name) -> const auto& { return table.column(name); };
  for (int64_t row = 0; row < table.rows(); ++row) {
    const Instruction& one = instructions.at(row);
    if (one.kind != Instruction::Kind::kSend) continue;
    const auto at = static_cast<size_t>(row);
    const int64_t maker = instructions.maker(one.inputs[0]);
    const int64_t module = column("module")[maker < 0 ? at : static_cast<size_t>(maker)];
    made.crossings.add({column("ipu")[at], one.peer, column("name")[at], module,
                        column("bytes")[at], one.cycles, column("count")[at], row});
  }
}

}  // namespace poptorch::account
