// Plain and channels-last differ, in every image, by the transpose of a [channels, positions]
// matrix.
#include "emulator/kernels/base/relayout.hpp"

#include <cstring>

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
  switch (element) {
    case 1:
      return transpose_as<uint8_t>(from, to, rows, cols);
    case 2:
      return transpose_as<uint16_t>(from, to, rows, cols);
    case 4:
      return transpose_as<uint32_t>(from, to, rows, cols);
    default:
      return transpose_as<uint64_t>(from, to, rows, cols);
  }
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
  }
}

std::unique_ptr<BoundKernel> bind_reorder(const ir::Type& type, const Layout& to) {
  return std::make_unique<Reorder>(type, to);
}

}  // namespace poptorch::emulator
