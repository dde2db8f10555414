// A planned tile program: buffers, placed registers, steps. Only the files that build, plan and run
// tile programs include this.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emulator/kernels/base/tile_program.hpp"
#include "emulator/kernels/tile/tile_steps.hpp"
#include "reference/rounding_bits.hpp"

namespace poptorch::emulator {

constexpr int64_t kMostTile = 2048;  // elements
constexpr int64_t kLeastTile = 512;
// The most bytes of registers and results of a tile that is larger than kLeastTile: they stay in
// L1.
constexpr int64_t kTileBytes = 24 * 1024;
// A run of at least this many elements is a separate tile, used in place instead of gathered.
constexpr int64_t kLeastRun = 128;
// Where elements are numbered otherwise than in order, rows of up to a tile are gathered.
constexpr int64_t kLeastNumberedRun = kLeastTile + 1;
constexpr int kMaxRegisters = 256;
constexpr int kMaxRoundings = kMaxRegisters;  // each makes a register
constexpr int kMaxDims = 12;
constexpr int64_t kSameKey = int64_t{1} << 32;  // elements that are rounded by the same key

struct TileBuffer {
  ir::DType dtype = ir::DType::kF32;
  ir::Shape strides;  // of the space, later of the collapsed space
  int reg = -1;
  bool uniform = false;  // one element for the whole space
  bool scalar = false;   // uniform, and only read by number(): the memory is the register
  bool dense = false;    // its elements are in the order of the space
  bool row = false;      // repeats in every row of the innermost dimension: see run_rows()
  bool column = false;   // one element for all of the innermost dimension, but not for the space
  bool direct = false;   // used in place of, or written by, a register where the tile is contiguous
  int64_t element_bytes = 4;
  int64_t register_bytes = 4;  // of an element in a register
  MicroFn move = nullptr;      // load or store
};

class PlannedProgram final : public TileProgram {
 public:
  const ir::Shape& shape() const override { return shape_; }
  int inputs() const override { return static_cast<int>(inputs_.size()); }
  int outputs() const override { return static_cast<int>(outputs_.size()); }
  ir::DType input_dtype(int i) const override { return inputs_[i].dtype; }
  ir::DType output_dtype(int i) const override { return outputs_[i].dtype; }
  int64_t scratch_bytes() const override { return slots_ * slot_bytes_; }
  int64_t estimated_ns(int64_t elements) const override;
  std::string text() const override;
  void run(std::byte* const* buffers, const TileBlock& block, std::byte* scratch,
           const RandomKey& random) const override;
  bool takes_product() const override { return takes_product_; }
  const std::optional<EndingForm>& ending() const override { return ending_; }
  EndingRounding ending_rounding(const RandomKey& random) const override;
  void run_product(std::byte* const* buffers, int64_t first, const NarrowProduct& product,
                   std::byte* scratch, const RandomKey& random) const override;

 private:
  friend class TileProgramBuilder;
  struct Walk;
  struct Position;

  bool rounds_at_random() const;
  void shorten();
  void place();
  bool is_held_as_in_memory(const TileBuffer& buffer) const;
  void classify_inputs();
  void find_rows();
  std::optional<EndingForm> find_ending() const;
  void find_random_ending();
  // Returns whether the program is an ending at random whose numbers run down the columns.
  bool ends_columns() const { return ending_ && ending_->at_random && ending_image_ > 1; }
  // Returns false if the block is neither of whole rows nor of parts of rows.
  bool run_as_ending(std::byte* const* buffers, const TileBlock& block,
                     const RandomKey& random) const;
  // Returns whether the elements' numbers are those of the space, and have the same key.
  bool is_numbered_in_order() const;
  void choose_direct_outputs();
  void assign_slots();
  bool can_take_product() const;
  void collapse();
  // Prepares a walk over the block, and the random bits of its roundings.
  void begin(Walk& walk, std::byte* const* buffers, const TileBlock& block, std::byte* scratch,
             const RandomKey& random) const;
  void run_tile(Walk& walk, void** registers) const;
  // Returns where the segment begins in the buffer at `base`.
  std::byte* address(const Walk& walk, const TileBuffer& buffer, std::byte* base,
                     int segment) const;
  static bool is_one_run(const Walk& walk, const TileBuffer& buffer);
  static bool is_in_place(const Walk& walk, const TileBuffer& out);
  void load_inputs(Walk& walk, void** registers) const;
  // Loads an input, whose register holds elements as memory does, from each segment of the tile.
  void load_segments(const Walk& walk, const TileBuffer& in, std::byte* base, void* slot) const;
  // Loads the elements of a column input for a tile of whole rows.
  void load_column(const Walk& walk, const TileBuffer& in, std::byte* base, void* slot) const;
  void store_output(const Walk& walk, const TileBuffer& out, std::byte* base, void* held) const;
  // Runs a block whose inputs repeat in tiles of several rows, and loads these inputs only once.
  void run_rows(Walk& walk, int64_t period, bool contiguous, void** registers) const;
  void run_from_whole_row(std::byte* const* buffers, const TileBlock& block, std::byte* scratch,
                          const RandomKey& random) const;
  int64_t period_of(const TileBlock& block, bool contiguous) const;
  // The bytes from one row to the next of each operand of the only step, used in place.
  struct RowSteps;
  RowSteps row_steps() const;
  // Runs the only step on each run of the block, in place.
  void run_in_place(std::byte* const* buffers, const TileBlock& block, const RandomKey& random,
                    void** registers) const;
  void fill_rows(const Walk& walk, int64_t period, int64_t count, void** registers) const;
  void run_at_random(const Walk& walk, const TileStep& step, void** registers) const;
  // Runs the step on `count` elements of the next part of the tile, and advances `args` past them.
  void run_part(const TileStep& step, int64_t count, MicroArgs& args) const;
  // Does so for rows of `count` elements; the first element has number `first`.
  void run_numbered(const TileStep& step, const reference::RoundingBits& bits, int64_t first,
                    int64_t count, int64_t rows, MicroArgs& args) const;
  int64_t bytes_between(int reg) const;  // from one element of the register to the next
  // Fills the registers that do not change: slots, and the elements of uniform inputs and
  // constants.
  void fill_registers(std::byte* const* buffers, const TileBlock& block, std::byte* scratch,
                      int64_t widest, void** registers) const;
  void fill(int reg, const void* element, void* slot, int64_t count) const;

  ir::Shape shape_;
  ir::Shape sizes_;  // collapsed, innermost last
  // The strides of the elements' numbers, if they are not in the order of the space and steps round
  // at random.
  TileBuffer numbers_;
  std::vector<TileBuffer> inputs_, outputs_;
  std::vector<TileStep> instructions_;
  std::vector<Register> registers_;
  std::vector<int> constants_;  // registers
  int slots_ = 0;
  int64_t row_ = 0;   // elements of a row if run_rows() may serve a block, else 0
  int64_t tile_ = 0;  // elements
  int64_t least_run_ = kLeastRun;
  int64_t slot_bytes_ = 0;
  // The program is a single op between memory and memory: a tile may be as long as its run.
  bool unbounded_ = false;
  bool runs_in_place_ = false;  // the same, and all runs are long enough for a call
  bool one_run_ = false;        // each tile is a part of one run
  bool takes_product_ = false;
  std::optional<EndingForm> ending_;
  std::optional<RandomRounding> ending_roundings_[3];  // by EndingRounding::Part
  int64_t ending_image_ = 1;
};

// Returns the random bits of a rounding.
reference::RoundingBits bits_of(const RandomRounding& rounding, RandomKey key);

}  // namespace poptorch::emulator
