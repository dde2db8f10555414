// Reductions over any axes. Dimensions are grouped into alternating kept and reduced groups. The
// innermost group is summed in lanes or column by column; partial results join in a fixed order.
#include <optional>

#include "emulator/kernels/base/along_axis.hpp"
#include "emulator/kernels/base/layouts.hpp"
#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/sets/reduce/search.hpp"
#include "emulator/kernels/sets/reduce/windows.hpp"
#include "emulator/kernels/sets/short_rows.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

using ir::Shape;

constexpr int64_t kRun = 2048;  // floats joined in f32 lanes before they join in double
constexpr int64_t kRows = 64;   // rows joined in f32 before they join in double
// A table that is larger than L2 is read by pieces of kMostColumns of its rows, whose sums stay in
// L1.
constexpr int64_t kLargeTable = 1 << 18;  // elements
// Rows that are joined as one where they are narrower than this: a vector has elements of several.
constexpr int64_t kNarrow = 16;
constexpr int64_t kFewOfRow = 4;  // elements of a row that are joined in place, like a window's

template <typename Op, typename X>
class Reduce final : public BoundKernel {
 public:
  Reduce(Groups groups, double scale, WriteFn write)
      : g_(std::move(groups)), scale_(scale), write_(write) {
    // Work items are outputs when the inner group is reduced, else blocks of columns.
    const bool large = g_.inner >= 2 * kMostColumns && g_.reduced() * g_.inner > kLargeTable;
    columns_ = large ? kMostColumns : kColumns;
    const bool dense = g_.reduced_strides == Shape{g_.inner};
    if (!g_.inner_reduced && g_.inner < kNarrow && dense) joined_rows_ = kNarrow;
    outputs_ = g_.inner_reduced ? g_.kept() : g_.kept() * divide_up(g_.inner, columns_);
    ns_ = 20 + g_.kept() * g_.reduced() * g_.inner / 8;
    const int64_t wanted = parts_for(ns_, 32);
    output_parts_ = std::min(wanted, outputs_);
    const int64_t rows = splits_inner() ? divide_up(g_.inner, kRun)
                                        : std::max<int64_t>(1, g_.reduced() / joined_rows_);
    row_parts_ = outputs_ < 8 ? std::clamp<int64_t>(divide_up(wanted, outputs_), 1, rows) : 1;
  }
  int phases() const override { return row_parts_ > 1 ? 2 : 1; }
  int tasks(int phase) const override {
    return phase == 1 ? 1 : static_cast<int>(output_parts_ * row_parts_);
  }
  int64_t workspace_bytes() const override {
    return row_parts_ > 1 ? 8 * row_parts_ * result_count() : 0;
  }
  int64_t estimated_ns() const override { return ns_; }
  int64_t elements_at_once() const override {
    return g_.inner_reduced && g_.inner >= kLeastTaken ? std::min(g_.inner, kRun) : 0;
  }

  void run(const KernelArgs& args, int phase, int task) const override {
    auto* partial = reinterpret_cast<double*>(args.workspace);
    if (phase == 1) {
      for (int64_t i = 0; i < result_count(); ++i) {
        for (int64_t p = 1; p < row_parts_; ++p) {
          partial[i] = Op::join(partial[i], partial[p * result_count() + i]);
        }
      }
      return write_(args.buffers[1], 0, partial, result_count(), scale_);
    }
    run_outputs(args, part_of(outputs_, output_parts_, task / row_parts_), task % row_parts_);
  }
  bool divides_into(int64_t parts) const override {
    const bool rows = g_.inner_reduced && g_.reduced() == 1 && row_parts_ == 1;
    return rows && outputs_ % parts == 0;
  }
  void run_parts(const KernelArgs& args, int64_t begin, int64_t end, int64_t of) const override {
    run_outputs(args, {outputs_ / of * begin, outputs_ / of * end}, 0);
  }

 private:
  void run_outputs(const KernelArgs& args, Range outputs, int64_t row_part) const {
    auto* partial = reinterpret_cast<double*>(args.workspace);
    for (int64_t o = outputs.begin; o < outputs.end; ++o) {
      double values[kMostColumns];
      int64_t first = o, count = 1;
      if (g_.inner_reduced) {
        values[0] = run_of(args, offset_at(o, g_.kept_sizes, g_.kept_strides), row_part);
      } else {
        const int64_t blocks = divide_up(g_.inner, columns_), column = o % blocks * columns_;
        count = std::min(columns_, g_.inner - column);
        first = o / blocks * g_.inner + column;
        const int64_t at = offset_at(o / blocks, g_.kept_sizes, g_.kept_strides) + column;
        columns(input_of<X>(args, 0) + at, count, row_part, values);
      }
      if (row_parts_ > 1) {
        std::copy_n(values, count, partial + row_part * result_count() + first);
      } else {
        write_(args.buffers[1], first, values, count, scale_);
      }
    }
  }

  bool splits_inner() const { return g_.inner_reduced && g_.reduced() == 1; }
  int64_t result_count() const { return g_.inner_reduced ? g_.kept() : g_.kept() * g_.inner; }

  static float joined(const X* x, int64_t n) {
    auto term = [](float v) { return v; };
    auto join = [](float a, float b) { return Op::join(a, b); };
    constexpr auto start = static_cast<float>(Op::kStart);
    if (n >= 256) return reduce_row<64>(n, start, term, join, x);
    return reduce_row(n, start, term, join, x);
  }

  double run_of(const KernelArgs& args, int64_t at, int64_t part) const {
    Range rows{0, g_.reduced()}, inner{0, g_.inner};
    (splits_inner() ? inner : rows) = part_of(splits_inner() ? g_.inner : g_.reduced(), row_parts_,
                                              part, splits_inner() ? kRun : 1);
    double value = Op::kStart;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const int64_t row = at + offset_at(r, g_.reduced_sizes, g_.reduced_strides);
      for (int64_t i = inner.begin; i < inner.end; i += kRun) {
        const int64_t count = std::min(kRun, inner.end - i);
        const float some = joined(elements_of<X>(args, row + i, count), count);
        value = Op::join(value, static_cast<double>(some));
      }
    }
    return value;
  }

  const X* row_at(const X* x, int64_t row) const {
    if (joined_rows_ > 1) return x + row * joined_rows_ * g_.inner;
    return x + offset_at(row, g_.reduced_sizes, g_.reduced_strides);
  }

  void join_rows(const X* x, Range rows, int64_t count, float* some) const {
    std::fill_n(some, count, static_cast<float>(Op::kStart));
    for (int64_t k = rows.begin; k < rows.end; ++k) {
      map_row(count, some, [](float a, float b) { return Op::join(a, b); }, some, row_at(x, k));
    }
  }

  // Joins `count` columns, a multiple of kLanes, of blocks of `rows` rows each, in registers. A
  // join waits for the one before it, so that several blocks take the time of one.
  template <int64_t count, int blocks>
  void join_blocks(const X* x, int64_t first, int64_t rows, float (*some)[kColumns]) const {
    constexpr int kVectors = count / kLanes;
    Widest joined[blocks][kVectors];
#pragma GCC unroll 8
    for (int i = 0; i < blocks * kVectors; ++i) {
      joined[i / kVectors][i % kVectors] = spread<Widest>(static_cast<float>(Op::kStart));
    }
    for (int64_t k = first; k < first + rows; ++k) {
#pragma GCC unroll 8
      for (int b = 0; b < blocks; ++b) {
        const X* row = row_at(x, k + b * rows);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          joined[b][v] = Op::join(joined[b][v], load_lanes(row + v * kLanes));
        }
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < blocks * kVectors; ++i) {
      store(some[i / kVectors] + i % kVectors * kLanes, joined[i / kVectors][i % kVectors]);
    }
  }

  void columns(const X* x, int64_t count, int64_t part, double* values) const {
    const Range rows = part_of(g_.reduced() / joined_rows_, row_parts_, part);
    join_columns(x, rows, count * joined_rows_, values);
    if (joined_rows_ == 1) return;
    for (int64_t i = count; i < count * joined_rows_; ++i) {
      values[i % count] = Op::join(values[i % count], values[i]);
    }
    if (part != row_parts_ - 1) return;
    for (int64_t i = rows.end * joined_rows_ * count; i < g_.reduced() * count; ++i) {
      values[i % count] = Op::join(values[i % count], static_cast<double>(load_one(x + i)));
    }
  }

  void join_columns(const X* x, Range rows, int64_t count, double* values) const {
    for (int64_t i = 0; i < count; ++i) values[i] = Op::kStart;
    if (count == kColumns) return join_in_registers<kColumns>(x, rows, values);
    if (count == kColumns / 2) return join_in_registers<kColumns / 2>(x, rows, values);
    if (count == kColumns / 4) return join_in_registers<kColumns / 4>(x, rows, values);
    for (int64_t r = rows.begin; r < rows.end; r += kRows) {
      float some[kMostColumns];
      join_rows(x, {r, std::min(r + kRows, rows.end)}, count, some);
      add_block(count, some, values);
    }
  }
  static void add_block(int64_t count, const float* some, double* values) {
    for (int64_t i = 0; i < count; ++i) {
      values[i] = Op::join(values[i], static_cast<double>(some[i]));
    }
  }
  template <int64_t count>
  void join_in_registers(const X* x, Range rows, double* values) const {
    constexpr int kBlocks = std::max<int>(1, 8 * kLanes / count);
    float some[kBlocks][kColumns];
    int64_t r = rows.begin;
    for (; r + kBlocks * kRows <= rows.end; r += kBlocks * kRows) {
      join_blocks<count, kBlocks>(x, r, kRows, some);
      for (const auto& block : some) add_block(count, block, values);
    }
    for (; r < rows.end; r += kRows) {
      join_blocks<count, 1>(x, r, std::min(kRows, rows.end - r), some);
      add_block(count, some[0], values);
    }
  }

  Groups g_;
  double scale_;
  WriteFn write_;
  int64_t joined_rows_ = 1;
  int64_t columns_ = kColumns, outputs_ = 1, output_parts_ = 1, row_parts_ = 1, ns_ = 0;
};

// Joins the elements of short rows, which lie one after the other.
template <typename Op, typename X>
std::unique_ptr<BoundKernel> reduce_short_rows(const KernelRequest& request, int64_t n,
                                               double scale, WriteFn write) {
  auto compute = [=](const KernelArgs& args, int64_t begin, int64_t end) {
    X* held = reinterpret_cast<X*>(args.scratch);
    for_blocks_of_rows(begin, end, [&](int64_t first, int64_t count) {
      const X* x = input_of<X>(args, 0) + first * n;
      const int64_t width = rows_to_columns(x, n, count, n, held);
      float some[kRowsAtOnce];
      std::fill_n(some, kRowsAtOnce, static_cast<float>(Op::kStart));
      for (int64_t i = 0; i < n; ++i) {
        map_row(
            width, some, [](float a, float b) { return Op::join(a, b); }, some,
            held + i * kRowsAtOnce);
      }
      double values[kRowsAtOnce];
      for (int64_t row = 0; row < count; ++row) {
        values[row] = Op::join(Op::kStart, static_cast<double>(some[row]));
      }
      write(args.buffers[1], first, values, count, scale);
    });
  };
  return make_rows_kernel(request, request.outputs[0].elements(), divide_up(n, 4), compute, nullptr,
                          n * kRowsAtOnce * int64_t{sizeof(X)}, true);
}

std::vector<bool> reduced_dims(const KernelRequest& request) {
  std::vector<bool> reduced(request.inputs[0]->rank(), false);
  if (reduced.empty()) return reduced;  // a scalar does not have an axis 0
  for (int64_t axis : request.attr<ir::Ints>("axes")) reduced[axis] = true;
  return reduced;
}

// Chooses the layout from the shape alone, because the order of a sum follows the layout.
// Neighbouring ops must not matter: they depend on how a model is divided. Images summed by channel
// are channels-last, all others plain. Three dimensions are an image if the batch is summed as
// well, as for the bias of a convolution.
void choose_layouts_of_sum(KernelRequest& request) {
  const ir::Type& x = *request.inputs[0];
  const std::vector<bool> reduced = reduced_dims(request);
  const bool image = x.rank() > 3 || (x.rank() == 3 && reduced[0]);
  const bool by_channel = image && !reduced[1] && x.shape[1] > 1 &&
                          std::all_of(reduced.begin() + 2, reduced.end(), [](bool r) { return r; });
  request.input_layouts[0] = {};
  if (by_channel) request.input_layouts[0].kind = Layout::Kind::kChannelsLast;
  request.output_layouts[0] = {};
}

// Keeps channels-last when the kept dimensions stay in the order of the type: it is as fast as
// plain.
void choose_layouts_of_reduction(KernelRequest& request) {
  const ir::Type& x = *request.inputs[0];
  Layout& layout = request.input_layouts[0];
  request.output_layouts[0] = {};
  if (layout.kind == Layout::Kind::kChannelsLast && x.rank() >= 3) {
    const std::vector<bool> reduced = reduced_dims(request);
    bool spatial_kept = false;
    for (int64_t d = 2; d < x.rank(); ++d) spatial_kept |= !reduced[d] && x.shape[d] > 1;
    if (!spatial_kept || reduced[1] || x.shape[1] == 1) return;
  }
  layout = {};
}

// How a request is computed. Nothing if no kernel here takes it.
std::optional<Groups> groups_of(const KernelRequest& request) {
  const ir::Type& x = *request.inputs[0];
  if (!(x.dtype == ir::DType::kF32 || is_half(x.dtype)) || x.elements() == 0 ||
      request.output_layouts[0].kind != Layout::Kind::kPlain) {
    return std::nullopt;
  }
  const std::vector<bool> reduced = reduced_dims(request);
  const Layout::Kind kind = request.input_layouts[0].kind;
  std::vector<bool> in_memory;
  for (int64_t d : memory_order(x.rank(), kind)) in_memory.push_back(reduced[d]);
  return group_dimensions(memory_shape(x.shape, kind), in_memory);
}

template <typename Op, bool mean = false>
struct Reduction {
  static constexpr StoredBuffers kStored = {1, 1};

  template <typename X, typename Y>
  static std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
    const ir::Type& x = *request.inputs[0];
    if (x.dtype == ir::DType::kI32) return bind_integer_reduction(request, Op::kSign);
    const std::optional<Groups> groups = groups_of(request);
    if (!groups) return nullptr;
    const auto size = static_cast<double>(x.elements());
    const double scale = mean ? static_cast<double>(request.outputs[0].elements()) / size : 1;
    const bool rows = groups->inner_reduced && groups->reduced() == 1;
    if (rows && groups->inner > kFewOfRow && groups->inner <= kShortRow) {
      return reduce_short_rows<Op, X>(request, groups->inner, scale, write_as<Y>);
    }
    if (ReduceWindows<Op, X>::fits(*groups)) {
      return std::make_unique<ReduceWindows<Op, X>>(*groups, scale, write_as<Y>);
    }
    return std::make_unique<Reduce<Op, X>>(*groups, scale, write_as<Y>);
  }
};

template <typename Op, bool mean = false>
void add_reduction(KernelTable& table, const char* op, void (*choose)(KernelRequest&)) {
  table.add({.op = op,
             .bind = bind_stored<Reduction<Op, mean>>,
             .choose_layouts = choose,
             .reads_halves = true});
}

}  // namespace

void add_reduce_kernels(KernelTable& table) {
  add_reduction<Sum>(table, "sum", choose_layouts_of_sum);
  add_reduction<Sum, true>(table, "mean", choose_layouts_of_sum);
  add_reduction<Max>(table, "max", choose_layouts_of_reduction);
  add_reduction<Min>(table, "min", choose_layouts_of_reduction);
  add_reduction<ReducedProduct>(table, "prod", choose_layouts_of_sum);
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
