// Walks the single IPU's list twice, forward ops first.
#include "account/profile.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "account/simulate.hpp"
#include "program/program.hpp"
#include "support/saturate.hpp"
#include "support/table.hpp"
#include "target/device.hpp"

namespace poptorch::account {
namespace {

using program::Base;
using program::Instruction;
using program::Program;
using program::TensorId;
using Kind = Instruction::Kind;

class Profiler {
 public:
  Profiler(const Program& program, Profile& profile)
      : program_(program),
        device_(target::find_device(program.device)),
        profile_(profile),
        lives_(program.tensors.size()) {}

  void run() {
    for (const auto& ipu : program_.ipus) forward(ipu.body);
    for (const auto& ipu : program_.ipus) backward(ipu.body);
    count_boundaries();
  }

 private:
  struct Life {
    int begin = -1, end = -1;  // segments
  };

  // Visits the instructions of the loops over micro-batches. The model's own loops and branches
  // count as one instruction.
  template <typename See>
  void for_each(const std::vector<Instruction>& block, See see) {
    for (const Instruction& instruction : block) {
      if (instruction.kind == Kind::kLoop && instruction.op_id == 0) {
        for_each(instruction.blocks[0], see);
      } else {
        see(instruction);
      }
    }
  }

  void forward(const std::vector<Instruction>& body) {
    for_each(body, [&](const Instruction& instruction) {
      if (instruction.kind == Kind::kStreamIn) {
        streamed_.insert(instruction.outputs[0]);
      }
      const bool work = instruction.kind == Kind::kCompute || !instruction.blocks.empty();
      if (!work || instruction.pass != program::Pass::kForward) return;
      auto& segments = profile_.segments;
      if (segments.empty() || segments.back().module != instruction.scope.text()) {
        segments.push_back({.module = instruction.scope.text()});
      }
      last_of_[instruction.scope.text()] = segments.size() - 1;
      add(segments.back().forward_cycles, cycles_of(instruction));
      for (TensorId id : instruction.inputs) use(id);
      for (size_t i = 0; i < instruction.outputs.size(); ++i) {
        make(instruction.outputs[i],
             i < instruction.in_place.size() && instruction.in_place[i] >= 0);
      }
    });
  }

  void backward(const std::vector<Instruction>& body) {
    for_each(body, [&](const Instruction& instruction) {
      if (instruction.pass != program::Pass::kBackward) return;
      const auto found = last_of_.find(instruction.scope.text());
      if (found == last_of_.end()) return;
      add(profile_.segments[found->second].backward_cycles, cycles_of(instruction));
    });
  }

  static void add(int64_t& sum, int64_t more) { sum = support::saturating_sum(sum, more); }

  int here() const { return static_cast<int>(profile_.segments.size()) - 1; }
  Life& life(TensorId id) { return lives_[id]; }

  void use(TensorId id) {
    if (id == program::kNoTensor) return;
    const program::Tensor& tensor = program_.tensors[id];
    if (tensor.base == Base::kState) {
      const std::string& name = program_.states[tensor.index].slot.name.text();
      auto& names = profile_.segments.back().parameters;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      return;
    }
    // An input is loaded at its first use.
    if (life(id).begin < 0 && streamed_.count(id)) life(id).begin = here();
    life(id).end = here();
  }

  void make(TensorId id, bool in_place) {
    if (life(id).begin < 0) life(id).begin = here();
    life(id).end = std::max(life(id).end, here());
    if (!in_place) {
      profile_.segments.back().activation_bytes += program_.tensors[id].type.bytes();
    }
  }

  void count_boundaries() {
    for (size_t id = 0; id < lives_.size(); ++id) {
      const Life& alive = lives_[id];
      for (int at = std::max(alive.begin, 0); alive.begin >= 0 && at < alive.end; ++at) {
        const int64_t bytes = program_.tensors[id].type.bytes();
        Segment& segment = profile_.segments[at];
        segment.boundary_bytes += bytes;
        add(segment.boundary_cycles, target::pair_cycles(device_, static_cast<double>(bytes)));
      }
    }
  }

  const Program& program_;
  const target::Device& device_;
  Profile& profile_;
  support::Table<program::TensorId, Life> lives_;    // by tensor
  std::unordered_set<TensorId> streamed_;            // look-up only
  std::unordered_map<std::string, size_t> last_of_;  // segment of a module; look-up only
};

}  // namespace

std::string_view parameter_of(const ir::StateSlot& slot) {
  std::string_view name = slot.name.text();
  const int prefixes = slot.kind == "accumulator" ? 1 : slot.kind == "optimiser_state" ? 2 : 0;
  for (int i = 0; i < prefixes; ++i) name.remove_prefix(name.find('.') + 1);
  return name;
}

std::unordered_map<std::string, int64_t> bytes_with_optimiser(const Program& program) {
  std::unordered_map<std::string, int64_t> bytes;
  for (const program::State& state : program.states) {
    bytes[std::string(parameter_of(state.slot))] += state.slot.type.bytes();
  }
  return bytes;
}

Profile profile_of(const Program& program) {
  Profile result;
  Profiler(program, result).run();
  const auto bytes = bytes_with_optimiser(program);
  for (const program::State& state : program.states) {
    const std::string& name = state.slot.name.text();
    if (state.slot.kind == "parameter" || state.slot.kind == "buffer") {
      result.states.emplace_back(name, bytes.at(name));
    }
  }
  result.capacity_bytes = target::find_device(program.device).sram();
  return result;
}

}  // namespace poptorch::account
