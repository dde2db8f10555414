#include "emulator/bind/carried_layouts.hpp"

#include <algorithm>

namespace poptorch::emulator {
namespace {

using Kind = Instruction::Kind;

const Instruction* transfer_of(const Node& node, Kind one, Kind other) {
  const auto* transfer = as<TransferNode>(node);
  const Instruction* instruction = transfer ? transfer->instruction : nullptr;
  return instruction && (instruction->kind == one || instruction->kind == other) ? instruction
                                                                                 : nullptr;
}

// Return the instruction of a node that hands a tensor over, or takes one; nullptr for others.
const Instruction* handing_over(const Node& node) {
  return transfer_of(node, Kind::kSend, Kind::kStash);
}
const Instruction* taking(const Node& node) {
  return transfer_of(node, Kind::kReceive, Kind::kRestore);
}

int channels_of(const std::vector<Node>& block) {
  int count = 0;
  for (const Node& node : block) {
    for (const Instruction* instruction : {handing_over(node), taking(node)}) {
      if (instruction) count = std::max(count, instruction->channel + 1);
    }
    for_each_block(
        node, [&](const std::vector<Node>& inner) { count = std::max(count, channels_of(inner)); });
  }
  return count;
}

}  // namespace

const KernelRow* choosing_row(const Plan& plan, const OpNode& node) {
  if (!node.def->writes.empty()) return nullptr;
  const KernelRow* row = all_kernels().find(node.def->name);
  if (!row || !row->choose_layouts) return nullptr;
  // Empty operands are left to the reference kernels, which support only the plain layout.
  const auto is_empty = [&](ValueId id) {
    return id != kNoValue && plan.value(id).type.elements() == 0;
  };
  if (std::any_of(node.inputs.begin(), node.inputs.end(), is_empty)) return nullptr;
  if (row->layouts_of_any_type || node.inputs.empty() || node.inputs[0] == kNoValue) return row;
  const ir::DType dtype = plan.value(node.inputs[0]).type.dtype;
  return dtype == ir::DType::kF32 || ir::is_half(dtype) ? row : nullptr;
}

CarriedLayouts::CarriedLayouts(const Plan& plan)
    : plan_(plan), stashes_(plan.program.stashes.size()), storages_(plan.storages.size()) {
  int channels = 0;
  for (const auto& body : plan.bodies) channels = std::max(channels, channels_of(body));
  channels_.resize(static_cast<size_t>(channels));
  for (size_t i = 0; i < storages_.size(); ++i) storages_[i] = plan.storages[i].layout;
  // Forward values mostly come from lower IPUs, gradients from higher ones.
  for (const auto& body : plan.bodies) estimate(body);
  for (auto body = plan.bodies.rbegin(); body != plan.bodies.rend(); ++body) estimate(*body);
}

Layout CarriedLayouts::of(const Node& node) const {
  const Instruction* moved = handing_over(node);
  if (!moved) moved = taking(node);
  if (!moved) return {};
  const bool stash = moved->kind == Kind::kStash || moved->kind == Kind::kRestore;
  return (stash ? stashes_ : channels_).at(static_cast<size_t>(moved->channel));
}

void CarriedLayouts::estimate(const std::vector<Node>& block) {
  for (const Node& node : block) {
    estimate(node);
    for_each_block(node, [&](const std::vector<Node>& inner) { estimate(inner); });
  }
}

void CarriedLayouts::estimate(const Node& node) {
  auto held = [&](ValueId id) { return storages_[plan_.value(id).storage]; };
  if (const Instruction* given = handing_over(node)) {
    const auto number = static_cast<size_t>(given->channel);
    (given->kind == Kind::kStash ? stashes_ : channels_)[number] = held(inputs_of(node)[0]);
  } else if (taking(node)) {
    note(outputs_of(node), {of(node)});
  } else if (const auto* op = as<OpNode>(node)) {
    estimate(*op);
  }
  const Chain* chain = chain_of(node);
  if (!chain) return;
  Layout layout;
  for (ValueId id : chain->inputs) {
    const bool full = id != kNoValue && plan_.fills(id, chain->space);
    if (full && layout == Layout{}) layout = held(id);
  }
  if (!outputs_of(node).empty()) layout = held(outputs_of(node)[0]);
  note(chain->outputs, std::vector<Layout>(chain->outputs.size(), layout));
}

void CarriedLayouts::estimate(const OpNode& op) {
  const KernelRow* row = choosing_row(plan_, op);
  if (!row) return;
  KernelRequest request = make_request(plan_, op);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] == kNoValue) continue;
    request.input_layouts[i] = storages_[plan_.value(op.inputs[i]).storage];
  }
  row->choose_layouts(request);
  note(op.outputs, request.output_layouts);
}

void CarriedLayouts::note(std::span<const ValueId> ids, const std::vector<Layout>& layouts) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == kNoValue || !plan_.storage_of(ids[i]).takes_any_layout()) continue;
    storages_[plan_.value(ids[i]).storage] = layouts[i];
  }
}

}  // namespace poptorch::emulator
