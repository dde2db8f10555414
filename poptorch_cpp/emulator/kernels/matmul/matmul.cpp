// linear and matmul: products of matrices, split into blocks of rows and columns. Bias and the
// fused chain are applied to each block while it is in cache.
#include "emulator/kernels/base/families.hpp"
#include "emulator/kernels/base/gemm.hpp"
#include "emulator/kernels/base/support.hpp"

namespace poptorch::emulator {
namespace {

using ir::Shape;

enum class Route {
  kRows,    // b as it stands, row-major
  kDots,    // b as it stands, column-major
  kPacked,  // b packed into panels first
};

struct Product {
  int64_t m, n, k;
  MatrixView a, b;                        // strides; data is set at run
  std::vector<int64_t> a_batch, b_batch;  // offset of every matrix of the batch
  std::vector<int64_t> b_distinct;        // offsets of the different b's
  bool bias = false;
};

class Gemm final : public BoundKernel {
 public:
  Gemm(const KernelRequest& request, Product product)
      : p_(std::move(product)),
        epilogue_(request),
        output_(static_cast<int>(request.inputs.size())),
        keep_(!epilogue_ || request.output_used.empty() || request.output_used[0]) {
    choose_route();
    in_registers_ = route_ == Route::kRows && p_.k <= 32 && p_.n % NarrowProduct::kColumns == 0 &&
                    !p_.bias && !keep_ && epilogue_.takes_product();
    const int64_t flops = 2 * p_.m * p_.n * p_.k;
    ns_ = 50 + flops / 60 + epilogue_.estimated_ns(p_.m * p_.n);
    // Narrow blocks would pack the rows of a transposed a repeatedly.
    const bool transposed = route_ == Route::kPacked && p_.a.col != 1;
    const int64_t wanted = parts_for(ns_, transposed ? 8 : 32);
    const bool deep = p_.k >= 64;
    row_parts_ = std::clamp<int64_t>(p_.m / (deep ? 48 : 12), 1, wanted);
    col_parts_ = std::clamp<int64_t>(p_.n / 64, 1, divide_up(wanted, row_parts_));
    // Shallow products spend their time in the epilogue, which prefers whole rows: they are
    // contiguous.
    const bool whole_rows = !deep && col_parts_ == 1 && p_.n <= 1024;
    const int64_t most_cols = deep && !transposed ? 256 : 512;
    block_cols_ = whole_rows ? p_.n : std::min(most_cols, round_up(p_.n, kPanel));
    block_rows_ = std::min<int64_t>(deep ? 96 : 6, p_.m);
    held_floats_ = keep_ || in_registers_ ? 0 : block_rows_ * block_cols_;
    pack_floats_ = route_ == Route::kPacked ? gemm_scratch_floats(block_rows_, p_.k) : 0;
  }
  int phases() const override { return route_ == Route::kPacked ? 2 : 1; }
  int tasks(int phase) const override {
    if (route_ == Route::kPacked && phase == 0) {
      return static_cast<int>(pack_parts() * p_.b_distinct.size());
    }
    return static_cast<int>(row_parts_ * col_parts_ * p_.a_batch.size());
  }
  int64_t scratch_bytes() const override {
    return round_up(4 * held_floats_, 64) + round_up(4 * pack_floats_, 64) +
           epilogue_.scratch_bytes();
  }
  int64_t workspace_bytes() const override {
    if (route_ != Route::kPacked) return 0;
    return 4 * packed_floats(p_.k, p_.n) * static_cast<int64_t>(p_.b_distinct.size());
  }
  std::vector<int> prepared_operands() const override {
    return route_ == Route::kPacked ? std::vector{1} : std::vector<int>{};
  }
  int64_t estimated_ns() const override { return ns_ * static_cast<int64_t>(p_.a_batch.size()); }

  void run(const KernelArgs& args, int phase, int task) const override {
    if (phases() == 2 && phase == 0) return pack(args, task);
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
  void choose_route() {
    const bool b_rows = p_.b.col == 1, b_columns = p_.b.row == 1 && p_.a.col == 1;
    if (b_rows && (p_.m <= 24 || p_.k <= 32)) {
      route_ = Route::kRows;
    } else if (b_columns && p_.m <= 24) {
      route_ = Route::kDots;
    } else {
      route_ = Route::kPacked;
    }
  }
  int64_t pack_parts() const { return parts_for(p_.k * p_.n / 2, divide_up(p_.n, kPanel)); }
  float* packed_b(const KernelArgs& args, int64_t batch) const {
    const auto at = std::find(p_.b_distinct.begin(), p_.b_distinct.end(), p_.b_batch[batch]);
    return reinterpret_cast<float*>(args.workspace) +
           (at - p_.b_distinct.begin()) * packed_floats(p_.k, p_.n);
  }
  void pack(const KernelArgs& args, int64_t task) const {
    const int64_t part = task % pack_parts(), which = task / pack_parts();
    MatrixView b = p_.b;
    b.data = input_of<float>(args, 1) + p_.b_distinct[which];
    const Range panels = part_of(divide_up(p_.n, kPanel), pack_parts(), part);
    pack_panels(b, p_.k, p_.n, panels.begin, panels.end,
                reinterpret_cast<float*>(args.workspace) + which * packed_floats(p_.k, p_.n), p_.k);
  }

  // Runs the chain on the product in registers.
  void update(const KernelArgs& args, int64_t batch, Range rows, Range cols) const {
    NarrowProduct product{.a = p_.a,
                          .b = p_.b,
                          .rows = rows.size(),
                          .cols = cols.size(),
                          .k = p_.k,
                          .row_step = p_.n};
    product.a.data = input_of<float>(args, 0) + p_.a_batch[batch];
    product.a = product.a.from(rows.begin, 0);
    product.b.data = input_of<float>(args, 1) + p_.b_batch[batch];
    product.b = product.b.from(0, cols.begin);
    const int64_t first = batch * p_.m * p_.n + rows.begin * p_.n + cols.begin;
    epilogue_.run_product(args, first, product, args.scratch);
  }

  void block(const KernelArgs& args, int64_t batch, Range rows, Range cols) const {
    float* held = reinterpret_cast<float*>(args.scratch);
    std::byte* scratch = args.scratch + round_up(4 * held_floats_, 64);
    float* packing = reinterpret_cast<float*>(scratch);
    scratch += round_up(4 * pack_floats_, 64);
    const int64_t first = batch * p_.m * p_.n + rows.begin * p_.n + cols.begin;
    float* c = keep_ ? buffer_of<float>(args, output_) + first : held;
    const int64_t ldc = keep_ ? p_.n : block_cols_;
    MatrixView a = p_.a, b = p_.b;
    a.data = input_of<float>(args, 0) + p_.a_batch[batch];
    a = a.from(rows.begin, 0);
    b.data = input_of<float>(args, 1) + p_.b_batch[batch];
    const float* bias = p_.bias ? input_of<float>(args, 2) + cols.begin : nullptr;
    if (route_ == Route::kRows) {
      gemm_rows(rows.size(), cols.size(), p_.k, a, b.from(0, cols.begin), bias, c, ldc);
    } else if (route_ == Route::kDots) {
      gemm_dots(rows.size(), cols.size(), p_.k, a, b.from(0, cols.begin), bias, c, ldc);
    } else {
      gemm_packed(rows.size(), cols.size(), p_.k, a, packed_b(args, batch) + cols.begin * p_.k,
                  p_.k, bias, c, ldc, false, packing);
    }
    if (!epilogue_) return;
    TileBlock tile{.first = first, .rows = rows.size(), .row_step = p_.n, .cols = cols.size()};
    if (!keep_) {
      tile.source = reinterpret_cast<const std::byte*>(held);
      tile.source_step = block_cols_;
    }
    if (tile.cols == p_.n && (keep_ || block_cols_ == p_.n)) {
      tile.cols *= std::exchange(tile.rows, 1);
    }
    epilogue_.run(args, tile, scratch);
  }

  Product p_;
  Epilogue epilogue_;
  int output_;
  bool in_registers_ = false;
  bool keep_;  // output 0 itself is used, not only the chain's result
  Route route_ = Route::kPacked;
  int64_t ns_ = 0, row_parts_ = 1, col_parts_ = 1, block_rows_ = 1, block_cols_ = 1;
  int64_t held_floats_ = 0, pack_floats_ = 0;
};

std::unique_ptr<BoundKernel> make(const KernelRequest& request, Product product) {
  if (request.outputs[0].elements() == 0) return nullptr;
  product.b_distinct = product.b_batch;
  std::sort(product.b_distinct.begin(), product.b_distinct.end());
  product.b_distinct.erase(std::unique(product.b_distinct.begin(), product.b_distinct.end()),
                           product.b_distinct.end());
  return std::make_unique<Gemm>(request, std::move(product));
}

std::unique_ptr<BoundKernel> bind_linear(const KernelRequest& request) {
  const ir::Type &x = *request.inputs[0], &w = *request.inputs[1];
  const int64_t in = w.shape[1], out = w.shape[0];
  if (in == 0 || out == 0) return nullptr;
  return make(request, {.m = x.elements() / in,
                        .n = out,
                        .k = in,
                        .a = {nullptr, in, 1},
                        .b = {nullptr, 1, in},
                        .a_batch = {0},
                        .b_batch = {0},
                        .b_distinct = {},
                        .bias = request.inputs.size() > 2 && request.inputs[2]});
}

// Returns an operand's matrix offset for every index of the broadcast batch.
std::vector<int64_t> batch_offsets(const Shape& operand, const Shape& batch) {
  const int64_t matrix = operand[operand.size() - 1] * operand[operand.size() - 2];
  const Shape strides = broadcast_strides(Shape(operand.begin(), operand.end() - 2), batch);
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < ir::element_count(batch); ++i) {
    int64_t rest = i, offset = 0;
    for (size_t d = batch.size(); d-- > 0;) {
      offset += rest % batch[d] * strides[d];
      rest /= batch[d];
    }
    offsets.push_back(offset * matrix);
  }
  return offsets;
}

std::unique_ptr<BoundKernel> bind_matmul(const KernelRequest& request) {
  const Shape &a = request.inputs[0]->shape, &b = request.inputs[1]->shape;
  const Shape& y = request.outputs[0].shape;
  const bool ta = request.attr<bool>("transpose_a"), tb = request.attr<bool>("transpose_b");
  const int64_t a_cols = a.back(), b_cols = b.back();
  Product p{.m = y[y.size() - 2],
            .n = y.back(),
            .k = ta ? a[a.size() - 2] : a_cols,
            .a = ta ? MatrixView{nullptr, 1, a_cols} : MatrixView{nullptr, a_cols, 1},
            .b = tb ? MatrixView{nullptr, 1, b_cols} : MatrixView{nullptr, b_cols, 1},
            .a_batch = {},
            .b_batch = {},
            .b_distinct = {}};
  const Shape batch(y.begin(), y.end() - 2);
  const bool one_b = ir::element_count(Shape(b.begin(), b.end() - 2)) == 1;
  if (one_b && !ta && ir::element_count(a) == ir::element_count(batch) * p.m * p.k) {
    // Every matrix of the batch has the same b: the batch is one tall matrix.
    p.m *= ir::element_count(batch);
    p.a_batch = p.b_batch = {0};
  } else {
    p.a_batch = batch_offsets(a, batch);
    p.b_batch = batch_offsets(b, batch);
  }
  return make(request, std::move(p));
}

}  // namespace

void add_matmul_kernels(KernelTable& table) {
  table.add({.op = "linear", .bind = bind_floats<bind_linear>, .takes_epilogue = true});
  table.add({.op = "matmul", .bind = bind_floats<bind_matmul>, .takes_epilogue = true});
}

}  // namespace poptorch::emulator
