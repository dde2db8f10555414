#include "account/instructions.hpp"

#include <algorithm>
#include <string>

#include "account/report.hpp"
#include "account/rounds.hpp"
#include "account/simulate.hpp"
#include "program/collective_cost.hpp"
#include "program/text.hpp"
#include "support/saturate.hpp"

namespace poptorch::account {
namespace {

using program::Instruction;
using program::Program;
using Kind = Instruction::Kind;

std::string_view word_of(const Instruction& instruction, bool exchanges) {
  if (exchanges) return "collective";
  const Kind kind = instruction.kind;
  return kind == Kind::kCompute ? "compute" : program::row_of(kind).word;
}

bool is_transfer(Kind kind) {
  return kind == Kind::kSend || kind == Kind::kReceive || kind == Kind::kStreamIn ||
         kind == Kind::kStreamOut || kind == Kind::kOffChipLoad || kind == Kind::kOffChipStore;
}

// Returns the bytes that an instruction makes or moves.
int64_t bytes_of(const Program& program, const Instruction& instruction) {
  if (is_transfer(instruction.kind)) return moved_bytes(program, instruction);
  int64_t bytes = 0;
  const bool keeps = instruction.outputs.empty() && !instruction.inputs.empty();
  for (program::TensorId id : keeps ? instruction.inputs : instruction.outputs) {
    if (id == program::kNoTensor) continue;
    bytes += program.tensors[id].type.bytes();
  }
  return bytes;
}

int64_t bytes_of(const std::vector<program::CollectivePart>& parts) {
  int64_t bytes = 0;
  for (const program::CollectivePart& part : parts) bytes += part.bytes;
  return bytes;
}

}  // namespace

Instructions::Instructions(const Program& program, Strings& strings)
    : program_(program),
      strings_(strings),
      table_({"ipu", "kind", "op", "name", "module", "block", "stage", "phase", "pass", "file",
              "line", "cycles", "count", "bytes", "op_id", "parent", "tiles"}),
      makers_(program.tensors.size(), -1) {
  for (size_t i = 0; i < program.ipus.size(); ++i) {
    ipu_ = static_cast<int64_t>(i);
    const int64_t first = table_.rows();
    add_block(program.ipus[i].body, 1, -1);
    ranges_.emplace_back(first, table_.rows());
  }
}

void Instructions::add_block(const std::vector<Instruction>& block, int64_t times, int64_t parent) {
  for (const Instruction& instruction : block) {
    const int64_t row = table_.rows();
    add(instruction, times, parent);
    if (instruction.kind == Kind::kLoop) {
      add_block(instruction.blocks[0], support::saturating_product(times, instruction.count), row);
    } else if (instruction.kind == Kind::kIf) {
      // It is unknown which branch runs: the cost report counts the longer.
      const size_t taken = longer_branch(instruction);
      for (size_t i = 0; i < instruction.blocks.size(); ++i) {
        add_block(instruction.blocks[i], i == taken ? times : 0, row);
      }
    }
  }
}

void Instructions::add(const Instruction& instruction, int64_t times, int64_t parent) {
  const auto parts = program::collective_parts(program_, instruction);
  const auto word = word_of(instruction, !parts.empty());
  const auto op = instruction.op.empty() ? strings_(word) : strings_(instruction.op);
  // An instruction is named after its first output, or else after its first input.
  const auto& named = instruction.outputs.empty() ? instruction.inputs : instruction.outputs;
  const bool has_name = !named.empty() && named[0] != program::kNoTensor;
  const auto name =
      has_name ? strings_(program_.tensors[named[0]].name) : strings_(std::string_view());
  // The time of a receive counts as the sender's.
  const int64_t cycles = instruction.kind == Kind::kReceive ? 0 : instruction.cycles;
  const int64_t row =
      table_.add({ipu_, strings_(word), op, name, strings_(instruction.scope),
                  strings_(instruction.block), instruction.stage, instruction.phase,
                  strings_(program::kPassWords[static_cast<size_t>(instruction.pass)]),
                  strings_(instruction.location.file), instruction.location.line, cycles, times,
                  parts.empty() ? bytes_of(program_, instruction) : bytes_of(parts),
                  number_of(instruction.op_id), parent, on_io_tiles(instruction) ? 1 : 0});
  all_.push_back(&instruction);
  rows_.emplace(&instruction, row);
  for (program::TensorId id : instruction.outputs) {
    if (id != program::kNoTensor && makers_[id] < 0) {
      makers_[id] = row;
    }
  }
}

}  // namespace poptorch::account
