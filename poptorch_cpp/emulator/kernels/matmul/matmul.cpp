// linear and matmul: products of matrices, split into blocks of rows and columns. Bias and the
// fused chain are applied to each block while it is in cache.
#include "emulator/kernels/base/families.hpp"
#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/base/tile_ops.hpp"
#include "emulator/kernels/matmul/product.hpp"
#include "emulator/kernels/sets/kernel_set.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;

void convert_by(MicroFn fn, const void* from, void* to, int64_t n) {
  MicroArgs args;
  args.src[0] = from;
  args.dst[0] = to;
  fn(args, n);
}

// Returns whether dot products read the rows of a as floats. Processors that multiply matrices have
// no faster products of pairs than of floats; pairs repay only where few rows read all of b.
bool dots_convert_rows(const Product& p) {
  constexpr int64_t kMostRowsOfPairs = 4;
  if (p.a.element == Element::kFloat) return false;
  return !gemm_dots_take(p.a.element, p.b.element) ||
         (kernel_set().gemm.multiplies_matrices && p.m > kMostRowsOfPairs);
}

class Gemm final : public BoundKernel {
 public:
  Gemm(const KernelRequest& request, Product product)
      : p_(std::move(product)),
        epilogue_(request),
        output_(static_cast<int>(request.inputs.size())),
        keep_(!epilogue_ || request.output_used.empty() || request.output_used[0]),
        half_result_(ir::is_half(p_.result)),
        half_partials_(p_.half_partials),
        route_(route_of(p_)),
        by_parts_(route_ == Route::kPacked &&
                  repays_parts(p_.m, p_.n, p_.k, p_.a.element, p_.b.element)) {
    in_registers_ = route_ == Route::kRows && !p_.transposed && p_.k <= 32 &&
                    p_.n % NarrowProduct::kColumns == 0 && !p_.has_bias && !keep_ &&
                    epilogue_.takes_product();
    const int64_t flops = 2 * p_.m * p_.n * p_.k;
    ns_ = 50 + flops / 60 + epilogue_.estimated_ns(p_.m * p_.n);
    // Narrow blocks would repeatedly pack the rows of an a that is transposed, of halves or in
    // parts.
    const bool repacks = by_parts_ || (route_ == Route::kPacked &&
                                       (p_.a.col != 1 || p_.a.element != Element::kFloat));
    const auto products = static_cast<int64_t>(p_.a_batch.size());
    const int64_t most = std::min<int64_t>(repacks ? 8 : 32, divide_up(kTasks, products));
    const int64_t wanted = parts_for(ns_, most);
    const bool deep = p_.k >= 64;
    // Each part of the rows divides b into parts, and each part of the columns a.
    const int64_t least_rows = by_parts_ ? kPartRows / 2 : deep ? 48 : 12;
    const int64_t least_cols = by_parts_ ? 256 : 64;
    row_parts_ = std::clamp<int64_t>(p_.m / least_rows, 1, wanted);
    col_parts_ = std::clamp<int64_t>(p_.n / least_cols, 1, divide_up(wanted, row_parts_));
    // Shallow products spend their time in the epilogue, which prefers whole rows: they are
    // contiguous.
    const bool whole_rows = !deep && col_parts_ == 1 && p_.n <= 1024;
    const int64_t most_cols = deep && !repacks ? 256 : 512;
    block_cols_ = whole_rows ? p_.n : std::min(most_cols, round_up(p_.n, kPanel));
    block_rows_ = std::min<int64_t>(deep ? 96 : 6, p_.m);
    if (by_parts_) widen_blocks();
    if (route_ == Route::kPacked && multiplies_matrices(p_.a.element, p_.b.element)) {
      block_rows_ = std::min(kMatrixBlock, p_.m);
    }
    note_conversions(request);
    place_scratch();
  }
  int phases() const override { return packs() || !converted_.empty() ? 2 : 1; }
  int tasks(int phase) const override {
    if (phase + 1 == phases()) {
      return static_cast<int>(row_parts_ * col_parts_ * p_.a_batch.size());
    }
    if (packs()) return static_cast<int>(pack_parts() * p_.b_distinct.size());
    int64_t chunks = 0;
    for (const Converted& operand : converted_) chunks += divide_up(operand.elements, kChunk);
    return static_cast<int>(chunks);
  }
  int64_t scratch_bytes() const override { return own_bytes_ + epilogue_.scratch_bytes(); }
  int64_t workspace_bytes() const override {
    if (!packs()) return converted_bytes_;
    return packed_bytes() * static_cast<int64_t>(p_.b_distinct.size());
  }
  std::vector<int> prepared_operands() const override {
    return packs() ? std::vector{1} : std::vector<int>{};
  }
  int64_t estimated_ns() const override { return ns_ * static_cast<int64_t>(p_.a_batch.size()); }

  void run(const KernelArgs& args, int phase, int task) const override {
    if (phase + 1 < phases()) {
      return packs() ? pack(args, task) : convert(args, task);
    }
    const int64_t col_part = task % col_parts_, rest = task / col_parts_;
    const int64_t row_part = rest % row_parts_, batch = rest / row_parts_;
    const Range rows = part_of(p_.m, row_parts_, row_part);
    const Range cols = part_of(p_.n, col_parts_, col_part, kPanel);
    if (in_registers_) return update(args, batch, rows, cols);
    for (int64_t i = rows.begin; i < rows.end; i += block_rows_) {
      for (int64_t j = cols.begin; j < cols.end; j += block_cols_) {
        block(args, batch, {i, std::min(i + block_rows_, rows.end)},
              {j, std::min(j + block_cols_, cols.end)});
      }
    }
  }

 private:
  static constexpr int64_t kChunk = 16384;  // elements that a task converts
  static constexpr int64_t kTasks = 32;     // of a batch that need no more parts
  // An operand that is converted before the product, as a whole: the smaller one of a thin product.
  struct Converted {
    int input;
    DType dtype;
    int64_t elements, offset;
  };

  // Notes the operands that the product reads as floats but that are halves.
  void note_conversions(const KernelRequest& request) {
    if (route_ == Route::kPacked) return;
    auto note = [&](int input, OperandView& view) {
      if (view.element == Element::kFloat) return;
      const ir::Type& type = *request.inputs[input];
      converted_.push_back({input, type.dtype, type.elements(), converted_bytes_});
      converted_bytes_ += round_up(4 * type.elements(), 64);
      view.element = Element::kFloat;
    };
    if (in_registers_) {
      note(0, p_.a);
      note(1, p_.b);
    } else if (route_ == Route::kDots && dots_convert_rows(p_)) {
      note(p_.input_of_a(), p_.a);
    }
  }
  // Takes blocks that repay the parts of both operands. Where c is in scratch, it stays in L2.
  void widen_blocks() {
    const bool in_place = keep_ && !half_result_;
    block_rows_ = std::min(in_place ? kPartRows : kPartRows / 2, p_.m);
    block_cols_ = std::min<int64_t>(in_place ? 1024 : 512, round_up(p_.n, kPanel));
  }
  // Lays out the scratch of a task: the product of a block as floats and as halves, the bias, and
  // packed rows.
  void place_scratch() {
    const int64_t block = in_registers_ ? 0 : block_rows_ * block_cols_;
    auto take = [this](int64_t bytes) {
      return std::exchange(own_bytes_, own_bytes_ + round_up(bytes, 64));
    };
    held_at_ = take(half_result_ || !keep_ ? 4 * block : 0);
    halves_at_ = take(half_result_ && !keep_ ? 2 * block : 0);
    const bool makes_bias = p_.has_bias && (ir::is_half(p_.bias) || p_.transposed);
    bias_at_ = take(makes_bias ? 4 * block_cols_ : 0);
    packing_at_ = take(route_ == Route::kPacked ? 4 * gemm_scratch_floats(block_rows_, p_.k) : 0);
  }
  int64_t packed_bytes() const {
    return round_up(packed_floats(p_.k, p_.n) * element_bytes(p_.b.element), 64);
  }
  int64_t pack_parts() const { return parts_for(p_.k * p_.n / 2, divide_up(p_.n, kPanel)); }
  // Returns a matrix of a (0) or b (1): as it stands, or as it was converted.
  OperandView operand(const KernelArgs& args, int i, int64_t offset) const {
    const OperandView& view = i == 0 ? p_.a : p_.b;
    const int input = i == 0 ? p_.input_of_a() : p_.input_of_b();
    const std::byte* data = args.buffers[input];
    for (const Converted& c : converted_) {
      if (c.input == input) data = args.workspace + c.offset;
    }
    return OperandView(data, view.row, view.col, view.element).at(offset);
  }
  void convert(const KernelArgs& args, int64_t task) const {
    for (const Converted& c : converted_) {
      const int64_t chunks = divide_up(c.elements, kChunk), first = task * kChunk;
      if (task < chunks) {
        return convert_by(load_fn(c.dtype), args.buffers[c.input] + 2 * first,
                          args.workspace + c.offset + 4 * first,
                          std::min(kChunk, c.elements - first));
      }
      task -= chunks;
    }
  }
  OperandView packed_b(const KernelArgs& args, int64_t batch, int64_t col) const {
    const auto at = std::find(p_.b_distinct.begin(), p_.b_distinct.end(), p_.b_batch[batch]);
    const int64_t which = at - p_.b_distinct.begin();
    const std::byte* packed = packs() ? args.workspace : args.buffers[1];
    return OperandView(packed + which * packed_bytes(), 1, p_.k, p_.b.element).from(0, col);
  }
  void pack(const KernelArgs& args, int64_t task) const {
    const int64_t part = task % pack_parts(), which = task / pack_parts();
    const Range panels = part_of(divide_up(p_.n, kPanel), pack_parts(), part);
    pack_panels(operand(args, 1, p_.b_distinct[which]), p_.k, p_.n, panels.begin, panels.end,
                args.workspace + which * packed_bytes(), p_.k);
  }

  // Runs the chain on the product in registers.
  void update(const KernelArgs& args, int64_t batch, Range rows, Range cols) const {
    const OperandView a = operand(args, 0, p_.a_batch[batch]).from(rows.begin, 0);
    const OperandView b = operand(args, 1, p_.b_batch[batch]).from(0, cols.begin);
    const NarrowProduct product{.a = a.floats(),
                                .b = b.floats(),
                                .rows = rows.size(),
                                .cols = cols.size(),
                                .k = p_.k,
                                .row_step = p_.n};
    const int64_t first = batch * p_.m * p_.n + rows.begin * p_.n + cols.begin;
    epilogue_.run_product(args, first, product, args.scratch + own_bytes_);
  }

  const float* bias(const KernelArgs& args, Range cols) const {
    if (!p_.has_bias) return nullptr;
    if (p_.transposed) return bias_of_column(args, cols.size());
    if (!ir::is_half(p_.bias)) return input_of<float>(args, 2) + cols.begin;
    float* held = reinterpret_cast<float*>(args.scratch + bias_at_);
    convert_by(load_fn(p_.bias), args.buffers[2] + 2 * cols.begin, held, cols.size());
    return held;
  }

  // The only number of the bias is added to each element.
  const float* bias_of_column(const KernelArgs& args, int64_t count) const {
    float* held = reinterpret_cast<float*>(args.scratch + bias_at_);
    convert_by(load_fn(p_.bias), args.buffers[2], held, 1);
    std::fill_n(held + 1, count - 1, held[0]);
    return held;
  }

  void block(const KernelArgs& args, int64_t batch, Range rows, Range cols) const {
    const int64_t first = batch * p_.m * p_.n + rows.begin * p_.n + cols.begin;
    const bool in_place = keep_ && !half_result_;
    float* c = in_place ? buffer_of<float>(args, output_) + first
                        : reinterpret_cast<float*>(args.scratch + held_at_);
    const int64_t ldc = in_place ? p_.n : block_cols_;
    const OperandView a = operand(args, 0, p_.a_batch[batch]).from(rows.begin, 0);
    const OperandView b = operand(args, 1, p_.b_batch[batch]).from(0, cols.begin);
    const float* added = bias(args, cols);
    if (half_partials_) {
      float* packing = reinterpret_cast<float*>(args.scratch + packing_at_);
      gemm_half_partials(rows.size(), cols.size(), p_.k, a, packed_b(args, batch, cols.begin).data,
                         p_.k, c, ldc, false, packing, p_.b.element);
      if (added) add_bias(added, rows.size(), cols.size(), c, ldc);
    } else if (route_ == Route::kRows) {
      gemm_rows(rows.size(), cols.size(), p_.k, a, b, added, c, ldc);
    } else if (route_ == Route::kDots) {
      gemm_dots(rows.size(), cols.size(), p_.k, a, b, added, c, ldc);
    } else {
      const int64_t row = batch * p_.m + rows.begin;
      Ending ending;
      if (has_ending()) ending = epilogue_.ending(args, row, cols.begin, p_.n);
      HalfEnding half_ending;
      if (ends_in_halves()) half_ending = end_of_halves(args, row, cols.begin, first);
      gemm_packed(rows.size(), cols.size(), p_.k, a, packed_b(args, batch, cols.begin).data, p_.k,
                  added, c, ldc, false, reinterpret_cast<float*>(args.scratch + packing_at_),
                  p_.b.element, has_ending() ? &ending : nullptr,
                  ends_in_halves() ? &half_ending : nullptr, by_parts_);
    }
    if (has_ending()) return;
    if (epilogue_.is_half_ending()) {
      if (ends_in_halves()) return;
      const HalfEnding ending =
          epilogue_.half_ending(args, batch * p_.m + rows.begin, cols.begin, p_.n);
      return kernel_set().half_blocks.end(ending, c, ldc, rows.size(), cols.size());
    }
    if (half_result_ && !ends_in_halves()) round(args, c, rows.size(), cols.size(), first);
    if (epilogue_) run_epilogue(args, rows.size(), cols.size(), first);
  }

  // Returns whether the first phase packs b.
  bool packs() const { return route_ == Route::kPacked && !p_.b_in_panels; }

  bool has_ending() const {
    return route_ == Route::kPacked && !half_result_ && !half_partials_ && epilogue_.is_ending();
  }

  static void add_bias(const float* bias, int64_t rows, int64_t cols, float* c, int64_t ldc) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) c[i * ldc + j] += bias[j];
    }
  }

  // Returns whether the product makes halves of its sums.
  bool ends_in_halves() const {
    return route_ == Route::kPacked && !half_partials_ &&
           (half_result_ || epilogue_.is_half_ending());
  }
  // Returns where a block of halves ends that begins at element `first`, in this row and column.
  HalfEnding end_of_halves(const KernelArgs& args, int64_t row, int64_t col, int64_t first) const {
    if (epilogue_.is_half_ending()) return epilogue_.half_ending(args, row, col, p_.n);
    HalfEnding rounding;
    rounding.to = keep_ ? buffer_of<uint16_t>(args, output_) + first
                        : reinterpret_cast<uint16_t*>(args.scratch + halves_at_);
    rounding.row_step = keep_ ? p_.n : block_cols_;
    rounding.element = element_of(p_.result);
    return rounding;
  }

  // Rounds a block to the type of the result.
  void round(const KernelArgs& args, const float* c, int64_t rows, int64_t cols,
             int64_t first) const {
    uint16_t* to = keep_ ? buffer_of<uint16_t>(args, output_) + first
                         : reinterpret_cast<uint16_t*>(args.scratch + halves_at_);
    const int64_t row_step = keep_ ? p_.n : block_cols_;
    if (cols == block_cols_ && cols == row_step) cols *= std::exchange(rows, 1);
    for (int64_t i = 0; i < rows; ++i) {
      convert_by(store_fn(p_.result), c + i * block_cols_, to + i * row_step, cols);
    }
  }

  void run_epilogue(const KernelArgs& args, int64_t rows, int64_t cols, int64_t first) const {
    TileBlock tile{.first = first, .rows = rows, .row_step = p_.n, .cols = cols};
    if (!keep_) {
      tile.source = args.scratch + (half_result_ ? halves_at_ : held_at_);
      tile.source_step = block_cols_;
    }
    if (tile.cols == p_.n && (keep_ || block_cols_ == p_.n)) {
      tile.cols *= std::exchange(tile.rows, 1);
    }
    epilogue_.run(args, tile, args.scratch + own_bytes_);
  }

  Product p_;
  Epilogue epilogue_;
  int output_;
  bool in_registers_ = false;
  bool keep_;  // output 0 itself is used, not only the chain's result
  bool half_result_, half_partials_;
  Route route_;
  bool by_parts_;
  int64_t ns_ = 0, row_parts_ = 1, col_parts_ = 1, block_rows_ = 1, block_cols_ = 1;
  std::vector<Converted> converted_;
  int64_t converted_bytes_ = 0;
  int64_t held_at_ = 0, halves_at_ = 0, bias_at_ = 0, packing_at_ = 0, own_bytes_ = 0;
};

std::unique_ptr<BoundKernel> bind_linear(const KernelRequest& request) {
  const ir::Type& w = *request.inputs[1];
  if (w.elements() == 0 || request.outputs[0].elements() == 0) return nullptr;
  return std::make_unique<Gemm>(request, product_of_linear(request));
}

std::unique_ptr<BoundKernel> bind_matmul(const KernelRequest& request) {
  if (request.outputs[0].elements() == 0) return nullptr;
  return std::make_unique<Gemm>(request, product_of_matmul(request));
}

}  // namespace

void add_matmul_kernels(KernelTable& table) {
  table.add({.op = "linear",
             .bind = bind_with_halves<bind_linear>,
             .choose_layouts = choose_layouts_of_product<product_of_linear>,
             .takes_epilogue = true,
             .reads_halves = true});
  table.add({.op = "matmul",
             .bind = bind_with_halves<bind_matmul>,
             .choose_layouts = choose_layouts_of_product<product_of_matmul>,
             .takes_epilogue = true,
             .reads_halves = true});
}

}  // namespace poptorch::emulator
