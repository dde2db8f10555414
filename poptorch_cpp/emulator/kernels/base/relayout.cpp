// Plain and channels-last differ, in every image, by the transpose of a [channels, positions]
// matrix. Panels of rows are the transpose of blocks of rows, panels of columns are their copies.
#include "emulator/kernels/base/relayout.hpp"

#include <cstring>
#include <vector>

#include "emulator/kernels/base/element_word.hpp"
#include "emulator/kernels/base/gemm.hpp"
#include "emulator/kernels/base/transpose_block.hpp"
#include "support/error.hpp"

namespace poptorch::emulator {
namespace {

template <typename T>
void transpose_as(const std::byte* from, std::byte* to, int64_t rows, int64_t cols) {
  transpose_matrix(reinterpret_cast<const T*>(from), cols, reinterpret_cast<T*>(to), rows, rows,
                   cols);
}

// Transposes [rows, cols] to [cols, rows].
void transpose(int64_t element, const std::byte* from, std::byte* to, int64_t rows, int64_t cols) {
  with_word(element, [&]<typename T>(T) { transpose_as<T>(from, to, rows, cols); });
}

struct Images {
  int64_t count = 1, channels = 1, positions = 1;
  int64_t bytes = 0;  // of one image
};

Images images_of(const ir::Type& type) {
  Images images;
  if (type.rank() >= 3) {
    images.count = type.shape[0];
    images.channels = type.shape[1];
    for (size_t d = 2; d < type.shape.size(); ++d) images.positions *= type.shape[d];
    images.bytes = images.channels * images.positions * ir::size_of(type.dtype);
  } else {
    images.positions = type.elements();
    images.bytes = type.bytes();
  }
  return images;
}

// Calls copy(element of the matrix, element of the panels, elements) for each run of elements that
// follow each other in both.
template <typename Copy>
void for_panel_rows(const ir::Type& type, Copy copy) {
  const int64_t k = type.shape[0], n = type.shape[1];
  for (int64_t panel = 0; panel < n / kPanel; ++panel) {
    for (int64_t p = 0; p < k; ++p) {
      copy(p * n + panel * kPanel, (panel * k + p) * kPanel, kPanel);
    }
  }
}

// Transposes each block of kPanel rows of a [n, k] matrix to [k, kPanel], or back. The rows of
// images are channels-last.
void transpose_panels(const ir::Type& type, const std::byte* from, std::byte* to, bool to_panels) {
  const Images images = images_of(type);
  const int64_t element = ir::size_of(type.dtype), k = type.elements() / type.shape[0];
  const int64_t row_bytes = k * element;
  const bool reorders = type.rank() >= 3;
  std::vector<std::byte> rows(reorders ? kPanel * row_bytes : 0);
  for (int64_t row = 0; row < type.shape[0]; row += kPanel) {
    const std::byte* in = from + row * row_bytes;
    std::byte* out = to + row * row_bytes;
    for (int64_t i = 0; reorders && to_panels && i < kPanel; ++i) {
      transpose(element, in + i * row_bytes, rows.data() + i * row_bytes, images.channels,
                images.positions);
    }
    const bool through_rows = reorders && !to_panels;
    transpose(element, reorders && to_panels ? rows.data() : in, through_rows ? rows.data() : out,
              to_panels ? kPanel : k, to_panels ? k : kPanel);
    for (int64_t i = 0; through_rows && i < kPanel; ++i) {
      transpose(element, rows.data() + i * row_bytes, out + i * row_bytes, images.positions,
                images.channels);
    }
  }
}

class Reorder final : public BoundKernel {
 public:
  Reorder(const ir::Type& type, Layout to)
      : images_(images_of(type)),
        bytes_(type.bytes()),
        element_(ir::size_of(type.dtype)),
        to_last_(to.kind == Layout::Kind::kChannelsLast) {}
  int tasks(int) const override { return static_cast<int>(images_.count); }
  int64_t estimated_ns() const override { return 50 + bytes_ / 8; }
  void run(const KernelArgs& args, int, int task) const override {
    const int64_t at = task * images_.bytes;
    transpose(element_, args.buffers[0] + at, args.buffers[1] + at,
              to_last_ ? images_.channels : images_.positions,
              to_last_ ? images_.positions : images_.channels);
  }

 private:
  Images images_;
  int64_t bytes_, element_;
  bool to_last_;
};

}  // namespace

void from_plain(const Layout& layout, const ir::Type& type, const std::byte* plain, std::byte* to) {
  const Images images = images_of(type);
  switch (layout.kind) {
    case Layout::Kind::kPlain:
      std::memcpy(to, plain, static_cast<size_t>(type.bytes()));
      break;
    case Layout::Kind::kChannelsLast:
      for (int64_t n = 0; n < images.count; ++n) {
        transpose(ir::size_of(type.dtype), plain + n * images.bytes, to + n * images.bytes,
                  images.channels, images.positions);
      }
      break;
    case Layout::Kind::kPanelsOfRows:
      return transpose_panels(type, plain, to, true);
    case Layout::Kind::kPanelsOfColumns:
      return for_panel_rows(type, [&](int64_t in_matrix, int64_t in_panels, int64_t count) {
        const int64_t size = ir::size_of(type.dtype);
        std::memcpy(to + in_panels * size, plain + in_matrix * size, count * size);
      });
  }
}

void to_plain(const Layout& layout, const ir::Type& type, const std::byte* from, std::byte* plain) {
  const Images images = images_of(type);
  switch (layout.kind) {
    case Layout::Kind::kPlain:
      std::memcpy(plain, from, static_cast<size_t>(type.bytes()));
      break;
    case Layout::Kind::kChannelsLast:
      for (int64_t n = 0; n < images.count; ++n) {
        transpose(ir::size_of(type.dtype), from + n * images.bytes, plain + n * images.bytes,
                  images.positions, images.channels);
      }
      break;
    case Layout::Kind::kPanelsOfRows:
      return transpose_panels(type, from, plain, false);
    case Layout::Kind::kPanelsOfColumns:
      return for_panel_rows(type, [&](int64_t in_matrix, int64_t in_panels, int64_t count) {
        const int64_t size = ir::size_of(type.dtype);
        std::memcpy(plain + in_matrix * size, from + in_panels * size, count * size);
      });
  }
}

std::unique_ptr<BoundKernel> bind_reorder(const ir::Type& type, const Layout& to) {
  return std::make_unique<Reorder>(type, to);
}

}  // namespace poptorch::emulator
