#include "emulator/bound/code.hpp"

#include <algorithm>

#include "emulator/kernels/base/kernel.hpp"
#include "ir/type.hpp"

namespace poptorch::emulator {
namespace {

// Shorter kernels run on the thread that reaches them: waking other threads takes about this long.
constexpr int64_t kInlineNs = 6000;
constexpr int64_t kInlineBytes = 64 << 10;  // moved in about that time

}  // namespace

std::span<const ValueId> IpuCode::arguments(size_t step) const {
  const size_t begin = steps[step].buffers;
  size_t end = step + 1 < steps.size() ? steps[step + 1].buffers : table.size();
  if (steps[step].kind == Step::Kind::kKernel) --end;  // the workspace
  return std::span(table).subspan(begin, end - begin);
}

int64_t moved_bytes(const Code& code, const IpuCode& ipu, size_t step) {
  const Step::Kind kind = ipu.steps[step].kind;
  const auto arguments = ipu.arguments(step);
  if (kind == Step::Kind::kKernel || arguments.empty()) return 0;
  if (kind == Step::Kind::kBranch) return ir::size_of(code.value(arguments[0]).type.dtype);
  return code.value(arguments[kind == Step::Kind::kCopy ? 1 : 0]).type.bytes();
}

void set_kernel(Code& code, Step& step, const std::string& op) {
  const Kernel& kernel = code.kernels[step.index];
  step.kernel = kernel.bound.get();
  int64_t tasks = 0;
  for (int phase = 0; phase < step.kernel->phases(); ++phase) tasks += step.kernel->tasks(phase);
  const int64_t ns = step.kernel->estimated_ns();
  step.inline_only = tasks == step.kernel->phases() || ns < kInlineNs;
  step.lasts = ns == 0 || ns >= kInlineNs;  // 0: unknown
  code.scratch_bytes = std::max(code.scratch_bytes, step.kernel->scratch_bytes());
  const auto* spec = std::get_if<OpSpec>(&kernel.spec);
  if (!spec || spec->provider != Provider::kReference || code.reference_only) return;
  const auto found = std::ranges::find(code.reference_ops, op);
  step.reference = static_cast<int32_t>(found - code.reference_ops.begin());
  if (found == code.reference_ops.end()) code.reference_ops.push_back(op);
}

void finish_steps(const Code& code, IpuCode& ipu) {
  for (size_t i = 0; i < ipu.steps.size(); ++i) {
    Step& step = ipu.steps[i];
    step.bytes = moved_bytes(code, ipu, i);
    step.lasts |= step.bytes >= kInlineBytes;
  }
}

}  // namespace poptorch::emulator
