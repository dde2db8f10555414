// The parser of text.hpp: declarations here, steps in parse_steps.cpp.
#include <algorithm>

#include "emulator/bound/parse_steps.hpp"
#include "emulator/bound/text.hpp"
#include "program/text.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

using support::quoted;
using support::str;

class CodeParser {
 public:
  CodeParser(std::string_view text, const program::Program& program, const ir::Registry& registry,
             std::string_view origin)
      : lexer_(text, origin), program_(program) {
    code_.program = &program;
    code_.registry = &registry;
  }

  Code run() {
    lexer_.expect("code");
    fields_.read_braces();
    fields_.take("channels", code_.channel_bytes);
    fields_.take("reference_only", code_.reference_only);
    fields_.take("threads", code_.threads);
    fields_.end();
    while (lexer_.accept("region")) parse_region();
    while (lexer_.accept("storage")) parse_storage();
    while (lexer_.accept("value")) parse_value();
    while (lexer_.accept("collective")) parse_collective();
    StepParser steps(lexer_, fields_, code_, names_);
    while (lexer_.accept("ipu")) parse_ipu(steps);
    if (lexer_.peek().kind != ir::Token::Kind::kEnd) lexer_.fail("expected a declaration or 'ipu'");
    return std::move(code_);
  }

 private:
  void parse_region() {
    CodeRegion region{.name = lexer_.string("a name")};
    fields_.read_braces();
    fields_.take("parent", region.parent);
    fields_.end();
    if (region.parent >= 0) {
      const auto parent = static_cast<size_t>(region.parent);
      if (parent >= code_.regions.size())
        fields_.fail("there is no region ", parent, " before this line.");
      region.depth = code_.regions[parent].depth + 1;
    }
    code_.regions.push_back(std::move(region));
  }

  template <typename Items, typename NameOf>
  int32_t find_named(const Items& items, std::string_view what, NameOf name_of) {
    const ir::Token place = lexer_.peek();
    const std::string name = lexer_.string(str("a ", what, "'s name"));
    const auto found =
        std::ranges::find_if(items, [&](const auto& item) { return name_of(item).text() == name; });
    if (found == items.end())
      lexer_.fail_at(place, str("there is no ", what, " ", quoted(name), "."));
    return static_cast<int32_t>(found - items.begin());
  }

  void expect_number(size_t number, std::string_view what) {
    const ir::Token place = lexer_.peek();
    const int64_t given = lexer_.integer(str("the number of the ", what));
    if (given != static_cast<int64_t>(number)) {
      lexer_.fail_at(place,
                     str(what, " ", given, " stands where ", what, " ", number, " belongs."));
    }
  }

  void parse_storage() {
    expect_number(code_.storages.size(), "storage");
    lexer_.expect(":");
    Storage storage{.type = ir::parse_type(lexer_)};
    lexer_.expect("at");
    const ir::Token place = lexer_.peek();
    const std::string word = lexer_.name("an address");
    lexer_.expect("(");
    if (word == "state") {
      storage.base = Base::kState;
      storage.index = find_named(program_.states, "state",
                                 [](const program::State& state) { return state.slot.name; });
    } else if (word == "constant") {
      storage.base = Base::kConstant;
      storage.index = static_cast<int32_t>(
          lexer_.integer("a constant", 0, static_cast<int64_t>(program_.constants.size()) - 1));
    } else if (word == "arena") {
      storage.offset = lexer_.integer("an offset");
    } else {
      lexer_.fail_at(place, str("'", word, "' is not a base of a storage."));
    }
    lexer_.expect(")");
    fields_.read_braces();
    fields_.take("copy_of", storage.copy_of);
    fields_.take("held", storage.held);
    fields_.take("ipu", storage.ipu);
    fields_.take("kept", storage.kept);
    fields_.take_word("layout", kLayoutWords, storage.layout.kind);
    fields_.take("meets", storage.meets);
    fields_.take("readers", storage.readers);
    fields_.take("resized", storage.resized);
    fields_.take("writers", storage.writers);
    fields_.end();
    code_.storages.push_back(std::move(storage));
  }

  void parse_value() {
    lexer_.expect("%");
    const ir::Token place = lexer_.peek();
    Value value;
    value.name = lexer_.name("a value's name");
    lexer_.expect(":");
    value.type = ir::parse_type(lexer_);
    lexer_.expect("at");
    lexer_.expect("storage");
    lexer_.expect("(");
    value.storage = static_cast<int32_t>(
        lexer_.integer("a storage", 0, static_cast<int64_t>(code_.storages.size()) - 1));
    if (lexer_.accept(",")) value.offset = lexer_.integer("an offset");
    lexer_.expect(")");
    if (lexer_.accept("by")) {
      lexer_.expect("[");
      do {
        value.strides.push_back(lexer_.integer("a stride"));
      } while (lexer_.accept(","));
      lexer_.expect("]");
    }
    const auto id = static_cast<ValueId>(code_.values.size());
    if (!names_.emplace(value.name.text(), id).second) {
      lexer_.fail_at(place, str("%", value.name, " is declared twice."));
    }
    code_.values.push_back(std::move(value));
  }

  void parse_collective() {
    const ir::Token place = lexer_.peek();
    CollectiveSpec spec;
    try {
      spec.kind = collective_kind(lexer_.string("a collective"));
      lexer_.expect(":");
      spec.dtype = ir::parse_dtype(lexer_);
      fields_.read_braces();
      std::string word(name_of(Reduction::kSum));
      fields_.take("reduction", word);
      spec.reduction = reduction(word);
    } catch (const support::InternalError& error) {
      lexer_.fail_at(place, error.what());
    }
    fields_.take("elements", spec.elements);
    fields_.take("group_size", spec.groups.size);
    fields_.take("group_stride", spec.groups.stride);
    fields_.take("replicas", spec.groups.replicas);
    ir::Strings ways;
    fields_.take("ways", ways);
    fields_.end();
    for (const std::string& way : ways) {
      const auto found = std::ranges::find(kWayWords, way);
      if (found == kWayWords.end()) fields_.fail(quoted(way), " is not a way of a collective.");
      spec.ways.push_back(static_cast<Way>(found - kWayWords.begin()));
    }
    code_.collectives.push_back(std::move(spec));
  }

  void parse_ipu(StepParser& steps) {
    expect_number(code_.ipus.size(), "IPU");
    IpuCode ipu;
    fields_.read_bracket();
    fields_.take("arena", ipu.arena_bytes);
    fields_.take("loops", ipu.loops);
    fields_.take("prepared", ipu.prepared);
    fields_.end();
    lexer_.expect("{");
    while (!lexer_.accept("}")) {
      expect_number(ipu.steps.size(), "step");
      lexer_.expect(":");
      steps.parse(ipu);
    }
    code_.ipus.push_back(std::move(ipu));
  }

  ir::Lexer lexer_;
  const program::Program& program_;
  Code code_;
  program::Fields fields_{lexer_};
  ValueNames names_;
};

}  // namespace

Code parse_unbound(std::string_view text, const program::Program& program,
                   const ir::Registry& registry, std::string_view origin) {
  return CodeParser(text, program, registry, origin).run();
}

}  // namespace poptorch::emulator
