// Prints a plan, for tests of the passes: its storages and values, as in the text of a code, then
// its nodes.
#include <sstream>

#include "emulator/bind/plan.hpp"
#include "emulator/bound/print_values.hpp"
#include "emulator/bound/text.hpp"
#include "program/text.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

using support::str;

class PlanPrinter {
 public:
  explicit PlanPrinter(const Plan& plan) : plan_(plan), tables_(plan, plan.program) {}

  std::string run(bool with_tables) {
    for (const auto& body : plan_.bodies) note(body);
    if (with_tables) tables_.print(out_);
    for (size_t i = 0; i < plan_.bodies.size(); ++i) {
      out_ << "ipu " << i;
      if (plan_.arena_bytes[i] != 0) out_ << " @[arena=" << plan_.arena_bytes[i] << "]";
      out_ << " {\n";
      print_block(plan_.bodies[i], 1);
      out_ << "}\n";
    }
    return out_.str();
  }

 private:
  void note(const std::vector<Node>& block) {
    auto use = [&](std::span<const ValueId> ids) {
      for (ValueId id : ids) tables_.use(id);
    };
    for (const Node& node : block) {
      use(inputs_of(node));
      use(outputs_of(node));
      if (const Chain* chain = chain_of(node)) {
        use(chain->inputs);
        use(chain->outputs);
      }
      if (const auto* rows = as<RowsNode>(node)) note(rows->members);
      if (const KernelCall* call = call_of(node)) tables_.use(call->workspace);
      for_each_block(node, [&](const std::vector<Node>& inner) { note(inner); });
    }
  }

  void print_block(const std::vector<Node>& block, int depth) {
    const std::string indent(static_cast<size_t>(depth) * 2, ' ');
    for (const Node& node : block) {
      out_ << indent;
      if (const auto* loop = as<LoopNode>(node)) {
        out_ << "loop(" << loop->instruction->count << ") {\n";
        print_block(loop->body, depth + 1);
        out_ << indent << "}\n";
      } else if (const auto* branch = as<BranchNode>(node)) {
        out_ << "if(" << tables_.name(branch->condition) << ") {\n";
        print_block(branch->taken, depth + 1);
        out_ << indent << "} else {\n";
        print_block(branch->otherwise, depth + 1);
        out_ << indent << "}\n";
      } else {
        out_ << line(node) << call_text(node) << "\n";
      }
    }
  }

  std::string line(const Node& node) const {
    const auto inputs = inputs_of(node), outputs = outputs_of(node);
    std::string text = outputs.empty() ? "" : tables_.list(outputs) + " = ";
    const std::string operands = "(" + tables_.list(inputs) + ")";
    return std::visit(
        Overloaded{[&](const OpNode& op) {
                     text += op.def->name + operands;
                     return op.epilogue ? str(text, "; ", chain_text(*op.epilogue)) : text;
                   },
                   [&](const ChainNode& chain) { return chain_text(chain.chain); },
                   [&](const RowsNode& rows) {
                     std::vector<std::string> members;
                     for (const Node& member : rows.members) members.push_back(line(member));
                     return support::join(members, " then ");
                   },
                   [&](const ReorderNode&) { return str(text, "reorder", operands); },
                   [&](const CopyNode&) { return str(text, "copy", operands); },
                   [&](const CollectiveNode& all) {
                     return str(text, all.begins ? "begin " : "", all.def->name, operands);
                   },
                   [&](const TransferNode& move) {
                     return str(text, program::row_of(move.instruction->kind).word, operands);
                   },
                   [&](const auto&) { return text; }},
        static_cast<const AnyNode&>(node));
  }

  std::string chain_text(const Chain& chain) const {
    std::vector<std::string> ops;
    for (const ChainOp& op : chain.ops) ops.push_back(op.def->name);
    return str(tables_.list(chain.outputs), " = [", support::join(ops, " "), "](",
               tables_.list(chain.inputs), ")");
  }

  // Returns what choose_kernels has set.
  std::string call_text(const Node& node) const {
    const KernelCall* call = call_of(node);
    if (!call || !call->kernel || !call->kernel->bound) return "";
    std::string text = " @[";
    const auto* op = std::get_if<OpSpec>(&call->kernel->spec);
    text += kProviderWords[static_cast<size_t>(op ? op->provider : Provider::kFast)];
    if (call->workspace != kNoValue) text += " workspace=" + tables_.name(call->workspace);
    return text + (call->prepared ? " prepared]" : "]");
  }

  const Plan& plan_;
  TablePrinter tables_;
  std::ostringstream out_;
};

}  // namespace

std::string print(const Plan& plan) { return PlanPrinter(plan).run(true); }

std::string print_nodes(const Plan& plan) { return PlanPrinter(plan).run(false); }

}  // namespace poptorch::emulator
