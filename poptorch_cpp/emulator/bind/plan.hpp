// The plan that the bind passes transform: a program's instructions as nodes over values, and the
// memory that values denote. Each pass below has a file of the same name; make_code() flattens the
// result into steps (code.hpp).
//
// A value is a program's tensor, or one that bind added. Values that share a storage are the same
// memory: views, and results of ops that write their operand.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emulator/bound/code.hpp"
#include "emulator/bound/options.hpp"
#include "emulator/kernels/base/kernel.hpp"
#include "emulator/kernels/base/tile_program.hpp"
#include "ir/op_def.hpp"
#include "program/program.hpp"

namespace poptorch::emulator {

using program::Instruction;

using ValueId = int32_t;
constexpr ValueId kNoValue = -1;

struct Value {
  ir::Type type;
  int32_t storage = -1;
  int64_t offset = 0;  // bytes, in the storage
  support::Symbol name;
};

// One op of a fused chain.
struct ChainOp {
  const Instruction* instruction = nullptr;
  const ir::OpDef* def = nullptr;
  std::vector<ValueId> inputs;
  std::vector<ValueId> results;  // Plan::results
};

// Element-wise ops over one space, run as one tile program.
struct Chain {
  ir::Shape space;
  std::vector<ChainOp> ops = {};                   // in program order
  std::vector<ValueId> inputs = {}, outputs = {};  // of the tile program
  std::vector<ValueId> fed = {};                   // inputs that it reads from memory
  bool random = false;  // draws random numbers, in the elements' row-major order
  std::shared_ptr<const TileProgram> program = nullptr;
};

// Where a node's kernel comes from. Bookkeeping ops are those for which a reference kernel is as
// good as any: ops on single numbers, and ops with a side effect (checks, prints).
enum class Provider : uint8_t { kFast, kReference, kBookkeeping, kForeign };

struct Node {
  const Instruction* instruction = nullptr;  // nullptr for a chain or a reorder
  const ir::OpDef* def = nullptr;            // of a compute instruction
  std::vector<ValueId> inputs, outputs;      // without those of the epilogue
  // The work of a node without an instruction; otherwise the epilogue on output 0.
  std::optional<Chain> chain;
  std::vector<std::vector<Node>> blocks;
  std::vector<Layout> input_layouts, output_layouts;  // set by choose_layouts; empty: all plain

  std::shared_ptr<const BoundKernel> kernel;
  std::vector<ValueId> buffers;  // the kernel's arguments
  ValueId workspace = kNoValue;
  bool prepared = false;  // the workspace is kept from run to run
  Provider provider = Provider::kFast;

  // Set by begin_collectives: the number of a collective, and whether this node begins it. The
  // collective's other node waits for it to complete.
  int32_t collective = -1;
  bool begins = false;

  bool is_chain() const { return !instruction; }
  bool is_collective() const { return def && def->role == ir::Role::kCollective; }
};

struct Plan {
  const program::Program& program;
  const ir::Registry& registry;
  EngineOptions options;
  std::vector<Value> values;  // the program's tensors come first, by id
  std::vector<Storage> storages;
  std::vector<std::vector<Node>> bodies;  // by IPU
  std::vector<int64_t> arena_bytes;       // by IPU
  int32_t collectives = 0;                // of the program, equal in all instances

  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  Storage& storage_of(ValueId id) {
    return storages[static_cast<size_t>(values[static_cast<size_t>(id)].storage)];
  }
  const Storage& storage_of(ValueId id) const {
    return storages[static_cast<size_t>(values[static_cast<size_t>(id)].storage)];
  }
  // Returns the results of an element-wise op or, if it has none, the operands that it writes.
  std::vector<ValueId> results(const Node& node) const;
  // Returns whether both values are the same bytes with the same type.
  bool same_memory(ValueId a, ValueId b) const {
    return value(a).storage == value(b).storage && value(a).offset == value(b).offset &&
           value(a).type == value(b).type;
  }
  // Adds a value with separate memory in the arena of `ipu`.
  ValueId add_value(const ir::Type& type, support::Symbol name, int ipu);
};

// Calls `see(storage, is_write)` for every access of a node, blocks included.
template <typename See>
void for_each_access(const Plan& plan, const Node& node, See see) {
  auto visit = [&](const std::vector<ValueId>& ids, bool write) {
    for (ValueId id : ids) {
      if (id != kNoValue) see(plan.value(id).storage, write);
    }
  };
  visit(node.inputs, false);
  visit(node.outputs, true);
  if (node.def) {
    for (int operand : node.def->writes) {
      if (operand >= static_cast<int>(node.inputs.size())) continue;
      const ValueId id = node.inputs[static_cast<size_t>(operand)];
      if (id != kNoValue) see(plan.value(id).storage, true);
    }
  }
  if (node.chain) {
    visit(node.chain->inputs, false);
    visit(node.chain->outputs, true);
  }
  for (const auto& block : node.blocks) {
    for (const Node& inner : block) for_each_access(plan, inner, see);
  }
}

// Returns the kernel request for a compute node, without its epilogue.
KernelRequest make_request(const Plan& plan, const Node& node);

// Makes a node for each instruction that does any work. Views become aliases where that changes no
// value.
Plan make_plan(const program::Program& program, const ir::Registry& registry,
               const EngineOptions& options);
// Gathers element-wise ops and updates into chains, within a block, never across a hazard.
void fuse_chains(Plan& plan);
// Attaches chains as epilogues to the producer of one of their inputs, where the pair can run at
// one place.
void attach_epilogues(Plan& plan);
// Chooses layouts and inserts reorders.
void choose_layouts(Plan& plan);
// Binds a kernel for every compute node.
void choose_kernels(Plan& plan);
// Adds a node that begins each collective; the collective's own node then waits for the result.
void begin_collectives(Plan& plan);
// Assigns offsets in each IPU's arena, from liveness.
void plan_arena(Plan& plan);
// Returns the specification of a node's collective.
CollectiveSpec collective_spec(const Plan& plan, const Node& node);
// Flattens the plan. Requires that its kernels and offsets are set.
Code make_code(const Plan& plan);

}  // namespace poptorch::emulator
