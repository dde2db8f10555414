// The parser of text.hpp: declarations, graphs and ops. It builds through infer_types and verifies
// every op, so that text cannot create anything that a front end could not.
#include "ir/parse.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/builder.hpp"
#include "ir/execution.hpp"
#include "ir/op_def.hpp"
#include "ir/text.hpp"
#include "ir/verify.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::ir {
namespace {

using support::str;

class Parser {
 public:
  Parser(std::string_view text, const Registry& registry, std::string_view origin)
      : lexer_(text, origin), module_(std::make_unique<Module>(registry)) {}

  std::unique_ptr<Module> run() {
    while (lexer_.peek().kind != Token::Kind::kEnd) {
      if (lexer_.accept("state")) {
        parse_state();
      } else if (lexer_.accept("stream")) {
        parse_stream();
      } else if (lexer_.accept("remote")) {
        parse_remote();
      } else if (lexer_.accept("graph")) {
        parse_graph();
      } else if (is_execution_keyword(lexer_.peek().text)) {
        parse_execution();
      } else {
        lexer_.fail("expected 'execution', 'state', 'stream', 'remote' or 'graph'");
      }
    }
    at(lexer_.peek(), [&] { verify(*module_); });
    return std::move(module_);
  }

 private:
  // Calls `work`; an error receives the token's position.
  template <typename Work>
  auto at(const Token& token, Work work) -> decltype(work()) {
    try {
      return work();
    } catch (const support::Error& error) {
      lexer_.fail_at(token, error.what());
    }
  }

  void parse_execution() {
    const Token place = lexer_.next();
    ExecutionLine line{.keyword = place.text};
    if (lexer_.peek().kind == Token::Kind::kString) line.name = lexer_.string("a name");
    line.attrs = parse_attrs(lexer_, nullptr);
    at(place, [&] { take_line(module_->execution(), line); });
  }

  struct Declaration {
    Token place = {};  // of the name
    Type type = {};
    Attrs attrs = {};
  };

  Declaration parse_declaration() {
    Declaration out{.place = lexer_.peek()};
    lexer_.string("a name");
    lexer_.expect(":");
    out.type = parse_type(lexer_);
    out.attrs = parse_attrs(lexer_, nullptr);
    return out;
  }

  // Removes the attribute from the declaration and returns it; `otherwise` if it is absent.
  template <typename T>
  T take(Declaration& from, const char* name, T otherwise) {
    const Attr* attr = from.attrs.find(name);
    if (!attr) return otherwise;
    const T* value = std::get_if<T>(attr);
    if (!value) {
      lexer_.fail_at(from.place, str("attribute '", name, "' is ", attr_text(*attr),
                                     ", a value of the wrong type."));
    }
    T out = *value;
    from.attrs.erase(name);
    return out;
  }

  int take_int(Declaration& from, const char* name, int otherwise) {
    const auto value = take<int64_t>(from, name, otherwise);
    if (value != static_cast<int>(value)) {
      lexer_.fail_at(from.place, str("attribute '", name, "' is ", value, ", beyond 32 bits."));
    }
    return static_cast<int>(value);
  }

  // Adds `item` to the module, which must not know its name.
  template <typename T>
  void declare(const Declaration& from, const T* known, T item, T& (Module::*add)(T)) {
    if (!from.attrs.empty()) {
      lexer_.fail_at(from.place, str("there is no attribute '", from.attrs.begin()->first,
                                     "' of such a declaration."));
    }
    if (known) lexer_.fail_at(from.place, str("'", from.place.text, "' is declared twice."));
    at(from.place, [&] { ((*module_).*add)(std::move(item)); });
  }

  void parse_state() {
    Declaration from = parse_declaration();
    StateSlot slot{.name = from.place.text, .type = from.type};
    slot.kind = take(from, "kind", slot.kind);
    slot.group_size = take_int(from, "group_size", slot.group_size);
    slot.group_stride = take_int(from, "group_stride", slot.group_stride);
    if (from.attrs.find("initial")) slot.initial = take(from, "initial", Literal());
    declare(from, module_->find_state(slot.name), slot, &Module::add_state);
  }

  void parse_stream() {
    Declaration from = parse_declaration();
    HostStream stream{.name = from.place.text, .type = from.type};
    stream.to_device = take(from, "to_device", stream.to_device);
    declare(from, module_->find_stream(stream.name), stream, &Module::add_stream);
  }

  void parse_remote() {
    Declaration from = parse_declaration();
    RemoteBuffer buffer{.name = from.place.text, .type = from.type};
    buffer.entries = take(from, "entries", buffer.entries);
    declare(from, module_->find_remote_buffer(buffer.name), buffer, &Module::add_remote_buffer);
  }

  void parse_graph() {
    lexer_.expect("@");
    const Token place = lexer_.peek();
    const std::string name = parse_graph_name(lexer_);
    graph_ = at(place, [&] { return &module_->add_graph(name); });
    values_.clear();
    labels_.clear();
    lexer_.expect("(");
    while (!lexer_.accept(")")) {
      if (!graph_->inputs().empty()) lexer_.expect(",");
      lexer_.expect("%");
      const Token input = lexer_.peek();
      lexer_.name("an input's name");
      lexer_.expect(":");
      bool by_reference = lexer_.accept("&");
      define(input, graph_->add_input(parse_type(lexer_), input.text, by_reference));
    }
    lexer_.expect("->");
    lexer_.expect("(");
    std::vector<Type> output_types;
    while (!lexer_.accept(")")) {
      if (!output_types.empty()) lexer_.expect(",");
      output_types.push_back(parse_type(lexer_));
    }
    lexer_.expect("{");
    while (!lexer_.at("return")) parse_op();
    lexer_.expect("return");
    while (!lexer_.accept("}")) {
      if (!graph_->outputs().empty()) lexer_.expect(",");
      graph_->add_output(parse_value());
    }
    check_outputs(place, output_types);
  }

  void check_outputs(const Token& place, const std::vector<Type>& types) {
    const auto& outputs = graph_->outputs();
    const bool equal =
        std::equal(types.begin(), types.end(), outputs.begin(), outputs.end(),
                   [](const Type& type, const Value* output) { return type == output->type(); });
    if (!equal) {
      lexer_.fail_at(place, str("graph @", graph_->name(),
                                " returns values of other types than its head says."));
    }
  }

  void define(const Token& name, Value* value) {
    if (!values_.emplace(name.text, value).second) {
      lexer_.fail_at(name, str("%", name.text, " is defined twice."));
    }
  }

  Value* parse_value() {
    lexer_.expect("%");
    auto it = values_.find(lexer_.peek().text);
    if (it == values_.end()) lexer_.fail("expected a value defined before");
    lexer_.next();
    return it->second;
  }

  void parse_op() {
    std::vector<Token> results;
    Token label;
    if (lexer_.accept("#")) {
      const Token place = lexer_.peek();
      const auto id = static_cast<uint64_t>(lexer_.integer("an id", 1, kMaxOpId));
      at(place, [&] { module_->give_next_op_id(id); });
    }
    while (lexer_.at("%") || lexer_.at("^")) {
      bool is_label = lexer_.accept("^");
      if (!is_label) lexer_.expect("%");
      Token name = lexer_.peek();
      lexer_.name("a result's name");
      if (is_label) {
        label = std::move(name);
      } else {
        results.push_back(std::move(name));
      }
      if (!lexer_.accept(",")) lexer_.expect("=");
    }
    const OpDef* def = module_->registry().find(lexer_.peek().text);
    if (!def) refuse_op(lexer_.peek().text);
    const Token place = lexer_.next();
    std::vector<Value*> operands = parse_operands();
    Attrs attrs = parse_attrs(lexer_, def);
    std::vector<Type> stated;
    if (lexer_.accept(":")) {
      do stated.push_back(parse_type(lexer_));
      while (lexer_.accept(","));
    }
    if (stated.size() != results.size()) lexer_.fail("expected a type for each result");
    Op* op = at(place, [&] { return build(*def, std::move(operands), std::move(attrs), stated); });
    for (size_t i = 0; i < results.size(); ++i) {
      op->result(i)->set_name(results[i].text);
      define(results[i], op->result(i));
    }
    if (!label.text.empty() && !labels_.emplace(label.text, op).second) {
      lexer_.fail_at(label, str("^", label.text, " is defined twice."));
    }
    parse_trailers(*op);
    at(place, [&] { verify_op(*op); });
  }

  [[noreturn]] void refuse_op(const std::string& name) {
    std::vector<std::string> names;
    for (const OpDef* def : module_->registry().all()) names.push_back(def->name);
    const std::string near = support::closest_name(name, names);
    lexer_.fail_at(lexer_.peek(), str("there is no op ", support::quoted(name),
                                      near.empty() ? "." : str(" (closest: '", near, "').")));
  }

  std::vector<Value*> parse_operands() {
    std::vector<Value*> operands;
    lexer_.expect("(");
    while (!lexer_.accept(")")) {
      if (!operands.empty()) lexer_.expect(",");
      operands.push_back(lexer_.accept("_") ? nullptr : parse_value());
    }
    return operands;
  }

  Op* build(const OpDef& def, std::vector<Value*> operands, Attrs attrs,
            const std::vector<Type>& stated) {
    for (const auto& [key, value] : attrs) {
      const auto* reference = std::get_if<GraphRef>(&value);
      if (reference && reference->name == graph_->name()) {
        throw support::UserError(str("graph @", graph_->name(), " calls itself."));
      }
    }
    if (def.role == Role::kState) declare_variable(attrs, stated);
    std::vector<Type> types = infer_types(def, operands, attrs, module_.get(), stated);
    if (types != stated) {
      throw support::UserError(str("op '", def.name, "' gives ", support::join(types, ", "),
                                   ", not ", support::join(stated, ", "), "."));
    }
    Op* op = graph_->insert(def, std::move(operands), std::move(attrs), std::move(types));
    op->mark_checked();
    return op;
  }

  // Declares a slot at its first use if it has no declaration yet.
  void declare_variable(const Attrs& attrs, const std::vector<Type>& stated) {
    const Attr* attr = attrs.find("name");
    const auto* name = attr ? std::get_if<std::string>(attr) : nullptr;
    if (!name || stated.size() != 1 || module_->find_state(*name)) return;
    module_->add_state({.name = *name, .type = stated[0]});
  }

  void parse_trailers(Op& op) {
    std::unordered_set<std::string> seen;
    auto accept_once = [&](const char* word) {
      if (lexer_.at(word) && !seen.insert(word).second) lexer_.fail("expected the next op");
      return lexer_.accept(word);
    };
    for (;;) {
      if (accept_once("@")) {
        parse_placement(op.placement);
      } else if (accept_once("after")) {
        lexer_.expect("(");
        do op.add_after(parse_earlier());
        while (lexer_.accept(","));
        lexer_.expect(")");
      } else if (accept_once("grad")) {
        op.forward_id = kNoForwardOp;
        if (!lexer_.accept("(")) continue;
        op.forward_id = parse_earlier()->id();
        lexer_.expect(")");
      } else if (accept_once("scope")) {
        lexer_.expect("(");
        op.scope = lexer_.string("a scope");
        lexer_.expect(")");
      } else if (accept_once("labels")) {
        lexer_.expect("(");
        op.labels = lexer_.string("labels");
        lexer_.expect(")");
      } else if (accept_once("loc")) {
        std::tie(op.location.file, op.location.line) = parse_location(lexer_);
      } else {
        return;
      }
    }
  }

  Op* parse_earlier() {
    if (!lexer_.accept("^")) {
      Value* value = parse_value();
      if (!value->producer()) lexer_.fail("an input runs before every op; expected an op's result");
      return value->producer();
    }
    auto it = labels_.find(lexer_.peek().text);
    if (it == labels_.end()) lexer_.fail("expected a label defined before");
    lexer_.next();
    return it->second;
  }

  void parse_placement(Placement& placement) {
    std::unordered_set<std::string> seen;
    lexer_.expect("[");
    while (!lexer_.accept("]")) {
      if (!seen.insert(lexer_.peek().text).second) lexer_.fail("expected another word");
      auto number = [&](int limit) {
        lexer_.expect("=");
        return static_cast<int>(lexer_.integer("a number", 0, limit - 1));
      };
      if (lexer_.accept("ipu"))
        placement.ipu = number(kMaxIpus);
      else if (lexer_.accept("stage"))
        placement.stage = number(kMaxStages);
      else if (lexer_.accept("phase"))
        placement.phase = number(kMaxStages);
      else if (lexer_.accept("block"))
        lexer_.expect("="), placement.block = lexer_.string("a name");
      else if (lexer_.accept("io_tiles"))
        placement.io_tiles = true;
      else if (lexer_.accept("accumulate_outer"))
        placement.context = ExecutionContext::kAccumulateOuter;
      else
        lexer_.fail("expected ipu, stage, phase, block, io_tiles or accumulate_outer");
    }
  }

  Lexer lexer_;
  std::unique_ptr<Module> module_;
  Graph* graph_ = nullptr;
  std::unordered_map<std::string, Value*> values_;
  std::unordered_map<std::string, Op*> labels_;
};

}  // namespace

std::unique_ptr<Module> parse(std::string_view text, const Registry& registry,
                              std::string_view origin) {
  return Parser(text, registry, origin).run();
}

}  // namespace poptorch::ir
