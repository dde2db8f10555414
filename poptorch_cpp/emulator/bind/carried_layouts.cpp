#include "emulator/bind/carried_layouts.hpp"

#include <algorithm>

namespace poptorch::emulator {
namespace {

using Kind = Instruction::Kind;

bool hands_over(const Node& node) {
  return node.instruction &&
         (node.instruction->kind == Kind::kSend || node.instruction->kind == Kind::kStash);
}
bool takes(const Node& node) {
  return node.instruction &&
         (node.instruction->kind == Kind::kReceive || node.instruction->kind == Kind::kRestore);
}

int channels_of(const std::vector<Node>& block) {
  int count = 0;
  for (const Node& node : block) {
    if (hands_over(node) || takes(node)) count = std::max(count, node.instruction->channel + 1);
    for (const auto& inner : node.blocks) count = std::max(count, channels_of(inner));
  }
  return count;
}

}  // namespace

const KernelRow* choosing_row(const Plan& plan, const Node& node) {
  if (!node.def || !node.def->writes.empty()) return nullptr;
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
  if (!hands_over(node) && !takes(node)) return {};
  const auto number = static_cast<size_t>(node.instruction->channel);
  const bool stash =
      node.instruction->kind == Kind::kStash || node.instruction->kind == Kind::kRestore;
  return (stash ? stashes_ : channels_).at(number);
}

void CarriedLayouts::estimate(const std::vector<Node>& block) {
  for (const Node& node : block) {
    estimate(node);
    for (const auto& inner : node.blocks) estimate(inner);
  }
}

void CarriedLayouts::estimate(const Node& node) {
  auto held = [&](ValueId id) { return storages_[static_cast<size_t>(plan_.value(id).storage)]; };
  if (hands_over(node)) {
    const auto number = static_cast<size_t>(node.instruction->channel);
    const bool stash = node.instruction->kind == Kind::kStash;
    (stash ? stashes_ : channels_)[number] = held(node.inputs[0]);
  } else if (takes(node)) {
    note(node.outputs, {of(node)});
  } else if (const KernelRow* row = choosing_row(plan_, node)) {
    KernelRequest request = make_request(plan_, node);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != kNoValue) request.input_layouts[i] = held(node.inputs[i]);
    }
    row->choose_layouts(request);
    note(node.outputs, request.output_layouts);
  }
  if (!node.chain || node.chain->random) return;
  Layout layout;
  for (ValueId id : node.chain->inputs) {
    const bool full = id != kNoValue && plan_.value(id).type.shape == node.chain->space;
    if (full && layout == Layout{}) layout = held(id);
  }
  if (!node.is_chain() && !node.outputs.empty()) layout = held(node.outputs[0]);
  note(node.chain->outputs, std::vector<Layout>(node.chain->outputs.size(), layout));
}

void CarriedLayouts::note(const std::vector<ValueId>& ids, const std::vector<Layout>& layouts) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == kNoValue || !plan_.storage_of(ids[i]).takes_any_layout()) continue;
    storages_[static_cast<size_t>(plan_.value(ids[i]).storage)] = layouts[i];
  }
}

}  // namespace poptorch::emulator
