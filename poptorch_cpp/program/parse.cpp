// The parser of program.hpp. Every name is resolved while reading, so that a parsed program does
// not have dangling indices, and every op is checked against its row.
#include "ir/parse.hpp"

#include <algorithm>
#include <unordered_map>

#include "ir/builder.hpp"
#include "ir/op_def.hpp"
#include "program/fields.hpp"
#include "program/text.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::program {
namespace {

using ir::Token;
using support::str;

// Loops and conditionals nest at most this deep: they are read and walked by recursion.
constexpr int kMaxNesting = 256;

class Parser {
 public:
  Parser(std::string_view text, const ir::Registry& registry, std::string_view origin)
      : lexer_(text, origin), registry_(registry) {}

  Program run() {
    lexer_.expect("program");
    fields_.read_braces();
    fields_.take("device", program_.device);
    if (program_.device.empty()) lexer_.fail("expected the name of a device");
    fields_.take("io_tiles", program_.io_tiles);
    fields_.take("link_domain", program_.link_domain);
    fields_.take("micro_batches", program_.micro_batches_per_run);
    fields_.take("random_seed", program_.random_seed);
    fields_.take("replicas", program_.replicas);
    fields_.end();
    while (lexer_.peek().kind != ir::Token::Kind::kEnd) {
      if (lexer_.accept("state")) {
        parse_state();
      } else if (lexer_.accept("constant")) {
        program_.constants.push_back(parse_literal());
      } else if (lexer_.accept("stream")) {
        parse_stream();
      } else if (lexer_.accept("remote")) {
        parse_remote();
      } else if (lexer_.accept("stash")) {
        parse_stash();
      } else if (lexer_.accept("tensor")) {
        parse_tensor();
      } else if (lexer_.accept("ipu")) {
        parse_ipu();
      } else {
        lexer_.fail("expected a declaration or 'ipu'");
      }
    }
    return std::move(program_);
  }

 private:
  ir::Literal parse_literal() {
    const Token place = lexer_.peek();
    const ir::Attr attr = ir::parse_attr(lexer_, ir::AttrType::kLiteral);
    const auto* literal = std::get_if<ir::Literal>(&attr);
    if (!literal) lexer_.fail_at(place, "expected dense<...>, a constant.");
    return *literal;
  }

  using Table = std::unordered_map<std::string, int>;

  // The token's text is the name.
  std::pair<Token, Type> parse_declared() {
    Token name = lexer_.peek();
    lexer_.string("a name");
    lexer_.expect(":");
    return {std::move(name), ir::parse_type(lexer_)};
  }

  void declare(Table& table, const Token& name) {
    if (table.emplace(name.text, static_cast<int>(table.size())).second) return;
    lexer_.fail_at(name, str(support::quoted(name.text), " is declared twice."));
  }

  int find(const Table& table, const Token& name, std::string_view what) {
    auto it = table.find(name.text);
    if (it != table.end()) return it->second;
    lexer_.fail_at(name, str("there is no ", what, " ", support::quoted(name.text), "."));
  }

  int find_string(const Table& table, std::string_view what) {
    const Token name = lexer_.peek();
    lexer_.string(str("a ", what, "'s name"));
    return find(table, name, what);
  }

  void parse_state() {
    auto [name, type] = parse_declared();
    State state{.slot = {.name = name.text, .type = type}};
    fields_.read_braces();
    fields_.take("group_size", state.slot.group_size);
    fields_.take("group_stride", state.slot.group_stride);
    fields_.take("ipu", state.ipu);
    fields_.take("kind", state.slot.kind);
    fields_.take("offset", state.offset);
    fields_.take("on_chip", state.on_chip);
    fields_.take("shards", state.shards);
    fields_.end();
    if (lexer_.accept("=")) state.slot.initial = parse_literal();
    declare(states_, name);
    program_.states.push_back(std::move(state));
  }

  void parse_stream() {
    auto [name, type] = parse_declared();
    Stream stream{.host = {.name = name.text, .type = type, .to_device = false}};
    fields_.read_braces();
    fields_.take("anchor", stream.anchor);
    std::string anchored;
    fields_.take("anchored", anchored);
    stream.anchored = anchored;
    fields_.take("group_size", stream.group_size);
    fields_.take("group_stride", stream.group_stride);
    fields_.take_word("keep", kKeepWords, stream.keep);
    fields_.take("period", stream.period);
    fields_.take("to_device", stream.host.to_device);
    fields_.take("transfers", stream.transfers);
    fields_.end();
    declare(streams_, name);
    program_.streams.push_back(std::move(stream));
  }

  void parse_remote() {
    auto [name, type] = parse_declared();
    ir::RemoteBuffer buffer{.name = name.text, .type = type};
    fields_.read_braces();
    fields_.take("entries", buffer.entries);
    fields_.end();
    declare(remotes_, name);
    program_.remote_buffers.push_back(std::move(buffer));
  }

  void parse_stash() {
    lexer_.expect(":");
    Stash stash{.type = ir::parse_type(lexer_)};
    fields_.read_braces();
    fields_.take("depth", stash.depth);
    fields_.take("ipu", stash.ipu);
    fields_.end();
    program_.stashes.push_back(std::move(stash));
  }

  void parse_tensor() {
    lexer_.expect("%");
    const Token name = lexer_.peek();
    lexer_.name("a tensor's name");
    lexer_.expect(":");
    Tensor tensor{.type = ir::parse_type(lexer_), .name = name.text};
    fields_.read_braces();
    fields_.take("ipu", tensor.ipu);
    fields_.end();
    lexer_.expect("at");
    const std::string word = lexer_.name("an address");
    auto it = std::find(kBaseWords.begin(), kBaseWords.end(), word);
    if (it == kBaseWords.end()) lexer_.fail(str("'", word, "' is not a base of an address"));
    tensor.base = static_cast<Base>(it - kBaseWords.begin());
    lexer_.expect("(");
    if (tensor.base == Base::kArena) {
      tensor.offset = lexer_.integer("an offset");
    } else {
      tensor.index = parse_index(tensor.base);
      if (lexer_.accept(",")) tensor.offset = lexer_.integer("an offset");
    }
    lexer_.expect(")");
    declare(tensors_, name);
    program_.tensors.push_back(std::move(tensor));
  }

  int32_t parse_index(Base base) {
    if (base == Base::kState) return find_string(states_, "state");
    if (base == Base::kStream) return find_string(streams_, "stream");
    const Token place = lexer_.peek();
    const int64_t index = lexer_.integer("an index");
    const size_t limit =
        base == Base::kConstant ? program_.constants.size() : program_.stashes.size();
    if (index < 0 || static_cast<size_t>(index) >= limit) {
      lexer_.fail_at(place, str("index ", index, " is not below ", limit, "."));
    }
    return static_cast<int32_t>(index);
  }

  void parse_ipu() {
    const Token place = lexer_.peek();
    const int64_t number = lexer_.integer("an IPU's number");
    if (number != static_cast<int64_t>(program_.ipus.size())) {
      lexer_.fail_at(place,
                     str("IPU ", number, " stands where IPU ", program_.ipus.size(), " belongs."));
    }
    IpuProgram ipu;
    fields_.read_bracket();
    fields_.take("arena", ipu.arena_bytes);
    fields_.take("code", ipu.code_bytes);
    fields_.take("constants", ipu.constant_bytes);
    fields_.take("state", ipu.state_bytes);
    fields_.take("tile_memory", ipu.tile_memory);
    fields_.end();
    lexer_.expect("{");
    ipu.body = parse_block();
    program_.ipus.push_back(std::move(ipu));
  }

  std::vector<Instruction> parse_block() {
    if (++nesting_ > kMaxNesting)
      lexer_.fail(str("expected at most ", kMaxNesting, " nested blocks"));
    std::vector<Instruction> block;
    while (!lexer_.accept("}")) block.push_back(parse_instruction());
    --nesting_;
    return block;
  }

  TensorId parse_tensor_id() {
    if (lexer_.accept("_")) return kNoTensor;
    lexer_.expect("%");
    const Token name = lexer_.peek();
    lexer_.name("a tensor's name");
    return find(tensors_, name, "tensor");
  }

  Instruction parse_instruction() {
    Instruction instruction;
    if (lexer_.at("%") || lexer_.at("_")) {
      do instruction.outputs.push_back(parse_tensor_id());
      while (lexer_.accept(","));
      lexer_.expect("=");
    }
    const Token place = lexer_.peek();
    const std::string word = lexer_.name("an instruction");
    const KindRow* row = &kKindRows[0];
    for (const KindRow& candidate : kKindRows) {
      if (candidate.word == word) row = &candidate;
    }
    instruction.kind = row->kind;
    const ir::OpDef* def = nullptr;
    if (row->kind == Kind::kCompute) {
      def = registry_.find(word);
      if (!def) {
        lexer_.fail_at(place, str("there is no instruction or op ", support::quoted(word), "."));
      }
      instruction.op = word;
    }
    lexer_.expect("(");
    if (row->kind == Kind::kLoop) {
      instruction.count = lexer_.integer("a count");
      lexer_.expect(")");
    } else {
      while (!lexer_.accept(")")) {
        if (!instruction.inputs.empty()) lexer_.expect(",");
        instruction.inputs.push_back(parse_tensor_id());
      }
    }
    if (def) take_row(instruction, *def);
    const bool nested = row->kind == Kind::kLoop || row->kind == Kind::kIf;
    if (!nested) instruction.attrs = ir::parse_attrs(lexer_, def);
    parse_tail(instruction, *row);
    if (def) check_op(instruction, *def, place);
    if (nested) {
      lexer_.expect("{");
      instruction.blocks.push_back(parse_block());
      if (row->kind == Kind::kIf) {
        lexer_.expect("else");
        lexer_.expect("{");
        instruction.blocks.push_back(parse_block());
      }
    }
    return instruction;
  }

  // Checks that operands, attributes and results fit the op's row, and that nothing writes
  // constants.
  void check_op(const Instruction& instruction, const ir::OpDef& def, const Token& place) {
    auto tensor = [&](TensorId id) -> const Tensor* {
      return id == kNoTensor ? nullptr : &program_.tensors[id];
    };
    std::vector<const Type*> operands;
    for (TensorId id : instruction.inputs)
      operands.push_back(id == kNoTensor ? nullptr : &tensor(id)->type);
    std::vector<Type> stated, given;
    for (TensorId id : instruction.outputs) {
      if (id == kNoTensor) lexer_.fail_at(place, "a result is absent.");
      stated.push_back(tensor(id)->type);
    }
    try {
      given = ir::infer_types(def, operands, instruction.attrs, nullptr, stated);
    } catch (const support::Error& error) {
      lexer_.fail_at(place, error.what());
    }
    if (given != stated) {
      lexer_.fail_at(place, str("op '", def.name, "' gives ", support::join(given, ", "), ", not ",
                                support::join(stated, ", "), "."));
    }
    for (int written : def.writes) {
      const auto operand = static_cast<size_t>(written);
      const Tensor* into =
          operand < instruction.inputs.size() ? tensor(instruction.inputs[operand]) : nullptr;
      if (into && into->base == Base::kConstant) {
        lexer_.fail_at(place, str("op '", def.name, "' writes %", into->name, ", a constant."));
      }
    }
  }

  void parse_tail(Instruction& instruction, const KindRow& row) {
    fields_.read_bracket();
    if (row.channel == "stream" || row.channel == "remote") {
      const bool stream = row.channel == "stream";
      Token name = fields_.place();
      name.text.clear();
      const bool given = fields_.has(row.channel);
      fields_.take(row.channel, name.text);
      if (given || stream) {
        instruction.channel = find(stream ? streams_ : remotes_, name, row.channel);
      }
    } else if (!row.channel.empty()) {
      fields_.take(row.channel, instruction.channel);
    }
    std::string block;
    fields_.take("block", block);
    instruction.block = block;
    fields_.take("cycles", instruction.cycles);
    fields_.take("id", instruction.op_id);
    ir::Ints in_place;
    fields_.take("in_place", in_place);
    for (int64_t operand : in_place) {
      if (operand < -1 || operand >= static_cast<int64_t>(instruction.inputs.size())) {
        fields_.fail("'in_place' names operand ", operand, ", which is not there.");
      }
      instruction.in_place.push_back(static_cast<int>(operand));
    }
    fields_.take("micro_batch", instruction.micro_batch_offset);
    fields_.take_word("pass", kPassWords, instruction.pass);
    fields_.take("peer", instruction.peer);
    fields_.take("per_micro_batch", instruction.per_micro_batch);
    fields_.take("phase", instruction.phase);
    fields_.take("rewind", instruction.rewind);
    fields_.take("stage", instruction.stage);
    fields_.take("steps", instruction.steps);
    fields_.take("temporary", instruction.temporary.bytes);
    fields_.take("temporary_at", instruction.temporary.offset);
    fields_.end();
    if (lexer_.accept("scope")) {
      lexer_.expect("(");
      instruction.scope = lexer_.string("a scope");
      lexer_.expect(")");
    }
    if (lexer_.accept("loc")) {
      std::tie(instruction.location.file, instruction.location.line) = ir::parse_location(lexer_);
    }
  }

  ir::Lexer lexer_;
  const ir::Registry& registry_;
  Program program_;
  Fields fields_{lexer_};
  int nesting_ = 0;
  std::unordered_map<std::string, int> states_, streams_, remotes_, tensors_;
};

}  // namespace

Program parse(std::string_view text, const ir::Registry& registry, std::string_view origin) {
  return Parser(text, registry, origin).run();
}

}  // namespace poptorch::program
