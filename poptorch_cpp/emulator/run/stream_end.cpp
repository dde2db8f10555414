#include "emulator/run/stream_end.hpp"

#include <cstring>

#include "emulator/collectives/fold.hpp"
#include "emulator/host/clock.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {

void StreamEnd::take(std::byte* to) {
  if (transfers == stream->transfers) {
    throw support::InternalError(support::str("[engine] stream '", stream->host.name,
                                              "' makes more than its ", transfers, " transfers."));
  }
  const double begin = now();
  std::memcpy(to, data + first + transfers * step, static_cast<size_t>(bytes));
  times[transfers++] = {begin, now()};
}

void StreamEnd::put(const std::byte* from) {
  const int64_t transfer = transfers++;
  const double begin = now();
  int64_t kept = 0;
  switch (stream->keep) {
    case program::Keep::kAll:
      kept = transfer;
      break;
    case program::Keep::kEveryN:
      if ((transfer + 1) % stream->period != 0) return;
      kept = transfer / stream->period;
      break;
    case program::Keep::kFinal:
      break;
    case program::Keep::kSum:
      if (transfer > 0) {
        std::byte* sum = data + first;
        const ir::Type& type = stream->host.type;
        reduce_ranks(type.dtype, Reduction::kSum, {sum, from}, sum, type.elements());
        times[0].second = now();
        return;
      }
      break;
  }
  std::memcpy(data + first + kept * step, from, static_cast<size_t>(bytes));
  times[kept] = {begin, now()};
}

}  // namespace poptorch::emulator
