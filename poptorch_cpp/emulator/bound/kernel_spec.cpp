#include "emulator/bound/kernel_spec.hpp"

namespace poptorch::emulator {
namespace {

using program::Instruction;

void list(const std::vector<Instruction>& block, InstructionTable& found) {
  for (const Instruction& instruction : block) {
    found.push_back(&instruction);
    for (const auto& inner : instruction.blocks) list(inner, found);
  }
}

}  // namespace

InstructionTable list_instructions(const program::Program& program) {
  InstructionTable found;
  for (const auto& ipu : program.ipus) list(ipu.body, found);
  return found;
}

bool is_number(const ValueTable& values, const program::Program& program, ValueId source) {
  if (source == kNoValue) return false;
  const Storage& storage = values.storage_of(source);
  if (storage.base != Base::kConstant || storage.type.elements() != 1) return false;
  if (!program.constants[storage.index].has_numbers()) return false;
  const ir::DType dtype = values.value(source).type.dtype;
  return size_of(dtype) != 8 || ir::is_float(dtype);
}

std::vector<ValueId> arguments_of(const ValueTable& values, const program::Program& program,
                                  const KernelSpec& spec) {
  std::vector<ValueId> arguments;
  if (const auto* op = std::get_if<OpSpec>(&spec)) {
    arguments = op->inputs;
    arguments.insert(arguments.end(), op->outputs.begin(), op->outputs.end());
  } else if (const auto* reorder = std::get_if<ReorderSpec>(&spec)) {
    arguments = {reorder->from, reorder->to};
  }
  if (const ChainSpec* chain = chain_of(spec)) {
    for (ValueId id : chain->sources) {
      if (id != kNoValue && !is_number(values, program, id)) arguments.push_back(id);
    }
    arguments.insert(arguments.end(), chain->outputs.begin(), chain->outputs.end());
  }
  return arguments;
}

std::vector<ValueId> written_operands(const ir::OpDef& def, std::span<const ValueId> inputs) {
  std::vector<ValueId> written;
  for (int operand : def.writes) {
    if (operand >= static_cast<int>(inputs.size())) continue;
    const ValueId id = inputs[operand];
    if (id != kNoValue) written.push_back(id);
  }
  return written;
}

std::vector<ValueId> results_of(const ir::OpDef& def, std::span<const ValueId> inputs,
                                const std::vector<ValueId>& outputs) {
  return outputs.empty() ? written_operands(def, inputs) : outputs;
}

int32_t instruction_of(const KernelSpec& spec) {
  if (const auto* op = std::get_if<OpSpec>(&spec)) return op->instruction;
  const auto* chain = std::get_if<ChainSpec>(&spec);
  return chain ? chain->ops.front().instruction : -1;
}

const ChainSpec* chain_of(const KernelSpec& spec) {
  if (const auto* chain = std::get_if<ChainSpec>(&spec)) return chain;
  const auto* op = std::get_if<OpSpec>(&spec);
  return op && op->epilogue ? &*op->epilogue : nullptr;
}

}  // namespace poptorch::emulator
