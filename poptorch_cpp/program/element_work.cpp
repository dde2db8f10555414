#include "program/element_work.hpp"

#include <string>
#include <unordered_map>

#include "target/constants.hpp"

namespace poptorch::program {
namespace {

struct Planned {
  double half, single;
};

// Graphcore's open-source libraries assume these cycles when they plan. The gradient of GELU
// computes erf and exp again.
Planned planned_cycles(const Instruction& instruction) {
  static const std::unordered_map<std::string, Planned> kPlanned = {
      {"relu", {3.0 / 4, 3.0 / 2}},
      {"exp", {4.0 / 4, 6.0 / 2}},
      {"log", {4.0 / 4, 12.0 / 2}},
      {"tanh", {4.0 / 4, 12.0 / 2}},
      {"sigmoid", {6.0 / 4, 12.0 / 2}},
      {"sqrt", {23.0 / 4, 10.0 / 2}},
      {"rsqrt", {19.0 / 4, 8.0 / 2}},
      {"reciprocal", {15.0 / 4, 6.0 / 2}},
      {"div", {21.0 / 4, 10.0 / 2}},
      {"erf", {13, 41}},
      {"gelu", {16, 22}},
      {"gelu_grad", {17, 25}},
  };
  const ir::Attr* approximate = instruction.attrs.find("approximate");
  if (approximate && std::get<std::string>(*approximate) != "none") return {0, 0};
  const auto found = kPlanned.find(instruction.op.text());
  return found == kPlanned.end() ? Planned{0, 0} : found->second;
}

// Returns the number of sums or maxima over all tiles that an op takes: of the statistics of a
// norm, of the largest and the sum of a softmax. Each step of a search takes the best of all.
int reductions_of(const std::string& op) {
  static const std::unordered_map<std::string, int> kReductions = {
      {"sum", 1},
      {"mean", 1},
      {"max", 1},
      {"min", 1},
      {"prod", 1},
      {"softmax", 2},
      {"softmax_grad", 1},
      {"log_softmax", 2},
      {"log_softmax_grad", 1},
      {"batch_norm", 1},
      {"batch_norm_grad", 1},
      {"layer_norm", 1},
      {"layer_norm_grad", 2},
      {"group_norm", 1},
      {"group_norm_grad", 2},
      {"nll_loss", 1},
      {"softmax_cross_entropy", 3},
      {"identity_loss", 1},
      {"softmax_cross_entropy_grad", 1},
      {"farthest_points", 1},
      {"ctc_beam_search", 1},
  };
  const auto found = kReductions.find(op);
  return found == kReductions.end() ? 0 : found->second;
}

using target::Constants;

struct Measured {
  double Constants::* cycles = nullptr;  // of an element of 4 bytes or, of random numbers, of any
  bool all = false;                      // that is all work
};

Measured measured_of(const std::string& op) {
  static const std::unordered_map<std::string, Measured> kMeasured = {
      {"sum", {&Constants::summed_word, true}},
      {"mean", {&Constants::summed_word, true}},
      {"dropout", {&Constants::random_sample, false}},
      {"bernoulli", {&Constants::random_sample, false}},
      {"random_bits", {&Constants::random_sample, false}},
      {"random_normal", {&Constants::random_sample, false}},
      {"random_uniform", {&Constants::random_sample, false}},
  };
  const auto found = kMeasured.find(op);
  return found == kMeasured.end() ? Measured() : found->second;
}

}  // namespace

ElementWork element_work(const Instruction& instruction, bool half) {
  const std::string& op = instruction.op.text();
  const Planned planned = planned_cycles(instruction);
  ElementWork work{.planned = half ? planned.half : planned.single,
                   .reductions = reductions_of(op)};
  const Measured measured = measured_of(op);
  if (!measured.cycles) return work;
  work.measured = target::constants().*measured.cycles * (measured.all && half ? 0.5 : 1);
  work.all_measured = measured.all;
  return work;
}

}  // namespace poptorch::program
