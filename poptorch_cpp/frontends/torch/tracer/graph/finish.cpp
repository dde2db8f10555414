// Ends a trace: checks forward's effects on state, inputs and blocks, and makes them part of the
// graph.
#include <ATen/ops/empty.h>

#include "frontends/torch/tracer/graph/tracer.hpp"
#include "frontends/torch/tracer/values/types.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {

using support::str;
using support::UserError;

void Tracer::check_memory() const {
  for (const Lent& lent : lent_) {
    const c10::StorageImpl* now = lent.tensor.storage().unsafeGetStorageImpl();
    if (lent.name.empty() || now == lent.storage.unsafeGetStorageImpl()) continue;
    throw UserError(str(
        "[tracer] forward replaces the memory of '", lent.name,
        "' (.data = ..., set_). Write into the tensor instead, under torch.no_grad(): copy_()."));
  }
}

void Tracer::place_hooks() {
  for (ir::Op* op : builder_.graph().ops()) {
    if (!hooks_.contains(op) || !op->placement.block.empty()) continue;
    for (const ir::Use& use : op->result()->uses()) {
      if (use.op && !use.op->placement.block.empty()) op->placement = use.op->placement;
    }
  }
}

void Tracer::check_blocks() {
  if (!has_blocks_) return;
  place_hooks();
  ir::Symbol block;  // the last one before the op, or else the first
  for (const ir::Op* op : builder_.graph().ops()) {
    if (block.empty()) block = op->placement.block;
  }
  const char* side = "before";
  for (ir::Op* op : builder_.graph().ops()) {
    if (!op->placement.block.empty()) {
      block = op->placement.block;
      side = "after";
    }
    if (op->placement.ipu >= 0 || op->def().is_leaf() || op->def().stops_gradient()) continue;
    if (!blocks_are_scopes_) {
      op->placement.ipu = op->placement.stage = 0;
      continue;
    }
    throw UserError(str("No active Block, all the ops must belong to a Block: op '", op->name(),
                        "'", ir::place_text(op->location), " is outside of every poptorch.Block, ",
                        side, " block '", block,
                        "'. Put it into one, or use poptorch.BeginBlock, which lasts until the ",
                        "next one begins. A Block that ends within another ends both."));
  }
}

std::vector<size_t> Tracer::return_written_inputs() {
  std::vector<size_t> written;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    ir::Value* value = inputs_[i]->value();
    if (!inputs_[i]->written() || value == builder_.graph().inputs()[i].get()) continue;
    const bool is_own = value->producer() && !ir::slot_of(value->producer());
    builder_.graph().add_output(is_own ? value : builder_.value("identity", {value}));
    written.push_back(i);
  }
  return written;
}

TraceResult Tracer::finish(const std::vector<at::Tensor>& outputs) {
  if (!refusals_.empty()) refusals_.raise();
  TraceResult result;
  check_memory();
  check_blocks();
  builder_.location = {};
  builder_.scope = {};
  builder_.labels = {};
  builder_.placement = {};
  for (const at::Tensor& output : outputs) {
    if (output.defined() && output.numel() == 0) {
      result.outputs.push_back({.host = at::empty(output.sizes(), output.scalar_type())});
      continue;
    }
    Root* root = output.defined() ? memory_.find(output) : nullptr;
    // The new value of a host tensor that forward wrote is only on the device.
    if (!is_dataless(output) && !(root && (root->variable || root->written()))) {
      result.outputs.push_back({.host = output});
      continue;
    }
    ir::Value* value = read(output);
    // State and inputs are returned by copy: the slot may change after this point.
    if (!value->producer() || ir::slot_of(value->producer())) {
      value = builder_.value("identity", {value});
    }
    result.outputs.push_back({.index = static_cast<int>(builder_.graph().outputs().size())});
    builder_.graph().add_output(value);
  }
  result.written_inputs = return_written_inputs();
  for (const auto& root : memory_.roots()) {
    if (root->variable && root->value() != root->variable) {
      // The op belongs where the new value was made, not in the last block.
      const ir::Op* maker = root->value()->producer();
      builder_.placement = maker ? maker->placement : ir::Placement{};
      builder_.location = maker ? maker->location : ir::Location{};
      builder_.emit("assign", {root->variable, root->value()});
    }
  }
  check_members();
  carry_known_values();
  regions_.erase_scratch(*module_);
  result.module = std::move(module_);
  result.state = slots_;
  return result;
}

}  // namespace poptorch::frontend
