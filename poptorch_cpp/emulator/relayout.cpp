// Implements relayout.hpp. Between plain and channels-last a tensor is, for every image, the
// transpose of a [channels, positions] matrix.
#include "emulator/relayout.hpp"

#include <algorithm>
#include <cstring>

#include "support/error.hpp"

namespace poptorch::emulator {
namespace {

constexpr int64_t kBlock = 16;

template <typename T>
void transpose_as(const std::byte* from, std::byte* to, int64_t rows, int64_t cols) {
  const T* source = reinterpret_cast<const T*>(from);
  T* target = reinterpret_cast<T*>(to);
  for (int64_t r0 = 0; r0 < rows; r0 += kBlock) {
    const int64_t r1 = std::min(rows, r0 + kBlock);
    for (int64_t c0 = 0; c0 < cols; c0 += kBlock) {
      const int64_t c1 = std::min(cols, c0 + kBlock);
      for (int64_t c = c0; c < c1; ++c) {
        for (int64_t r = r0; r < r1; ++r) target[c * rows + r] = source[r * cols + c];
      }
    }
  }
}

// [rows, cols] → [cols, rows]
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
  Reorder(const ir::Type& type, Layout from, Layout to)
      : type_(type), images_(images_of(type)), from_(std::move(from)), to_(std::move(to)) {
    by_image_ = from_.kind != Layout::Kind::kPacked && to_.kind != Layout::Kind::kPacked;
    through_plain_ =
        !by_image_ && from_.kind != Layout::Kind::kPlain && to_.kind != Layout::Kind::kPlain;
  }
  int tasks(int) const override { return by_image_ ? static_cast<int>(images_.count) : 1; }
  int64_t workspace_bytes() const override { return through_plain_ ? type_.bytes() : 0; }
  int64_t estimated_ns() const override { return 50 + type_.bytes() / 8; }
  void run(const KernelArgs& args, int, int task) const override {
    if (by_image_) {
      const int64_t at = task * images_.bytes;
      const int64_t element = ir::size_of(type_.dtype);
      const bool to_last = to_.kind == Layout::Kind::kChannelsLast;
      transpose(element, args.buffers[0] + at, args.buffers[1] + at,
                to_last ? images_.channels : images_.positions,
                to_last ? images_.positions : images_.channels);
    } else if (through_plain_) {
      to_plain(from_, type_, args.buffers[0], args.workspace);
      from_plain(to_, type_, args.workspace, args.buffers[1]);
    } else if (to_.kind == Layout::Kind::kPlain) {
      to_plain(from_, type_, args.buffers[0], args.buffers[1]);
    } else {
      from_plain(to_, type_, args.buffers[0], args.buffers[1]);
    }
  }

 private:
  ir::Type type_;
  Images images_;
  Layout from_, to_;
  bool by_image_ = false, through_plain_ = false;
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
    case Layout::Kind::kPacked:
      layout.packing->pack(plain, to);
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
    case Layout::Kind::kPacked:
      layout.packing->unpack(from, plain);
      break;
  }
}

std::unique_ptr<BoundKernel> bind_reorder(const ir::Type& type, const Layout& from,
                                          const Layout& to) {
  return std::make_unique<Reorder>(type, from, to);
}

}  // namespace poptorch::emulator
