#include "lowering/device_iterations.hpp"

#include <algorithm>

#include "lowering/code_size.hpp"
#include "support/saturate.hpp"
#include "target/device.hpp"

namespace poptorch::lowering {
namespace {

using program::Instruction;
using Kind = Instruction::Kind;

// Returns whether the instructions are the same for each number of device iterations.
bool are_independent(const std::vector<Instruction>& block) {
  return std::all_of(block.begin(), block.end(), [](const Instruction& instruction) {
    return instruction.stage <= 0 && instruction.rewind == 0 &&
           instruction.micro_batch_offset == 0 && !instruction.attrs.find("overlap") &&
           std::all_of(instruction.blocks.begin(), instruction.blocks.end(), are_independent);
  });
}

bool is_loop_of(const std::vector<Instruction>& body, int64_t iterations) {
  return body.size() == 1 && body[0].kind == Kind::kLoop && body[0].op_id == 0 &&
         body[0].count == iterations;
}

// Sets the transfers of the streams; false if a host buffer gets too many elements.
bool scale_transfers(program::Program& program, int64_t from, int64_t to) {
  program.micro_batches_per_run = program.micro_batches_per_run / from * to;
  for (program::Stream& stream : program.streams) {
    stream.transfers = support::saturating_product(stream.transfers / from, to);
    const double elements = static_cast<double>(stream.host.type.elements()) *
                            static_cast<double>(stream.kept()) * program.replicas;
    if (elements > ir::kMaxElements) return false;
  }
  return true;
}

}  // namespace

std::optional<program::Program> with_device_iterations(const program::Program& program,
                                                       int64_t from, int64_t to, bool outlines) {
  if (program.ipus.size() != 1 || !program.stashes.empty()) return std::nullopt;
  const std::vector<Instruction>& body = program.ipus[0].body;
  if (body.empty() || !are_independent(body)) return std::nullopt;
  if (from > 1 && !is_loop_of(body, from)) return std::nullopt;
  program::Program changed = program;
  if (!scale_transfers(changed, from, to)) return std::nullopt;
  std::vector<Instruction>& changing = changed.ipus[0].body;
  if (from > 1) changing = std::vector<Instruction>(std::move(changing[0].blocks[0]));
  if (to > 1) {
    Instruction loop{.kind = Kind::kLoop};
    loop.count = to;
    // Otherwise an inner loop over accumulated micro-batches counts them.
    loop.per_micro_batch = program.micro_batches_per_run == from;
    loop.blocks.push_back(std::move(changing));
    changing.clear();
    changing.push_back(std::move(loop));
  }
  estimate_code(changed, target::find_device(program.device), outlines);
  return changed;
}

}  // namespace poptorch::lowering
