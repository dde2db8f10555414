// The table of passes that passes.hpp declares.
#include "transforms/passes.hpp"

namespace poptorch::transforms {

const std::vector<PassRow>& all_passes() {
  static const std::vector<PassRow> rows = {
      {"eliminate_dead_ops", eliminate_dead_ops, true},
      {"merge_common_subexpressions", merge_common_subexpressions, true},
      {"canonicalise", canonicalise, true},
      {"fold_constants", fold_constants, true},
      {"inline_calls", inline_calls, true},
      {"differentiate", differentiate},
      {"lower_optimiser", lower_optimiser},
      {"expand_batch_norms", expand_batch_norms},
      {"anchor_values", anchor_values},
      {"anchor_gradients", anchor_gradients},
      {"check_floats", check_floats},
      {"check_indices", check_indices},
      {"choose_partials", choose_partials},
      {"round_stochastically", round_stochastically},
  };
  return rows;
}

}  // namespace poptorch::transforms
