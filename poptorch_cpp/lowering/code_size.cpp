#include "lowering/code_size.hpp"

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "program/program.hpp"
#include "target/device.hpp"

namespace poptorch::lowering {
namespace {

using program::Instruction;
using program::TensorId;

// Returns whether an instruction only waits for other IPUs of a pipeline.
bool waits_only(const Instruction& instruction) {
  if (instruction.kind != Instruction::Kind::kLoop) return program::ends_cycle(instruction);
  const auto& block = instruction.blocks[0];
  return std::all_of(block.begin(), block.end(), program::ends_cycle);
}

// Counts the instructions of an IPU's code, and their kinds (op and operand types).
class CodeSize {
 public:
  explicit CodeSize(const program::Program& program) : program_(program) {}

  void add(const std::vector<Instruction>& block) {
    for (const Instruction& instruction : block) {
      if (waits_only(instruction)) continue;
      ++instructions;
      kinds_.insert(kind_of(instruction));
      for (const auto& inner : instruction.blocks) add(inner);
    }
  }
  int64_t kinds() const { return static_cast<int64_t>(kinds_.size()); }
  int64_t instructions = 0;

 private:
  uint64_t kind_of(const Instruction& instruction) const {
    uint64_t hash = std::hash<std::string>()(instruction.op.text());
    auto mix = [&hash](int64_t value) {
      hash = (hash ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15u;
    };
    mix(static_cast<int64_t>(instruction.kind));
    for (const auto* ids : {&instruction.inputs, &instruction.outputs}) {
      for (TensorId id : *ids) {
        if (id == program::kNoTensor) continue;
        const ir::Type& type = program_.tensors[id].type;
        mix(static_cast<int64_t>(type.dtype));
        for (int64_t size : type.shape) mix(size);
      }
    }
    return hash;
  }

  const program::Program& program_;
  std::unordered_set<uint64_t> kinds_;  // only counted
};

}  // namespace

void estimate_code(program::Program& program, const target::Device& device, bool outlines) {
  for (program::IpuProgram& ipu : program.ipus) {
    CodeSize code(program);
    code.add(ipu.body);
    ipu.code_bytes =
        target::code_bytes(device, code.instructions, outlines ? code.kinds() : code.instructions);
  }
}

}  // namespace poptorch::lowering
