// Gathers and all-to-alls whose operands are sent to the other instances. They only move bytes, by
// zero-copy transfers where the fabric supports them.
#pragma once

#include "emulator/collectives/remote_collective.hpp"
#include "emulator/collectives/transfers.hpp"

namespace poptorch::emulator {

class SentGather final : public RemoteCollective {
 public:
  SentGather(const CollectiveSpec& spec, int number, InstanceGroup group, Peers& peers);

 private:
  void begin() override;
  bool advance() override;
  bool is_finished() const override { return transfers_.are_finished(); }
  int waits_for() const override;
  void begin_gather();
  void begin_all_to_all();

  Transfers transfers_;
};

}  // namespace poptorch::emulator
