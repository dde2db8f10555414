// The printer of program.hpp.
#include <sstream>

#include "program/items.hpp"
#include "program/text.hpp"
#include "support/strings.hpp"

namespace poptorch::program {
namespace {

using support::join;
using support::quoted;
using support::str;

std::vector<std::string> names_of(const Program& program) {
  std::vector<Symbol> symbols;
  for (const Tensor& tensor : program.tensors) symbols.push_back(tensor.name);
  return unique_names(symbols);
}

class Printer {
 public:
  Printer(const Program& program, const PrintOptions& options)
      : program_(program), options_(options), names_(names_of(program)) {}

  std::string run() {
    print_head();
    for (const State& state : program_.states) print_state(state);
    for (const ir::Literal& literal : program_.constants) {
      out_ << "constant " << ir::attr_text(literal) << "\n";
    }
    for (const Stream& stream : program_.streams) print_stream(stream);
    for (const ir::RemoteBuffer& buffer : program_.remote_buffers) {
      Items items;
      items.add("entries", buffer.entries, int64_t{1});
      out_ << "remote " << quoted(buffer.name.text()) << " : " << buffer.type << items.braced()
           << "\n";
    }
    for (const Stash& stash : program_.stashes) {
      Items items;
      items.add("depth", stash.depth, 1);
      items.add("ipu", stash.ipu, 0);
      out_ << "stash : " << stash.type << items.braced() << "\n";
    }
    for (size_t i = 0; i < program_.tensors.size(); ++i) print_tensor(i);
    for (size_t i = 0; i < program_.ipus.size(); ++i) print_ipu(i);
    return out_.str();
  }

  std::vector<std::pair<uint64_t, std::string>> op_lines() const {
    std::vector<std::pair<uint64_t, std::string>> lines;
    for (const IpuProgram& ipu : program_.ipus) note_lines(ipu.body, lines);
    return lines;
  }

 private:
  void print_head() {
    Items items;
    items.add("device", program_.device, std::string());
    items.add("io_tiles", program_.io_tiles, 0);
    items.add("link_domain", program_.link_domain, static_cast<int>(ir::kLinkDomain));
    items.add("micro_batches", program_.micro_batches_per_run, int64_t{1});
    if (options_.seed) items.add("random_seed", program_.random_seed, uint64_t{0});
    items.add("replicas", program_.replicas, 1);
    out_ << "program" << items.braced() << "\n";
  }

  void print_state(const State& state) {
    Items items;
    items.add("group_size", state.slot.group_size, 0);
    items.add("group_stride", state.slot.group_stride, 1);
    items.add("ipu", state.ipu, 0);
    items.add("kind", state.slot.kind, std::string("parameter"));
    items.add("offset", state.offset, int64_t{0});
    items.add("on_chip", state.on_chip, true);
    items.add("shards", state.shards, 1);
    out_ << "state " << quoted(state.slot.name.text()) << " : " << state.slot.type
         << items.braced();
    if (state.slot.initial) out_ << " = " << ir::attr_text(*state.slot.initial);
    out_ << "\n";
  }

  void print_stream(const Stream& stream) {
    Items items;
    items.add("anchor", stream.anchor, -1);
    items.add("anchored", stream.anchored.text(), std::string());
    items.add("group_size", stream.group_size, 1);
    items.add("group_stride", stream.group_stride, 1);
    items.add("keep", kKeepWords[static_cast<size_t>(stream.keep)], kKeepWords[0]);
    items.add("period", stream.period, int64_t{1});
    items.add("to_device", stream.host.to_device, false);
    items.add("transfers", stream.transfers, int64_t{1});
    out_ << "stream " << quoted(stream.host.name.text()) << " : " << stream.host.type
         << items.braced() << "\n";
  }

  void print_tensor(size_t i) {
    const Tensor& tensor = program_.tensors[i];
    Items items;
    items.add("ipu", tensor.ipu, 0);
    out_ << "tensor %" << names_[i] << " : " << tensor.type << items.braced() << " at "
         << kBaseWords[static_cast<size_t>(tensor.base)] << "(";
    if (tensor.base == Base::kArena) {
      out_ << tensor.offset;
    } else {
      const auto index = static_cast<size_t>(tensor.index);
      if (tensor.base == Base::kState) {
        out_ << quoted(program_.states[index].slot.name.text());
      } else if (tensor.base == Base::kStream) {
        out_ << quoted(program_.streams[index].host.name.text());
      } else {
        out_ << index;
      }
      if (tensor.offset) out_ << ", " << tensor.offset;
    }
    out_ << ")\n";
  }

  void print_ipu(size_t i) {
    const IpuProgram& ipu = program_.ipus[i];
    Items items;
    items.add("arena", ipu.arena_bytes, int64_t{0});
    items.add("code", ipu.code_bytes, int64_t{0});
    items.add("constants", ipu.constant_bytes, int64_t{0});
    items.add("state", ipu.state_bytes, int64_t{0});
    items.add("tile_memory", ipu.tile_memory, int64_t{0});
    out_ << "ipu " << i << items.text(" @[", " ", "]") << " {\n";
    print_block(ipu.body, 1);
    out_ << "}\n";
  }

  void print_block(const std::vector<Instruction>& block, int depth) {
    for (const Instruction& instruction : block) print_instruction(instruction, depth);
  }

  std::string name(TensorId id) const { return id == kNoTensor ? "_" : "%" + names_[id]; }

  std::string list(const std::vector<TensorId>& ids) const {
    std::string text;
    for (TensorId id : ids) text += (text.empty() ? "" : ", ") + name(id);
    return text;
  }

  std::string bracket(const Instruction& instruction) const {
    const KindRow& row = row_of(instruction.kind);
    const auto channel = static_cast<size_t>(instruction.channel);
    Items items;
    if (row.channel == "stream") {
      items.add(row.channel, program_.streams[channel].host.name.text(), std::string());
    } else if (row.channel == "remote" && instruction.channel >= 0) {
      items.add(row.channel, program_.remote_buffers[channel].name.text(), std::string());
    } else if (!row.channel.empty()) {
      items.add(row.channel, instruction.channel, -1);
    }
    items.add("block", instruction.block.text(), std::string());
    items.add("cycles", instruction.cycles, int64_t{0});
    items.add("id", instruction.op_id, uint64_t{0});
    bool aliases = false;
    for (int operand : instruction.in_place) aliases |= operand >= 0;
    if (aliases) {
      items.add("in_place", ir::Ints(instruction.in_place.begin(), instruction.in_place.end()),
                ir::Ints());
    }
    items.add("micro_batch", instruction.micro_batch_offset, 0);
    items.add("pass", kPassWords[static_cast<size_t>(instruction.pass)], kPassWords[0]);
    items.add("peer", instruction.peer, -1);
    items.add("per_micro_batch", instruction.per_micro_batch, false);
    items.add("phase", instruction.phase, -1);
    items.add("rewind", instruction.rewind, 0);
    items.add("stage", instruction.stage, -1);
    items.add("steps", instruction.steps, int64_t{1});
    items.add("temporary", instruction.temporary.bytes, int64_t{0});
    items.add("temporary_at", instruction.temporary.offset, int64_t{0});
    return items.text(" @[", " ", "]");
  }

  std::string attrs(const Instruction& instruction) const {
    std::vector<std::string> texts;
    for (const auto& [key, value] : instruction.attrs) {
      texts.push_back(str(key, "=", ir::attr_text(value)));
    }
    return texts.empty() ? "" : " {" + join(texts, ", ") + "}";
  }

  // Returns the line of an instruction without its blocks.
  std::string line_of(const Instruction& instruction) const {
    const KindRow& row = row_of(instruction.kind);
    std::string line = instruction.outputs.empty() ? "" : list(instruction.outputs) + " = ";
    line += row.word.empty() ? std::string_view(instruction.op.text()) : row.word;
    line += "(";
    line += instruction.kind == Kind::kLoop ? str(instruction.count) : list(instruction.inputs);
    line += ")" + attrs(instruction) + bracket(instruction);
    if (!instruction.scope.empty()) line += " scope(" + quoted(instruction.scope.text()) + ")";
    if (options_.locations && !instruction.location.empty()) {
      line += str(" loc(", quoted(instruction.location.file.text()), ":", instruction.location.line,
                  ")");
    }
    return line;
  }

  void print_instruction(const Instruction& instruction, int depth) {
    const std::string indent(static_cast<size_t>(depth) * 2, ' ');
    out_ << indent << line_of(instruction);
    for (size_t i = 0; i < instruction.blocks.size(); ++i) {
      out_ << (i == 0 ? " {\n" : " else {\n");
      print_block(instruction.blocks[i], depth + 1);
      out_ << indent << "}";
    }
    out_ << "\n";
  }

  void note_lines(const std::vector<Instruction>& block,
                  std::vector<std::pair<uint64_t, std::string>>& lines) const {
    for (const Instruction& instruction : block) {
      if (instruction.op_id != 0) lines.emplace_back(instruction.op_id, line_of(instruction));
      for (const auto& inner : instruction.blocks) note_lines(inner, lines);
    }
  }

  const Program& program_;
  PrintOptions options_;
  std::vector<std::string> names_;
  std::ostringstream out_;
};

}  // namespace

std::string print(const Program& program, const PrintOptions& options) {
  return Printer(program, options).run();
}

std::vector<std::pair<uint64_t, std::string>> op_lines(const Program& program) {
  return Printer(program, {}).op_lines();
}

}  // namespace poptorch::program
