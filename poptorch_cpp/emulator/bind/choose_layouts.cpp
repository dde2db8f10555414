// choose_layouts gives storages the layouts that kernels ask for, and inserts reorders where two
// users of a value need different layouts.
//
// States come first. If all users of a state accept the layout that a kernel wants, the state has
// that layout permanently. So do the states that share its chains (a weight's momentum). A state
// that is only read gets copies in other layouts; any other state stays plain. Then one walk
// chooses the layouts of the values between kernels.
#include <algorithm>
#include <map>
#include <set>

#include "emulator/bind/carried_layouts.hpp"
#include "emulator/bind/plan.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {
namespace {

using LayoutKind = Layout::Kind;

class StateLayouts {
 public:
  explicit StateLayouts(Plan& plan) : plan_(plan) {}

  void run() {
    for (const auto& body : plan_.bodies) collect(body);
    for (const auto& [storage, users] : users_) settle(storage, users);
  }

 private:
  struct Users {
    std::vector<std::pair<const OpNode*, size_t>> ops;  // users that choose layouts: node, operand
    std::vector<const Chain*> chains;
    bool plain_only = false;
  };

  bool is_kept(int32_t storage) const {
    const Base base = plan_.storages[storage].base;
    return base == Base::kState || base == Base::kConstant;
  }

  void collect(const std::vector<Node>& block) {
    for (const Node& node : block) {
      const auto* op = as<OpNode>(node);
      const bool chooses = op && choosing_row(plan_, *op);
      const auto inputs = inputs_of(node);
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] == kNoValue) continue;
        Users& users = users_[plan_.value(inputs[i]).storage];
        if (chooses) {
          users.ops.emplace_back(op, i);
        } else {
          users.plain_only = true;
        }
      }
      for (ValueId id : outputs_of(node)) {
        if (id != kNoValue) users_[plan_.value(id).storage].plain_only = true;
      }
      if (const Chain* chain = chain_of(node)) collect_chain(*chain);
      for_each_block(node, [&](const std::vector<Node>& inner) { collect(inner); });
    }
  }

  void collect_chain(const Chain& chain) {
    for (const auto* ids : {&chain.inputs, &chain.outputs}) {
      for (ValueId id : *ids) {
        if (id == kNoValue) continue;
        Users& users = users_[plan_.value(id).storage];
        users.chains.push_back(&chain);
        if (!plan_.fills(id, chain.space)) users.plain_only = true;
      }
    }
  }

  Layout wanted(const OpNode& node, size_t operand, const Layout& offered) const {
    KernelRequest request = make_request(plan_, node);
    request.input_layouts[operand] = offered;
    choosing_row(plan_, node)->choose_layouts(request);
    return request.input_layouts[operand];
  }

  bool all_accept(const Users& users, const Layout& layout) const {
    return std::all_of(users.ops.begin(), users.ops.end(), [&](const auto& user) {
      return wanted(*user.first, user.second, layout) == layout;
    });
  }

  void settle(int32_t id, const Users& users) {
    Storage& storage = plan_.storages[id];
    if (!is_kept(id) || storage.resized || users.plain_only) return;
    for (const auto& [node, operand] : users.ops) {
      const Layout layout = wanted(*node, operand, {});
      if (layout.kind == LayoutKind::kPlain) continue;
      if (!all_accept(users, layout) || !take_followers(users, layout)) continue;
      storage.layout = layout;
      for (int32_t follower : followers_) {
        plan_.storages[follower].layout = layout;
      }
      return;
    }
  }

  // Collects the other states of the chains, which must get the same layout. Returns false if one
  // of them cannot, because of its other users.
  bool take_followers(const Users& users, const Layout& layout) {
    followers_.clear();
    for (const Chain* chain : users.chains) {
      if (chain->draws || layout.is_panels()) return false;
      for (const auto* ids : {&chain->inputs, &chain->outputs}) {
        for (ValueId id : *ids) {
          if (id == kNoValue) continue;
          const int32_t other = plan_.value(id).storage;
          const ir::Type& type = plan_.value(id).type;
          if (!plan_.fills(id, chain->space)) continue;
          if (!is_kept(other)) continue;
          const Users& others = users_.at(other);
          const Storage& held = plan_.storages[other];
          const bool same_size = ir::size_of(type.dtype) == ir::size_of(held.type.dtype);
          if (others.plain_only || held.resized || !same_size) return false;
          if (!all_accept(others, layout)) return false;
          if (others.ops.empty()) followers_.insert(other);
          for (const Chain* further : others.chains) {
            if (std::find(users.chains.begin(), users.chains.end(), further) ==
                users.chains.end()) {
              return false;
            }
          }
        }
      }
    }
    return true;
  }

  Plan& plan_;
  std::map<int32_t, Users> users_;  // by storage
  std::set<int32_t> followers_;
};

class ValueLayouts {
 public:
  ValueLayouts(Plan& plan, const CarriedLayouts& carried, std::vector<Node>& block, int ipu)
      : plan_(plan), carried_(carried), block_(block), ipu_(ipu) {}

  void run() {
    for (Node& node : block_) {
      support::check_interrupt();
      for_each_block(node, [&](std::vector<Node>& inner) {
        ValueLayouts(plan_, carried_, inner, ipu_).run();
      });
      if (auto* chain = as<ChainNode>(node)) {
        settle_chain(std::move(*chain));
      } else {
        settle_node(node);
      }
    }
    block_ = std::move(result_);
  }

 private:
  Storage& storage(ValueId id) { return plan_.storage_of(id); }

  // Returns `id` in `layout`, if necessary by a reorder before the current node.
  ValueId in_layout(ValueId id, const Layout& layout) {
    if (id == kNoValue || storage(id).layout == layout) return id;
    const Storage held = storage(id);
    if (held.is_fixed()) return kept_copy(id, layout);
    const std::pair entry(id, layout.kind);
    const bool keeps = held.base == Base::kArena && held.writers == 1;
    if (auto known = copies_.find(entry); keeps && known != copies_.end()) return known->second;
    const ValueId copy = plan_.add_value(plan_.value(id).type, plan_.value(id).name, ipu_);
    storage(copy).layout = layout;
    storage(copy).writers = 1;
    result_.emplace_back(ReorderNode{id, copy});
    copies_[entry] = copy;
    return copy;
  }

  // Returns a copy of a state or constant that is never written. The copy is made along with the
  // state.
  ValueId kept_copy(ValueId id, const Layout& layout) {
    const int32_t source = plan_.value(id).storage;
    for (size_t i = 0; i < plan_.storages.size(); ++i) {
      const Storage& other = plan_.storages[i];
      if (other.copy_of == source && other.layout == layout) return value_of(id, i);
    }
    Storage copy = storage(id);
    copy.layout = layout;
    copy.copy_of = source;
    plan_.storages.push_back(std::move(copy));
    return value_of(id, plan_.storages.size() - 1);
  }

  ValueId value_of(ValueId like, size_t storage) {
    Value value = plan_.value(like);
    value.storage = static_cast<int32_t>(storage);
    plan_.values.push_back(std::move(value));
    return static_cast<ValueId>(plan_.values.size() - 1);
  }

  void settle_node(Node& node) {
    const auto inputs = inputs_of(node), outputs = outputs_of(node);
    const Layout carried = carried_.of(node);
    std::vector<Layout> taken(inputs.size(), carried), made_in(outputs.size(), carried);
    auto* op = as<OpNode>(node);
    if (const KernelRow* row = op ? choosing_row(plan_, *op) : nullptr) {
      KernelRequest request = make_request(plan_, *op);
      row->choose_layouts(request);
      taken = std::move(request.input_layouts);
      made_in = std::move(request.output_layouts);
    }
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = in_layout(inputs[i], taken[i]);
    std::vector<ReorderNode> after;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Layout& wanted = made_in[i];
      ValueId& id = outputs[i];
      if (id == kNoValue || storage(id).layout == wanted) continue;
      if (storage(id).takes_any_layout()) {
        storage(id).layout = wanted;
        continue;
      }
      const ValueId made = in_another_layout(id, wanted, after);
      if (op && op->epilogue && i == 0) rename_inputs(*op->epilogue, id, made);
      id = made;
    }
    std::optional<ChainNode> apart;
    std::vector<ReorderNode> ended;
    if (op && op->epilogue && !settle_epilogue(*op, ended)) {
      op->epilogue->inputs[0] = op->outputs[0];
      apart = ChainNode{std::move(*op->epilogue)};
      op->epilogue.reset();
    }
    result_.push_back(std::move(node));
    for (ReorderNode& move : after) result_.emplace_back(std::move(move));
    for (ReorderNode& move : ended) result_.emplace_back(std::move(move));
    if (apart) settle_chain(std::move(*apart));
  }

  // Returns a value to be made in the layout, from which `after` then makes `id`.
  ValueId in_another_layout(ValueId id, const Layout& layout, std::vector<ReorderNode>& after) {
    const ValueId made = plan_.add_value(plan_.value(id).type, plan_.value(id).name, ipu_);
    storage(made).layout = layout;
    storage(made).writers = 1;
    after.push_back(ReorderNode{made, id});
    copies_[{id, layout.kind}] = made;
    return made;
  }

  // Makes the chain work in the element order of the producer's memory. Outputs that cannot have
  // this order are reordered afterwards, in `after`. Returns false where this moves more memory
  // than a reorder of the producer's result does.
  bool settle_epilogue(OpNode& node, std::vector<ReorderNode>& after) {
    Chain& chain = *node.epilogue;
    const Layout layout = storage(node.outputs[0]).layout;
    int64_t moved = 0;
    for (ValueId id : chain.outputs) {
      if (storage(id).layout == layout || storage(id).takes_any_layout()) continue;
      if (!is_made_by(chain, id)) return false;
      moved += plan_.value(id).type.bytes();
    }
    if (moved > plan_.value(node.outputs[0]).type.bytes()) return false;
    for (ValueId& id : chain.outputs) {
      if (storage(id).layout == layout) continue;
      if (storage(id).takes_any_layout()) {
        storage(id).layout = layout;
        continue;
      }
      const ValueId made = in_another_layout(id, layout, after);
      for (ChainOp& op : chain.ops) {
        std::replace(op.results.begin(), op.results.end(), id, made);
        std::replace(op.inputs.begin(), op.inputs.end(), id, made);
      }
      id = made;
    }
    take_inputs(chain, layout);
    return true;
  }

  // Returns whether the chain writes the whole value, and nothing else has the value's memory.
  bool is_made_by(const Chain& chain, ValueId id) {
    return plan_.fills(id, chain.space) && storage(id).base == Base::kArena &&
           storage(id).writers == 1 &&
           std::none_of(chain.inputs.begin(), chain.inputs.end(), [&](ValueId input) {
             return input != kNoValue && plan_.value(input).storage == plan_.value(id).storage;
           });
  }

  void take_inputs(Chain& chain, const Layout& layout) {
    for (ValueId& id : chain.inputs) {
      if (id == kNoValue) continue;
      const bool full = plan_.fills(id, chain.space);
      const ValueId held = in_layout(id, full ? layout : Layout{});
      if (held == id) continue;
      rename_inputs(chain, id, held);
      id = held;
    }
  }

  // Lets the chain's ops read `to` instead of `from`.
  void rename_inputs(Chain& chain, ValueId from, ValueId to) {
    for (ChainOp& op : chain.ops) {
      for (ValueId& operand : op.inputs) {
        if (operand != kNoValue && plan_.same_memory(operand, from)) operand = to;
      }
    }
  }

  void settle_chain(ChainNode node) {
    Chain& chain = node.chain;
    const Layout layout = chain_layout(chain);
    take_inputs(chain, layout);
    for (ValueId id : chain.outputs) storage(id).layout = layout;
    result_.emplace_back(std::move(node));
  }

  // Returns the layout of an output whose layout is fixed, else of the first input that is not
  // plain.
  Layout chain_layout(const Chain& chain) {
    for (ValueId id : chain.outputs) {
      if (!storage(id).takes_any_layout()) return storage(id).layout;
    }
    if (chain.draws) return {};
    for (ValueId id : chain.inputs) {
      if (!plan_.fills(id, chain.space)) continue;
      const Layout& layout = storage(id).layout;
      if (layout.kind != LayoutKind::kPlain) return layout;
    }
    return {};
  }

  Plan& plan_;
  const CarriedLayouts& carried_;
  std::vector<Node>& block_;
  int ipu_;
  std::vector<Node> result_;
  std::map<std::pair<ValueId, LayoutKind>, ValueId> copies_;
};

}  // namespace

void choose_layouts(Plan& plan) {
  if (!plan.options.layouts || plan.options.reference_only) return;
  StateLayouts(plan).run();
  const CarriedLayouts carried(plan);
  for (size_t i = 0; i < plan.bodies.size(); ++i) {
    ValueLayouts(plan, carried, plan.bodies[i], static_cast<int>(i)).run();
  }
}

}  // namespace poptorch::emulator
