// Compares structures, in which values correspond by position, and whole modules.
#include <map>
#include <utility>

#include "ir/execution.hpp"
#include "ir/text.hpp"
#include "support/flat_map.hpp"
#include "support/strings.hpp"

namespace poptorch::ir {
namespace {

using support::str;

class Comparison {
 public:
  explicit Comparison(std::string* why) : why_(why) {}

  bool graphs(const Graph& a, const Graph& b) {
    auto where = "@" + a.name().text();
    if (a.inputs().size() != b.inputs().size()) return differ(where + ": number of inputs");
    for (size_t i = 0; i < a.inputs().size(); ++i) {
      const Value *x = a.inputs()[i].get(), *y = b.inputs()[i].get();
      if (x->type() != y->type() || x->by_reference() != y->by_reference()) {
        return differ(str(where, ": input ", i));
      }
      values_[x] = y;
    }
    Op* y = b.first();
    for (Op* x : a.ops()) {
      if (!y) return differ(where + ": one side ends before " + print(*x));
      if (!ops(*x, *y)) return differ(print(*x) + "\n  is not\n" + print(*y));
      y = y->next();
    }
    if (y) return differ(where + ": one side ends before " + print(*y));
    if (!same_values(a.outputs(), b.outputs())) return differ(where + ": the outputs");
    return true;
  }

  bool differ(const std::string& what) {
    if (why_) *why_ = what;
    return false;
  }

 private:
  bool same_values(const std::vector<Value*>& a, const std::vector<Value*>& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!a[i] || !b[i] ? a[i] != b[i] : values_[a[i]] != b[i]) return false;
    }
    return true;
  }

  bool ops(const Op& a, const Op& b) {
    if (&a.def() != &b.def() || !(a.attrs() == b.attrs()) || !(a.placement == b.placement) ||
        !(a.scope == b.scope) || !(a.labels == b.labels) || a.result_count() != b.result_count() ||
        a.after().size() != b.after().size() || !same_values(a.operands(), b.operands()) ||
        (a.forward_id == 0) != (b.forward_id == 0) || forward_of(a) != forward_of(b)) {
      return false;
    }
    for (size_t i = 0; i < a.after().size(); ++i) {
      if (ops_[a.after()[i]] != b.after()[i]) return false;
    }
    for (size_t i = 0; i < a.result_count(); ++i) {
      if (a.result(i)->type() != b.result(i)->type()) return false;
      values_[a.result(i)] = b.result(i);
    }
    ops_[&a] = &b;
    by_id_[{&a.graph(), a.id()}] = by_id_[{&b.graph(), b.id()}] = &b;
    return true;
  }

  // Returns the forward op on b's side, among the ops compared so far.
  const Op* forward_of(const Op& op) const {
    auto it = by_id_.find({&op.graph(), op.forward_id});
    return it == by_id_.end() ? nullptr : it->second;
  }

  std::string* why_;
  support::FlatMap<const Value*, const Value*> values_;
  support::FlatMap<const Op*, const Op*> ops_;
  std::map<std::pair<const Graph*, uint64_t>, const Op*> by_id_;
};

template <typename T, typename Same>
bool same_rows(const std::vector<std::unique_ptr<T>>& a, const std::vector<std::unique_ptr<T>>& b,
               Same same) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(a[i]->name == b[i]->name) || a[i]->type != b[i]->type || !same(*a[i], *b[i])) {
      return false;
    }
  }
  return true;
}

// Values of two graphs are the same if they have the same place: ids of ops are compared.
bool same_place(const Value* a, const Value* b) {
  if (!a || !b) return a == b;
  const Op *x = a->producer(), *y = b->producer();
  return a->index() == b->index() && (x ? y && x->id() == y->id() : !y);
}

bool same_places(const std::vector<Value*>& a, const std::vector<Value*>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_place);
}

bool same_value(const Value& a, const Value& b) {
  return a.type() == b.type() && a.name() == b.name() && a.by_reference() == b.by_reference();
}

bool same_op(const Op& a, const Op& b) {
  if (&a.def() != &b.def() || a.id() != b.id() || a.forward_id != b.forward_id ||
      a.result_count() != b.result_count() || a.after().size() != b.after().size() ||
      !(a.placement == b.placement) || !(a.location == b.location) || !(a.scope == b.scope) ||
      !(a.labels == b.labels) || !(a.attrs() == b.attrs()) ||
      !same_places(a.operands(), b.operands())) {
    return false;
  }
  for (size_t i = 0; i < a.after().size(); ++i) {
    if (a.after()[i]->id() != b.after()[i]->id()) return false;
  }
  for (size_t i = 0; i < a.result_count(); ++i) {
    if (!same_value(*a.result(i), *b.result(i))) return false;
  }
  return true;
}

template <typename T, typename Same>
bool all_same(const std::vector<std::unique_ptr<T>>& a, const std::vector<std::unique_ptr<T>>& b,
              Same same) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const auto& x, const auto& y) { return same(*x, *y); });
}

bool same_graph(const Graph& a, const Graph& b) {
  if (a.name() != b.name() || a.op_count() != b.op_count() ||
      !all_same(a.inputs(), b.inputs(), same_value) || !same_places(a.outputs(), b.outputs())) {
    return false;
  }
  const Op* y = b.first();
  for (const Op* x : a.ops()) {
    if (!same_op(*x, *y)) return false;
    y = y->next();
  }
  return true;
}

}  // namespace

bool structurally_equal(const Module& a, const Module& b, std::string* why) {
  Comparison comparison(why);
  bool states = same_rows(a.states(), b.states(), [](const StateSlot& x, const StateSlot& y) {
    return x.kind == y.kind && x.group_size == y.group_size && x.group_stride == y.group_stride &&
           x.initial == y.initial;
  });
  if (!states) return comparison.differ("the states");
  bool streams = same_rows(a.streams(), b.streams(), [](const HostStream& x, const HostStream& y) {
    return x.to_device == y.to_device;
  });
  if (!streams) return comparison.differ("the streams");
  bool buffers = same_rows(
      a.remote_buffers(), b.remote_buffers(),
      [](const RemoteBuffer& x, const RemoteBuffer& y) { return x.entries == y.entries; });
  if (!buffers) return comparison.differ("the remote buffers");
  if (lines_of(a.execution()) != lines_of(b.execution())) return comparison.differ("the execution");
  if (a.graphs().size() != b.graphs().size()) return comparison.differ("the number of graphs");
  for (const auto& graph : a.graphs()) {
    const Graph* other = b.find_graph(graph->name());
    if (!other) return comparison.differ("graph @" + graph->name().text() + " is missing");
    if (!comparison.graphs(*graph, *other)) return false;
  }
  return true;
}

bool identical(const Module& a, const Module& b) {
  const auto same_state = [](const StateSlot& x, const StateSlot& y) {
    return x.name == y.name && x.type == y.type && x.kind == y.kind &&
           x.group_size == y.group_size && x.group_stride == y.group_stride &&
           x.initial == y.initial;
  };
  const auto same_stream = [](const HostStream& x, const HostStream& y) {
    return x.name == y.name && x.type == y.type && x.to_device == y.to_device;
  };
  const auto same_buffer = [](const RemoteBuffer& x, const RemoteBuffer& y) {
    return x.name == y.name && x.type == y.type && x.entries == y.entries;
  };
  return &a.registry() == &b.registry() && a.newest_op_id() == b.newest_op_id() &&
         all_same(a.states(), b.states(), same_state) &&
         all_same(a.streams(), b.streams(), same_stream) &&
         all_same(a.remote_buffers(), b.remote_buffers(), same_buffer) &&
         all_same(a.graphs(), b.graphs(), same_graph) &&
         lines_of(a.execution()) == lines_of(b.execution());
}

}  // namespace poptorch::ir
