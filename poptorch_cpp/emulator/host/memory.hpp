// Host memory of the engine. It is 64-byte aligned and zero until written, with large blocks on
// huge pages; or it belongs to another owner and already has values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace poptorch::emulator {

class Memory {
 public:
  static constexpr int64_t kAlignment = 64;
  static constexpr int64_t kPage = 4096;

  Memory() = default;
  // Allocates a block that, with `by_pages`, begins and ends at a page boundary, whatever its size.
  // Throws UserError, with `what` and the size, if the host does not have enough memory.
  Memory(int64_t bytes, std::string_view what, bool by_pages = false);
  // Requires that `data` is aligned and has a multiple of kAlignment bytes.
  Memory(std::shared_ptr<std::byte> data, int64_t bytes);
  ~Memory();
  Memory(Memory&& other) noexcept { *this = static_cast<Memory&&>(other); }
  Memory& operator=(Memory&& other) noexcept;
  Memory(const Memory&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  bool is_mapped_ = false;
  std::shared_ptr<std::byte> owner_ = nullptr;  // of memory made elsewhere
};

}  // namespace poptorch::emulator
