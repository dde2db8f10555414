// Host memory of the engine: 64-byte aligned, zero until written, large blocks on huge pages; or
// memory that somebody else made, and that has values.
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
  // by_pages: begins and ends with one, whatever its size. UserError, with `what` and how much,
  // where the host has not as much.
  Memory(int64_t bytes, std::string_view what, bool by_pages = false);
  // `data`: aligned, of a multiple of kAlignment bytes.
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
  std::shared_ptr<std::byte> owner_ = nullptr;  // of memory that somebody else made
};

}  // namespace poptorch::emulator
