// The verifier on ill-formed ops: every op of tests/ir/verifier/every_op.ir is broken in every way
// that its row forbids, without the other checks, and must be refused with its name and the reason.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <map>
#include <set>

#include "golden_files.hpp"
#include "ir/builder.hpp"
#include "ir/op_def.hpp"
#include "ir/text.hpp"
#include "ir/verify.hpp"
#include "ops/all_ops.hpp"
#include "sample.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::ir {
namespace {

using support::str;

// An op in parts, which tests change and insert into a graph without checks.
struct Parts {
  const OpDef* def = nullptr;
  std::vector<Value*> operands = {};
  Attrs attrs = {};
  std::vector<Type> results = {};
  Placement placement = {};
};

struct Case {
  std::string title;
  std::function<void(Graph&, Parts&)> change;
};

constexpr const char* kEveryOp = "ir/verifier/every_op.ir";

std::unique_ptr<Module> every_op() {
  return parse(golden::read(kEveryOp), ops::registry(), kEveryOp);
}

Value* input(Graph& graph, DType dtype, Shape shape) {
  return graph.add_input({dtype, std::move(shape)}, "wrong");
}

DType unlike(const OperandDef& row, DType dtype) {
  switch (row.rule) {
    case OperandDef::Rule::kNumber:
      return DType::kBool;
    case OperandDef::Rule::kInt:
    case OperandDef::Rule::kBool:
      return DType::kF32;
    default:
      return dtype == DType::kI16 ? DType::kU8 : DType::kI16;
  }
}

// Returns whether the op is well-formed with every shape of this operand.
bool takes_any_shape(const OpDef& def, size_t operand) {
  static const std::set<std::string> kOps = {"increment", "check_floats", "check_indices",
                                             "parameter_gradient"};
  return kOps.count(def.name) || (def.name.starts_with("aten") && operand < 2);
}

void add_operand_cases(const Op& op, std::vector<Case>& cases) {
  const auto& rows = op.def().operand_defs;
  for (size_t i = 0; i < op.operand_count(); ++i) {
    const OperandDef& row = rows[std::min(i, rows.size() - 1)];
    const Type type = op.operand(i)->type();
    if (!row.optional) {
      cases.push_back({str("operand ", i, " absent"),
                       [i](Graph&, Parts& parts) { parts.operands[i] = nullptr; }});
    }
    if (row.rule != OperandDef::Rule::kAny) {
      const DType dtype = unlike(row, type.dtype);
      cases.push_back({str("operand ", i, " of ", dtype), [=](Graph& graph, Parts& parts) {
                         parts.operands[i] = input(graph, dtype, type.shape);
                       }});
    }
    if (!takes_any_shape(op.def(), i)) {
      Shape longer = type.shape;
      longer.push_back(7);
      cases.push_back({str("operand ", i, " of a dimension more"), [=](Graph& graph, Parts& parts) {
                         parts.operands[i] = input(graph, type.dtype, longer);
                       }});
    }
    cases.push_back({str("operand ", i, " of another graph"), [i](Graph& graph, Parts& parts) {
                       Graph& other = graph.module().add_graph("elsewhere");
                       parts.operands[i] = input(other, parts.operands[i]->type().dtype,
                                                 parts.operands[i]->type().shape);
                     }});
  }
  if (rows.empty() || !rows.back().variadic) {
    cases.push_back({"an operand too many", [count = rows.size()](Graph& graph, Parts& parts) {
                       parts.operands.resize(count, nullptr);
                       parts.operands.push_back(input(graph, DType::kF32, {}));
                     }});
  }
  for (int written : op.def().writes) {
    const auto i = static_cast<size_t>(written);
    if (!op.operand(i)) continue;
    cases.push_back({str("operand ", i, " written by value"), [i](Graph& graph, Parts& parts) {
                       const Type type = parts.operands[i]->type();
                       parts.operands[i] = input(graph, type.dtype, type.shape);
                     }});
  }
}

Attr of_another_type(AttrType type) {
  return type == AttrType::kString ? Attr(int64_t{1}) : Attr(std::string("wrong"));
}

void add_value_case(std::string title, Symbol name, Attr value, std::vector<Case>& cases) {
  cases.push_back({str("attribute ", name, " ", title),
                   [=](Graph&, Parts& parts) { parts.attrs.set(name, value); }});
}

void add_range_cases(const AttrDef& row, const Attr& value, std::vector<Case>& cases) {
  static constexpr double kMost = kMaxElements;
  const bool whole = row.type == AttrType::kInt || row.type == AttrType::kInts;
  if (!whole && !row.range) return;
  const Range range = row.range.value_or(Range{-kMost, kMost});
  for (const double bound :
       {range.least - 1, std::nextafter(range.most + 1, INFINITY), double{NAN}}) {
    if (std::isinf(bound) || (whole && std::isnan(bound))) continue;
    const std::string title = str("of ", bound);
    if (row.type == AttrType::kInt) {
      add_value_case(title, row.name, static_cast<int64_t>(bound), cases);
    } else if (row.type == AttrType::kFloat) {
      add_value_case(title, row.name, bound, cases);
    } else if (Ints list = std::get<Ints>(value); !list.empty()) {
      list.back() = static_cast<int64_t>(bound);
      add_value_case(title, row.name, list, cases);
    }
  }
}

void add_list_cases(const OpDef& def, const AttrDef& row, const Attr& value,
                    std::vector<Case>& cases) {
  const auto* list = std::get_if<Ints>(&value);
  if (!list || list->empty()) return;
  Ints longer = *list, shorter = *list;
  longer.push_back(1);
  shorter.pop_back();
  add_value_case("with a number too many", row.name, longer, cases);
  // Reversing fewer axes is also valid.
  if (def.name != "reverse") {
    add_value_case("with a number too few", row.name, shorter, cases);
  }
}

void add_attr_cases(const Op& op, std::vector<Case>& cases) {
  cases.push_back({"an unknown attribute",
                   [](Graph&, Parts& parts) { parts.attrs.set("surplus", int64_t{1}); }});
  for (const AttrDef& row : op.def().attrs) {
    if (!row.default_value) {
      cases.push_back({str("attribute ", row.name, " missing"),
                       [name = row.name](Graph&, Parts& parts) { parts.attrs.erase(name); }});
    }
    add_value_case("of another type", row.name, of_another_type(row.type), cases);
    if (!row.allowed.empty()) add_value_case("unknown", row.name, std::string("?"), cases);
    const Attr& value = op.attr_value(row.name);
    add_range_cases(row, value, cases);
    add_list_cases(op.def(), row, value, cases);
    if (row.name == "axis" || row.name == "axes_count") {
      add_value_case("beyond the rank", row.name, op.operand(0)->type().rank() + 1, cases);
    }
    if (row.type == AttrType::kGraph) {
      add_value_case("of no graph", row.name, GraphRef{"nowhere"}, cases);
      cases.push_back({str("attribute ", row.name, " of another signature"),
                       [name = row.name](Graph& graph, Parts& parts) {
                         Graph& other = graph.module().add_graph("elsewhere");
                         other.add_output(input(other, DType::kI8, {9}));
                         parts.attrs.set(name, GraphRef{other.name()});
                       }});
    }
  }
}

void add_result_cases(const Op& op, std::vector<Case>& cases) {
  if (op.is("aten")) return;  // its results are what it says
  for (size_t i = 0; i < op.result_count(); ++i) {
    cases.push_back({str("result ", i, " of another element type"), [i](Graph&, Parts& parts) {
                       DType& dtype = parts.results[i].dtype;
                       dtype = dtype == DType::kI16 ? DType::kU8 : DType::kI16;
                     }});
    cases.push_back({str("result ", i, " of another shape"),
                     [i](Graph&, Parts& parts) { parts.results[i].shape.push_back(3); }});
  }
  cases.push_back({"a result too many",
                   [](Graph&, Parts& parts) { parts.results.push_back({DType::kF32, {}}); }});
  if (op.result_count() > 0) {
    cases.push_back({"a result too few", [](Graph&, Parts& parts) { parts.results.pop_back(); }});
  }
}

void add_placement_cases(std::vector<Case>& cases) {
  const std::pair<int Placement::*, int> fields[] = {{&Placement::ipu, kMaxIpus},
                                                     {&Placement::stage, kMaxStages},
                                                     {&Placement::phase, kMaxStages}};
  for (const auto& [field, limit] : fields) {
    for (int number : {-2, limit}) {
      cases.push_back({str("placement of ", number), [field = field, number](Graph&, Parts& parts) {
                         parts.placement.*field = number;
                       }});
    }
  }
}

std::vector<Case> cases_of(const Op& op) {
  std::vector<Case> cases;
  add_operand_cases(op, cases);
  add_attr_cases(op, cases);
  add_result_cases(op, cases);
  add_placement_cases(cases);
  return cases;
}

// Returns the verifier's error for the changed `op`; empty if it accepts it.
std::string refusal(const Module& module, const Op& op, const Case& one) {
  const auto copy = module.clone();
  Graph& main = copy->main();
  Op* at = main.first();
  while (at->id() != op.id()) at = at->next();
  Parts parts{&at->def(), at->operands(), at->attrs(), {}, at->placement};
  for (size_t i = 0; i < at->result_count(); ++i) parts.results.push_back(at->result(i)->type());
  one.change(main, parts);
  Op* broken = main.insert(*parts.def, parts.operands, parts.attrs, parts.results, at->next());
  broken->placement = parts.placement;
  try {
    verify(*copy);
  } catch (const support::Error& error) {
    return error.what();
  }
  return "";
}

// Returns the line of such an op on main's inputs, if its row allows one shape for all of them.
std::string well_formed(Graph& main, const OpDef& def) {
  using Rule = OperandDef::Rule;
  static const std::map<Rule, const char*> kInputs = {{Rule::kInt, "i"}, {Rule::kBool, "b"}};
  std::vector<std::string> names;
  std::vector<Value*> operands;
  for (const OperandDef& row : def.operand_defs) {
    auto found = kInputs.find(row.rule);
    names.push_back(found == kInputs.end() ? "x" : found->second);
    for (const auto& input : main.inputs()) {
      if (input->name() == names.back()) operands.push_back(input.get());
    }
  }
  const Op* op = Builder(main).emit(def.name, operands, {});
  std::vector<std::string> results, types;
  for (size_t i = 0; i < op->result_count(); ++i) {
    results.push_back(i == 0 ? "%" + def.name : str("%", def.name, "_", i));
    types.push_back(str(op->result(i)->type()));
  }
  const std::string head = results.empty() ? "" : support::join(results, ", ") + " = ";
  const std::string tail = results.empty() ? "" : " : " + support::join(types, ", ");
  return str("  ", head, def.name, "(%", support::join(names, ", %"), ")", tail, "\n");
}

TEST(Verifier, EveryOpHasAWellFormedOne) {
  std::set<std::string> seen;
  const auto module = every_op();
  for (const Op* op : module->main().ops()) seen.insert(op->name());
  for (const OpDef* def : ops::registry().all()) {
    if (seen.count(def->name)) continue;
    if (!golden::rewriting()) {
      ADD_FAILURE() << kEveryOp << " lacks " << def->name << ": run `make golden`";
      continue;
    }
    std::string text = golden::read(kEveryOp);
    text.insert(text.rfind("  return "), well_formed(module->main(), *def));
    golden::write(kEveryOp, text);
  }
}

TEST(Verifier, RefusesEveryOpThatItsRowForbids) {
  const auto module = every_op();
  std::map<std::string, int> refused;  // by the first words of the title
  int ops = 0, count = 0;
  Sample sample;
  for (const Op* op : module->main().ops()) {
    if (!sample.takes()) continue;
    ++ops;
    EXPECT_EQ(refusal(*module, *op, {"nothing", [](Graph&, Parts&) {}}), "") << op->name();
    for (const Case& one : cases_of(*op)) {
      const std::string text = refusal(*module, *op, one);
      EXPECT_NE(text, "") << op->name() << " with " << one.title << " was accepted";
      EXPECT_NE(text.find(op->name()), std::string::npos) << one.title << ": " << text;
      EXPECT_GT(text.size(), op->name().size() + 20) << one.title << ": " << text;
      ++refused[one.title.substr(0, one.title.find(' '))];
      ++count;
    }
  }
  std::cout << "ill-formed ops refused: " << count;
  for (const auto& [kind, number] : refused) std::cout << ", " << kind << " " << number;
  std::cout << "\n";
  EXPECT_GT(count, 5 * ops);
}

}  // namespace
}  // namespace poptorch::ir
