#include "frontends/torch/tracer/graph/region.hpp"

#include <algorithm>

#include "ir/roles.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

using ir::Graph;
using ir::Value;
using support::str;

// Copies the recording of `region` into a graph whose inputs stand for `operands`. Input i of the
// recording is number places[i].
ir::GraphRef settled(Region& region, const std::string& name, const std::vector<Value*>& operands,
                     const std::vector<size_t>& places) {
  Graph& graph = fresh_graph(region.graph().module(), name);
  for (const Value* operand : operands) graph.add_input(operand->type());
  std::vector<Value*> arguments;
  for (const size_t place : places) arguments.push_back(graph.inputs()[place].get());
  region.settle();
  graph.set_outputs(ir::copy_ops(region.graph(), graph, arguments));
  return {graph.name()};
}

const Region::Written* find_written(const std::vector<Region::Written>& list, const Root* root) {
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const Region::Written& w) { return w.root == root; });
  return found == list.end() ? nullptr : &*found;
}

}  // namespace

Graph& fresh_graph(ir::Module& module, const std::string& name) {
  std::string candidate = name;
  for (int i = 1; module.find_graph(candidate); ++i) candidate = str(name, "_", i);
  return module.add_graph(candidate);
}

Value* Region::add_argument(Value* outer, const ir::Type& type) {
  operands_.push_back(outer);
  return graph_->add_input(type);
}

Value* Region::stand_in(Value* outer, const Root* owner) {
  const Key key{outer, owner};
  const ir::Literal* literal = ir::literal_of(outer);
  if (!literal || inputs_.contains(key)) return input_for(outer, owner);
  Value*& constant = constants_[key];
  if (!constant) constant = ir::Builder(*graph_).constant(*literal);
  return constant;
}

Value* Region::input_for(Value* outer, const Root* owner) {
  Value*& input = inputs_[{outer, owner}];
  if (!input) input = add_argument(outer, outer->type());
  return input;
}

bool Region::stands_in(const Value* value) const {
  return std::any_of(constants_.begin(), constants_.end(),
                     [&](const auto& entry) { return entry.second == value; });
}

void Region::settle() {
  graph_->set_outputs(results);
  for (const auto& [key, constant] : constants_) {
    const auto input = inputs_.find(key);
    if (input != inputs_.end()) constant->replace_all_uses_with(input->second);
  }
}

std::shared_ptr<Region> Regions::open(const std::string& name, bool scratch) {
  Graph& graph = fresh_graph(builder_.graph().module(), name);
  if (scratch) scratch_.push_back(graph.name());
  open_.push_back({std::make_shared<Region>(graph), builder_});
  builder_ = ir::Builder(graph);
  return open_.back().region;
}

void Regions::close() {
  builder_ = open_.back().outer;
  open_.pop_back();
}

void Regions::erase_scratch(ir::Module& module) const {
  for (const ir::Symbol name : scratch_) module.erase_graph(name);
}

Value* Regions::bring(Value* value, const Root* owner, size_t outwards) const {
  size_t level = 0;
  while (level < open_.size() && &open_[level].outer.graph() != &value->graph()) ++level;
  if (level == open_.size() && &value->graph() != &builder_.graph()) {
    throw support::UserError(
        "[tracer] a tensor from inside a loop's body, a branch or an autograd.Function is used "
        "outside. Return it from there.");
  }
  for (; level + outwards < open_.size(); ++level) {
    value = open_[level].region->stand_in(value, owner);
  }
  return value;
}

bool Regions::stands_in(const Value* value) const {
  return std::any_of(open_.begin(), open_.end(),
                     [&](const Open& open) { return open.region->stands_in(value); });
}

ir::Op* emit_repeat(ir::Builder& builder, Region& body, int64_t count) {
  const size_t arguments = body.results.size();
  // The values that a round passes to the next one come first.
  std::vector<size_t> order(arguments);
  for (size_t i = 0; i < arguments; ++i) order[i] = i;
  for (const Region::Written& written : body.written) {
    order.push_back(body.input_for(written.outer, written.root)->index());
    body.results.push_back(written.after);
  }
  for (size_t i = arguments; i < body.operands().size(); ++i) {
    if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
  }
  std::vector<Value*> operands;
  std::vector<size_t> places(order.size());
  for (size_t place = 0; place < order.size(); ++place) {
    operands.push_back(body.operands()[order[place]]);
    places[order[place]] = place;
  }
  const ir::GraphRef graph = settled(body, "for_loop", operands, places);
  return builder.emit("repeat", operands, {{"graph", graph}, {"count", count}});
}

std::vector<Region::Written> written_by(const Region& then_region, const Region& else_region) {
  std::vector<Region::Written> all = then_region.written;
  for (const Region::Written& written : else_region.written) {
    if (!find_written(all, written.root)) all.push_back(written);
  }
  return all;
}

ir::Op* emit_if(ir::Builder& builder, Value* condition, Region& then_region, Region& else_region) {
  const auto all = written_by(then_region, else_region);
  std::vector<Value*> operands;
  std::vector<std::vector<size_t>> places;
  for (Region* region : {&then_region, &else_region}) {
    for (const Region::Written& either : all) {
      const Region::Written* own = find_written(region->written, either.root);
      region->results.push_back(own ? own->after : region->input_for(either.outer, either.root));
    }
    auto& own_places = places.emplace_back();
    for (Value* operand : region->operands()) {
      const auto found = std::find(operands.begin(), operands.end(), operand);
      own_places.push_back(static_cast<size_t>(found - operands.begin()));
      if (found == operands.end()) operands.push_back(operand);
    }
  }
  const ir::GraphRef yes = settled(then_region, "cond_then", operands, places[0]);
  const ir::GraphRef no = settled(else_region, "cond_else", operands, places[1]);
  operands.insert(operands.begin(), condition);
  return builder.emit("if", operands, {{"then", yes}, {"else", no}});
}

}  // namespace poptorch::frontend
