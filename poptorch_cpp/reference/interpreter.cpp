// A value is a buffer of bytes. State and by-reference inputs are shared buffers, so every op that
// names the same memory sees writes.
#include "reference/interpreter.hpp"

#include <cstring>
#include <unordered_map>

#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "reference/kernels.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::reference {
namespace {

using ir::Graph;
using ir::Literal;
using ir::Op;
using ir::Value;
using support::str;

using Buffer = std::shared_ptr<std::vector<std::byte>>;
using Frame = std::unordered_map<const Value*, Buffer>;

Buffer buffer_of(const Literal& literal) {
  return std::make_shared<std::vector<std::byte>>(literal.data(),
                                                  literal.data() + literal.type().bytes());
}

Buffer zeros(const Type& type) {
  auto buffer = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(type.bytes()));
  buffer->reserve(1);  // an address even for an empty value
  return buffer;
}

Doubles doubles_of(const Type& type, const Buffer& buffer) {
  return to_doubles(type.dtype, buffer->data(), type.elements());
}

Literal literal_of(const Type& type, const Buffer& buffer) { return Literal(type, *buffer); }

// The state of one replica.
struct Replica {
  std::map<std::string, Buffer> states;
  std::map<std::string, std::vector<Literal>> streams;
  std::map<std::string, size_t> taken;  // transfers that host_load has taken
  std::map<std::string, std::vector<Literal>> remotes;
};

double combine(const std::string& how, double a, double b) {
  if (how == "mul") return a * b;
  if (how == "min") return b != b || b < a ? b : a;  // NaN stays
  if (how == "max") return b != b || a < b ? b : a;
  if (how == "and") return a != 0 && b != 0;
  if (how == "or") return a != 0 || b != 0;
  return a + b;
}

// Computes the result of the replica of `rank` in its group from the operands of all members, in
// order.
using Collective = Doubles (*)(const Op& op, std::vector<Doubles> members, int rank);

Doubles reduced(const Op& op, std::vector<Doubles> members, int rank) {
  const auto& reduction = op.attr<std::string>("op");
  if (reduction == "local") return members[rank];
  if (reduction == "square_add") {
    for (Doubles& member : members) {
      for (double& x : member) x *= x;
    }
  }
  Doubles out = members[0];
  for (size_t i = 1; i < members.size(); ++i) {
    for (size_t k = 0; k < out.size(); ++k) {
      out[k] = rounded_to(op.operand(0)->type().dtype, combine(reduction, out[k], members[i][k]));
    }
  }
  if (reduction == "mean") {
    for (double& x : out) x /= static_cast<double>(members.size());
  }
  return out;
}

Doubles gathered(const Op&, std::vector<Doubles> members, int) {
  Doubles out;
  for (const Doubles& member : members) out.insert(out.end(), member.begin(), member.end());
  return out;
}

Doubles scattered(const Op& op, std::vector<Doubles> members, int rank) {
  const auto size = static_cast<int64_t>(members.size());
  const Doubles out = reduced(op, std::move(members), rank);
  const auto part = static_cast<int64_t>(out.size()) / size;
  return Doubles(out.begin() + rank * part, out.begin() + (rank + 1) * part);
}

// Returns row `rank` of each member.
Doubles exchanged(const Op&, std::vector<Doubles> members, int rank) {
  Doubles out;
  for (const Doubles& member : members) {
    const auto row = static_cast<int64_t>(member.size() / members.size());
    out.insert(out.end(), member.begin() + rank * row, member.begin() + (rank + 1) * row);
  }
  return out;
}

const std::map<std::string, Collective> kCollectives = {{"all_reduce", reduced},
                                                        {"all_gather", gathered},
                                                        {"reduce_scatter", scattered},
                                                        {"all_to_all", exchanged}};

}  // namespace

struct Interpreter::Impl {
  const ir::Module& module;
  std::vector<Replica> replicas;
  uint64_t seed;
  const Interpreter* owner;
  uint64_t round = 0;  // of the repeats that it is in, the innermost varying fastest

  using Frames = std::vector<Frame>;  // of each replica

  std::vector<std::vector<Buffer>> run_graph(const Graph& graph,
                                             const std::vector<std::vector<Buffer>>& inputs) {
    Frames frames(replicas.size());
    for (size_t r = 0; r < frames.size(); ++r) {
      for (size_t i = 0; i < graph.inputs().size(); ++i) {
        const Value* input = graph.inputs()[i].get();
        // By-value inputs are copied: the callee must not change the caller's tensor.
        Buffer given = inputs[r].at(i);
        frames[r][input] =
            input->by_reference() ? given : std::make_shared<std::vector<std::byte>>(*given);
      }
    }
    for (Op* op : graph.ops()) run_op(*op, frames);
    std::vector<std::vector<Buffer>> outputs(replicas.size());
    for (size_t r = 0; r < frames.size(); ++r) {
      for (const Value* output : graph.outputs()) {
        outputs[r].push_back(std::make_shared<std::vector<std::byte>>(*frames[r].at(output)));
      }
    }
    return outputs;
  }

  void run_op(const Op& op, Frames& frames) {
    if (op.def().runs_graphs()) return run_region(op, frames);
    if (op.role() == ir::Role::kCollective) return run_collective(op, frames);
    using Rule = void (Impl::*)(const Op&, Frame&, Replica&);
    static const std::map<std::string, Rule> kRules = {{"host_load", &Impl::load},
                                                       {"host_store", &Impl::store},
                                                       {"remote_load", &Impl::load_remote},
                                                       {"remote_store", &Impl::store_remote}};
    const auto rule = kRules.find(op.name());
    for (size_t r = 0; r < frames.size(); ++r) {
      if (const std::string* slot = ir::slot_of(&op)) {
        frames[r][op.result()] = replicas[r].states.at(*slot);
      } else if (rule == kRules.end()) {
        run_kernel(op, frames[r], r);
      } else {
        (this->*rule->second)(op, frames[r], replicas[r]);
      }
    }
  }

  void run_region(const Op& op, Frames& frames) {
    std::vector<std::vector<Buffer>> inputs(frames.size());
    for (size_t r = 0; r < frames.size(); ++r) {
      for (size_t i = ir::first_argument(op); i < op.operand_count(); ++i) {
        inputs[r].push_back(frames[r].at(op.operand(i)));
      }
    }
    std::vector<std::vector<Buffer>> results(frames.size());
    if (ir::is_loop(op)) {
      for (size_t r = 0; r < frames.size(); ++r) {
        results[r].assign(inputs[r].begin(),
                          inputs[r].begin() + static_cast<int64_t>(op.result_count()));
      }
      const int64_t count = ir::rounds_of(op);
      const uint64_t outer = round;
      for (int64_t i = 0; i < count; ++i) {
        round = outer * static_cast<uint64_t>(count) + static_cast<uint64_t>(i);
        results = run_graph(ir::body_of(op), inputs);
        for (size_t r = 0; r < frames.size(); ++r) {
          std::copy(results[r].begin(), results[r].end(), inputs[r].begin());
        }
      }
      round = outer;
    } else if (ir::is_choice(op)) {
      // Replicas may branch differently; in tests, branches do not contain collectives.
      bool yes = (*frames[0].at(op.operand(0)))[0] != std::byte{0};
      results = run_graph(ir::body_of(op, yes ? 0 : 1), inputs);
    } else {
      results = run_graph(ir::body_of(op), inputs);
    }
    for (size_t r = 0; r < frames.size(); ++r) {
      for (size_t i = 0; i < op.result_count(); ++i) frames[r][op.result(i)] = results[r][i];
    }
  }

  void run_collective(const Op& op, Frames& frames) {
    const int count = static_cast<int>(frames.size());
    int size = static_cast<int>(op.attr<int64_t>("group_size"));
    const int stride = static_cast<int>(op.attr<int64_t>("group_stride"));
    if (size == 0) size = count;
    for (int r = 0; r < count; ++r) {
      const int rank = r / stride % size, first = r - rank * stride;
      std::vector<Doubles> members;
      for (int i = 0; i < size; ++i) {
        members.push_back(
            doubles_of(op.operand(0)->type(), frames[first + i * stride].at(op.operand(0))));
      }
      const Doubles out = kCollectives.at(op.name())(op, std::move(members), rank);
      Buffer result = zeros(op.result()->type());
      from_doubles(op.result()->type().dtype, out.data(), static_cast<int64_t>(out.size()),
                   result->data());
      frames[r][op.result()] = result;
    }
  }

  void load(const Op& op, Frame& frame, Replica& replica) {
    const auto& name = op.attr<std::string>("stream");
    auto& transfers = replica.streams[name];
    size_t& next = replica.taken[name];
    if (next >= transfers.size()) {
      throw support::InternalError(str("[interpreter] stream '", name, "' has no more data"));
    }
    frame[op.result()] = buffer_of(transfers[next++]);
  }

  void store(const Op& op, Frame& frame, Replica& replica) {
    replica.streams[op.attr<std::string>("stream")].push_back(
        literal_of(op.operand(0)->type(), frame.at(op.operand(0))));
  }

  void load_remote(const Op& op, Frame& frame, Replica& replica) {
    frame[op.result()] = buffer_of(remote_row(op, frame, replica, op.operand(0)));
  }

  void store_remote(const Op& op, Frame& frame, Replica& replica) {
    remote_row(op, frame, replica, op.operand(1)) =
        literal_of(op.operand(0)->type(), frame.at(op.operand(0)));
  }

  Literal& remote_row(const Op& op, Frame& frame, Replica& replica, const Value* row) {
    int32_t index;
    std::memcpy(&index, frame.at(row)->data(), 4);
    return replica.remotes.at(op.attr<std::string>("buffer")).at(static_cast<size_t>(index));
  }

  void run_kernel(const Op& op, Frame& frame, size_t replica) {
    std::vector<std::optional<Type>> inputs;
    std::vector<Type> outputs;
    std::vector<std::byte*> buffers;
    for (const Value* operand : op.operands()) {
      inputs.push_back(operand ? std::optional(operand->type()) : std::nullopt);
      buffers.push_back(operand ? frame.at(operand)->data() : nullptr);
    }
    for (size_t i = 0; i < op.result_count(); ++i) {
      const Value* result = op.result(i);
      // A result of an op that writes is the memory of the written operand.
      const auto& writes = op.def().writes;
      frame[result] = i < writes.size() ? frame.at(op.operand(static_cast<size_t>(writes[i])))
                                        : zeros(result->type());
      outputs.push_back(result->type());
      buffers.push_back(frame[result]->data());
    }
    const RandomKey key{seed, op.id(), static_cast<uint32_t>(replica), owner->micro_batch, round};
    run_reference({op.def(), op.attrs(), inputs, outputs, buffers.data(), key});
  }
};

Interpreter::Interpreter(const ir::Module& module, int replicas, uint64_t seed)
    : impl_(new Impl{.module = module,
                     .replicas = std::vector<Replica>(static_cast<size_t>(replicas)),
                     .seed = seed,
                     .owner = this}) {
  for (Replica& replica : impl_->replicas) {
    for (const auto& slot : module.states()) {
      replica.states[slot->name.text()] =
          slot->initial ? buffer_of(*slot->initial) : zeros(slot->type);
    }
    for (const auto& remote : module.remote_buffers()) {
      replica.remotes[remote->name.text()] = std::vector<Literal>(
          static_cast<size_t>(remote->entries), literal_of(remote->type, zeros(remote->type)));
    }
  }
}

Interpreter::~Interpreter() = default;

std::vector<std::vector<Literal>> Interpreter::run(const std::vector<std::vector<Literal>>& inputs,
                                                   const std::string& name) {
  const Graph* graph = impl_->module.find_graph(name);
  if (!graph) throw support::UserError(str("[interpreter] there is no graph @", name));
  std::vector<std::vector<Buffer>> buffers;
  for (const auto& of_replica : inputs) {
    std::vector<Buffer> made;
    for (const Literal& literal : of_replica) made.push_back(buffer_of(literal));
    buffers.push_back(std::move(made));
  }
  auto results = impl_->run_graph(*graph, buffers);
  std::vector<std::vector<Literal>> out(results.size());
  for (size_t r = 0; r < results.size(); ++r) {
    for (size_t i = 0; i < results[r].size(); ++i) {
      out[r].push_back(literal_of(graph->outputs()[i]->type(), results[r][i]));
    }
  }
  return out;
}

std::vector<Literal> Interpreter::run_one(const std::vector<Literal>& inputs,
                                          const std::string& graph) {
  return run({inputs}, graph)[0];
}

Literal Interpreter::state(const std::string& name, int replica) const {
  const ir::StateSlot* slot = impl_->module.find_state(name);
  if (!slot) throw support::UserError(str("[interpreter] there is no state '", name, "'"));
  return literal_of(slot->type, impl_->replicas.at(static_cast<size_t>(replica)).states.at(name));
}

void Interpreter::set_state(const std::string& name, const Literal& value) {
  for (Replica& replica : impl_->replicas) {
    std::memcpy(replica.states.at(name)->data(), value.data(),
                static_cast<size_t>(value.type().bytes()));
  }
}

std::vector<Literal>& Interpreter::stream(const std::string& name, int replica) {
  return impl_->replicas.at(static_cast<size_t>(replica)).streams[name];
}

std::vector<Literal>& Interpreter::remote(const std::string& name, int replica) {
  return impl_->replicas.at(static_cast<size_t>(replica)).remotes.at(name);
}

}  // namespace poptorch::reference
