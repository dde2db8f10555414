// A fused chain of element-wise ops, run tile by tile in L1 over a block of elements.
//
// An element's value never depends on where a block or tile begins: bodies and tails use one
// formula. A producer may therefore run a program on each block that it has just written. Floats
// compute in f32 and round wherever an op's result type is f16 or bf16; integers compute exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emulator/kernels/base/ending.hpp"
#include "emulator/kernels/base/kernel.hpp"

namespace poptorch::emulator {

// A part of a program's space to process: `rows` runs of `cols` elements each. Run i begins at
// element first + i * row_step of the space in row-major order.
struct TileBlock {
  int64_t first = 0;
  int64_t rows = 1;
  int64_t row_step = 0;
  int64_t cols = 0;
  // Input 0 of the block where its producer holds it in scratch: run i begins at element i *
  // source_step of `source`. nullptr: buffers[0] is a whole tensor like any other input.
  const std::byte* source = nullptr;
  int64_t source_step = 0;
};

struct NarrowProduct;  // gemm.hpp

class TileProgram {
 public:
  virtual ~TileProgram() = default;
  virtual const ir::Shape& shape() const = 0;  // of the space
  virtual int inputs() const = 0;
  virtual int outputs() const = 0;
  virtual ir::DType input_dtype(int input) const = 0;
  virtual ir::DType output_dtype(int output) const = 0;
  virtual int64_t scratch_bytes() const = 0;  // for run(), 64-byte aligned
  virtual int64_t estimated_ns(int64_t elements) const = 0;
  virtual std::string text() const = 0;  // one line an instruction, for logs and tests
  // `buffers` holds the inputs, then the outputs. An output may be the memory of an input that is
  // read with the output's own strides (an update in place); otherwise they must not overlap.
  virtual void run(std::byte* const* buffers, const TileBlock& block, std::byte* scratch,
                   const RandomKey& random) const = 0;
  // takes_product() is true if input 0 may be an unstored product; run_product() runs the program
  // on one. Element (i, j) of the product is element first + i * row_step + j of the space.
  virtual bool takes_product() const = 0;
  virtual void run_product(std::byte* const* buffers, int64_t first, const NarrowProduct& product,
                           std::byte* scratch, const RandomKey& random) const = 0;
  // Returns the program as an ending of input 0's columns, the space's innermost dimension.
  virtual const std::optional<EndingForm>& ending() const = 0;
  virtual EndingRounding ending_rounding(const RandomKey& random) const = 0;
};

// Returns whether the op draws random numbers one by one, unless they are in the space's order.
// Rounding does not.
bool draws_in_order(const ir::OpDef& def);

// Builds a program over `shape`. Registers are numbers; a register may be used any number of times.
class TileProgramBuilder {
 public:
  explicit TileProgramBuilder(ir::Shape shape);
  // The same for a shape in memory order. Elements draw random bits by their number, which has
  // these strides: it is the number in the tensors' row-major order.
  TileProgramBuilder(ir::Shape shape, const ir::Shape& numbers);
  ~TileProgramBuilder();

  // Returns true when op() will accept the op: an element-wise row, or an update, on supported
  // dtypes.
  static bool supports(const ir::OpDef& def, const ir::Attrs& attrs,
                       const std::vector<ir::DType>& operands,
                       const std::vector<ir::DType>& results);

  // Adds the next input buffer, broadcast to the space as NumPy does.
  int input(const ir::Type& type);
  // Adds the next input buffer, with a stride in elements for every dimension of the space.
  int input(ir::DType dtype, const ir::Shape& strides);
  // Adds a number that is known now.
  int constant(ir::DType dtype, double value);
  // Adds one op on registers (-1: an absent operand); returns one register per result. Updates
  // return the new values of the operands they write, in the order of `writes` (to be given to
  // output()). Operand shapes are those of their registers, broadcast. `op_id` is part of the key
  // of random rounding.
  std::vector<int> op(const ir::OpDef& def, const ir::Attrs& attrs,
                      const std::vector<int>& operands, const std::vector<ir::DType>& results,
                      uint64_t op_id = 0);
  // Adds the next output buffer, dense over the space, or with strides that do not overlap. `reg`
  // is stored as the dtype that its op was given.
  void output(int reg);
  void output(int reg, const ir::Shape& strides);

  std::shared_ptr<const TileProgram> finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns strides that read a dense tensor of shape `from` as if broadcast to `to`.
ir::Shape broadcast_strides(const ir::Shape& from, const ir::Shape& to);

// Makes a kernel that runs only `program`, split by shape. Buffers are its inputs, then its
// outputs.
std::unique_ptr<BoundKernel> bind_tile_program(std::shared_ptr<const TileProgram> program);

}  // namespace poptorch::emulator
