// The printer of text.hpp.
#include <algorithm>
#include <sstream>

#include "emulator/bound/print_values.hpp"
#include "emulator/bound/text.hpp"
#include "program/items.hpp"
#include "program/program.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

using program::Items;
using support::join;
using support::quoted;
using support::str;

using StepKind = Step::Kind;

class CodePrinter {
 public:
  explicit CodePrinter(const Code& code)
      : code_(code),
        instructions_(list_instructions(*code.program)),
        tables_(code, *code.program) {}

  std::string run() {
    for (const IpuCode& ipu : code_.ipus) {
      for (ValueId id : ipu.table) tables_.use(id);
    }
    for (const Kernel& kernel : code_.kernels) {
      for (const ChainSpec* chain : chains_of(kernel.spec)) {
        for (ValueId id : chain->sources) tables_.use(id);
      }
      const auto* rows = std::get_if<RowsSpec>(&kernel.spec);
      if (!rows) continue;
      for (const RowsMember& member : rows->members) {
        for (ValueId id : arguments_of(code_, *code_.program, member)) tables_.use(id);
      }
    }
    print_head();
    tables_.print(out_);
    for (const CollectiveSpec& spec : code_.collectives) print_collective(spec);
    for (size_t i = 0; i < code_.ipus.size(); ++i) print_ipu(i);
    return out_.str();
  }

  std::vector<std::pair<uint64_t, std::string>> op_lines() const {
    constexpr size_t kFusedText = 80;  // a chain may have thousands of ops, each with its line
    std::vector<std::pair<uint64_t, std::string>> lines;
    for (const IpuCode& ipu : code_.ipus) {
      std::vector<std::pair<uint64_t, std::string>> fused;
      for (size_t i = 0; i < ipu.steps.size(); ++i) {
        const Step& step = ipu.steps[i];
        lines.emplace_back(step.op_id, line(ipu, i));
        const KernelSpec* spec = spec_of(step);
        const auto numbers = spec ? instructions_of(*spec) : std::vector<int32_t>();
        if (numbers.size() < 2) continue;
        std::string text = lines.back().second.substr(0, kFusedText);
        if (lines.back().second.size() > kFusedText) text += " ...";
        for (int32_t number : numbers) {
          const uint64_t id = instruction(number).op_id;
          if (id != step.op_id) fused.emplace_back(id, text);
        }
      }
      lines.insert(lines.end(), fused.begin(), fused.end());
    }
    return lines;
  }

 private:
  const program::Instruction& instruction(int32_t number) const { return *instructions_[number]; }
  const KernelSpec* spec_of(const Step& step) const {
    if (step.kind != StepKind::kKernel) return nullptr;
    return &code_.kernels[step.index].spec;
  }

  void print_head() {
    Items items;
    items.add("channels", code_.channel_bytes, {});
    items.add("reference_only", code_.reference_only, false);
    items.add("threads", code_.threads, 1);
    out_ << "code" << items.braced() << "\n";
    for (const CodeRegion& region : code_.regions) {
      Items fields;
      fields.add("parent", region.parent, -1);
      out_ << "region " << quoted(region.name) << fields.braced() << "\n";
    }
  }

  void print_collective(const CollectiveSpec& spec) {
    ir::Strings ways;
    for (Way way : spec.ways) ways.emplace_back(kWayWords[static_cast<size_t>(way)]);
    Items items;
    items.add("elements", spec.elements, int64_t{0});
    items.add("group_size", spec.groups.size, 0);
    items.add("group_stride", spec.groups.stride, 1);
    items.add("reduction", name_of(spec.reduction), name_of(Reduction::kSum));
    items.add("replicas", spec.groups.replicas, 1);
    items.add("ways", ways, {});
    out_ << "collective " << quoted(std::string(name_of(spec.kind))) << " : " << spec.dtype
         << items.braced() << "\n";
  }

  void print_ipu(size_t number) {
    const IpuCode& ipu = code_.ipus[number];
    Items items;
    items.add("arena", ipu.arena_bytes, int64_t{0});
    items.add("loops", ipu.loops, 0);
    items.add("prepared", ipu.prepared, 0);
    out_ << "ipu " << number << items.text(" @[", " ", "]") << " {\n";
    for (size_t i = 0; i < ipu.steps.size(); ++i) {
      out_ << "  " << i << ": " << line(ipu, i) << bracket(ipu, ipu.steps[i]) << "\n";
    }
    out_ << "}\n";
  }

  std::string chain_text(const ChainSpec& chain) const {
    std::vector<std::string> ops;
    for (const ChainSpec::Op& op : chain.ops) {
      ops.push_back(instruction(op.instruction).op.text());
    }
    return str(tables_.list(chain.outputs), " = [", join(ops, " "), "](",
               tables_.list(chain.sources), ")");
  }

  std::string kernel_text(const KernelSpec& spec) const {
    if (const auto* chain = std::get_if<ChainSpec>(&spec)) return chain_text(*chain);
    if (const auto* reorder = std::get_if<ReorderSpec>(&spec)) {
      return str(tables_.name(reorder->to), " = reorder(", tables_.name(reorder->from), ")");
    }
    if (const auto* rows = std::get_if<RowsSpec>(&spec)) {
      std::vector<std::string> members;
      for (const RowsMember& member : rows->members) {
        members.push_back(kernel_text(as_spec(member)));
      }
      return join(members, " then ");
    }
    const auto& op = std::get<OpSpec>(spec);
    std::string text = op.outputs.empty() ? "" : tables_.list(op.outputs) + " = ";
    text += str(instruction(op.instruction).op, "(", tables_.list(op.inputs), ")");
    if (op.epilogue) text += "; " + chain_text(*op.epilogue);
    if (op.provider == Provider::kFast) return text;
    return str(text, " (", kProviderWords[static_cast<size_t>(op.provider)], ")");
  }

  // Returns the text of a step without its bracket.
  std::string line(const IpuCode& ipu, size_t at) const {
    const Step& step = ipu.steps[at];
    if (const KernelSpec* spec = spec_of(step)) return kernel_text(*spec);
    const auto arguments = ipu.arguments(at);
    const std::string_view word = row_of(step.kind).word;
    switch (step.kind) {
      case StepKind::kLoopBegin:
        return str(word, "(", step.count, ")");
      case StepKind::kCopy:
        return str(tables_.name(arguments[1]), " = ", word, "(", tables_.name(arguments[0]), ")");
      case StepKind::kReceive:
      case StepKind::kStreamIn:
      case StepKind::kLoad:
      case StepKind::kRestore:
        return str(tables_.name(arguments[0]), " = ", word, "(", tables_.list(arguments.subspan(1)),
                   ")");
      case StepKind::kBegin:
      case StepKind::kCollective:
        return str(tables_.name(arguments[1]), " = ", step.kind == StepKind::kBegin ? "begin " : "",
                   name_of(code_.collectives[step.index].kind), "(", tables_.name(arguments[0]),
                   ")");
      default:
        return str(word, "(", tables_.list(arguments), ")");
    }
  }

  void add_index(Items& items, const Step& step) const {
    const std::string_view key = row_of(step.kind).index;
    const auto index = static_cast<size_t>(step.index);
    if (key == "stream") {
      items.add(key, code_.program->streams[index].host.name.text(), std::string());
    } else if (key == "remote") {
      items.add(key, code_.program->remote_buffers[index].name.text(), std::string());
    } else if (!key.empty()) {
      items.add(key, step.index, -1);
    }
  }

  static void add_chain(Items& items, const KernelSpec& spec) {
    ir::Ints numbers, wires, stored;
    for (int32_t number : instructions_of(spec)) numbers.push_back(number);
    for (const ChainSpec* chain : chains_of(spec)) {
      for (const ChainSpec::Op& op : chain->ops) {
        wires.insert(wires.end(), op.operands.begin(), op.operands.end());
      }
      stored.insert(stored.end(), chain->stored.begin(), chain->stored.end());
    }
    const auto* rows = std::get_if<RowsSpec>(&spec);
    if (const auto* op = std::get_if<OpSpec>(&spec)) {
      items.add("at", op->instruction, -1);
      items.add("chain", ir::Ints(numbers.begin() + 1, numbers.end()), {});
    } else {
      items.add("at", numbers, {});
    }
    items.add("joined_rows", rows ? rows->rows : 0, int64_t{0});
    items.add("stored", stored, {});
    items.add("wires", wires, {});
  }

  std::string bracket(const IpuCode& ipu, const Step& step) const {
    Items items;
    add_index(items, step);
    if (const KernelSpec* spec = spec_of(step)) add_chain(items, *spec);
    const bool fixed_row =
        (step.kind == StepKind::kLoad || step.kind == StepKind::kStore) && !step.has_row;
    if (step.kind == StepKind::kLoopEnd) items.add("count", step.count, int64_t{-1});
    items.add("id", step.op_id, uint64_t{0});
    items.add("micro_batch", step.micro_batch_offset, 0);
    items.add("per_micro_batch", step.per_micro_batch, false);
    items.add("prepared", step.prepared, -1);
    items.add("region", step.region, -1);
    items.add("repeat", step.is_repeat, false);
    items.add("rewind", step.rewind, 0);
    if (fixed_row) items.add("row", step.count, int64_t{-1});
    items.add("to", step.target, 0);
    if (step.kind == StepKind::kKernel && ipu.table[step.workspace] != kNoValue) {
      items.add("workspace", tables_.plain_name(ipu.table[step.workspace]), std::string());
    }
    return items.text(" @[", " ", "]");
  }

  const Code& code_;
  InstructionTable instructions_;
  TablePrinter tables_;
  std::ostringstream out_;
};

}  // namespace

std::string print(const Code& code) { return CodePrinter(code).run(); }

std::vector<std::pair<uint64_t, std::string>> op_lines(const Code& code) {
  return CodePrinter(code).op_lines();
}

}  // namespace poptorch::emulator
