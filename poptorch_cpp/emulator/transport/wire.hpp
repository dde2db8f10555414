// A connection to another instance, of which a fabric knows no more than that it carries bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace poptorch::emulator {

// Thread-safe. Raises a std::exception with the reason once the connection is lost.
class Wire {
 public:
  virtual ~Wire() = default;

  // The memory is used until wait() has returned, or until it is destroyed, before its wire.
  class Transfer {
   public:
    virtual ~Transfer() = default;
    virtual void wait() = 0;
    virtual void abort() = 0;  // wait() returns soon, now or when it is called
  };
  // The next receive() of the other one on that lane has these bytes. Lanes are numbered from 0,
  // below 2³⁰.
  virtual std::unique_ptr<Transfer> send(std::byte* data, int64_t bytes, int lane) = 0;
  // Raises for more than `most` bytes, before it writes them.
  virtual std::unique_ptr<Transfer> receive(std::byte* into, int64_t most, int lane) = 0;
};

}  // namespace poptorch::emulator
