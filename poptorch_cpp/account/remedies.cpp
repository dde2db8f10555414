#include "account/remedies.hpp"

#include <algorithm>
#include <iomanip>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "account/profile.hpp"
#include "account/report.hpp"
#include "support/strings.hpp"

namespace poptorch::account {
namespace {

using program::Base;
using program::Instruction;
using program::Program;
using program::TensorId;
using support::str;

template <typename See>
void for_each_instruction(const std::vector<Instruction>& block, See see) {
  for (const Instruction& instruction : block) {
    see(instruction);
    for (const auto& inner : instruction.blocks) for_each_instruction(inner, see);
  }
}

// A module of an IPU, in the order of first ops, with the bytes of state that would move with it.
struct Module {
  std::string path;
  int64_t bytes = 0;
};

std::vector<Module> modules_of(const Program& program, int ipu) {
  std::vector<Module> modules;
  std::set<std::string> parameters;
  const auto bytes = bytes_with_optimiser(program);
  for_each_instruction(program.ipus[ipu].body, [&](const Instruction& step) {
    if (step.pass != program::Pass::kForward || step.scope.empty()) return;
    for (TensorId id : step.inputs) {
      if (id == program::kNoTensor) continue;
      const program::Tensor& tensor = program.tensors[id];
      if (tensor.base != Base::kState) continue;
      const ir::StateSlot& slot = program.states[tensor.index].slot;
      if (slot.kind != "parameter" || !parameters.insert(slot.name.text()).second) continue;
      if (modules.empty() || modules.back().path != step.scope.text()) {
        modules.push_back({step.scope.text()});
      }
      modules.back().bytes += bytes.at(slot.name.text());
    }
  });
  return modules;
}

void add_cut(const Program& program, int ipu, int64_t over, std::vector<Remedy>& remedies) {
  const std::vector<Module> modules = modules_of(program, ipu);
  const auto ipus = static_cast<int>(program.ipus.size());
  int64_t moved = 0;
  for (size_t i = modules.size(); i-- > 1;) {  // one module must stay
    moved += modules[i].bytes;
    if (moved < over && i > 1) continue;
    const int next = ipu + 1;
    const bool has_next = next < ipus;
    const MemoryReport other = has_next ? memory_of(program, next) : MemoryReport{};
    const bool room = has_next && other.needed() + moved <= other.capacity_bytes;
    const std::string where =
        room ? str("begin the block of IPU ", next, " earlier, at '", modules[i].path, "'")
             : str("begin a block on another IPU at '", modules[i].path,
                   "' (poptorch.BeginBlock or poptorch.Block with another ipu_id)");
    remedies.push_back({moved, where});
    return;
  }
  if (modules.size() == 1 && modules[0].bytes > over) {
    remedies.push_back(
        {modules[0].bytes / 2, str("divide '", modules[0].path,
                                   "', which has no place to cut, into two modules on two IPUs")});
  }
}

void add_off_chip(const MemoryReport& memory, std::vector<Remedy>& remedies) {
  struct Kind {
    int64_t bytes;
    const char* what;
    const char* setter;
  };
  const Kind kinds[] = {{memory.optimiser_bytes, "optimiser's state", "setOptimizerLocation"},
                        {memory.accumulator_bytes, "accumulators", "setAccumulatorLocation"},
                        {memory.weight_bytes, "weights", "setWeightLocation"}};
  const Kind& largest =
      *std::max_element(std::begin(kinds), std::end(kinds),
                        [](const Kind& a, const Kind& b) { return a.bytes < b.bytes; });
  remedies.push_back(
      {largest.bytes,
       str("keep the ", largest.what, " off chip: options.TensorLocations.", largest.setter,
           "(poptorch.TensorLocationSettings().useOnChipStorage(False))")});
}

struct Recomputed {
  std::string name, scope;
  int64_t bytes = 0;
};

// Returns the values of forward stage `forward` that the IPU's stage `backward` computes again, in
// order. Names and modules repeat, and ramps repeat the instructions: an op is counted once by its
// id.
std::vector<Recomputed> recomputed_in(const Program& program, int ipu, int forward, int backward) {
  const auto& body = program.ipus[ipu].body;
  std::map<std::tuple<std::string, std::string, std::string>, int> made;
  std::set<uint64_t> seen;
  auto for_each_op = [&](int stage, auto see) {
    for_each_instruction(body, [&](const Instruction& step) {
      if (step.kind != Instruction::Kind::kCompute || step.stage != stage) return;
      if (!seen.insert(step.op_id).second) return;
      for (TensorId id : step.outputs) {
        const program::Tensor& tensor = program.tensors[id];
        if (tensor.base != Base::kArena || step.view) continue;
        see(tensor, std::tuple(step.op.text(), step.scope.text(), tensor.name.text()));
      }
    });
  };
  for_each_op(forward, [&](const program::Tensor&, const auto& key) { ++made[key]; });
  std::vector<Recomputed> found;
  for_each_op(backward, [&](const program::Tensor& tensor, const auto& key) {
    if (made[key]-- <= 0) return;
    found.push_back({tensor.name.text(), std::get<1>(key), tensor.type.bytes()});
  });
  return found;
}

// A checkpoint divides the recomputed values into two parts, of which only one is live at a time.
// The checkpoint itself waits in a stash.
void add_checkpoint(const Program& program, int ipu, std::vector<Remedy>& remedies) {
  const std::vector<int> stages = numbers_of(program, ipu, &Instruction::stage);
  if (stages.size() < 2) return;
  const int forward = stages.front(), backward = stages.back();
  const auto values = recomputed_in(program, ipu, forward, backward);
  int64_t all = 0, before = 0;
  std::string module;  // the last one that a value belongs to
  for (const Recomputed& value : values) all += value.bytes;
  Remedy best;
  for (const Recomputed& value : values) {
    before += value.bytes;
    if (!value.scope.empty()) module = value.scope;
    const int64_t copies = backward - forward + 1;  // slots of the stash, and the copy read back
    const int64_t saving = std::min(before, all - before) - copies * value.bytes;
    if (saving <= best.saving) continue;
    const char* relation = value.scope.empty() ? " after '" : " of '";
    const std::string where = module.empty() ? "" : str(relation, module, "'");
    best = {saving,
            str("recompute from '", value.name, "'", where, ": poptorch.recomputationCheckpoint")};
  }
  remedies.push_back(best);
}

// Keeps the remedies that save something and sorts them, the largest saving first.
void sort_remedies(std::vector<Remedy>& remedies) {
  std::erase_if(remedies, [](const Remedy& remedy) { return remedy.saving <= 0; });
  std::stable_sort(remedies.begin(), remedies.end(),
                   [](const Remedy& a, const Remedy& b) { return a.saving > b.saving; });
}

}  // namespace

std::vector<Remedy> find_remedies(const Program& program, int ipu, int64_t over) {
  const MemoryReport memory = memory_of(program, ipu);
  std::vector<Remedy> remedies;
  add_cut(program, ipu, over, remedies);
  add_off_chip(memory, remedies);
  add_checkpoint(program, ipu, remedies);
  remedies.push_back(
      {(memory.arena_bytes + memory.stash_bytes) / 2,
       "halve the micro-batch and double the gradient accumulation or device iterations"});
  sort_remedies(remedies);
  return remedies;
}

std::vector<Remedy> find_streaming_remedies(const Program& program) {
  const StreamingReport memory = streaming_of(program);
  const std::tuple<int64_t, const char*, const char*> kinds[] = {
      {memory.optimiser_bytes, "optimiser's state", "setOptimizerLocation"},
      {memory.accumulator_bytes, "accumulators", "setAccumulatorLocation"},
      {memory.weight_bytes, "weights", "setWeightLocation"}};
  std::vector<Remedy> remedies;
  for (const auto& [bytes, what, setter] : kinds) {
    const std::string settings =
        str(": options.TensorLocations.", setter, "(poptorch.TensorLocationSettings()");
    remedies.push_back(
        {bytes, str("keep the ", what, " on the chip", settings, ".useOnChipStorage(True))")});
  }
  remedies.push_back(
      {memory.capacity_bytes / static_cast<int64_t>(program.ipus.size()),
       "spread the model over one more IPU, which adds its share of Streaming Memory"});
  sort_remedies(remedies);
  return remedies;
}

std::vector<int> numbers_of(const Program& program, int ipu, int Instruction::* number) {
  std::set<int> found;
  for_each_instruction(program.ipus[ipu].body, [&](const Instruction& step) {
    if (step.*number >= 0 && step.pass != program::Pass::kUpdate) found.insert(step.*number);
  });
  return {found.begin(), found.end()};
}

std::string megabytes(int64_t bytes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1) << static_cast<double>(bytes) / 1e6 << " MB";
  return out.str();
}

}  // namespace poptorch::account
