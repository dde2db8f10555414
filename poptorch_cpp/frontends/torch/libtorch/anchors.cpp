// Checks and returns an Executor's anchored tensors.
#include <fnmatch.h>

#include <algorithm>

#include "frontends/torch/libtorch/executor_state.hpp"
#include "support/strings.hpp"

namespace poptorch {

using support::str;
using support::UserError;

namespace {

std::vector<std::string> matching(const std::string& pattern, const std::vector<std::string>& all) {
  std::vector<std::string> found;
  for (const std::string& name : all) {
    if (fnmatch(pattern.c_str(), name.c_str(), 0) == 0) found.push_back(name);
  }
  return found;
}

std::vector<std::string> slots_of(const frontend::TorchExecutable& executable) {
  std::vector<std::string> names;
  for (const ir::StateSlot& slot : executable.compiled().states()) {
    names.push_back(slot.name.text());
  }
  return names;
}

}  // namespace

void Executor::State::check_anchors(const frontend::TorchExecutable& made) const {
  const auto& anchors = said.execution.anchors;
  std::vector<bool> found(anchors.size());
  for (const auto& [index, name] : made.compiled().anchored()) {
    found[index] = true;
  }
  for (size_t i = 0; i < anchors.size(); ++i) {
    if (found[i] || !matching(anchors[i].name, slots_of(made)).empty()) continue;
    const std::string near = support::closest_name(anchors[i].name, made.compiled().anchor_names());
    throw UserError(str("[anchorTensor] the model has no tensor ", anchors[i].name, ".",
                        near.empty() ? "" : str(" Did you mean '", near, "'?"),
                        " getTensorNames() of a model without the anchor lists all."));
  }
}

std::vector<std::string> Executor::getTensorNames() const {
  std::vector<std::string> names = slots_of(state_->compiled());
  for (std::string& name : state_->compiled().compiled().anchor_names()) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

std::map<std::string, torch::Tensor> Executor::getAnchoredTensor(
    const std::string& short_name) const {
  const auto& known = state_->said.anchors;
  const auto it = std::find(known.begin(), known.end(), short_name);
  if (it == known.end()) {
    throw UserError(str("[anchorTensor] no tensor with name ", short_name,
                        " found. Name it in Options::anchorTensor; there are ",
                        support::join(known, ", "), "."));
  }
  const auto number = static_cast<size_t>(it - known.begin());
  const auto anchored = state_->compiled().compiled().anchored();
  if (state_->anchored.size() != anchored.size()) {
    throw UserError("[anchorTensor] the model has not run yet. Call it first.");
  }
  std::map<std::string, torch::Tensor> found;
  for (size_t i = 0; i < anchored.size(); ++i) {
    const auto& [index, name] = anchored[i];
    if (static_cast<size_t>(index) == number) found[name] = state_->anchored[i];
  }
  const std::string& pattern = state_->said.execution.anchors[number].name;
  for (const std::string& slot : matching(pattern, slots_of(state_->compiled()))) {
    found[slot] = readState(slot);
  }
  return found;
}

}  // namespace poptorch
