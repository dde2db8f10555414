// The rows: the registry's checks, and the errors of the type rules for wrong operands.
#include <gtest/gtest.h>

#include <set>

#include "golden_files.hpp"
#include "ir/op_def.hpp"
#include "ir/text.hpp"
#include "ir/verify.hpp"
#include "ops/all_ops.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

TEST(Rows, EveryRowIsCompleteAndNamesItsOperandsOnce) {
  for (const ir::OpDef* def : registry().all()) {
    std::set<std::string> names;
    for (const auto& operand : def->operand_defs) {
      EXPECT_TRUE(names.insert(operand.name).second) << def->name << ": " << operand.name;
    }
    EXPECT_EQ(def->doc.back(), '.') << def->name;
  }
}

// `name(x: float, w: x?) → y`; `a=1, mode="x"\|"y"`; what it computes.
std::string page_row(const ir::OpDef& def) {
  std::vector<std::string> attrs;
  for (const ir::AttrDef& attr : def.attrs) {
    std::string text = attr.name.text();
    if (attr.default_value) text += "=" + ir::attr_text(*attr.default_value);
    for (const std::string& word : attr.allowed) {
      if (!attr.default_value || ir::attr_text(*attr.default_value) != support::quoted(word)) {
        text += "\\|" + support::quoted(word);
      }
    }
    attrs.push_back(text);
  }
  const std::string results = def.outputs.empty() ? "" : " → " + support::join(def.outputs, ", ");
  std::string doc = def.doc;
  for (size_t at = 0; (at = doc.find('|', at)) != std::string::npos; at += 2) doc.insert(at, "\\");
  return support::str("| `", def.name, "(", support::join(def.inputs, ", "), ")", results, "` | ",
                      attrs.empty() ? "" : "`" + support::join(attrs, ", ") + "`", " | ", doc,
                      " |\n");
}

TEST(Rows, MakeTheVocabulary) {
  const std::string path = "../docs/OPS.md", mark = "| op | attributes | what it computes |\n";
  std::string made = mark + "|---|---|---|\n";
  for (const ir::OpDef* def : registry().all()) made += page_row(*def);
  const std::string page = golden::read(path);
  const size_t begin = page.find(mark);
  ASSERT_NE(begin, std::string::npos);
  if (golden::rewriting()) return golden::write(path, page.substr(0, begin) + made);
  EXPECT_EQ(page.substr(begin), made) << "run `make golden`";
}

TEST(Rows, InferShapesOfATrainingStep) {
  auto module = ir::parse(R"(
graph @main(%x: f32[16,1,28,28], %t: i32[16]) -> (f32[]) {
  %w = variable() {name="conv.weight"} : f32[32,1,3,3]
  %c = conv(%x, %w, _) {strides=[1, 1], padding=[0, 0], dilation=[1, 1]} : f32[16,32,26,26]
  %p = max_pool(%c) {kernel=[2, 2], strides=[2, 2], padding=[0, 0], dilation=[1, 1]} : f32[16,32,13,13]
  %r = relu(%p) : f32[16,32,13,13]
  %f = reshape(%r) {shape=[16, 5408]} : f32[16,5408]
  %v = variable() {name="fc.weight"} : f32[10,5408]
  %y = linear(%f, %v) : f32[16,10]
  %l, %q = softmax_cross_entropy(%y, %t) : f32[], f32[16,10]
  %z = identity_loss(%l) {reduction="none"} : f32[]
  return %z
})",
                          registry());
  ir::verify(*module);
}

std::string refusal(const std::string& op, const std::string& inputs, const std::string& types) {
  std::string text = "graph @main(" + inputs + ") -> () {\n  %y = " + op + " : " + types + "\n}";
  try {
    ir::parse(text, registry());
  } catch (const support::UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Rows, RefuseWrongOperandsByName) {
  struct Case {
    const char *op, *inputs, *expected;
  };
  const Case cases[] = {
      {"add(%a, %b)", "%a: f32[2,3], %b: f32[4]", "shapes [2, 3] and [4] do not broadcast"},
      {"add(%a, %b)", "%a: f32[2], %b: f16[2]", "operand 'b' must be f32 as 'a' but is f16[2]"},
      {"matmul(%a, %b)", "%a: f32[2,3], %b: f32[4,5]", "the inner dimensions are 3 and 4"},
      {"linear(%a, %b)", "%a: f32[2,3], %b: f32[4,5]", "last dimension of x must be 5"},
      {"reshape(%a) {shape=[7]}", "%a: f32[2,3]", "cannot give [2, 3] the shape [7]"},
      {"softmax(%a) {axis=2}", "%a: f32[2,3]", "axis 2 is out of range"},
      {"sum(%a) {axes=[1, 1]}", "%a: f32[2,3]", "ascending"},
      {"transpose(%a) {permutation=[0, 0]}", "%a: f32[2,3]",
       "permutation must contain each axis once"},
      {"concat(%a, %b) {axis=0}", "%a: f32[2,3], %b: f32[2,4]", "they may differ along axis 0"},
      {"nll_loss(%a, %b)", "%a: f32[2,3], %b: i32[3]", "target must be [2]"},
      {"topk(%a) {axis=1, k=4}", "%a: f32[2,3]", "k is 4 but the axis has 3"},
      {"call(%a) {graph=@nowhere}", "%a: f32[2,3]", "there is no graph @nowhere"},
  };
  for (const Case& c : cases) {
    EXPECT_NE(refusal(c.op, c.inputs, "f32[1]").find(c.expected), std::string::npos)
        << c.op << "\ngave: " << refusal(c.op, c.inputs, "f32[1]");
  }
}

}  // namespace
}  // namespace poptorch::ops
