// Collectives run on rings, in which an IPU sends a part of the tensor to the next.
#include "program/collective_cost.hpp"

#include <algorithm>

#include "support/saturate.hpp"
#include "target/device.hpp"

namespace poptorch::program {
namespace {

// The layout of a group: its number of domains, and of replicas in the fullest of them.
struct Spread {
  int64_t domains = 1, members = 1;
};

Spread spread_of(const Program& program, int64_t size, int64_t stride) {
  const auto ipus = static_cast<int64_t>(program.ipus.size());
  const int64_t in_domain = std::max<int64_t>(program.link_domain / ipus, 1);  // replicas
  Spread found;
  for (int64_t group = 0; group < program.replicas / size; ++group) {
    const int64_t first = group / stride * size * stride + group % stride;
    Spread here{0, 0};
    int64_t domain = -1, members = 0;
    for (int64_t i = 0; i < size; ++i) {
      const int64_t other = (first + i * stride) / in_domain;
      members = other == domain ? members + 1 : 1;
      here.domains += other != domain;
      here.members = std::max(here.members, members);
      domain = other;
    }
    if (here.domains > found.domains) {
      found = here;
    } else if (here.domains == found.domains) {
      found.members = std::max(found.members, here.members);
    }
  }
  return found;
}

class Parts {
 public:
  explicit Parts(const Program& program) : device_(target::find_device(program.device)) {}

  // Each of `members` sends `numerator` / `denominator` of `bytes`.
  void add(std::string_view name, bool gateway, int64_t members, int64_t bytes, int64_t numerator,
           int64_t denominator) {
    if (members == 1 || bytes == 0) return;
    const int64_t product = support::saturating_product(bytes, numerator);
    const int64_t sent = product / denominator + (product % denominator != 0);
    const auto all = static_cast<double>(sent);
    const int64_t cycles =
        gateway ? target::gateway_cycles(device_, all) : target::link_cycles(device_, all);
    made_.push_back({name, gateway, static_cast<int>(members), sent, cycles});
  }

  void all_reduce(const Spread& group, int64_t bytes) {
    const auto [d, m] = group;
    if (d == 1 || m == 1) return add("all_reduce", d > 1, d * m, bytes, 2 * (d * m - 1), d * m);
    add("reduce_scatter", false, m, bytes, m - 1, m);
    add("all_reduce", true, d, bytes, 2 * (d - 1), m * d);
    add("all_gather", false, m, bytes, m - 1, m);
  }
  void reduce_scatter(const Spread& group, int64_t bytes) {
    const auto [d, m] = group;
    add("reduce_scatter", false, m, bytes, m - 1, m);
    add("reduce_scatter", true, d, bytes, d - 1, m * d);
  }
  // `bytes` is the size of one replica's operand.
  void all_gather(const Spread& group, int64_t bytes) {
    const auto [d, m] = group;
    add("all_gather", true, d, bytes, d - 1, 1);
    add("all_gather", false, m, bytes, d * (m - 1), 1);
  }
  void all_to_all(const Spread& group, int64_t bytes) {
    const auto [d, m] = group;
    add("all_to_all", false, m, bytes, m - 1, d * m);
    add("all_to_all", true, d, bytes, m * (d - 1), d * m);
  }

  std::vector<CollectivePart> take() { return std::move(made_); }

 private:
  const target::Device& device_;
  std::vector<CollectivePart> made_;
};

}  // namespace

std::vector<CollectivePart> collective_parts(const Program& program,
                                             const Instruction& instruction) {
  if (!instruction.collective || program.replicas == 1) return {};
  const std::string& op = instruction.op.text();
  const ir::Attr* reduction = instruction.attrs.find("op");
  if (reduction && std::get<std::string>(*reduction) == "local") return {};
  const auto number = [&](std::string_view name, int64_t otherwise) {
    const ir::Attr* attr = instruction.attrs.find(name);
    return attr ? std::get<int64_t>(*attr) : otherwise;
  };
  const int64_t given = number("group_size", 0), stride = number("group_stride", 1);
  const Spread group = spread_of(program, given ? given : program.replicas, given ? stride : 1);
  const int64_t bytes = program.tensors[instruction.inputs[0]].type.bytes();
  Parts parts(program);
  if (op == "all_reduce") parts.all_reduce(group, bytes);
  if (op == "reduce_scatter") parts.reduce_scatter(group, bytes);
  if (op == "all_gather") parts.all_gather(group, bytes);
  if (op == "all_to_all") parts.all_to_all(group, bytes);
  return parts.take();
}

std::vector<CollectivePart> gather_parts(const Program& program, int shards, int64_t bytes) {
  Parts parts(program);
  parts.all_gather(spread_of(program, shards, 1), bytes);
  return parts.take();
}

int64_t ring_buffer(const Program& program, const Instruction& instruction) {
  const std::string& op = instruction.op.text();
  if (op != "all_reduce" && op != "reduce_scatter") return 0;
  const int64_t bytes = program.tensors[instruction.inputs[0]].type.bytes();
  int64_t largest = 0, members = 1;
  for (const CollectivePart& part : collective_parts(program, instruction)) {
    members = op == "reduce_scatter" ? members * part.members : part.members;
    largest = std::max(largest, bytes / members);
  }
  return largest;
}

int64_t cycles_of(const std::vector<CollectivePart>& parts) {
  int64_t cycles = 0;
  for (const CollectivePart& part : parts) cycles = support::saturating_sum(cycles, part.cycles);
  return cycles;
}

}  // namespace poptorch::program
