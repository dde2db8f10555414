// Names a bound kernel by what it is bound from, so that it can be bound again: instructions of the
// program, and values, whose types and layouts the kernel is made for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "emulator/bound/values.hpp"
#include "ir/op_def.hpp"

namespace poptorch::emulator {

class BoundKernel;  // kernels/kernel.hpp
class TileProgram;  // kernels/tile_program.hpp

// Where an op's kernel comes from. Bookkeeping ops are those for which a reference kernel is as
// good as any: ops on single numbers, and ops with a side effect (checks, prints).
enum class Provider : uint8_t { kFast, kReference, kBookkeeping, kForeign };

// A fused chain of element-wise ops. Its registers are its sources, then the results of its ops, in
// order. Its space is the shape of its outputs.
struct ChainSpec {
  struct Op {
    int32_t instruction = -1;
    std::vector<int32_t> operands = {};  // registers; -1: absent
  };
  // Values that it reads; kNoValue, first in an epilogue: the result of the epilogue's op.
  std::vector<ValueId> sources = {};
  std::vector<Op> ops = {};
  std::vector<int32_t> stored = {};   // registers
  std::vector<ValueId> outputs = {};  // into which it stores them
};

struct OpSpec {
  int32_t instruction = -1;
  std::vector<ValueId> inputs = {}, outputs = {};  // kNoValue: absent
  std::optional<ChainSpec> epilogue = {};          // on output 0
  Provider provider = Provider::kFast;
};

// A conversion of a value to another layout.
struct ReorderSpec {
  ValueId from = kNoValue, to = kNoValue;
};

// Chains and reductions over the rows of the same tensors, computed together for a block of rows at
// a time. Values that are held have only the memory of a block. With one row, there are two
// members: a chain, and an op that takes its elements run by run.
using RowsMember = std::variant<OpSpec, ChainSpec>;  // an op has no epilogue
struct RowsSpec {
  int64_t rows = 0;
  std::vector<RowsMember> members = {};
};

using KernelSpec = std::variant<OpSpec, ChainSpec, ReorderSpec, RowsSpec>;

struct Kernel {
  KernelSpec spec;
  std::shared_ptr<const BoundKernel> bound = nullptr;
  std::shared_ptr<const TileProgram> epilogue = nullptr;  // to which `bound` refers
};

// Lists the instructions of all IPUs in the order of the program's text. The place in this list is
// an instruction's number.
using InstructionTable = Table<int32_t, const program::Instruction*>;
InstructionTable list_instructions(const program::Program& program);

// Returns whether a chain takes this source as a number instead of from memory.
bool is_number(const ValueTable& values, const program::Program& program, ValueId source);
// Returns the kernel's buffers, in the order of KernelArgs.
std::vector<ValueId> arguments_of(const ValueTable& values, const program::Program& program,
                                  const KernelSpec& spec);
// Returns the buffers of the kernel of a member of a RowsSpec, held values included.
std::vector<ValueId> arguments_of(const ValueTable& values, const program::Program& program,
                                  const RowsMember& member);
KernelSpec as_spec(const RowsMember& member);
// Returns the operands that an op writes, without absent ones.
std::vector<ValueId> written_operands(const ir::OpDef& def, std::span<const ValueId> inputs);
// Returns the results of an op or, if it has none, the operands that it writes.
std::vector<ValueId> results_of(const ir::OpDef& def, std::span<const ValueId> inputs,
                                const std::vector<ValueId>& outputs);
// Returns the numbers of the instructions that the kernel is made from.
std::vector<int32_t> instructions_of(const KernelSpec& spec);
// Returns the spec's chains, also that of an epilogue.
std::vector<const ChainSpec*> chains_of(const KernelSpec& spec);

}  // namespace poptorch::emulator
