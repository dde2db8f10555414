// The description of an execution: every option is printed and parsed, and mistakes are refused.
#include "ir/execution.hpp"

#include <gtest/gtest.h>

#include "ir/option_table.hpp"
#include "ir/text.hpp"
#include "lowering/lower.hpp"
#include "lowering/schedules.hpp"
#include "lowering/strategy.hpp"
#include "ops/all_ops.hpp"
#include "session/session.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"
#include "transforms/passes.hpp"

namespace poptorch {
namespace {

constexpr const char* kGraph =
    "graph @main(%x: f32[2]) -> (f32[2]) {\n  %y = relu(%x) : f32[2]\n  return %y\n}\n";

constexpr const char* kTrained =
    "state \"w\" : f32[2] {kind=\"parameter\"}\n"
    "graph @main(%x: f32[2]) -> (f32[]) {\n  %w = variable() {name=\"w\"} : f32[2]\n"
    "  %y = mul(%x, %w) : f32[2]\n  %s = sum(%y) {axes=[0]} : f32[]\n"
    "  %l = identity_loss(%s) {reduction=\"none\"} : f32[]\n  return %l\n}\n";

// Returns a value other than the row's default, as text.
std::string another(const ir::OptionText& row) {
  if (row.type.starts_with("bool")) return row.otherwise == "true" ? "false" : "true";
  if (row.type == "str") {
    std::vector<std::string> words = row.limits.words;
    if (words.empty()) words = {"other"};
    const bool last = support::quoted(words.back()) != row.otherwise;
    return support::quoted(last ? words.back() : words.front());
  }
  if (row.name == "memory_proportions") return "[\"\", \"0.25\"]";
  if (row.type == "strings") return "[\"accumulation_loop\"]";
  if (row.type == "dtype") return "f16";
  if (row.type == "int" && row.limits.least > 1) return std::to_string(row.limits.least);
  return row.otherwise == "1" || row.otherwise == "1.0" ? "2"
         : row.otherwise == "inf"                       ? "0.5"
                                                        : "1";
}

TEST(Execution, EveryOptionIsInTheTextAndComesBack) {
  int rows = 0;
  for (const ir::OptionText& row : ir::execution_table()) {
    if (row.keyword == "anchored" || row.name == "whole_outputs") continue;  // of other outputs
    const std::string name = row.keyword == "execution"         ? ""
                             : row.keyword == "location"        ? "\"weights\" "
                             : row.keyword == "optimiser_group" ? "\"0\" "
                                                                : "\"sgd\" ";
    const std::string line = support::str(row.keyword, " ", name, "{", row.name, "=", another(row));
    const std::string head = row.keyword == "optimiser_group" ? "optimiser \"sgd\"\n" : "";
    const std::string text = head + line + "}\n" + kGraph;
    const auto module = ir::parse(text, ops::registry());
    const std::string printed = ir::print(*module);
    EXPECT_NE(printed.find(row.name + "="), std::string::npos) << text << "became\n" << printed;
    EXPECT_TRUE(ir::structurally_equal(*module, *ir::parse(printed, ops::registry()))) << printed;
    EXPECT_TRUE(ir::structurally_equal(*module, *module->clone()));
    EXPECT_FALSE(ir::structurally_equal(*module, *ir::parse(kGraph, ops::registry()))) << text;
    EXPECT_FALSE(row.doc.empty()) << row.name;
    ++rows;
  }
  EXPECT_GE(rows, 40);
}

TEST(Execution, WhatCannotBeIsRefusedWithItsPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"execution {device_iteration=4}", "Did you mean 'device_iterations'?"},
      {"execution {device_iterations=0}", "It must be at least 1 and at most 1073741824"},
      {"execution {io_tiles=33}", "io_tiles is 33. It must be an even number between 32 and 192."},
      {"execution {io_tiles=194}", "It must be an even number between 32 and 192."},
      {"execution {training=1}", "training is 1"},
      {"execution {output_mode=\"Every\"}", "It must be one of Final, EveryN, All, Sum"},
      {"execution {device_iterations=3, output_mode=\"EveryN\", output_period=2}", "one in 2 of"},
      {"execution {input_overlaps=[\"loop\"]}", "There are accumulation_loop and"},
      {"execution {memory_proportions=[\"\", \"1.5\"]}",
       "IPU 1 is \"1.5\". It must be from 0 to 1."},
      {"execution {memory_proportions=[\"half\"]}", "IPU 0 is \"half\". It must be from 0 to 1."},
      {"execution {whole_outputs=2}", "are more than main's 1"},
      {"anchored \"y\" {anchor=0}", "names anchor 0, but there are 0"},
      {"location \"weight\" {on_chip=true}", "Did you mean 'weights'?"},
      {"optimiser_group \"0\" {lr=0.1}", "must follow its optimiser"},
      {"execution \"x\" {training=true}", "execution takes no name"},
      {"anchor {mode=\"All\"}", "anchor needs a name"},
      {"execution {device_iterations=\"3\"}", "is \"3\". It must be a whole number."},
      {"execution {training=1}", "training is 1. It must be true or false."},
      {"execution {strategy=2}", "strategy is 2. It must be a text."},
      {"execution {input_overlaps=3}", "It must be a list of texts."},
      {"optimiser \"sgd\" {accumulator_type=\"f31\"}", "It must be a type, such as f32."},
      {"optimiser \"sgd\"\noptimiser_group \"0\" {lr=\"fast\"}",
       "is \"fast\". It must be a number."}};
  for (const auto& [line, reason] : cases) {
    try {
      ir::parse(std::string(line) + "\n" + kGraph, ops::registry());
      ADD_FAILURE() << "accepted: " << line;
    } catch (const support::UserError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(reason), std::string::npos) << text;
      EXPECT_NE(text.find("[parse] text:"), std::string::npos) << text;
    }
  }
}

TEST(Execution, ADefaultIsAllowedOutsideOfTheRange) {
  const auto module = ir::parse(std::string("execution {io_tiles=0}\n") + kGraph, ops::registry());
  EXPECT_EQ(module->execution().io_tiles, 0);
}

TEST(Execution, AnInputHasAMicroBatchForEveryGroupInEveryStep) {
  ir::Execution execution{
      .device_iterations = 3, .gradient_accumulation = 2, .replication_factor = 8};
  EXPECT_EQ(execution.micro_batches(), 6);
  EXPECT_EQ(execution.input_factor(), 48);
  ir::group_inputs(execution, ir::CommGroup::kOrthogonal, 4);
  EXPECT_EQ(execution.input_group_stride, 2);
  EXPECT_EQ(execution.input_groups(), 2);
  EXPECT_EQ(execution.input_factor(), 12);
  EXPECT_EQ(ir::batch_defect(execution, "x", 24), "");
  const std::string defect = ir::batch_defect(execution, "x", 18);
  EXPECT_NE(defect.find("In the input x, the batch dimension (18) must be a multiple of "
                        "Options.deviceIterations(3) * (Options.replicationFactor(8) / "
                        "Options.inputReplicaGrouping(4)) * "
                        "Options.Training.gradientAccumulation(2) = 12."),
            std::string::npos)
      << defect;
  execution.replication_factor = 2;  // fewer replicas than are in a group
  EXPECT_NE(ir::batch_defect(execution, "x", 24), "");
  execution.device_iterations = execution.gradient_accumulation = int64_t{1} << 32;
  EXPECT_EQ(execution.micro_batches(), INT64_MAX);
}

TEST(Execution, GroupsOfInputsMustDivideTheReplicas) {
  ir::Execution execution{.replication_factor = 4};
  ir::group_inputs(execution, ir::CommGroup::kNoGrouping, 3);
  EXPECT_EQ(execution.input_group_size, 1);
  ir::group_inputs(execution, ir::CommGroup::kConsecutive, 2);
  EXPECT_EQ(execution.input_group_size, 2);
  EXPECT_EQ(execution.input_group_stride, 1);
  for (const int64_t size : {0, 3, 8}) {
    EXPECT_THROW(ir::group_inputs(execution, ir::CommGroup::kConsecutive, size),
                 support::UserError);
  }
  EXPECT_THROW(ir::group_inputs(execution, ir::CommGroup::kAll, 4), support::UserError);
  EXPECT_THROW(ir::comm_group_of("Some"), support::UserError);
}

TEST(Execution, AnOptimiserIsRefusedByWhatItLacks) {
  const std::string group = "optimiser_group \"0\" {lr=0.1, parameters=[\"w\"]}\n";
  const std::pair<std::string, const char*> cases[] = {
      {"", "is trained, but has no optimiser"},
      {"optimiser \"sdg\"\n" + group, "kind 'sdg' is not known"},
      {"optimiser \"sgd\" {accumulator_type=i32}\n" + group, "accumulator_type is i32"},
      {"optimiser \"sgd\"\n" + group + group, "\"w\" is updated twice"},
      {"optimiser \"sgd\"\noptimiser_group \"0\" {parameters=[\"w\"]}\n", "group 0 has no lr"}};
  for (const auto& [lines, reason] : cases) {
    try {
      session::compile(
          ir::parse("execution {training=true}\n" + lines + kTrained, ops::registry()));
      ADD_FAILURE() << "accepted: " << lines;
    } catch (const support::UserError& error) {
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  }
}

TEST(Execution, PatternsOfManyStarsAreReadInLinearTime) {
  std::string stars;
  for (int i = 0; i < 40; ++i) stars += "*a";
  const std::string graph =
      "graph @main(%x: f32[2]) -> (f32[2]) {\n  %y = relu(%x) : f32[2] scope(\"" +
      std::string(2000, 'a') + "b.in\")\n  return %y\n}\n";
  auto outputs = [&](const std::string& pattern) {
    const auto module = ir::parse("anchor \"" + pattern + "\"\n" + graph, ops::registry());
    transforms::anchor_values(*module);
    return module->execution().anchored.size();
  };
  EXPECT_EQ(outputs(stars + "c"), 0U);
  EXPECT_EQ(outputs(stars + "*b"), 1U);
  EXPECT_EQ(outputs(stars + "?*"), 2U);
  EXPECT_EQ(outputs("*"), 3U);  // and input0
  EXPECT_EQ(outputs("input?"), 1U);
}

TEST(Execution, AStrategyIsARow) {
  lowering::add_strategy({.name = "toy",
                          .doc = "One micro-batch after the other, as a test has it.",
                          .schedule = lowering::schedule_sequential});
  const std::string head = "execution {device_iterations=3, strategy=\"toy\"}\n";
  const auto toy = lowering::lower(*ir::parse(head + kGraph, ops::registry()));
  EXPECT_EQ(toy.micro_batches_per_run, 3);
  EXPECT_NO_THROW(session::compile(ir::parse(head + kGraph, ops::registry())));
  EXPECT_THROW(lowering::add_strategy({.name = "toy", .doc = ""}), support::InternalError);
  try {
    lowering::find_strategy("pipelind");
    ADD_FAILURE() << "found";
  } catch (const support::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("Did you mean 'pipelined'?"), std::string::npos);
  }
}

}  // namespace
}  // namespace poptorch
