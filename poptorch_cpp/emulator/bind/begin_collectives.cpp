// begin_collectives makes a collective begin once its operand is available, before its result is
// used. Data of other instances arrives meanwhile, and data for them can be sent together.
#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "emulator/bind/plan.hpp"
#include "emulator/bound/code.hpp"
#include "emulator/bound/instance_group.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {
namespace {

// The limit in bytes of results in progress on an IPU: they occupy memory from the start on.
constexpr int64_t kMostAhead = int64_t{32} << 20;

// Inserts the nodes that begin a block's collectives: one in a loop or branch begins inside it.
class CollectiveHoister {
 public:
  explicit CollectiveHoister(const Plan& plan) : plan_(plan) {}

  std::vector<Node> run(std::vector<Node> block) {
    std::vector<std::vector<size_t>> begun(block.size());  // by the node before which they begin
    for (size_t at = 0; at < block.size(); ++at) {
      support::check_interrupt();
      const Node& node = block[at];
      if (const auto* all = as<CollectiveNode>(node)) begun[earliest(*all, at)].push_back(at);
      for_each_access(plan_, node, [&](int32_t storage, bool write) {
        Passed& passed = passed_[storage];
        passed.access = at + 1;
        if (write) passed.write = at + 1;
      });
    }
    std::vector<Node> nodes;
    nodes.reserve(block.size());
    for (size_t at = 0; at < block.size(); ++at) {
      for (const size_t one : begun[at]) {
        CollectiveNode begin = *as<CollectiveNode>(block[one]);
        begin.begins = true;
        nodes.emplace_back(begin);
      }
      nodes.push_back(std::move(block[at]));
    }
    return nodes;
  }

 private:
  // The places after the last access and the last write so far.
  struct Passed {
    size_t access = 0, write = 0;
  };

  // Returns the first place at which the collective may begin: from there up to its node, no node
  // writes the operand or accesses the result, and at most kMostAhead bytes are in progress.
  size_t earliest(const CollectiveNode& node, size_t at) {
    if (!is_ahead(node)) return at;
    const int64_t bytes = plan_.value(node.to).type.bytes();
    under_way_.emplace_back(at, bytes);
    ahead_ += bytes;
    while (ahead_ > kMostAhead && under_way_.size() > 1) {
      first_ = under_way_.front().first + 1;
      ahead_ -= under_way_.front().second;
      under_way_.pop_front();
    }
    const size_t operand = passed_[plan_.value(node.from).storage].write;
    const size_t result = passed_[plan_.value(node.to).storage].access;
    return std::max({first_, operand, result});
  }

  // A collective within this host, whose caches are shared, does not begin ahead: it is faster if
  // results can reuse each other's memory.
  bool is_ahead(const CollectiveNode& node) const {
    if (plan_.options.begin_ahead) return *plan_.options.begin_ahead;
    const Share& share = plan_.options.share;
    if (share.instances == 1 || share.on_this_host.empty()) return false;
    const CollectiveSpec spec = collective_spec(plan_, node);
    return std::ranges::any_of(share.groups(spec.groups), [&](int group) {
      return !share.is_on_one_host(group, spec.groups);
    });
  }

  const Plan& plan_;
  std::unordered_map<int32_t, Passed> passed_;  // by storage
  std::deque<std::pair<size_t, int64_t>> under_way_;
  int64_t ahead_ = 0;
  size_t first_ = 0;
};

// Numbers the collectives independently of where they begin, because instances must agree on the
// numbers.
void begin_in(Plan& plan, std::vector<Node>& block) {
  bool any = false;
  for (Node& node : block) {
    if (auto* collective = as<CollectiveNode>(node)) {
      collective->number = plan.collectives++;
      any = true;
    }
    for_each_block(node, [&](std::vector<Node>& inner) { begin_in(plan, inner); });
  }
  if (any) block = CollectiveHoister(plan).run(std::move(block));
}

// Chooses how operands travel. A short operand is sent even if other instances could read it.
void choose_ways(const Plan& plan, CollectiveSpec& spec) {
  const Share& share = plan.options.share;
  spec.ways.assign(static_cast<size_t>(spec.groups.count()), Way::kLocal);
  for (const int number : share.groups(spec.groups)) {
    const InstanceGroup group(share, number, spec.groups);
    if (group.places() == 1) continue;
    const bool shared = group.is_on_one_host && spec.operand_bytes() >= share.least_shared;
    spec.ways[number] = shared ? Way::kShared : Way::kSent;
  }
}

}  // namespace

CollectiveSpec collective_spec(const Plan& plan, const CollectiveNode& node) {
  const ir::Attrs& attrs = node.instruction->attrs;
  auto attr = [&](const char* name, auto fallback) {
    using T = decltype(fallback);
    const ir::Attr* given = attrs.find(name);
    if (given) return std::get<T>(*given);
    const ir::AttrDef* row = node.def->find_attr(name);
    return row && row->default_value ? std::get<T>(*row->default_value) : fallback;
  };
  const ir::Type& type = plan.value(node.from).type;
  CollectiveSpec spec{
      .kind = collective_kind(node.def->name),
      .reduction = reduction(attr("op", std::string("sum"))),
      .groups = {plan.program.replicas, static_cast<int>(attr("group_size", int64_t{0})),
                 static_cast<int>(attr("group_stride", int64_t{1}))},
      .dtype = type.dtype,
      .elements = type.elements()};
  choose_ways(plan, spec);
  return spec;
}

void begin_collectives(Plan& plan) {
  for (auto& body : plan.bodies) begin_in(plan, body);
}

}  // namespace poptorch::emulator
