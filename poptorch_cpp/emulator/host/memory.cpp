// Large blocks come from mmap, whose pages cost nothing until they are touched.
#include "emulator/host/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

constexpr int64_t kMapped = 4 << 20;  // blocks from this size on come from mmap

int64_t rounded(int64_t bytes, int64_t grain) {
  return (std::max<int64_t>(bytes, 1) + grain - 1) / grain * grain;
}

[[noreturn]] void fail(int64_t bytes, std::string_view what) {
  throw support::UserError(
      support::str("[memory] the host does not have the ", bytes, " bytes that ", what,
                   " needs. Use a smaller model or smaller batches, or a host with more memory."));
}

}  // namespace

Memory::Memory(int64_t bytes, std::string_view what, bool by_pages)
    : bytes_(rounded(bytes, by_pages ? kPage : kAlignment)),
      is_mapped_(by_pages || bytes_ >= kMapped) {
  const auto size = static_cast<size_t>(bytes_);
  if (is_mapped_) {
    void* pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) fail(bytes_, what);
    if (bytes_ >= kMapped) madvise(pages, size, MADV_HUGEPAGE);
    data_ = static_cast<std::byte*>(pages);
  } else {
    data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, size));
    if (!data_) fail(bytes_, what);
    std::memset(data_, 0, size);
  }
}

Memory::Memory(std::shared_ptr<std::byte> data, int64_t bytes)
    : data_(data.get()), bytes_(bytes), owner_(std::move(data)) {}

Memory::~Memory() {
  if (!data_ || owner_) return;
  if (is_mapped_) {
    munmap(data_, static_cast<size_t>(bytes_));
  } else {
    std::free(data_);
  }
}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(is_mapped_, other.is_mapped_);
  std::swap(owner_, other.owner_);
  return *this;
}

}  // namespace poptorch::emulator
