// Implements memory_limit.hpp.
#include "session/memory_limit.hpp"

#include <algorithm>
#include <cstdlib>
#include <iomanip>
#include <sstream>

#include "support/error.hpp"
#include "support/log.hpp"
#include "support/strings.hpp"
#include "target/device.hpp"

namespace poptorch::session {
namespace {

using program::Base;
using program::Instruction;
using program::Program;
using program::Tensor;
using support::str;

constexpr size_t kTensorsTold = 10;

std::string megabytes(int64_t bytes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1) << static_cast<double>(bytes) / 1e6 << " MB";
  return out.str();
}

// The module path of the instruction that makes each tensor.
void note_scopes(const std::vector<Instruction>& block, std::vector<support::Symbol>& scopes) {
  for (const Instruction& instruction : block) {
    for (program::TensorId id : instruction.outputs) {
      scopes[static_cast<size_t>(id)] = instruction.scope;
    }
    for (const auto& inner : instruction.blocks) note_scopes(inner, scopes);
  }
}

std::string largest_tensors(const Program& program, int ipu) {
  std::vector<size_t> order;
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const Tensor& tensor = program.tensors[i];
    if (tensor.ipu == ipu && tensor.base != Base::kStream) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return program.tensors[a].type.bytes() > program.tensors[b].type.bytes();
  });
  order.resize(std::min(order.size(), kTensorsTold));
  std::vector<support::Symbol> scopes(program.tensors.size());
  note_scopes(program.ipus[static_cast<size_t>(ipu)].body, scopes);
  std::vector<std::string> texts;
  for (size_t i : order) {
    const Tensor& tensor = program.tensors[i];
    const std::string where = scopes[i].empty() ? "" : str(" in ", scopes[i]);
    texts.push_back(
        str("'", tensor.name, "'", where, " ", tensor.type, " ", megabytes(tensor.type.bytes())));
  }
  return support::join(texts, ", ");
}

}  // namespace

std::string describe_overflow(const Program& program) {
  const int64_t have = target::find_device(program.device).sram();
  for (size_t i = 0; i < program.ipus.size(); ++i) {
    const auto& ipu = program.ipus[i];
    const int64_t stashes = program::stash_bytes(program, static_cast<int>(i));
    const int64_t need =
        ipu.state_bytes + ipu.constant_bytes + ipu.arena_bytes + stashes + ipu.code_bytes;
    if (need <= have) continue;
    return str("[memory] IPU ", i, " needs ", need, " bytes but has ", have, ": state ",
               megabytes(ipu.state_bytes), ", constants ", megabytes(ipu.constant_bytes),
               ", activations and temporaries ", megabytes(ipu.arena_bytes),
               ", stashes of the pipeline ", megabytes(stashes), ", code about ",
               megabytes(ipu.code_bytes), ". The largest tensors are ",
               largest_tensors(program, static_cast<int>(i)),
               ". Spread the model over more IPUs with poptorch.Block, or use a smaller batch and "
               "gradient accumulation.");
  }
  return "";
}

void check_memory_limit(const Program& program) {
  const char* variable = std::getenv("POPTORCH_MEMORY_LIMIT");
  const std::string mode = variable ? variable : "warn";
  if (mode != "warn" && mode != "error" && mode != "off") {
    throw support::UserError(
        str("[memory] POPTORCH_MEMORY_LIMIT is '", mode, "'. Set it to warn, error or off."));
  }
  if (mode == "off") return;
  const std::string text = describe_overflow(program);
  if (text.empty()) return;
  if (mode == "error") throw support::UserError(text);
  support::log(support::LogLevel::kWarn, text);
}

}  // namespace poptorch::session
