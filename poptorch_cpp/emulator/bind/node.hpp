// The nodes of a plan (plan.hpp): one kind for each way in which a part of a program is executed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "emulator/bound/kernel_spec.hpp"
#include "ir/op_def.hpp"
#include "program/program.hpp"

namespace poptorch::emulator {

using program::Instruction;

// One op of a fused chain.
struct ChainOp {
  const Instruction* instruction = nullptr;
  int32_t number = -1;  // of the instruction: list_instructions()
  const ir::OpDef* def = nullptr;
  std::vector<ValueId> inputs;
  std::vector<ValueId> results;  // results_of()
};

// Element-wise ops over one space, run as one tile program.
struct Chain {
  ir::Shape space;
  std::vector<ChainOp> ops = {};                   // in program order
  std::vector<ValueId> inputs = {}, outputs = {};  // of the tile program
  bool draws = false;                              // random numbers: draws_in_order()
};

// A node's kernel, which choose_kernels sets. A pointer keeps nodes small: most of them become
// parts of chains.
struct KernelCall {
  std::unique_ptr<Kernel> kernel = {};
  ValueId workspace = kNoValue;
  bool prepared = false;  // the workspace is kept from run to run
};

// A compute instruction. If it is a view that needs a copy, choose_kernels replaces it by one.
struct OpNode {
  const Instruction* instruction = nullptr;
  int32_t number = -1;  // of the instruction: list_instructions()
  const ir::OpDef* def = nullptr;
  std::vector<ValueId> inputs, outputs = {};  // without those of the epilogue
  std::unique_ptr<Chain> epilogue = {};       // on output 0
  KernelCall call = {};
};

struct ChainNode {
  Chain chain;
  KernelCall call = {};
};

// Chains and reductions over rows that one kernel computes.
struct Node;
struct RowsNode {
  int64_t rows = 0;
  std::vector<Node> members;                       // ChainNodes and OpNodes
  std::vector<ValueId> inputs = {}, outputs = {};  // without those that are held
  KernelCall call = {};
};

// Converts a value to another layout.
struct ReorderNode {
  ValueId from = kNoValue, to = kNoValue;
  KernelCall call = {};
};

// Moves bytes on one IPU. State in Streaming Memory is host memory like state on the IPU.
struct CopyNode {
  const Instruction* instruction = nullptr;
  ValueId from = kNoValue, to = kNoValue;
};

struct CollectiveNode {
  const Instruction* instruction = nullptr;
  const ir::OpDef* def = nullptr;
  ValueId from = kNoValue, to = kNoValue;
  // Set by begin_collectives: the collective's number, and whether this node begins it. The
  // collective's other node waits for it to complete.
  int32_t number = -1;
  bool begins = false;
};

// Sends, receives, streams, stashes, rows of remote buffers, syncs.
struct TransferNode {
  const Instruction* instruction = nullptr;
  std::vector<ValueId> inputs, outputs = {};
};

struct LoopNode {
  const Instruction* instruction = nullptr;
  std::vector<Node> body;
};

struct BranchNode {
  const Instruction* instruction = nullptr;
  ValueId condition = kNoValue;
  std::vector<Node> taken, otherwise;
};

using AnyNode = std::variant<OpNode, ChainNode, RowsNode, ReorderNode, CopyNode, CollectiveNode,
                             TransferNode, LoopNode, BranchNode>;
struct Node : AnyNode {
  using AnyNode::AnyNode;
};

// Makes one visitor of several functions, one for each kind of node.
template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
// clang 16 does not deduce the arguments of an aggregate without it.
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

template <typename Kind>
Kind* as(Node& node) {
  return std::get_if<Kind>(static_cast<AnyNode*>(&node));
}
template <typename Kind>
const Kind* as(const Node& node) {
  return std::get_if<Kind>(static_cast<const AnyNode*>(&node));
}

// Return what a node reads and writes, without blocks, chains and operands that an op writes.
std::span<ValueId> inputs_of(Node& node);
std::span<ValueId> outputs_of(Node& node);
std::span<const ValueId> inputs_of(const Node& node);
std::span<const ValueId> outputs_of(const Node& node);
// Returns the node's chain or epilogue; nullptr if it has neither.
Chain* chain_of(Node& node);
const Chain* chain_of(const Node& node);
// Returns the node's kernel call; nullptr if its kind has no kernel.
KernelCall* call_of(Node& node);
const KernelCall* call_of(const Node& node);

// Calls `see(block)` for each block of a loop or branch.
template <typename AnyOfNode, typename See>
void for_each_block(AnyOfNode& node, See see) {
  if (auto* loop = as<LoopNode>(node)) see(loop->body);
  if (auto* branch = as<BranchNode>(node)) {
    see(branch->taken);
    see(branch->otherwise);
  }
}

inline bool has_blocks(const Node& node) { return as<LoopNode>(node) || as<BranchNode>(node); }

}  // namespace poptorch::emulator
