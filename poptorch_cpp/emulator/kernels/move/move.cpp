// Data movement: transpose, slice, concat, broadcast_to, reverse, insert_slice as strided copies of
// elements of any dtype.
#include <algorithm>
#include <cstring>

#include "emulator/kernels/base/copy_run.hpp"
#include "emulator/kernels/base/element_word.hpp"
#include "emulator/kernels/base/families.hpp"
#include "emulator/kernels/base/layouts.hpp"
#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/base/transpose_block.hpp"

namespace poptorch::emulator {
namespace {

using ir::Shape;

// A box of elements: its offset in either tensor, and the strides through both.
struct Box {
  Shape sizes, from_strides, to_strides;
  int64_t from_offset = 0, to_offset = 0;
  int input = 0;
  int phase = 0;  // a box over elements that another box copies takes the next one
};

constexpr int64_t kMostBytes = 8;  // of an element
constexpr int64_t kRowsOfLine = 64;
constexpr int64_t kTransposedRows = 64;  // a multiple of the elements of a cache line

// Returns the unit in which tasks split the outermost dimension. Parts of a transposed matrix have
// whole squares of elements, and read whole cache lines.
int64_t unit_of(const Box& box) {
  const bool matrix = box.sizes.size() == 2 && box.from_strides[0] == 1 && box.to_strides[1] == 1;
  return matrix && box.from_strides[1] != 1 ? kTransposedRows : 1;
}

// Drops dimensions of size 1 and merges those that both sides walk as one; at least two remain. A
// long line becomes several rows, which tasks can share.
void collapse(Box& box) {
  Box out = box;
  out.sizes.clear(), out.from_strides.clear(), out.to_strides.clear();
  for (size_t d = 0; d < box.sizes.size(); ++d) {
    const int64_t size = box.sizes[d];
    if (size == 1) continue;
    if (!out.sizes.empty() && out.from_strides.back() == box.from_strides[d] * size &&
        out.to_strides.back() == box.to_strides[d] * size) {
      out.sizes.back() *= size;
      out.from_strides.back() = box.from_strides[d];
      out.to_strides.back() = box.to_strides[d];
    } else {
      out.sizes.push_back(size);
      out.from_strides.push_back(box.from_strides[d]);
      out.to_strides.push_back(box.to_strides[d]);
    }
  }
  if (out.sizes.size() == 1 && out.sizes[0] >= 8192 && out.sizes[0] % kRowsOfLine == 0) {
    const int64_t row = out.sizes[0] / kRowsOfLine;
    out.sizes = {kRowsOfLine, row};
    out.from_strides.insert(out.from_strides.begin(), row * out.from_strides[0]);
    out.to_strides.insert(out.to_strides.begin(), row * out.to_strides[0]);
  }
  while (out.sizes.size() < 2) {
    out.sizes.insert(out.sizes.begin(), 1);
    out.from_strides.insert(out.from_strides.begin(), 0);
    out.to_strides.insert(out.to_strides.begin(), 0);
  }
  box = out;
}

// Copies the part that is written so far, because memcpy has wider vectors than this file.
template <typename T>
void fill_row(T* y, int64_t n, T value) {
  constexpr int64_t kFirst = 64 / sizeof(T);
  std::fill_n(y, std::min(n, kFirst), value);
  for (int64_t done = kFirst; done < n; done *= 2) {
    std::memcpy(y + done, y, static_cast<size_t>(std::min(done, n - done)) * sizeof(T));
  }
}

// Writes n elements from x, x + step, ... to y.
template <typename T>
void copy_row(const T* x, int64_t step, T* y, int64_t n) {
  if (step == 1) {
    copy_run(x, y, n);
  } else if (step == 0) {
    fill_row(y, n, *x);
  } else if (step == -1) {
    for (int64_t i = 0; i < n; ++i) y[i] = x[-i];
  } else if (step == 2) {
    for (int64_t i = 0; i < n; ++i) y[i] = x[2 * i];
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i * step];
  }
}

// Writes each of n elements `times` times.
template <int times, typename T>
void repeat_each(const T* x, T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    for (int k = 0; k < times; ++k) y[i * times + k] = x[i];
  }
}
constexpr int64_t kMostTimes = 4;
template <typename T>
void repeat_each(const T* x, T* y, int64_t n, int64_t times) {
  if (times == 2) repeat_each<2>(x, y, n);
  if (times == 3) repeat_each<3>(x, y, n);
  if (times == 4) repeat_each<4>(x, y, n);
}

// Copies a plane: rows × cols elements of type T.
template <typename T>
void copy_plane(const std::byte* from, std::byte* to, int64_t rows, int64_t cols,
                const int64_t* from_strides, const int64_t* to_strides) {
  const T* x = reinterpret_cast<const T*>(from);
  T* y = reinterpret_cast<T*>(to);
  const int64_t xr = from_strides[0], xc = from_strides[1], yr = to_strides[0], yc = to_strides[1];
  if (yc == 1 && xr == 1 && xc != 1 && xc != 0) return transpose_matrix(x, xc, y, yr, cols, rows);
  if (yr == 1 && xc == 1 && yc != 1) return transpose_matrix(x, xr, y, yc, rows, cols);
  const bool repeats = xr == 1 && xc == 0 && yc == 1 && yr == cols;
  if (repeats && cols > 1 && cols <= kMostTimes) return repeat_each(x, y, rows, cols);
  if (yc == 1) {
    for (int64_t r = 0; r < rows; ++r) copy_row(x + r * xr, xc, y + r * yr, cols);
    return;
  }
  // Blocks of 16 x 16 keep other orders within a few cache lines on both sides.
  for (int64_t r = 0; r < rows; r += 16) {
    for (int64_t c = 0; c < cols; c += 16) {
      const int64_t last_row = std::min(r + 16, rows), last_col = std::min(c + 16, cols);
      for (int64_t i = r; i < last_row; ++i) {
        for (int64_t j = c; j < last_col; ++j) y[i * yr + j * yc] = x[i * xr + j * xc];
      }
    }
  }
}

class Copy final : public BoundKernel {
 public:
  Copy(const KernelRequest& request, std::vector<Box> boxes)
      : boxes_(std::move(boxes)),
        element_(ir::size_of(request.outputs[0].dtype)),
        output_(static_cast<int>(request.inputs.size())) {
    for (Box& box : boxes_) {
      collapse(box);
      const int64_t elements = ir::element_count(box.sizes);
      ns_ += 30 + elements * element_ / 8;
      // Tasks split the outermost dimension.
      const int64_t units = divide_up(box.sizes[0], unit_of(box));
      const int64_t parts = elements == 0 ? 0 : parts_for(elements * element_ / 8, units);
      parts_.push_back(parts);
      tasks_.resize(static_cast<size_t>(box.phase) + 1);
      tasks_.back() += static_cast<int>(parts);
    }
  }
  int phases() const override { return static_cast<int>(tasks_.size()); }
  int tasks(int phase) const override { return tasks_[phase]; }
  int64_t estimated_ns() const override { return ns_; }
  void run(const KernelArgs& args, int phase, int task) const override {
    size_t b = 0;
    while (boxes_[b].phase != phase) ++b;
    for (; task >= parts_[b]; ++b) task -= static_cast<int>(parts_[b]);
    const Box& box = boxes_[b];
    if (args.buffers[box.input] == args.buffers[output_]) return;  // in place: already there
    const Range outer = part_of(box.sizes[0], parts_[b], task, unit_of(box));
    const std::byte* from = args.buffers[box.input] + box.from_offset * element_;
    std::byte* to = args.buffers[output_] + box.to_offset * element_;
    const size_t dims = box.sizes.size();
    if (dims == 2) {
      return plane(box, from + outer.begin * box.from_strides[0] * element_,
                   to + outer.begin * box.to_strides[0] * element_, outer.size());
    }
    int64_t middle = 1;
    for (size_t d = 1; d + 2 < dims; ++d) middle *= box.sizes[d];
    for (int64_t i = outer.begin; i < outer.end; ++i) {
      for (int64_t m = 0; m < middle; ++m) {
        int64_t x = i * box.from_strides[0], y = i * box.to_strides[0], rest = m;
        for (size_t d = dims - 2; d-- > 1;) {
          x += rest % box.sizes[d] * box.from_strides[d];
          y += rest % box.sizes[d] * box.to_strides[d];
          rest /= box.sizes[d];
        }
        plane(box, from + x * element_, to + y * element_, box.sizes[dims - 2]);
      }
    }
  }

 private:
  void plane(const Box& box, const std::byte* from, std::byte* to, int64_t rows) const {
    const size_t d = box.sizes.size() - 2;
    const int64_t cols = box.sizes[d + 1], *x = &box.from_strides[d], *y = &box.to_strides[d];
    with_word(element_, [&]<typename T>(T) { copy_plane<T>(from, to, rows, cols, x, y); });
  }

  std::vector<Box> boxes_;
  int64_t element_;
  int output_;
  std::vector<int64_t> parts_;
  std::vector<int> tasks_;  // by phase
  int64_t ns_ = 0;
};

std::unique_ptr<BoundKernel> make(const KernelRequest& request, std::vector<Box> boxes) {
  if (ir::size_of(request.outputs[0].dtype) > kMostBytes) return nullptr;
  return std::make_unique<Copy>(request, std::move(boxes));
}

std::unique_ptr<BoundKernel> bind_transpose(const KernelRequest& request) {
  const Shape& y = request.outputs[0].shape;
  const Shape from = request.strides_of(0);
  Box box{.sizes = y, .from_strides = {}, .to_strides = ir::row_major_strides(y)};
  for (int64_t d : request.attr<ir::Ints>("permutation")) box.from_strides.push_back(from[d]);
  return make(request, {box});
}

bool reads_strides(const ir::Type& operand) {
  return operand.rank() > 0 && ir::size_of(operand.dtype) <= kMostBytes;
}

std::unique_ptr<BoundKernel> bind_broadcast(const KernelRequest& request) {
  const Shape& y = request.outputs[0].shape;
  return make(request, {{.sizes = y,
                         .from_strides = broadcast_strides(request.inputs[0]->shape, y),
                         .to_strides = ir::row_major_strides(y)}});
}

// The part of a tensor with these strides that a slice selects.
struct Part {
  Shape strides;
  int64_t offset = 0;
  Part(const KernelRequest& request, Shape of_tensor) : strides(std::move(of_tensor)) {
    for (size_t d = 0; d < strides.size(); ++d) {
      offset += request.attr<ir::Ints>("starts")[d] * strides[d];
      strides[d] *= request.attr<ir::Ints>("steps")[d];
    }
  }
};

std::unique_ptr<BoundKernel> bind_slice(const KernelRequest& request) {
  const Shape& y = request.outputs[0].shape;
  const Part part(request, request.strides_of(0));
  return make(request, {{.sizes = y,
                         .from_strides = part.strides,
                         .to_strides = ir::row_major_strides(y),
                         .from_offset = part.offset}});
}

std::unique_ptr<BoundKernel> bind_insert(const KernelRequest& request) {
  const Shape &y = request.outputs[0].shape, &src = request.inputs[1]->shape;
  const Shape all = ir::row_major_strides(y);
  const Part part(request, all);
  return make(request, {{.sizes = y, .from_strides = all, .to_strides = all},
                        {.sizes = src,
                         .from_strides = ir::row_major_strides(src),
                         .to_strides = part.strides,
                         .to_offset = part.offset,
                         .input = 1,
                         .phase = 1}});
}

std::unique_ptr<BoundKernel> bind_reverse(const KernelRequest& request) {
  const Shape& y = request.outputs[0].shape;
  Box box{
      .sizes = y, .from_strides = request.strides_of(0), .to_strides = ir::row_major_strides(y)};
  if (y.empty()) return make(request, {box});  // axis 0 of a scalar is none
  for (int64_t axis : request.attr<ir::Ints>("axes")) {
    box.from_offset += (y[axis] - 1) * box.from_strides[axis];
    box.from_strides[axis] *= -1;
  }
  return make(request, {box});
}

std::unique_ptr<BoundKernel> bind_concat(const KernelRequest& request) {
  const Shape to = ir::row_major_strides(request.outputs[0].shape);
  const int64_t axis = request.attr<int64_t>("axis");
  std::vector<Box> boxes;
  int64_t begin = 0;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const Shape& x = request.inputs[i]->shape;
    boxes.push_back({.sizes = x,
                     .from_strides = request.strides_of(i),
                     .to_strides = to,
                     .from_offset = 0,
                     .to_offset = begin * to[axis],
                     .input = static_cast<int>(i)});
    begin += x[axis];
  }
  return make(request, std::move(boxes));
}

}  // namespace

void add_move_kernels(KernelTable& table) {
  auto add = [&](const char* op, auto bind) {
    table.add({.op = op,
               .bind = bind,
               .choose_layouts = choose_moved_layouts,
               .reads_strides = reads_strides});
  };
  table.add({.op = "transpose", .bind = bind_transpose, .reads_strides = reads_strides});
  table.add({.op = "broadcast_to", .bind = bind_broadcast});
  add("slice", bind_moved<bind_slice>);
  add("concat", bind_moved<bind_concat>);
  add("reverse", bind_moved<bind_reverse>);
  table.add({.op = "insert_slice",
             .bind = bind_moved<bind_insert>,
             .choose_layouts = choose_moved_layouts,
             .in_place_input = {0}});
}

}  // namespace poptorch::emulator
