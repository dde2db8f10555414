#include "emulator/collectives/far_list.hpp"

namespace poptorch::emulator {

void FarList::add(FarCollective& collective) {
  collective.join(*this);
  all_.push_back(&collective);
}

void FarList::begin_run() {
  for (FarCollective* one : all_) one->begin_run();
  under_way_ = 0;
}

FarCollective* FarList::first_under_way() const {
  for (FarCollective* one : all_) {
    if (one->is_under_way()) return one;
  }
  return nullptr;
}

}  // namespace poptorch::emulator
