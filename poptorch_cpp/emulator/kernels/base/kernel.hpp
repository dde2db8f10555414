// The engine's interface to a kernel: a row {op, layouts, bind}. At bind time, the engine asks a
// row for its preferred layouts, then for a bound kernel with all primitives made and all sizes
// known. At run time, the engine passes pointers. A bound kernel is immutable: replicas and threads
// share it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/kernels/base/memory_layout.hpp"
#include "ir/attr.hpp"
#include "reference/random_key.hpp"

namespace poptorch::ir {
struct OpDef;
}

namespace poptorch::emulator {

class TileProgram;  // kernels/tile_program.hpp: a fused chain of element-wise ops

using reference::RandomKey;

// The most buffers of a fused chain, and of a kernel together with the chain on its result.
constexpr int kMaxChainBuffers = 40;
constexpr int kMaxKernelBuffers = 64;
static_assert(kMaxKernelBuffers > kMaxChainBuffers);

// One op to bind. Absent operands have an empty type.
struct KernelRequest {
  const ir::OpDef* op = nullptr;
  ir::Attrs attrs;
  std::vector<std::optional<ir::Type>> inputs;
  std::vector<ir::Type> outputs;
  std::vector<Layout> input_layouts;
  std::vector<Layout> output_layouts;
  // The strides of an operand in memory, in elements, if the kernel's row reads strides. Empty: its
  // elements lie next to each other, as do those of operands beyond the end of the list.
  std::vector<ir::Shape> input_strides;
  // Whether an operand is a state or a constant that no step writes: the engine can hold it in any
  // layout at no cost for a run. Operands beyond the end of the list are not.
  std::vector<bool> input_fixed;
  std::vector<bool> output_used;
  uint64_t op_id = 0;
  int replicas = 1;  // that run the program
  // Threads of the pool. They may affect only choices that keep results bit-identical, such as
  // splits of independent rows.
  int threads = 1;
  // A fused chain to run on output 0 while it is still in cache. Its first input is the kernel's
  // own output 0; further inputs and outputs follow the op's buffers in KernelArgs.
  const TileProgram* epilogue = nullptr;

  template <typename T>
  const T& attr(ir::Symbol name) const {
    return std::get<T>(attr_value(name));
  }
  const ir::Attr& attr_value(ir::Symbol name) const;  // given, or the row's default
  ir::Shape strides_of(size_t input) const;           // of an operand that is present
  bool has_strides() const;                           // of any operand
};

// Makes elements of an operand when a kernel reads them.
class ElementSource {
 public:
  virtual ~ElementSource() = default;
  // Returns `count` neighbours from element `first` on. They are there until the next call.
  virtual const std::byte* take(int64_t first, int64_t count) const = 0;
};

struct KernelArgs {
  // Holds inputs, outputs, then the epilogue's further inputs and outputs; nullptr when absent.
  std::byte* const* buffers = nullptr;
  std::byte* scratch = nullptr;    // of this worker: scratch_bytes(), 64-byte aligned
  std::byte* workspace = nullptr;  // of this op: workspace_bytes(), shared by its tasks and phases
  RandomKey random;
  const ElementSource* source = nullptr;  // of operand 0, instead of its buffer
};

class BoundKernel {
 public:
  virtual ~BoundKernel() = default;
  // Phases run one after the other; tasks of a phase run in any order and concurrently. The split
  // depends on shapes alone.
  virtual int phases() const { return 1; }
  virtual int tasks(int phase) const = 0;
  virtual void run(const KernelArgs& args, int phase, int task) const = 0;
  virtual int64_t scratch_bytes() const { return 0; }
  virtual int64_t workspace_bytes() const { return 0; }
  // Returns the operands that phase 0 converts into the workspace in the kernel's preferred form;
  // phase 0 then does nothing else. While their values do not change, the engine keeps the
  // workspace and skips phase 0. Empty: phase 0 belongs to every run.
  virtual std::vector<int> prepared_operands() const { return {}; }
  // Returns whether the kernel can compute equal parts of its results one at a time. The parts
  // follow each other in operand 0 and in every result, and each needs only its part of operand 0.
  virtual bool divides_into(int64_t parts) const {
    static_cast<void>(parts);
    return false;
  }
  // Computes the parts [begin, end) of `of` to the bits of run(). Requires divides_into(of).
  virtual void run_parts(const KernelArgs& args, int64_t begin, int64_t end, int64_t of) const;
  // Returns the most neighbours of operand 0 that the kernel reads at once, if its tasks together
  // read each element once and can take them from KernelArgs::source; else 0.
  virtual int64_t elements_at_once() const { return 0; }
  // Returns rough nanoseconds; the engine runs short kernels inline.
  virtual int64_t estimated_ns() const { return 0; }
};

struct KernelRow {
  std::string op;
  // Returns nullptr when these types, shapes or layouts have no fast kernel; the engine then runs
  // the reference kernel.
  std::function<std::unique_ptr<BoundKernel>(const KernelRequest&)> bind;
  // Changes request.input_layouts / output_layouts from what the producers offer to what the kernel
  // needs; the engine inserts reorders. Absent: all layouts are plain.
  std::function<void(KernelRequest&)> choose_layouts = nullptr;
  bool takes_epilogue = false;
  // The kernel converts operands of halves as it reads them, also where the row has only floats.
  bool reads_halves = false;
  // The kernel may write output i over input in_place_input[i] when that input dies here.
  std::vector<int> in_place_input = {};
  // Returns whether the kernel reads an operand of this type by strides: a view need not be stored.
  bool (*reads_strides)(const ir::Type& operand) = nullptr;
  // False: layouts are chosen only where operand 0 is f32, f16 or bf16. True: for any type.
  bool layouts_of_any_type = false;
};

class KernelTable {
 public:
  void add(KernelRow row);  // throws InternalError for a duplicate
  const KernelRow* find(const std::string& op) const;

 private:
  std::unordered_map<std::string, KernelRow> rows_;
};

// Returns the table of all fast kernels; ops without one run their reference kernel.
const KernelTable& all_kernels();

}  // namespace poptorch::emulator
