#include "account/memory.hpp"

#include <map>
#include <set>
#include <string>

#include "account/profile.hpp"
#include "account/report.hpp"
#include "program/stays.hpp"

namespace poptorch::account {
namespace {

using program::Base;
using program::Instruction;
using program::Program;
using program::Tensor;

std::string_view kind_of(const ir::StateSlot& slot) {
  if (slot.kind == "parameter") return "weight";
  if (slot.kind == "optimiser_state" || slot.kind == "accumulator") return slot.kind;
  return "buffer";
}

std::string_view kind_of(program::Pass pass) {
  constexpr std::string_view kKinds[] = {"activation", "gradient", "update", "transfer"};
  return kKinds[static_cast<size_t>(pass)];
}

class Memory {
 public:
  Memory(const Program& program, const Instructions& instructions, Strings& strings,
         Inspection& made)
      : program_(program), instructions_(instructions), strings_(strings), made_(made) {}

  // Follows the rules of the lowering: each slot and constant counts once on each IPU that names
  // it.
  void add_always() {
    std::set<std::pair<int, int32_t>> states, constants;
    for (const Tensor& tensor : program_.tensors) {
      if (tensor.base == Base::kState) states.emplace(tensor.ipu, tensor.index);
      if (tensor.base == Base::kConstant) constants.emplace(tensor.ipu, tensor.index);
    }
    std::vector<int64_t> padding;
    for (const auto& ipu : program_.ipus) padding.push_back(ipu.state_bytes);
    for (const auto& [ipu, index] : states) {
      const program::State& state = program_.states[index];
      if (!state.on_chip) continue;
      const int64_t bytes = kept_bytes(state);
      add(ipu, state.slot.name.text(), module_of_state(state.slot), kind_of(state.slot), bytes);
      padding[ipu] -= bytes;
    }
    for (const auto& [ipu, index] : constants) {
      const Named named = constant(ipu, index);
      add(ipu, named.name, named.module, "constant", program_.constants[index].type().bytes());
    }
    add_stashes();
    for (size_t i = 0; i < padding.size(); ++i) {
      const int ipu = static_cast<int>(i);
      if (padding[i] > 0) add(ipu, "alignment of state", "", "alignment", padding[i]);
      add(ipu, "code", "", "code", program_.ipus[i].code_bytes);
    }
    add_streaming();
  }

  void add_allocations(int ipu) {
    const program::Stays stays = program::stays_of(program_, ipu);
    const int64_t first = instructions_.of_ipu(static_cast<size_t>(ipu)).first;
    for (const program::Allocation& one : stays.allocations) {
      const auto row_at = [&](int64_t position) { return first + stays.instructions[position]; };
      const bool temporary = one.id == program::kNoTensor;
      const Instruction& maker =
          instructions_.at(temporary ? row_at(one.begin) : instructions_.maker(one.id));
      const std::string name =
          temporary ? "temporary data of " + maker.op.text() : program_.tensors[one.id].name.text();
      made_.allocations.add({ipu, strings_(std::string_view(name)), strings_(maker.scope),
                             strings_(kind_of(maker.pass)), one.offset, one.bytes,
                             row_at(one.begin), row_at(one.end)});
    }
  }

  void add_ipu(int ipu) {
    const MemoryReport memory = memory_of(program_, ipu);
    const auto [first, end] = instructions_.of_ipu(static_cast<size_t>(ipu));
    const int64_t over = memory.needed() - memory.capacity_bytes;
    made_.ipus.push_back(
        {.needed = memory.needed(),
         .capacity = memory.capacity_bytes,
         .arena = memory.arena_bytes,
         .first = first,
         .last = end - 1,
         .remedies = over > 0 ? find_remedies(program_, ipu, over) : std::vector<Remedy>()});
  }

 private:
  struct Named {
    std::string name, module;
  };

  void add(int ipu, std::string_view name, std::string_view module, std::string_view kind,
           int64_t bytes) {
    made_.always.add({ipu, strings_(name), strings_(module), strings_(kind), bytes});
  }

  // Names a constant after the first tensor that holds it and the first instruction that reads it.
  Named constant(int ipu, int32_t index) {
    if (constants_.empty()) note_constants();
    const auto found = constants_.find({ipu, index});
    return found == constants_.end() ? Named{"constant", ""} : found->second;
  }

  void note_constants() {
    for (int64_t row = 0; row < instructions_.table().rows(); ++row) {
      const Instruction& instruction = instructions_.at(row);
      for (program::TensorId id : instruction.inputs) {
        if (id == program::kNoTensor) continue;
        const Tensor& tensor = program_.tensors[id];
        if (tensor.base != Base::kConstant) continue;
        constants_.try_emplace({tensor.ipu, tensor.index},
                               Named{tensor.name.text(), instruction.scope.text()});
      }
    }
  }

  void add_stashes() {
    std::vector<Named> named(program_.stashes.size(), {"stash", ""});
    for (int64_t row = instructions_.table().rows(); row-- > 0;) {
      const Instruction& instruction = instructions_.at(row);
      if (instruction.kind != Instruction::Kind::kStash) continue;
      const program::TensorId id = instruction.inputs[0];
      const int64_t maker = instructions_.maker(id);
      named[instruction.channel] = {
          program_.tensors[id].name.text(),
          maker < 0 ? instruction.scope.text() : instructions_.at(maker).scope.text()};
    }
    for (size_t i = 0; i < program_.stashes.size(); ++i) {
      const program::Stash& stash = program_.stashes[i];
      add(stash.ipu, named[i].name, named[i].module, "stash", stash.type.bytes() * stash.depth);
    }
  }

  void add_streaming() {
    for (const program::State& state : program_.states) {
      if (state.on_chip) continue;
      add(state.ipu, state.slot.name.text(), module_of_state(state.slot), "streaming",
          kept_bytes(state));
    }
    for (const ir::RemoteBuffer& buffer : program_.remote_buffers) {
      add(-1, buffer.name.text(), "", "streaming", buffer.type.bytes() * buffer.entries);
    }
  }

  const Program& program_;
  const Instructions& instructions_;
  Strings& strings_;
  Inspection& made_;
  std::map<std::pair<int, int32_t>, Named> constants_;
};

}  // namespace

std::string_view module_of_state(const ir::StateSlot& slot) {
  const std::string_view name = parameter_of(slot);
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

void add_memory(const Program& program, const Instructions& instructions, Strings& strings,
                Inspection& made) {
  Memory memory(program, instructions, strings, made);
  memory.add_always();
  for (size_t i = 0; i < program.ipus.size(); ++i) {
    memory.add_allocations(static_cast<int>(i));
    memory.add_ipu(static_cast<int>(i));
  }
}

}  // namespace poptorch::account
