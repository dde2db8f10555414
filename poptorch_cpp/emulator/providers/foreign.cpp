// Keeps providers in a table by name, under a mutex.
#include "emulator/providers/foreign.hpp"

#include <map>
#include <mutex>
#include <string>

#include "emulator/providers/custom_provider.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

struct Providers {
  std::mutex mutex;
  std::map<std::string, const PoptorchForeignProvider*> rows;
};

Providers& table() {
  // The table outlives libraries that register from static objects.
  static Providers* instance = new Providers{{}, {{custom_provider().name, &custom_provider()}}};
  return *instance;
}

}  // namespace

void register_foreign_provider(const PoptorchForeignProvider& provider) {
  if (provider.version != kForeignVersion) {
    throw support::UserError(support::str(
        "[foreign] provider '", provider.name, "' was made for version ", provider.version,
        " of the kernel table, but this is version ", kForeignVersion, ". Build it again."));
  }
  std::lock_guard lock(table().mutex);
  table().rows[provider.name] = &provider;
}

const PoptorchForeignProvider* find_foreign_provider(const char* name) {
  std::lock_guard lock(table().mutex);
  auto it = table().rows.find(name);
  return it == table().rows.end() ? nullptr : it->second;
}

}  // namespace poptorch::emulator
