#include "frontends/torch/tracer/graph/multi_conv.hpp"

#include <algorithm>
#include <unordered_set>

#include "frontends/torch/tracer/calls/json.hpp"
#include "ir/op_def.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using support::str;
using support::UserError;

// Adds `more` to the user's labels, which stay.
std::string with_labels(const std::string& labels, const JsonObject& more) {
  const std::string text = json_text(more);
  if (labels.empty()) return text;
  return labels.substr(0, labels.size() - 1) + ", " + text.substr(1);
}

// Sets what an option of the scope changes on a convolution. Throws UserError for a number that the
// option cannot have.
void set_option(ir::Op& op, const std::string& name, const std::string& value,
                const std::string& place) {
  if (name == "partialsTypes") return op.set_attr("partials", value);
  if (name == "availableMemoryProportions" || name == "cycleBackOff") {
    const double share = std::stod(value);
    if (!(share >= 0 && share <= 1)) {
      throw UserError(
          str("[MultiConv] ", name, " has ", value, ". Give a number from 0 to 1.", place));
    }
    return op.set_attr(name == "cycleBackOff" ? "cycle_back_off" : "memory_proportion", share);
  }
  if (name != "perConvReservedTiles") return;
  const int64_t tiles = std::stoll(value);
  if (tiles < 0 || tiles > ir::kMaxElements) {
    throw UserError(str("[MultiConv] perConvReservedTiles is ", value,
                        ". Give the number of tiles to reserve, from 0.", place));
  }
  op.set_attr("reserved_tiles", tiles);
}

}  // namespace

void MultiConvs::begin(const std::string& place) {
  if (open_) throw UserError(str("Nested poptorch.MultiConv is not supported.", place));
  open_ = Open{&builder_.graph(), 0};
  for (const ir::Op* op : open_->graph->ops()) open_->last_id = std::max(open_->last_id, op->id());
}

std::vector<ir::Op*> MultiConvs::convolutions(const std::string& place) const {
  std::vector<ir::Op*> found;
  std::unordered_set<const ir::Op*> behind;  // the convolutions and the ops that depend on them
  for (ir::Op* op : open_->graph->ops()) {
    if (op->id() <= open_->last_id) continue;
    const bool depends = std::any_of(
        op->operands().begin(), op->operands().end(),
        [&](const ir::Value* x) { return x && x->producer() && behind.contains(x->producer()); });
    const bool convolves = op->def().find_attr("multi_conv") != nullptr;
    if (depends && convolves) {
      throw UserError(str("[MultiConv] convolution ", found.size(), " of the scope needs the ",
                          "result of one before it, but they run at once. Leave it out of the ",
                          "scope.", place));
    }
    if (depends || convolves) behind.insert(op);
    if (convolves) found.push_back(op);
  }
  return found;
}

void MultiConvs::end(const MultiConvSettings& settings, const std::string& place) {
  const std::vector<ir::Op*> members = open_ ? convolutions(place) : std::vector<ir::Op*>();
  open_.reset();
  if (members.empty()) {
    throw UserError(str("Unexpected end_multi_conv, is the IR malformed? There is no convolution ",
                        "in the scope of poptorch.MultiConv.", place));
  }
  for (const auto& [name, values] : settings.values) {
    if (values.size() == 1 || values.size() == members.size()) continue;
    throw UserError(str("[MultiConv] ", name, " has ", values.size(), " values but there are ",
                        members.size(), " convolutions in the scope. Give one for all, or one for ",
                        "each.", place));
  }
  ++count_;
  for (size_t i = 0; i < members.size(); ++i) {
    ir::Op* op = members[i];
    op->set_attr("multi_conv", count_);
    op->set_attr("plan", std::string(settings.serial ? "serial" : "parallel"));
    JsonObject labels;
    for (const auto& [name, values] : settings.values) {
      const std::string& value = values[values.size() == 1 ? 0 : i];
      set_option(*op, name, value, place);
      labels.emplace_back(name, value);
    }
    if (!labels.empty()) op->labels = with_labels(op->labels.text(), labels);
  }
}

}  // namespace poptorch::frontend
