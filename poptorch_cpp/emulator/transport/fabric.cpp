#include "emulator/transport/fabric.hpp"

#include <sched.h>

#include <cstring>

#include "support/error.hpp"
#include "support/processor.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {

void Fabric::nap(int64_t round, uint32_t seen) {
  constexpr int kSpins = 60, kYields = 20;  // some 20 µs, including the caller's attempts
  if (is_slow()) round += kSpins + kYields;
  if (round < kSpins) {
    support::pause();
  } else if (round < kSpins + kYields) {
    sched_yield();
  } else {
    read_all();
    events().sleep(seen);
  }
}

void refuse_length(const std::string& sender, int64_t bytes, int64_t expected) {
  throw support::UserError(support::str("[instances] ", sender, " sent ", bytes,
                                        " bytes where this instance expects ", expected,
                                        ". All instances must run the same program."));
}

bool Fabric::receive(int from, const Tag& tag, std::byte* into, int64_t bytes) {
  return receive(from, tag, bytes, [&](const std::byte* data) {
    if (bytes > 0) std::memcpy(into, data, static_cast<size_t>(bytes));
  });
}

bool Inbox::take(const Tag& tag, int64_t bytes, const std::string& sender, const Fabric::Use& use) {
  const auto found = messages_.find(tag);
  if (found == messages_.end()) return false;
  const Message& message = found->second.front();
  if (static_cast<int64_t>(message.size()) != bytes) {
    refuse_length(sender, static_cast<int64_t>(message.size()), bytes);
  }
  use(message.data());
  found->second.pop_front();
  if (found->second.empty()) messages_.erase(found);
  return true;
}

void Inbox::forget(uint32_t program, uint32_t run) {
  const auto first = messages_.lower_bound({.program = program});
  messages_.erase(first, messages_.lower_bound({.program = program, .run = run}));
}

int64_t Inbox::last_run(uint32_t program) const {
  const auto behind = messages_.lower_bound({.program = program + 1});
  if (behind == messages_.begin()) return -1;
  const Tag& last = std::prev(behind)->first;
  return last.program == program ? static_cast<int64_t>(last.run) : -1;
}

}  // namespace poptorch::emulator
