// Interface of a connection to another instance. A fabric knows only that it carries bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace poptorch::emulator {

// Thread-safe. Raises a std::exception with the reason once the connection is lost.
class Wire {
 public:
  virtual ~Wire() = default;

  // Uses the memory until wait() has returned or the transfer is destroyed. A transfer must be
  // destroyed before its wire.
  class Transfer {
   public:
    virtual ~Transfer() = default;
    virtual void wait() = 0;
    virtual void abort() = 0;  // makes a present or later wait() return soon
  };
  // Sends bytes to the other instance's next receive() on that lane. Lanes are numbered from 0,
  // below 2³⁰.
  virtual std::unique_ptr<Transfer> send(std::byte* data, int64_t bytes, int lane) = 0;
  // Receives at most `most` bytes; raises for more, before it writes them.
  virtual std::unique_ptr<Transfer> receive(std::byte* into, int64_t most, int lane) = 0;
};

}  // namespace poptorch::emulator
