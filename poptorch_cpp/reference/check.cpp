// Kernels that only check: floating-point exceptions, detected from results and operands; indices;
// conditions that a program relies on.
#include <cmath>

#include "reference/kernels.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::reference {
namespace {

struct Found {
  bool nan = false, infinity = false;

  void look_at(const Doubles& values) {
    for (double value : values) {
      nan |= std::isnan(value);
      infinity |= std::isinf(value);
    }
  }
};

void check_floats(const KernelCall& call) {
  const Args a(call);
  Found result, operands;
  result.look_at(a.in(0));
  for (size_t i = 1; i < a.input_count(); ++i) operands.look_at(a.in(i));
  const bool comparison = a.flag("comparison");
  const char* what = nullptr;
  if (comparison) {
    if (result.nan || operands.nan) what = "compares NaN";
  } else if (result.nan && !operands.nan) {
    what = "gave NaN: an invalid operation";
  } else if (result.infinity && !operands.infinity && !operands.nan) {
    what = "gave infinity: a division by zero or an overflow";
  }
  if (!what) return;
  const std::string scope = a.text("scope"), line = a.text("line");
  throw support::UserError(
      support::str("[floating-point exception] ", a.text("op"), scope.empty() ? "" : " of module ",
                   scope, line.empty() ? "" : support::str(" (", line, ")"), " ", what,
                   ", in micro-batch ", a.random().micro_batch,
                   " counted from the first. Look at the operation's operands, or leave "
                   "Precision.enableFloatingPointExceptions off."));
}

void check_indices(const KernelCall& call) {
  const Args a(call);
  const int64_t places = a.integer("places");
  for (const int64_t index : a.ints(0)) {
    if (index >= 0 && index < places) continue;
    throw support::UserError(support::str("[", a.text("op"), "] index ", index, " is not in [0, ",
                                          places, "). Correct the indices."));
  }
}

void check_answer(const KernelCall& call) {
  const Args a(call);
  if ((a.scalar(0) != 0) == a.flag("answer")) return;
  throw support::UserError(support::str("[is_nonzero] forward tests", a.text("line"),
                                        " whether numbers are finite, and the program is compiled "
                                        "for finite numbers; in micro-batch ",
                                        a.random().micro_batch,
                                        " counted from the first, some are not finite. Keep them "
                                        "in range: use smaller inputs, steps or loss scaling."));
}

}  // namespace

void add_check_kernels(Table& table) {
  table["check_floats"] = {check_floats};
  table["check_answer"] = {check_answer};
  table["check_indices"] = {check_indices};
}

}  // namespace poptorch::reference
