// Reports the progress of work that moves many bytes (weights, files), to be shown to a user.
#pragma once

#include <cstdint>
#include <functional>

namespace poptorch::support {

// Receives how many bytes the work has moved since the last call. It is called on the thread that
// does the work, at most every 50 ms. It must not throw.
using MovedBytes = std::function<void(int64_t)>;

// Replaces the calling thread's listener; {} removes it.
void tell_moved_bytes(MovedBytes listener);
// Counts bytes that were moved; the work calls it for each piece. Costs nanoseconds without a
// listener.
void note_moved_bytes(int64_t bytes);

// The number of bytes of a long piece to move before the next note.
constexpr int64_t kMovedAtOnce = int64_t{64} << 20;

}  // namespace poptorch::support
