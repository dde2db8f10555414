// Runs the cases of tests/ir/<stage>/<pass>.ir:
//
//   // case: what holds
//   // with: gradient_accumulation=4 training=true
//   // run: pass, another pass
//   graph @main(...) { ... }
//   // expect:
//   graph @main(...) { ... }
//
// or `// error: part of the message` in place of the expectation. `with` is optional. Besides
// passes, `verify` runs the IR's verifier, `print` nothing, and `lower` (the last) makes a program,
// whose text is compared exactly; modules are compared structurally. POPTORCH_REWRITE_GOLDEN=1
// writes what came out as the expectation.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "golden_cases.hpp"
#include "ir/text.hpp"
#include "ir/verify.hpp"
#include "lowering/lower.hpp"
#include "ops/all_ops.hpp"
#include "session/pass_runner.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch {
namespace {

// What `with` says, for the passes and for lowering.
struct Settings {
  transforms::PassContext context;
  lowering::LowerOptions lower;
};

bool boolean(const std::string& text) { return text == "true"; }

void set_optimiser(transforms::PassContext& context, const std::string& key,
                   const std::string& value) {
  if (!context.optimiser) {
    context.optimiser.emplace();
    context.optimiser->groups.resize(1);
  }
  transforms::OptimiserSpec& spec = *context.optimiser;
  auto& group = spec.groups[0];
  if (key == "optimiser") {
    spec.kind = value;
  } else if (key == "parameters") {
    std::istringstream names(value);
    for (std::string name; std::getline(names, name, ',');) group.parameters.push_back(name);
  } else if (key == "variable") {
    std::istringstream names(value);
    for (std::string name; std::getline(names, name, ',');) group.variable.insert(name);
  } else if (key == "loss_scaling") {
    spec.loss_scaling = std::stod(value);
  } else if (key == "automatic_loss_scaling") {
    spec.automatic_loss_scaling = boolean(value);
  } else if (key == "running_mean") {
    spec.running_mean = boolean(value);
  } else if (key == "max_grad_norm") {
    spec.max_grad_norm = std::stod(value);
  } else {
    group.values[key] = std::stod(value);
  }
}

const std::map<std::string, transforms::Strategy>& strategies() {
  using transforms::Strategy;
  static const std::map<std::string, Strategy> rows = {
      {"pipelined", Strategy::kPipelined},
      {"sharded", Strategy::kSharded},
      {"serial_phased", Strategy::kSerialPhased},
      {"parallel_phased", Strategy::kParallelPhased}};
  return rows;
}

// The locations of kinds, separated by commas.
std::vector<target::TensorLocation*> locations_of(target::TensorLocations& locations,
                                                  const std::string& kinds) {
  std::map<std::string, target::TensorLocation*> rows = {
      {"weights", &locations.weights},
      {"activations", &locations.activations},
      {"optimiser_state", &locations.optimiser_state},
      {"accumulators", &locations.accumulators}};
  std::vector<target::TensorLocation*> found;
  std::istringstream names(kinds);
  for (std::string name; std::getline(names, name, ',');) found.push_back(rows.at(name));
  return found;
}

Settings settings_of(const std::string& with) {
  Settings settings;
  std::istringstream items(with);
  for (std::string item; items >> item;) {
    const size_t equals = item.find('=');
    const std::string key = item.substr(0, equals), value = item.substr(equals + 1);
    if (key == "training") {
      settings.context.training = boolean(value);
    } else if (key == "strategy") {
      settings.context.strategy = settings.lower.strategy = strategies().at(value);
    } else if (key == "liveness") {
      settings.context.phasing.liveness = static_cast<transforms::Liveness>(std::stoi(value));
    } else if (key == "separate_backward") {
      settings.context.phasing.separate_backward = boolean(value);
    } else if (key == "off_chip") {
      for (auto* one : locations_of(settings.lower.locations, value)) one->on_chip = false;
    } else if (key == "sharded") {
      for (auto* one : locations_of(settings.lower.locations, value)) {
        one->sharded = true;
        one->least_sharded = 2;
      }
    } else if (key == "on_chip") {
      for (auto* one : locations_of(settings.lower.locations, value)) one->on_chip = true;
    } else if (key == "forward_stages") {
      settings.context.forward_stages = std::stoll(value);
    } else if (key == "stochastic_rounding") {
      settings.context.stochastic_rounding = boolean(value);
    } else if (key == "mean_reduction") {
      settings.context.mean_reduction = boolean(value);
    } else if (key == "gradient_accumulation") {
      settings.context.gradient_accumulation = settings.lower.gradient_accumulation =
          std::stoll(value);
    } else if (key == "replicas") {
      settings.lower.replicas = std::stoi(value);
      settings.context.replication_factor = settings.lower.replicas;
    } else if (key == "anchors") {
      std::istringstream names(value);
      for (std::string name; std::getline(names, name, ',');) {
        settings.context.anchors.push_back(name);
      }
    } else if (key == "device_iterations") {
      settings.lower.device_iterations = settings.context.device_iterations = std::stoll(value);
    } else {
      set_optimiser(settings.context, key, value);
    }
  }
  return settings;
}

// The text that comes out of the case's passes.
std::string outcome(const Case& one) {
  Settings settings = settings_of(one.with);
  auto module = ir::parse(one.input, ops::registry(), one.file.filename().string());
  session::PassRunner runner(settings.context, {}, 1);
  for (const std::string& name : one.run) {
    if (name == "verify") {
      ir::verify(*module);
    } else if (name == "lower") {
      settings.lower.phasing = settings.context.phasing;
      return program::print(lowering::lower(*module, settings.lower));
    } else if (name != "print") {
      runner.run(name, *module);
    }
  }
  return ir::print(*module);
}

bool rewriting() { return std::getenv("POPTORCH_REWRITE_GOLDEN") != nullptr; }

void rewrite(const Case& changed, const std::string& text) {
  std::vector<Case> cases = read_cases(changed.file);
  std::ifstream in(changed.file);
  std::string head;
  for (std::string line, rest; std::getline(in, line) && !take_mark(line, "case", rest);) {
    head += line + "\n";
  }
  cases[static_cast<size_t>(changed.index)].expected = text;
  std::ofstream out(changed.file);
  out << head;
  for (const Case& one : cases) {
    out << "// case: " << one.title << "\n";
    if (!one.with.empty()) out << "// with: " << one.with << "\n";
    out << "// run: " << support::join(one.run, ", ") << "\n" << trimmed(one.input) << "\n";
    if (one.error.empty()) {
      out << "// expect:\n" << trimmed(one.expected) << "\n";
    } else {
      out << "// error: " << one.error << "\n";
    }
    if (&one != &cases.back()) out << "\n";
  }
}

class Golden : public testing::TestWithParam<Case> {};

TEST_P(Golden, ComesOutAsExpected) {
  const Case& one = GetParam();
  SCOPED_TRACE(one.file.string() + ": " + one.title);
  ASSERT_FALSE(one.run.empty()) << "the case has no `// run:` line";
  if (!one.error.empty()) {
    try {
      const std::string text = outcome(one);
      FAIL() << "accepted, giving\n" << text;
    } catch (const support::Error& error) {
      EXPECT_NE(std::string(error.what()).find(one.error), std::string::npos)
          << "the message is: " << error.what();
    }
    return;
  }
  const std::string text = outcome(one);
  std::string why;
  bool equal = false;
  if (one.run.back() == "lower") {
    equal = trimmed(text) == trimmed(one.expected);
    why = "the program differs";
  } else if (!trimmed(one.expected).empty()) {
    auto expected = ir::parse(one.expected, ops::registry(), "expected");
    equal = ir::structurally_equal(*ir::parse(text, ops::registry(), "outcome"), *expected, &why);
  }
  if (equal) return;
  if (rewriting()) return rewrite(one, text);
  FAIL() << why << "; it came out as\n" << text;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.file.parent_path().filename().string() + "_" +
                     info.param.file.stem().string() + "_" + std::to_string(info.param.index);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); },
      '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ir, Golden, testing::ValuesIn(all_cases()), case_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Golden);

}  // namespace
}  // namespace poptorch
