// The table of passes.hpp.
#include "transforms/passes.hpp"

namespace poptorch::transforms {

const std::vector<PassRow>& all_passes() {
  static const std::vector<PassRow> rows = {};
  return rows;
}

}  // namespace poptorch::transforms
