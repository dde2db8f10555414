// The parser of text.hpp: declarations, graphs and ops. It builds through infer_types, so that text
// cannot make what a front end could not.
#include "ir/parse.hpp"

#include <algorithm>
#include <unordered_map>

#include "ir/builder.hpp"
#include "ir/text.hpp"
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
        auto [name, type, attrs] = parse_declaration();
        const Attr* to_device = attrs.find("to_device");
        module_->add_stream({name, type, !to_device || get<bool>(*to_device, "to_device")});
      } else if (lexer_.accept("remote")) {
        auto [name, type, attrs] = parse_declaration();
        const Attr* entries = attrs.find("entries");
        module_->add_remote_buffer({name, type, entries ? get<int64_t>(*entries, "entries") : 1});
      } else if (lexer_.accept("graph")) {
        parse_graph();
      } else {
        lexer_.fail("expected 'graph', 'state', 'stream' or 'remote'");
      }
    }
    return std::move(module_);
  }

 private:
  struct Declaration {
    std::string name;
    Type type;
    Attrs attrs;
  };

  template <typename T>
  T get(const Attr& attr, const char* what) {
    if (const T* value = std::get_if<T>(&attr)) return *value;
    lexer_.fail(str("attribute '", what,
                    "' has a value of the wrong type, before which the parser"
                    " stopped"));
  }

  Declaration parse_declaration() {
    Declaration out;
    out.name = lexer_.string("a name");
    lexer_.expect(":");
    out.type = parse_type(lexer_);
    out.attrs = parse_attrs(lexer_, nullptr);
    return out;
  }

  void parse_state() {
    auto [name, type, attrs] = parse_declaration();
    StateSlot slot{.name = name, .type = type};
    for (const auto& [key, value] : attrs) {
      if (key.text() == "kind")
        slot.kind = get<std::string>(value, "kind");
      else if (key.text() == "group_size")
        slot.group_size = static_cast<int>(get<int64_t>(value, "group_size"));
      else if (key.text() == "group_stride")
        slot.group_stride = static_cast<int>(get<int64_t>(value, "group_stride"));
      else if (key.text() == "initial")
        slot.initial = get<Literal>(value, "initial");
      else
        lexer_.fail(str("a state has no attribute '", key, "', before which the parser stopped"));
    }
    module_->add_state(std::move(slot));
  }

  void parse_graph() {
    lexer_.expect("@");
    graph_ = &module_->add_graph(lexer_.name("a graph's name"));
    values_.clear();
    labels_.clear();
    lexer_.expect("(");
    while (!lexer_.accept(")")) {
      if (!graph_->inputs().empty()) lexer_.expect(",");
      lexer_.expect("%");
      std::string name = lexer_.name("an input's name");
      lexer_.expect(":");
      bool by_reference = lexer_.accept("&");
      define(name, graph_->add_input(parse_type(lexer_), name, by_reference));
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
    check_outputs(output_types);
  }

  void check_outputs(const std::vector<Type>& types) {
    bool equal = types.size() == graph_->outputs().size();
    for (size_t i = 0; equal && i < types.size(); ++i) {
      equal = types[i] == graph_->outputs()[i]->type();
    }
    if (!equal) {
      throw support::UserError(str("[parse] graph @", graph_->name(),
                                   " returns values of other types than its head says."));
    }
  }

  void define(const std::string& name, Value* value) {
    if (!values_.emplace(name, value).second) {
      lexer_.fail(str("%", name, " is defined twice, the second time"));
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
    std::vector<std::string> results;
    std::string label;
    while (lexer_.at("%") || lexer_.at("^")) {
      bool is_label = lexer_.accept("^");
      if (!is_label) lexer_.expect("%");
      std::string name = lexer_.name("a result's name");
      if (is_label)
        label = name;
      else
        results.push_back(name);
      if (!lexer_.accept(",")) lexer_.expect("=");
    }
    const OpDef* def = module_->registry().find(lexer_.peek().text);
    if (!def) refuse_op(lexer_.peek().text);
    std::string op_name = lexer_.next().text;
    std::vector<Value*> operands = parse_operands();
    Attrs attrs = parse_attrs(lexer_, def);
    std::vector<Type> stated;
    if (lexer_.accept(":")) {
      do stated.push_back(parse_type(lexer_));
      while (lexer_.accept(","));
    }
    if (stated.size() != results.size()) lexer_.fail("expected a type for each result");
    Op* op = build(*def, std::move(operands), std::move(attrs), stated);
    for (size_t i = 0; i < results.size(); ++i) {
      op->result(i)->set_name(results[i]);
      define(results[i], op->result(i));
    }
    if (!label.empty()) labels_[label] = op;
    parse_trailers(*op);
  }

  [[noreturn]] void refuse_op(const std::string& name) {
    std::vector<std::string> names;
    for (const OpDef* def : module_->registry().all()) names.push_back(def->name);
    lexer_.fail(str("there is no op '", name, "' (closest: '", support::closest_name(name, names),
                    "'); expected an op"));
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
    std::vector<Type> types;
    try {
      types = infer_types(def, operands, attrs, module_.get(), stated);
    } catch (const support::UserError& error) {
      lexer_.fail(str(error.what(), " Stopped"));
    }
    if (types != stated) {
      std::vector<std::string> inferred;
      for (const Type& type : types) inferred.push_back(str(type));
      lexer_.fail(str("op '", def.name, "' gives ", support::join(inferred, ", "),
                      ", not the types stated before this. Stopped"));
    }
    if (def.name == "variable") {
      // A slot that is not declared is declared by its first use.
      std::string name = std::get<std::string>(*attrs.find("name"));
      module_->add_state({.name = name, .type = types[0]});
    }
    return graph_->insert(def, std::move(operands), std::move(attrs), std::move(types));
  }

  void parse_trailers(Op& op) {
    for (;;) {
      if (lexer_.accept("@")) {
        parse_placement(op.placement);
      } else if (lexer_.accept("after")) {
        lexer_.expect("(");
        do op.add_after(parse_earlier());
        while (lexer_.accept(","));
        lexer_.expect(")");
      } else if (lexer_.accept("scope")) {
        lexer_.expect("(");
        op.scope = lexer_.string("a scope");
        lexer_.expect(")");
      } else if (lexer_.accept("loc")) {
        lexer_.expect("(");
        op.location.file = lexer_.string("a file");
        lexer_.expect(":");
        op.location.line = static_cast<int>(lexer_.integer("a line"));
        lexer_.expect(")");
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
    lexer_.expect("[");
    while (!lexer_.accept("]")) {
      auto number = [&](int& field) {
        lexer_.expect("=");
        field = static_cast<int>(lexer_.integer("a number"));
      };
      if (lexer_.accept("ipu"))
        number(placement.ipu);
      else if (lexer_.accept("stage"))
        number(placement.stage);
      else if (lexer_.accept("phase"))
        number(placement.phase);
      else if (lexer_.accept("block"))
        lexer_.expect("="), placement.block = lexer_.string("a name");
      else if (lexer_.accept("io_tiles"))
        placement.io_tiles = true;
      else if (lexer_.accept("accumulate_outer"))
        placement.context = ExecutionContext::kAccumulateOuter;
      else if (lexer_.accept("weights_from_host"))
        placement.context = ExecutionContext::kWeightsFromHost;
      else if (lexer_.accept("weights_to_host"))
        placement.context = ExecutionContext::kWeightsToHost;
      else
        lexer_.fail("expected ipu, stage, phase, block, io_tiles or a context");
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
