// How far work has come that moves many bytes (weights, files), for who shows that to a user.
#pragma once

#include <cstdint>
#include <functional>

namespace poptorch::support {

// Told, on the thread that does the work and at most every 50 ms, how many bytes it has moved since
// it was last told. Must not throw.
using MovedBytes = std::function<void(int64_t)>;

// Of the calling thread, instead of the one before; {}: nobody is told.
void tell_moved_bytes(MovedBytes listener);
// By the work, piece by piece. Costs nanoseconds while nobody is told.
void note_moved_bytes(int64_t bytes);

// Of a long piece, how much to move before the next note.
constexpr int64_t kMovedAtOnce = int64_t{64} << 20;

}  // namespace poptorch::support
