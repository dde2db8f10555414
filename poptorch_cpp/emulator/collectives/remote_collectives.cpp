#include "emulator/collectives/remote_collectives.hpp"

namespace poptorch::emulator {

void RemoteCollectives::add(RemoteCollective& collective) {
  collective.join(*this);
  all_.push_back(&collective);
}

void RemoteCollectives::begin_run() {
  for (RemoteCollective* one : all_) one->begin_run();
  under_way_ = 0;
}

RemoteCollective* RemoteCollectives::first_under_way() const {
  for (RemoteCollective* one : all_) {
    if (one->is_under_way()) return one;
  }
  return nullptr;
}

}  // namespace poptorch::emulator
