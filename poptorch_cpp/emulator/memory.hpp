// Host memory of the engine: 64-byte aligned, zero until written, large blocks on huge pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace poptorch::emulator {

class Memory {
 public:
  Memory() = default;
  // UserError, with `what` and how much, where the host has not as much.
  Memory(int64_t bytes, std::string_view what);
  ~Memory();
  Memory(Memory&& other) noexcept { *this = static_cast<Memory&&>(other); }
  Memory& operator=(Memory&& other) noexcept;
  Memory(const Memory&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace poptorch::emulator
