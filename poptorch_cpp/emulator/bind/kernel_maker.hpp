// Makes kernels from what names them: for choose_kernels, and again for a code that was parsed.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "emulator/bound/kernel_spec.hpp"
#include "emulator/kernels/base/kernel.hpp"
#include "ir/op_def.hpp"
#include "program/program.hpp"

namespace poptorch::emulator {

// Describes an op to its kernel row, without an epilogue.
KernelRequest make_request(const ValueTable& values, const program::Instruction& instruction,
                           const ir::OpDef& def, std::span<const ValueId> inputs,
                           std::span<const ValueId> outputs, int replicas, int threads);

struct RowsPart;  // kernels/joined_rows.hpp

class KernelMaker {
 public:
  // `instructions` are those of list_instructions(program).
  KernelMaker(const program::Program& program, const ir::Registry& registry,
              const ValueTable& values, const InstructionTable& instructions, int threads)
      : program_(program),
        registry_(registry),
        values_(values),
        instructions_(instructions),
        threads_(threads) {}

  // Binds a kernel. Its `bound` is nullptr if the spec asks for a fast kernel and there is none for
  // these types, layouts and epilogue.
  Kernel make(KernelSpec spec) const;
  // Returns who provides the kernel of an op that has no fast one.
  Provider fallback(const OpSpec& spec) const;

 private:
  const program::Instruction& instruction(int32_t number) const { return *instructions_[number]; }
  const ir::OpDef& def(int32_t number) const {
    return registry_.get(instruction(number).op.text());
  }
  KernelRequest request(const OpSpec& spec) const;
  std::shared_ptr<const TileProgram> tile_program(const ChainSpec& chain, ValueId produced) const;
  std::unique_ptr<BoundKernel> rows_kernel(const RowsSpec& spec) const;
  std::unique_ptr<BoundKernel> runs_kernel(const RowsSpec& spec, std::vector<RowsPart> parts) const;
  void bind(const OpSpec& spec, Kernel& kernel) const;

  const program::Program& program_;
  const ir::Registry& registry_;
  const ValueTable& values_;
  const InstructionTable& instructions_;
  int threads_;
};

}  // namespace poptorch::emulator
