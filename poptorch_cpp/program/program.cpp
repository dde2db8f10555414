// Sizes of host buffers and groups of replicas, which the runtime and the façade share.
#include "program/program.hpp"

#include <algorithm>
#include <iterator>

#include "ir/op_def.hpp"
#include "program/replica_groups.hpp"
#include "support/strings.hpp"

namespace poptorch::program {

using support::str;

int64_t Stream::kept() const {
  if (host.to_device || keep == Keep::kAll) return transfers;
  return keep == Keep::kEveryN ? transfers / period : 1;
}

Type Stream::host_type(int replicas) const {
  return host_type_of(host.to_device ? groups_of(*this, replicas).count() : replicas);
}

Type Stream::host_type_of(int rows) const {
  const int64_t factor = kept() * rows;
  Type type = host.type;
  if (!type.shape.empty()) {
    type.shape[0] *= factor;
  } else if (factor > 1) {
    type.shape = {factor};
  }
  return type;
}

namespace {

const Instruction* find(const std::vector<Instruction>& list, uint64_t op_id) {
  for (const Instruction& instruction : list) {
    if (instruction.op_id == op_id && instruction.kind == Instruction::Kind::kCompute) {
      return &instruction;
    }
    for (const auto& block : instruction.blocks) {
      if (const Instruction* inner = find(block, op_id)) return inner;
    }
  }
  return nullptr;
}

int64_t count_of(const std::vector<Instruction>& block) {
  auto count = static_cast<int64_t>(block.size());
  for (const Instruction& instruction : block) {
    for (const auto& inner : instruction.blocks) count += count_of(inner);
  }
  return count;
}

}  // namespace

int64_t instruction_count(const Program& program) {
  int64_t count = 0;
  for (const IpuProgram& ipu : program.ipus) count += count_of(ipu.body);
  return count;
}

std::string place_of(const Program& program, uint64_t op_id) {
  const Instruction* found = nullptr;
  for (const IpuProgram& ipu : program.ipus) {
    if (!found) found = find(ipu.body, op_id);
  }
  if (!found || (found->location.empty() && found->scope.empty())) return "";
  std::string text = " (";
  if (!found->location.empty()) text += str(found->location.file, ":", found->location.line);
  if (found->scope.empty()) return text + ")";
  return str(text, found->location.empty() ? "" : ", ", "in module '", found->scope, "')");
}

int64_t stash_bytes(const Program& program, int ipu) {
  int64_t total = 0;
  for (const Stash& stash : program.stashes) {
    if (stash.ipu == ipu) total += stash.type.bytes() * stash.depth;
  }
  return total;
}

namespace {

bool picks_rows(const ir::OpDef& def) {
  return std::any_of(def.operand_defs.begin(), def.operand_defs.end(),
                     [](const auto& operand) { return operand.name == "indices"; });
}

// The attribute of a sync that ends a cycle: which transfers it carries.
const Symbol kCarries("carries");
constexpr const char* kLinks = "links";
constexpr const char* kLinksAndHost = "links and host";

}  // namespace

bool ends_cycle(const Instruction& instruction) {
  return instruction.kind == Instruction::Kind::kSync && instruction.attrs.find(kCarries);
}

bool carries_host(const Instruction& end_of_cycle) {
  return std::get<std::string>(*end_of_cycle.attrs.find(kCarries)) == kLinksAndHost;
}

bool is_end_of_cycle(Symbol key, const ir::Attr& value) {
  const auto* text = std::get_if<std::string>(&value);
  return key == kCarries && text && (*text == kLinks || *text == kLinksAndHost);
}

Instruction end_of_cycle(bool carries_host) {
  Instruction sync{.kind = Instruction::Kind::kSync};
  sync.attrs.set(kCarries, std::string(carries_host ? kLinksAndHost : kLinks));
  return sync;
}

void take_row(Instruction& instruction, const ir::OpDef& def) {
  instruction.view = def.is_view();
  instruction.collective = def.role == ir::Role::kCollective;
  instruction.elementwise = def.elementwise;
  instruction.indexed = static_cast<bool>(def.indices) || picks_rows(def);
  instruction.permutes = def.find_attr("permutation") != nullptr;
  const auto& operands = def.operand_defs;
  if (!operands.empty() && operands.back().variadic) return;
  if (instruction.inputs.size() < operands.size()) {
    instruction.inputs.resize(operands.size(), kNoTensor);
  }
}

}  // namespace poptorch::program
