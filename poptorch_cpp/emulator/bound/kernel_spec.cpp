#include "emulator/bound/kernel_spec.hpp"

#include "program/program.hpp"

namespace poptorch::emulator {
namespace {

using program::Instruction;

void list(const std::vector<Instruction>& block, InstructionTable& found) {
  for (const Instruction& instruction : block) {
    found.push_back(&instruction);
    for (const auto& inner : instruction.blocks) list(inner, found);
  }
}

void add_chain(const ValueTable& values, const program::Program& program, const ChainSpec& chain,
               std::vector<ValueId>& arguments) {
  for (ValueId id : chain.sources) {
    if (id != kNoValue && !is_number(values, program, id)) arguments.push_back(id);
  }
  arguments.insert(arguments.end(), chain.outputs.begin(), chain.outputs.end());
}

void add_instructions(const KernelSpec& spec, std::vector<int32_t>& numbers) {
  if (const auto* op = std::get_if<OpSpec>(&spec)) numbers.push_back(op->instruction);
  if (const auto* rows = std::get_if<RowsSpec>(&spec)) {
    for (const RowsMember& member : rows->members) add_instructions(as_spec(member), numbers);
    return;
  }
  for (const ChainSpec* chain : chains_of(spec)) {
    for (const ChainSpec::Op& op : chain->ops) numbers.push_back(op.instruction);
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
                                  const RowsMember& member) {
  std::vector<ValueId> arguments;
  if (const auto* chain = std::get_if<ChainSpec>(&member)) {
    add_chain(values, program, *chain, arguments);
    return arguments;
  }
  const auto& op = std::get<OpSpec>(member);
  arguments = op.inputs;
  arguments.insert(arguments.end(), op.outputs.begin(), op.outputs.end());
  if (op.epilogue) add_chain(values, program, *op.epilogue, arguments);
  return arguments;
}

std::vector<ValueId> arguments_of(const ValueTable& values, const program::Program& program,
                                  const KernelSpec& spec) {
  if (const auto* reorder = std::get_if<ReorderSpec>(&spec)) return {reorder->from, reorder->to};
  if (const auto* op = std::get_if<OpSpec>(&spec))
    return arguments_of(values, program, RowsMember(*op));
  if (const auto* chain = std::get_if<ChainSpec>(&spec)) {
    return arguments_of(values, program, RowsMember(*chain));
  }
  std::vector<ValueId> arguments;
  for (const RowsMember& member : std::get<RowsSpec>(spec).members) {
    for (ValueId id : arguments_of(values, program, member)) {
      if (id == kNoValue || !values.storage_of(id).held) arguments.push_back(id);
    }
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

std::vector<int32_t> instructions_of(const KernelSpec& spec) {
  std::vector<int32_t> numbers;
  add_instructions(spec, numbers);
  return numbers;
}

KernelSpec as_spec(const RowsMember& member) {
  return std::visit([](const auto& kind) { return KernelSpec(kind); }, member);
}

std::vector<const ChainSpec*> chains_of(const KernelSpec& spec) {
  std::vector<const ChainSpec*> chains;
  if (const auto* chain = std::get_if<ChainSpec>(&spec)) chains.push_back(chain);
  const auto* op = std::get_if<OpSpec>(&spec);
  if (op && op->epilogue) chains.push_back(&*op->epilogue);
  if (const auto* rows = std::get_if<RowsSpec>(&spec)) {
    for (const RowsMember& member : rows->members) {
      if (const auto* chain = std::get_if<ChainSpec>(&member)) chains.push_back(chain);
    }
  }
  return chains;
}

}  // namespace poptorch::emulator
