// Names the regions of a program's code.
#include "emulator/bound/code_regions.hpp"

#include "program/program.hpp"

namespace poptorch::emulator {

using program::Pass;

int32_t CodeRegions::of(Pass pass, support::Symbol scope) {
  const auto [found, fresh] = by_scope_.try_emplace({pass, scope}, -1);
  if (!fresh) return found->second;
  // A transfer within the device belongs to the pass that it stands in, and gets no region.
  const bool backward = pass == Pass::kBackward, update = pass == Pass::kUpdate;
  if (pass == Pass::kTransfer) return found->second = -1;
  const int32_t whole = named(backward ? "poptorch::backward"
                              : update ? "poptorch::update"
                                       : "poptorch::forward",
                              -1);
  const char* suffix = backward ? " (backward)" : update ? " (update)" : "";
  const std::string path = scope.text();
  return found->second = path.empty() ? whole : module(path, suffix, whole);
}

int32_t CodeRegions::of_stream(bool to_device) {
  return named(to_device ? "poptorch::copy_to_device" : "poptorch::copy_to_host", -1);
}

int32_t CodeRegions::module(const std::string& path, const std::string& suffix, int32_t parent) {
  const size_t cut = path.find_last_of("./");
  if (cut != std::string::npos && cut > 0) parent = module(path.substr(0, cut), suffix, parent);
  return named(path + suffix, parent);
}

int32_t CodeRegions::named(const std::string& name, int32_t parent) {
  const auto next = static_cast<int32_t>(regions_.size());
  const auto [found, fresh] = by_name_.try_emplace({parent, name}, next);
  if (fresh) {
    const int depth = parent < 0 ? 0 : regions_[parent].depth + 1;
    regions_.push_back({name, parent, depth});
  }
  return found->second;
}

}  // namespace poptorch::emulator
