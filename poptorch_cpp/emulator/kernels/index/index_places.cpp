#include "emulator/kernels/index/index_places.hpp"

#include <algorithm>

#include "emulator/kernels/base/tile_program.hpp"

namespace poptorch::emulator {

using ir::Shape;

namespace {

int64_t product(const Shape& shape, size_t begin, size_t end) {
  int64_t count = 1;
  for (size_t d = begin; d < end; ++d) count *= shape[d];
  return count;
}

// Returns the offset of a row in the outer dimensions.
int64_t offset_of_row(int64_t row, const Shape& sizes, const Shape& strides) {
  int64_t offset = 0;
  for (size_t d = sizes.size() - 1; d-- > 0;) {
    offset += row % sizes[d] * strides[d];
    row /= sizes[d];
  }
  return offset;
}

// Adds an index to n places; those that it leads out of its axis become -1.
void add_index(const Places::Index& index, const int32_t* given, int64_t along, int64_t col,
               int64_t n, int32_t* places) {
  const auto size = static_cast<uint32_t>(index.size);
  const auto stride = static_cast<int32_t>(index.stride);
  auto add = [&](int64_t i, int32_t value) {
    const bool inside = (places[i] >= 0) & (static_cast<uint32_t>(value) < size);
    const int32_t place =
        static_cast<int32_t>(static_cast<uint32_t>(places[i]) +
                             static_cast<uint32_t>(value) * static_cast<uint32_t>(stride));
    places[i] = inside ? place : -1;
  };
  if (index.begins_window) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t value = (*given + col + i) % index.size;
      add(i, static_cast<int32_t>(value < 0 ? value + index.size : value));
    }
  } else if (along == 1) {
    for (int64_t i = 0; i < n; ++i) add(i, given[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) add(i, given[i * along]);
  }
}

// Finds the places of a row whose indices are those of the row before.
void next_row(const int32_t* before, int64_t distance, int64_t n, int32_t* places) {
  const auto step = static_cast<int32_t>(distance);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) places[i] = before[i] < 0 ? -1 : before[i] + step;
}

}  // namespace

Places::Places(Shape sizes, Shape strides, std::vector<Index> indices, const Shape& x, int64_t run)
    : sizes_(std::move(sizes)),
      strides_(std::move(strides)),
      indices_(std::move(indices)),
      count_(ir::element_count(sizes_)),
      blocks_(ir::element_count(x) / std::max<int64_t>(run, 1)),
      run_(run),
      rows_are_equal_(sizes_.size() == 2 && std::ranges::all_of(indices_, [](const Index& index) {
                        return index.strides[0] == 0;
                      })) {}

Places Places::of_slices(const KernelRequest& request, const Shape& x) {
  const auto axis = static_cast<size_t>(request.attr<int64_t>("axis"));
  const int64_t size = x[axis];
  return {{product(x, 0, axis), request.inputs[1]->elements()},
          {size, 0},
          {{.input = 1, .strides = {0, 1}, .size = size, .stride = 1}},
          x,
          product(x, axis + 1, x.size())};
}

Places Places::of_elements(const KernelRequest& request, const Shape& x) {
  const auto axis = static_cast<size_t>(request.attr<int64_t>("axis"));
  const Shape& indices = request.inputs[1]->shape;
  Shape strides = ir::row_major_strides(x);
  const int64_t along = std::exchange(strides[axis], 0);
  return {
      indices,
      strides,
      {{.input = 1, .strides = ir::row_major_strides(indices), .size = x[axis], .stride = along}},
      x,
      1};
}

Places Places::of_blocks(const KernelRequest& request, const Shape& x, int first) {
  const size_t axes = request.inputs.size() - static_cast<size_t>(first);
  Shape sizes{1};
  for (size_t i = 0; i < axes; ++i) {
    sizes = *ir::broadcast(sizes, request.inputs[static_cast<size_t>(first) + i]->shape);
  }
  std::vector<Index> indices;
  for (size_t i = 0; i < axes; ++i) {
    const int input = first + static_cast<int>(i);
    const Shape& shape = request.inputs[input]->shape;
    indices.push_back({.input = input,
                       .strides = broadcast_strides(shape, sizes),
                       .size = x[i],
                       .stride = product(x, i + 1, axes)});
  }
  return {sizes, Shape(sizes.size(), 0), std::move(indices), x, product(x, axes, x.size())};
}

Places Places::of_window(const KernelRequest& request, const Shape& x, int start, int64_t size) {
  const auto axis = static_cast<size_t>(request.attr<int64_t>("axis"));
  return {
      {product(x, 0, axis), size},
      {x[axis], 0},
      {{.input = start, .strides = {0, 0}, .size = x[axis], .stride = 1, .begins_window = true}},
      x,
      product(x, axis + 1, x.size())};
}

void Places::find(const KernelArgs& args, int64_t begin, int64_t end, int32_t* places) const {
  const int64_t inner = sizes_.back();
  for (int64_t k = begin; k < end;) {
    const int64_t row = k / inner, col = k % inner, n = std::min(inner - col, end - k);
    if (rows_are_equal_ && n == inner && k - begin >= inner) {
      next_row(places - inner, strides_[0], n, places);
      k += n, places += n;
      continue;
    }
    const int64_t step = strides_.back();
    const int64_t first = offset_of_row(row, sizes_, strides_) + col * step;
    for (int64_t i = 0; i < n; ++i) places[i] = static_cast<int32_t>(first + i * step);
    for (const Index& index : indices_) {
      const auto* given = reinterpret_cast<const int32_t*>(args.buffers[index.input]);
      const int64_t along = index.strides.back();
      given += offset_of_row(row, sizes_, index.strides) + col * along;
      add_index(index, given, along, col, n, places);
    }
    k += n, places += n;
  }
}

}  // namespace poptorch::emulator
