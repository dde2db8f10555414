#include "emulator/bound/parse_steps.hpp"

#include <algorithm>

#include "emulator/bound/text.hpp"
#include "program/program.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {

using support::quoted;
using support::str;

namespace {

using StepKind = Step::Kind;

// The steps whose first argument is their result.
bool begins_with_result(StepKind kind) {
  return kind != StepKind::kCopy && kind != StepKind::kBegin && kind != StepKind::kCollective;
}

}  // namespace

StepParser::StepParser(ir::Lexer& lexer, program::Fields& fields, Code& code,
                       const ValueNames& names)
    : lexer_(lexer),
      fields_(fields),
      code_(code),
      names_(names),
      instructions_(list_instructions(*code.program)) {}

void StepParser::parse(IpuCode& ipu) {
  Line line = parse_line();
  std::vector<Line> joined;
  while (lexer_.accept("then")) joined.push_back(parse_line());
  fields_.read_bracket();
  if (!joined.empty()) {
    joined.insert(joined.begin(), line);
    return add_kernel(ipu, line, take_rows(joined));
  }
  if (line.word.empty() || line.word == "reorder" || fields_.has("at")) {
    return add_kernel(ipu, line, take_spec(line));
  }
  Step step;
  step.kind = kind_of(line);
  step.buffers = static_cast<uint32_t>(ipu.table.size());
  step.count = line.rounds;
  step.has_row =
      (step.kind == StepKind::kLoad || step.kind == StepKind::kStore) && !fields_.has("row");
  take_index(step);
  take_fields(step, ipu);
  const bool swapped = !begins_with_result(step.kind);
  for (const Ids* ids :
       {swapped ? &line.arguments : &line.results, swapped ? &line.results : &line.arguments}) {
    ipu.table.insert(ipu.table.end(), ids->begin(), ids->end());
  }
  ipu.steps.push_back(step);
}

ValueId StepParser::parse_id() {
  if (lexer_.accept("_")) return kNoValue;
  lexer_.expect("%");
  const ir::Token name = lexer_.peek();
  lexer_.name("a value's name");
  const auto found = names_.find(name.text);
  if (found == names_.end()) lexer_.fail_at(name, str("there is no value %", name.text, "."));
  Layout layout;
  if (lexer_.accept(":")) {
    const std::string word = lexer_.name("a layout");
    const auto* known = std::ranges::find(kLayoutWords, word);
    if (known == kLayoutWords.end()) lexer_.fail_at(name, str("'", word, "' is not a layout."));
    layout.kind = static_cast<Layout::Kind>(known - kLayoutWords.begin());
  }
  if (!(layout == code_.storage_of(found->second).layout)) {
    lexer_.fail_at(name, str("%", name.text, " has another layout."));
  }
  return found->second;
}

StepParser::Ids StepParser::parse_results() {
  Ids results;
  if (!lexer_.at("%") && !lexer_.at("_")) return results;
  do results.push_back(parse_id());
  while (lexer_.accept(","));
  lexer_.expect("=");
  return results;
}

StepParser::Ids StepParser::parse_arguments() {
  Ids ids;
  while (!lexer_.accept(")")) {
    if (!ids.empty()) lexer_.expect(",");
    ids.push_back(parse_id());
  }
  return ids;
}

std::vector<std::string> StepParser::parse_ops() {
  std::vector<std::string> ops;
  lexer_.expect("[");
  do ops.push_back(lexer_.name("an op"));
  while (!lexer_.accept("]"));
  return ops;
}

StepParser::Line StepParser::parse_line() {
  Line line;
  line.results = parse_results();
  line.place = lexer_.peek();
  if (lexer_.at("[")) {
    line.ops = parse_ops();
  } else {
    line.begins = lexer_.accept("begin");
    line.word = lexer_.name("a step");
  }
  lexer_.expect("(");
  if (line.word == "loop") {
    line.rounds = lexer_.integer("a number of rounds");
    lexer_.expect(")");
  } else {
    line.arguments = parse_arguments();
  }
  if (lexer_.accept(";")) {
    line.stored = parse_results();
    line.ops = parse_ops();
    lexer_.expect("(");
    line.sources = parse_arguments();
  }
  if (lexer_.accept("(")) {
    const std::string word = lexer_.name("a provider");
    const auto* known = std::ranges::find(kProviderWords, word);
    if (known == kProviderWords.end())
      lexer_.fail_at(line.place, str("'", word, "' is not a provider."));
    line.provider = static_cast<Provider>(known - kProviderWords.begin());
    lexer_.expect(")");
  }
  return line;
}

Step::Kind StepParser::kind_of(const Line& line) const {
  if (fields_.has("collective")) return line.begins ? StepKind::kBegin : StepKind::kCollective;
  const auto* row = std::ranges::find(kStepRows, line.word, &StepRow::word);
  if (row == kStepRows.end()) {
    lexer_.fail_at(line.place, str("there is no step ", quoted(line.word),
                                   "; a kernel names its instruction ('at')."));
  }
  const bool has_result = row->kind == StepKind::kCopy || row->kind == StepKind::kReceive ||
                          row->kind == StepKind::kStreamIn || row->kind == StepKind::kLoad ||
                          row->kind == StepKind::kRestore;
  if (line.results.size() != (has_result ? 1 : 0)) {
    lexer_.fail_at(line.place, str("'", line.word, "' has ", line.results.size(), " results."));
  }
  return row->kind;
}

void StepParser::take_index(Step& step) {
  const std::string_view key = row_of(step.kind).index;
  if (key != "stream" && key != "remote") {
    if (!key.empty()) fields_.take(key, step.index);
    return;
  }
  std::string name;
  fields_.take(key, name);
  auto find = [&](const auto& items, auto name_of) {
    const auto found =
        std::ranges::find_if(items, [&](const auto& item) { return name_of(item).text() == name; });
    if (found == items.end()) fields_.fail("there is no ", key, " ", quoted(name), ".");
    step.index = static_cast<int32_t>(found - items.begin());
  };
  const program::Program& program = *code_.program;
  if (key == "stream") {
    find(program.streams, [](const program::Stream& stream) { return stream.host.name; });
  } else {
    find(program.remote_buffers, [](const ir::RemoteBuffer& buffer) { return buffer.name; });
  }
}

void StepParser::take_fields(Step& step, const IpuCode& ipu) {
  fields_.take("count", step.count);
  fields_.take("id", step.op_id);
  fields_.take("micro_batch", step.micro_batch_offset);
  fields_.take("per_micro_batch", step.per_micro_batch);
  fields_.take("prepared", step.prepared);
  fields_.take("region", step.region);
  fields_.take("repeat", step.is_repeat);
  fields_.take("rewind", step.rewind);
  fields_.take("row", step.count);
  fields_.take("to", step.target);
  fields_.end();
  step.buffers = static_cast<uint32_t>(ipu.table.size());
}

int32_t StepParser::checked(int64_t number, const std::string& op) {
  if (number < 0 || number >= static_cast<int64_t>(instructions_.size()) ||
      instructions_[number]->op.text() != op) {
    fields_.fail("instruction ", number, " of the program is not ", quoted(op), ".");
  }
  return static_cast<int32_t>(number);
}

ChainSpec StepParser::take_chain(std::string_view key, const std::vector<std::string>& ops,
                                 Ids sources, Ids outputs) {
  ir::Ints numbers, wires, stored;
  fields_.take(key, numbers);
  fields_.take("wires", wires);
  fields_.take("stored", stored);
  if (numbers.size() != ops.size()) {
    fields_.fail("a chain of ", ops.size(), " ops names ", numbers.size(), " instructions.");
  }
  ChainSpec chain{.sources = std::move(sources), .outputs = std::move(outputs)};
  auto wire = wires.begin();
  for (size_t i = 0; i < ops.size(); ++i) {
    ChainSpec::Op op{.instruction = checked(numbers[i], ops[i])};
    const size_t operands = instructions_[numbers[i]]->inputs.size();
    if (static_cast<size_t>(wires.end() - wire) < operands) fields_.fail("'wires' ends too early.");
    op.operands.assign(wire, wire + static_cast<std::ptrdiff_t>(operands));
    wire += static_cast<std::ptrdiff_t>(operands);
    chain.ops.push_back(std::move(op));
  }
  if (wire != wires.end()) fields_.fail("'wires' has more operands than the ops.");
  chain.stored.assign(stored.begin(), stored.end());
  return chain;
}

KernelSpec StepParser::take_spec(Line& line) {
  if (line.word.empty()) {
    return take_chain("at", line.ops, std::move(line.arguments), std::move(line.results));
  }
  if (line.word == "reorder") {
    if (line.arguments.size() != 1 || line.results.size() != 1) {
      lexer_.fail_at(line.place, "'reorder' has one operand and one result.");
    }
    return ReorderSpec{line.arguments[0], line.results[0]};
  }
  int64_t number = -1;
  fields_.take("at", number);
  OpSpec spec{.instruction = checked(number, line.word),
              .inputs = std::move(line.arguments),
              .outputs = std::move(line.results),
              .provider = line.provider};
  if (!line.ops.empty()) {
    spec.epilogue = take_chain("chain", line.ops, std::move(line.sources), std::move(line.stored));
  }
  return spec;
}

KernelSpec StepParser::take_rows(std::vector<Line>& lines) {
  ir::Ints numbers, wires, stored;
  RowsSpec rows;
  fields_.take("at", numbers);
  fields_.take("joined_rows", rows.rows);
  fields_.take("stored", stored);
  fields_.take("wires", wires);
  auto take = [&](ir::Ints& from, size_t count, std::string_view key) {
    if (from.size() < count) fields_.fail("'", key, "' ends too early.");
    ir::Ints taken(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count));
    from.erase(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count));
    return taken;
  };
  for (Line& line : lines) {
    if (!line.word.empty()) {
      rows.members.emplace_back(OpSpec{.instruction = checked(take(numbers, 1, "at")[0], line.word),
                                       .inputs = std::move(line.arguments),
                                       .outputs = std::move(line.results)});
      continue;
    }
    ChainSpec chain{.sources = std::move(line.arguments), .outputs = std::move(line.results)};
    const ir::Ints at = take(numbers, line.ops.size(), "at");
    for (size_t i = 0; i < at.size(); ++i) {
      ChainSpec::Op op{.instruction = checked(at[i], line.ops[i])};
      const ir::Ints own = take(wires, instructions_[at[i]]->inputs.size(), "wires");
      op.operands.assign(own.begin(), own.end());
      chain.ops.push_back(std::move(op));
    }
    const ir::Ints own = take(stored, chain.outputs.size(), "stored");
    chain.stored.assign(own.begin(), own.end());
    rows.members.emplace_back(std::move(chain));
  }
  if (!numbers.empty() || !wires.empty() || !stored.empty()) {
    fields_.fail("joined kernels have more instructions, wires or stored registers than ops.");
  }
  return rows;
}

void StepParser::add_kernel(IpuCode& ipu, const Line& line, KernelSpec spec) {
  Step step;
  step.kind = StepKind::kKernel;
  step.index = static_cast<int32_t>(code_.kernels.size());
  code_.kernels.push_back({std::move(spec)});
  std::string workspace;
  fields_.take("workspace", workspace);
  take_fields(step, ipu);
  ValueId held = kNoValue;
  if (!workspace.empty()) {
    const auto found = names_.find(workspace);
    if (found == names_.end())
      lexer_.fail_at(line.place, str("there is no value %", workspace, "."));
    held = found->second;
  }
  const Ids arguments = arguments_of(code_, *code_.program, code_.kernels.back().spec);
  ipu.table.insert(ipu.table.end(), arguments.begin(), arguments.end());
  step.workspace = static_cast<uint32_t>(ipu.table.size());
  ipu.table.push_back(held);
  ipu.steps.push_back(step);
}

}  // namespace poptorch::emulator
