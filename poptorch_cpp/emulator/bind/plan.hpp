// The plan that the bind passes transform: a program's instructions as nodes over values, and the
// memory that values denote. Each pass below has a file of the same name; make_code() flattens the
// result into steps (code.hpp).
//
// A value is a program's tensor, or one that bind added. Values that share a storage are the same
// memory: views, and results of ops that write their operand.
#pragma once

#include <string>
#include <vector>

#include "emulator/bind/node.hpp"
#include "emulator/bound/code.hpp"
#include "emulator/bound/options.hpp"

namespace poptorch::emulator {

struct KernelRequest;  // kernels/base/kernel.hpp

struct Plan : ValueTable {
  const program::Program& program;
  const ir::Registry& registry;
  EngineOptions options;
  InstructionTable instructions = {};          // list_instructions()
  std::vector<std::vector<Node>> bodies = {};  // by IPU
  std::vector<int64_t> arena_bytes = {};       // by IPU
  int32_t collectives = 0;                     // of the program, equal in all instances

  // Adds a value with separate memory in the arena of `ipu`.
  ValueId add_value(const ir::Type& type, support::Symbol name, int ipu);
};

// Calls `see(value, is_write)` for every value that a node accesses, blocks excluded.
template <typename See>
void for_each_value(const Node& node, See see) {
  auto visit = [&](std::span<const ValueId> ids, bool write) {
    for (ValueId id : ids) {
      if (id != kNoValue) see(id, write);
    }
  };
  visit(inputs_of(node), false);
  visit(outputs_of(node), true);
  if (const auto* op = as<OpNode>(node)) visit(written_operands(*op->def, op->inputs), true);
  if (const Chain* chain = chain_of(node)) {
    visit(chain->inputs, false);
    visit(chain->outputs, true);
  }
}

// Calls `see(storage, is_write)` for every access of a node, blocks included.
template <typename See>
void for_each_access(const Plan& plan, const Node& node, See see) {
  for_each_value(node, [&](ValueId id, bool write) { see(plan.value(id).storage, write); });
  for_each_block(node, [&](const std::vector<Node>& block) {
    for (const Node& inner : block) for_each_access(plan, inner, see);
  });
}

// Returns the kernel request for an op, without its epilogue.
KernelRequest make_request(const Plan& plan, const OpNode& node);

// Makes a node for each instruction that does any work. Views become aliases where that changes no
// value.
Plan make_plan(const program::Program& program, const ir::Registry& registry,
               const EngineOptions& options);
// Replaces operands that a cast widened by the halves themselves, for kernels that read these.
void read_halves(Plan& plan);
// Gathers element-wise ops and updates into chains, within a block, never across a hazard.
void fuse_chains(Plan& plan);
// Returns whether fuse_chains makes the op a part of a chain: an element-wise op or an update of
// types that tile programs compute.
bool is_fusible(const Plan& plan, const ir::OpDef& def, const ir::Attrs& attrs,
                const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs);
// Lets chains read halves that another chain stores, where that chain also stored them as floats.
void repeat_casts(Plan& plan);
// Attaches chains as epilogues to the producer of one of their inputs, where the pair can run at
// one place.
void attach_epilogues(Plan& plan);
// Chooses layouts and inserts reorders.
void choose_layouts(Plan& plan);
// Binds a kernel for every op and chain.
void choose_kernels(Plan& plan);
// Joins chains and reductions over the rows of the same tensors into one kernel, which computes a
// block of rows at a time. What only they use is never stored as a whole.
void join_rows(Plan& plan);
// Joins a chain with a reduction or scan that takes its elements run by run.
void join_runs(Plan& plan);
// Adds a node that begins each collective; the collective's own node then waits for the result.
void begin_collectives(Plan& plan);
// Assigns offsets in each IPU's arena, from liveness.
void plan_arena(Plan& plan);
// Returns the specification of a node's collective.
CollectiveSpec collective_spec(const Plan& plan, const CollectiveNode& node);
// Flattens the plan. Requires that its kernels and offsets are set.
Code make_code(Plan plan);

// Prints a plan for tests of the passes, and where its values are; it is not read back.
std::string print(const Plan& plan);
// Prints only its nodes.
std::string print_nodes(const Plan& plan);

}  // namespace poptorch::emulator
