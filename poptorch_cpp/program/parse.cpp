// The parser of program.hpp: every name is resolved while reading, so that a program from text has
// no dangling index.
#include "ir/parse.hpp"

#include <algorithm>
#include <unordered_map>

#include "program/text.hpp"
#include "support/strings.hpp"

namespace poptorch::program {
namespace {

using support::str;

class Parser {
 public:
  Parser(std::string_view text, const ir::Registry& registry, std::string_view origin)
      : lexer_(text, origin), registry_(registry) {}

  Program run() {
    lexer_.expect("program");
    read_attrs();
    take("device", program_.device);
    take("micro_batches", program_.micro_batches_per_run);
    take("random_seed", program_.random_seed);
    take("replicas", program_.replicas);
    end_attrs();
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
  // --- attributes in braces or brackets, taken one by one
  // -----------------------------------------
  void read_attrs() { attrs_ = ir::parse_attrs(lexer_, nullptr); }

  void read_bracket() {
    attrs_ = {};
    if (!lexer_.accept("@")) return;
    lexer_.expect("[");
    while (!lexer_.accept("]")) {
      const std::string key = lexer_.name("a key");
      lexer_.expect("=");
      attrs_.set(key, ir::parse_attr(lexer_));
    }
  }

  template <typename Stored>
  const Stored* take_attr(std::string_view key) {
    const ir::Attr* attr = attrs_.find(key);
    if (!attr) return nullptr;
    const auto* value = std::get_if<Stored>(attr);
    if (!value) lexer_.fail(str("'", key, "' has a value of the wrong type"));
    return value;
  }

  template <typename T>
  void take(std::string_view key, T& field) {
    using Stored = std::conditional_t<std::is_same_v<T, bool> || std::is_same_v<T, std::string> ||
                                          std::is_same_v<T, ir::Ints>,
                                      T, int64_t>;
    if (const Stored* value = take_attr<Stored>(key)) {
      field = static_cast<T>(*value);
      attrs_.erase(key);
    }
  }

  template <typename Enum, size_t N>
  void take_word(std::string_view key, const std::array<std::string_view, N>& words, Enum& field) {
    std::string word;
    take(key, word);
    if (word.empty()) return;
    auto it = std::find(words.begin(), words.end(), word);
    if (it == words.end()) lexer_.fail(str("'", word, "' is no value of '", key, "'"));
    field = static_cast<Enum>(it - words.begin());
  }

  void end_attrs() {
    if (!attrs_.empty()) lexer_.fail(str("'", attrs_.begin()->first, "' is not known here"));
  }

  // --- declarations -----------------------------------------------------------------------------
  ir::Literal parse_literal() {
    ir::Attr attr = ir::parse_attr(lexer_, ir::AttrType::kLiteral);
    return std::get<ir::Literal>(attr);
  }

  std::pair<std::string, Type> parse_declared() {
    std::string name = lexer_.string("a name");
    lexer_.expect(":");
    return {name, ir::parse_type(lexer_)};
  }

  int declare(std::unordered_map<std::string, int>& table, const std::string& name) {
    const int index = static_cast<int>(table.size());
    if (!table.emplace(name, index).second) lexer_.fail(str("'", name, "' is declared twice"));
    return index;
  }

  int find(const std::unordered_map<std::string, int>& table, const std::string& name,
           std::string_view what) {
    auto it = table.find(name);
    if (it == table.end()) lexer_.fail(str("there is no ", what, " '", name, "'"));
    return it->second;
  }

  void parse_state() {
    auto [name, type] = parse_declared();
    State state{.slot = {.name = name, .type = type}};
    read_attrs();
    take("group_size", state.slot.group_size);
    take("group_stride", state.slot.group_stride);
    take("ipu", state.ipu);
    take("kind", state.slot.kind);
    take("offset", state.offset);
    take("on_chip", state.on_chip);
    take("shards", state.shards);
    end_attrs();
    if (lexer_.accept("=")) state.slot.initial = parse_literal();
    declare(states_, name);
    program_.states.push_back(std::move(state));
  }

  void parse_stream() {
    auto [name, type] = parse_declared();
    Stream stream{.host = {.name = name, .type = type, .to_device = false}};
    read_attrs();
    take("group_size", stream.group_size);
    take("group_stride", stream.group_stride);
    take_word("keep", kKeepWords, stream.keep);
    take("period", stream.period);
    take("to_device", stream.host.to_device);
    take("transfers", stream.transfers);
    end_attrs();
    declare(streams_, name);
    program_.streams.push_back(std::move(stream));
  }

  void parse_remote() {
    auto [name, type] = parse_declared();
    ir::RemoteBuffer buffer{.name = name, .type = type};
    read_attrs();
    take("entries", buffer.entries);
    end_attrs();
    declare(remotes_, name);
    program_.remote_buffers.push_back(std::move(buffer));
  }

  void parse_stash() {
    lexer_.expect(":");
    Stash stash{.type = ir::parse_type(lexer_)};
    read_attrs();
    take("depth", stash.depth);
    take("ipu", stash.ipu);
    end_attrs();
    program_.stashes.push_back(std::move(stash));
  }

  void parse_tensor() {
    lexer_.expect("%");
    const std::string name = lexer_.name("a tensor's name");
    lexer_.expect(":");
    Tensor tensor{.type = ir::parse_type(lexer_), .name = name};
    read_attrs();
    take("ipu", tensor.ipu);
    end_attrs();
    lexer_.expect("at");
    const std::string word = lexer_.name("an address");
    auto it = std::find(kBaseWords.begin(), kBaseWords.end(), word);
    if (it == kBaseWords.end()) lexer_.fail(str("'", word, "' is no base of an address"));
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
    if (base == Base::kState) return find(states_, lexer_.string("a state's name"), "state");
    if (base == Base::kStream) return find(streams_, lexer_.string("a stream's name"), "stream");
    const int64_t index = lexer_.integer("an index");
    const size_t limit =
        base == Base::kConstant ? program_.constants.size() : program_.stashes.size();
    if (index < 0 || static_cast<size_t>(index) >= limit) {
      lexer_.fail(str("index ", index, " is not below ", limit));
    }
    return static_cast<int32_t>(index);
  }

  // --- instructions -----------------------------------------------------------------------------
  void parse_ipu() {
    const int64_t number = lexer_.integer("an IPU's number");
    if (number != static_cast<int64_t>(program_.ipus.size())) {
      lexer_.fail(str("IPU ", number, " stands where IPU ", program_.ipus.size(), " belongs"));
    }
    IpuProgram ipu;
    read_bracket();
    take("arena", ipu.arena_bytes);
    take("code", ipu.code_bytes);
    take("constants", ipu.constant_bytes);
    take("state", ipu.state_bytes);
    end_attrs();
    lexer_.expect("{");
    ipu.body = parse_block();
    program_.ipus.push_back(std::move(ipu));
  }

  std::vector<Instruction> parse_block() {
    std::vector<Instruction> block;
    while (!lexer_.accept("}")) block.push_back(parse_instruction());
    return block;
  }

  TensorId parse_tensor_id() {
    if (lexer_.accept("_")) return kNoTensor;
    lexer_.expect("%");
    return find(tensors_, lexer_.name("a tensor's name"), "tensor");
  }

  Instruction parse_instruction() {
    Instruction instruction;
    if (lexer_.at("%") || lexer_.at("_")) {
      do instruction.outputs.push_back(parse_tensor_id());
      while (lexer_.accept(","));
      lexer_.expect("=");
    }
    const std::string word = lexer_.name("an instruction");
    const KindRow* row = &kKindRows[0];
    for (const KindRow& candidate : kKindRows) {
      if (candidate.word == word) row = &candidate;
    }
    instruction.kind = row->kind;
    const ir::OpDef* def = nullptr;
    if (row->kind == Kind::kCompute) {
      def = registry_.find(word);
      if (!def) lexer_.fail(str("there is no instruction or op '", word, "'"));
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
    if (def) complete_operands(instruction, *def);
    const bool nested = row->kind == Kind::kLoop || row->kind == Kind::kIf;
    if (!nested) instruction.attrs = ir::parse_attrs(lexer_, def);
    parse_tail(instruction, *row);
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

  void parse_tail(Instruction& instruction, const KindRow& row) {
    read_bracket();
    if (row.channel == "stream" || row.channel == "remote") {
      std::string name;
      take(row.channel, name);
      if (!name.empty() || row.channel == "stream")
        instruction.channel =
            find(row.channel == "stream" ? streams_ : remotes_, name, row.channel);
    } else if (!row.channel.empty()) {
      take(row.channel, instruction.channel);
    }
    std::string block;
    take("block", block);
    instruction.block = block;
    take("cycles", instruction.cycles);
    take("id", instruction.op_id);
    ir::Ints in_place;
    take("in_place", in_place);
    instruction.in_place.assign(in_place.begin(), in_place.end());
    take("micro_batch", instruction.micro_batch_offset);
    take_word("pass", kPassWords, instruction.pass);
    take("peer", instruction.peer);
    take("per_micro_batch", instruction.per_micro_batch);
    take("phase", instruction.phase);
    take("rewind", instruction.rewind);
    take("stage", instruction.stage);
    end_attrs();
    if (lexer_.accept("scope")) {
      lexer_.expect("(");
      instruction.scope = lexer_.string("a scope");
      lexer_.expect(")");
    }
    if (lexer_.accept("loc")) {
      lexer_.expect("(");
      instruction.location.file = lexer_.string("a file");
      lexer_.expect(":");
      instruction.location.line = static_cast<int>(lexer_.integer("a line"));
      lexer_.expect(")");
    }
  }

  ir::Lexer lexer_;
  const ir::Registry& registry_;
  Program program_;
  ir::Attrs attrs_;
  std::unordered_map<std::string, int> states_, streams_, remotes_, tensors_;
};

}  // namespace

Program parse(std::string_view text, const ir::Registry& registry, std::string_view origin) {
  return Parser(text, registry, origin).run();
}

}  // namespace poptorch::program
