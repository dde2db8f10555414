// join_rows joins chains and reductions over the rows of the same tensors into one kernel: norms
// and softmax as users write them. The kernel computes a block of rows at a time (joined_rows.hpp),
// so that what its members exchange stays in the cache, and needs no memory if nothing else reads
// it.
//
// A group is open while nodes that follow can join it. Nodes that it does not affect run before it;
// those that it affects wait until it is complete, and may then begin a group.
#include <algorithm>
#include <deque>

#include "emulator/bind/rows_node.hpp"
#include "support/flat_map.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {
namespace {

constexpr size_t kMostMembers = 24;
constexpr size_t kMostWaiting = 12;     // nodes that wait for a group
constexpr int64_t kLongestRow = 16384;  // elements

// A node reads or writes a value. `by_rows`: row r of the node accesses only row r of the value.
struct Access {
  ValueId id;
  bool write;
  bool by_rows;
};

struct Member {
  Node node;
  std::vector<Access> accesses;
};

class RowJoiner {
 public:
  RowJoiner(Plan& plan, std::vector<Node>& block, const Table<StorageId, int>& uses)
      : plan_(plan),
        maker_(plan.program, plan.registry, plan, plan.instructions, plan.options.threads),
        block_(block),
        uses_(uses) {}

  void run() {
    for (Node& node : block_) {
      for_each_block(node, [&](std::vector<Node>& inner) { RowJoiner(plan_, inner, uses_).run(); });
    }
    note_reductions();
    std::deque<Node> queue(std::make_move_iterator(block_.begin()),
                           std::make_move_iterator(block_.end()));
    block_.clear();
    while (!queue.empty() || !group_.empty()) {
      support::check_interrupt();
      if (queue.empty() || !see(queue)) close(queue);
    }
  }

 private:
  // Notes the rows of each storage that a reduction reads.
  void note_reductions() {
    for (const Node& node : block_) {
      if (const int64_t rows = rows_of(node)) {
        reduced_[plan_.value(as<OpNode>(node)->inputs[0]).storage] = rows;
      }
    }
  }

  // Returns the rows of a reduction; 0 for other nodes.
  int64_t rows_of(const Node& node) const {
    const auto* op = as<OpNode>(node);
    if (!op || op->epilogue || op->inputs.size() != 1 || op->outputs.size() != 1) return 0;
    if (op->outputs[0] == kNoValue || !op->def->writes.empty() || !op->call.kernel) return 0;
    const int64_t elements = plan_.value(op->inputs[0]).type.elements();
    const int64_t rows = plan_.value(op->outputs[0]).type.elements();
    if (rows < 2 || rows == elements || elements < plan_.options.least_joined) return 0;
    if (elements / rows > kLongestRow || op->call.workspace != kNoValue) return 0;
    const BoundKernel& kernel = *op->call.kernel->bound;
    return has_fast_kernel(op->call) && kernel.divides_into(rows) ? rows : 0;
  }

  // Takes the next node of the queue, unless the group must be complete before.
  bool see(std::deque<Node>& queue) {
    Node& node = queue.front();
    if (!call_of(node) && !is_stream(node)) {
      if (!group_.empty()) return false;
      block_.push_back(std::move(node));
    } else {
      std::vector<Access> accesses;
      const int64_t rows = group_.empty() ? rows_to_begin(node) : rows_;
      const bool fits = rows > 0 && divides(node, rows, accesses);
      if (!fits) accesses = all_accesses(node);
      const bool waits =
          conflicts(accesses, waiting_) || (keeps_order(node) && one_in_order_waits());
      if (fits && group_.empty()) {
        rows_ = rows;
        group_.push_back({std::move(node), std::move(accesses)});
      } else if (fits && !waits && joins(node, accesses)) {
        group_.push_back({std::move(node), std::move(accesses)});
      } else if (waits || conflicts(accesses, group_)) {
        if (waiting_.size() == kMostWaiting) return false;
        waiting_.push_back({std::move(node), std::move(accesses)});
      } else if (!group_.empty() && rows_to_begin(node) > 0) {
        return false;
      } else {
        block_.push_back(std::move(node));
      }
    }
    queue.pop_front();
    return true;
  }

  static bool is_stream(const Node& node) {
    const auto* move = as<TransferNode>(node);
    return move && (move->instruction->kind == Instruction::Kind::kStreamIn ||
                    move->instruction->kind == Instruction::Kind::kStreamOut);
  }
  // Streams, and ops with a side effect, keep their order.
  static bool keeps_order(const Node& node) {
    const auto* op = as<OpNode>(node);
    return is_stream(node) || (op && op->def->side_effect);
  }
  bool one_in_order_waits() const {
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [](const Member& member) { return keeps_order(member.node); });
  }

  // Returns the rows of a group that the node may begin; 0 if it begins none.
  int64_t rows_to_begin(const Node& node) const {
    if (const int64_t rows = rows_of(node)) return rows;
    const auto* chain = as<ChainNode>(node);
    if (!chain) return 0;
    for (ValueId id : chain->chain.outputs) {
      const auto found = reduced_.find(plan_.value(id).storage);
      if (found != reduced_.end()) return found->second;
    }
    return 0;
  }

  static std::vector<Access> all_accesses(const Node& node) {
    std::vector<Access> found;
    for_each_value(node, [&](ValueId id, bool write) { found.push_back({id, write, false}); });
    return found;
  }

  // Returns whether the node can be a member of a group of these rows, and what it accesses.
  bool divides(const Node& node, int64_t rows, std::vector<Access>& accesses) const {
    const auto* chain = as<ChainNode>(node);
    const int64_t own = rows_of(node);
    if (!chain && (own == 0 || own % rows != 0)) return false;
    if (chain && !chain->call.kernel->bound->divides_into(rows)) return false;
    accesses = all_accesses(node);
    for (Access& access : accesses) {
      const Value& value = plan_.value(access.id);
      const ir::Shape& space = chain ? chain->chain.space : value.type.shape;
      access.by_rows = plan_.is_by_parts(access.id, space, rows);
      if (access.write && !access.by_rows) return false;
    }
    return true;
  }

  // Returns whether what the node shares with the group keeps to the rows.
  bool joins(const Node& node, const std::vector<Access>& accesses) const {
    if (group_.size() == kMostMembers) return false;
    if (micro_batch_of(node) != micro_batch_of(group_.front().node)) return false;
    bool linked = false;
    for (const Access& access : accesses) {
      for (const Member& member : group_) {
        for (const Access& other : member.accesses) {
          if (plan_.value(access.id).storage != plan_.value(other.id).storage) continue;
          if ((access.write || other.write) && !(access.by_rows && other.by_rows)) return false;
          linked |= access.by_rows && other.by_rows;
        }
      }
    }
    return linked;
  }

  static int micro_batch_of(const Node& node) {
    const auto* op = as<OpNode>(node);
    const auto* from = op ? op->instruction : chain_of(node)->ops.front().instruction;
    return from->micro_batch_offset;
  }

  bool conflicts(const std::vector<Access>& accesses, const std::vector<Member>& nodes) const {
    for (const Access& access : accesses) {
      for (const Member& member : nodes) {
        for (const Access& other : member.accesses) {
          const bool same = plan_.value(access.id).storage == plan_.value(other.id).storage;
          if (same && (access.write || other.write)) return true;
        }
      }
    }
    return false;
  }

  // Emits the group, and returns the nodes that waited for it to the queue.
  void close(std::deque<Node>& queue) {
    const bool reduces = std::any_of(group_.begin(), group_.end(), [](const Member& member) {
      return as<OpNode>(member.node) != nullptr;
    });
    if (reduces && group_.size() > 1) {
      block_.emplace_back(join());
    } else {
      for (Member& member : group_) block_.push_back(std::move(member.node));
    }
    group_.clear();
    for (; !waiting_.empty(); waiting_.pop_back()) {
      queue.push_front(std::move(waiting_.back().node));
    }
  }

  RowsNode join() {
    std::vector<Node> members;
    for (Member& member : group_) members.push_back(std::move(member.node));
    return make_rows_node(plan_, maker_, rows_, std::move(members), uses_);
  }

  Plan& plan_;
  KernelMaker maker_;
  std::vector<Node>& block_;
  const Table<StorageId, int>& uses_;             // accesses of all nodes
  support::FlatMap<StorageId, int64_t> reduced_;  // rows of the storages that reductions read
  int64_t rows_ = 0;
  std::vector<Member> group_, waiting_;
};

}  // namespace

void join_rows(Plan& plan) {
  if (!plan.options.fuse || plan.options.reference_only) return;
  const Table<StorageId, int> uses = count_accesses(plan);
  for (auto& body : plan.bodies) RowJoiner(plan, body, uses).run();
}

}  // namespace poptorch::emulator
