#include "emulator/bound/collective_spec.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "support/error.hpp"

namespace poptorch::emulator {
namespace {

// The names are in the order of the enumerations.
constexpr std::array<std::string_view, 4> kKindNames = {"all_reduce", "all_gather",
                                                        "reduce_scatter", "all_to_all"};
constexpr std::array<std::string_view, 9> kReductionNames = {
    "sum", "mean", "mul", "min", "max", "and", "or", "square_add", "local"};

template <typename Enumeration, size_t kWords>
Enumeration value_of(const std::array<std::string_view, kWords>& words, std::string_view word) {
  const auto found = std::ranges::find(words, word);
  if (found != words.end()) return static_cast<Enumeration>(found - words.begin());
  throw support::InternalError("[collective] '" + std::string(word) + "' is not among its words.");
}

}  // namespace

CollectiveKind collective_kind(std::string_view op) {
  return value_of<CollectiveKind>(kKindNames, op);
}

Reduction reduction(std::string_view word) { return value_of<Reduction>(kReductionNames, word); }

std::string_view name_of(CollectiveKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

std::string_view name_of(Reduction reduction) {
  return kReductionNames[static_cast<size_t>(reduction)];
}

}  // namespace poptorch::emulator
