#include "emulator/collectives/instances.hpp"

#include "emulator/transport/fabric.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {

void check_instances(const Share& share, int replicas) {
  share.check(replicas);
  const Fabric* fabric = share.fabric.get();
  if (!fabric || (fabric->instances() == share.instances && fabric->instance() == share.instance)) {
    return;
  }
  throw support::UserError(support::str("[instances] this is instance ", share.instance, " of ",
                                        share.instances, ", but its fabric joins instance ",
                                        fabric->instance(), " of ", fabric->instances(),
                                        ". Make one of the same numbers."));
}

void note_fabric(Share& share) {
  share.on_this_host.clear();
  if (!share.fabric) return;
  for (int other = 0; other < share.instances; ++other) {
    share.on_this_host.push_back(other == share.instance || share.fabric->is_on_this_host(other));
  }
  share.least_shared = share.fabric->least_shared();
}

}  // namespace poptorch::emulator
